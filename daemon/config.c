/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <ini.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "common/abi.h"
#include "core/cc.h"
#include "daemon/config.h"
#include "daemon/metrics.h"

enum kind {
	KIND_NUMBER,
	KIND_BOOL,
	KIND_TEXT,
	KIND_SECRET, /* text that is never shown */
	KIND_CC,
	KIND_PORT,
	KIND_INTERFACES,
};

struct setting {
	const char *section, *key;
	const char *option; /* long option; NULL: only in the file */
	char letter;	    /* short option; 0: none */
	enum kind kind;
	bool option_value; /* KIND_BOOL: what the option, which has no argument, sets it to */
	size_t offset;
	uint32_t min, max, initial; /* KIND_NUMBER; initial also KIND_BOOL */
	const char *text_initial;
	const char *arg, *text;
	bool live; /* can be changed while mroced runs; KIND_NUMBER and KIND_BOOL only */
};

#define AT(field) offsetof(struct config, field)
#define NUMBER(section, key, option, field, min, max, initial, text)                             \
	{                                                                                        \
		section, key, option, 0, KIND_NUMBER, false, AT(field), min, max, initial, NULL, \
			"N", text, false                                                         \
	}
/* Looked up wherever it counts, so a reload may change it. */
#define LIVE_NUMBER(section, key, option, field, min, max, initial, text)                        \
	{                                                                                        \
		section, key, option, 0, KIND_NUMBER, false, AT(field), min, max, initial, NULL, \
			"N", text, true                                                          \
	}

/* clang-format off */
static const struct setting settings[] = {
	{ "ports", "interface", "interface", 'i', KIND_INTERFACES, false, AT(interfaces), 0, 0, 0, NULL,
	  "NAME[@ADDR]", "use this interface; once for each plane, 8 at most. ADDR: which of its\n"
	  "addresses peers are told", false },
	{ "daemon", "socket", "socket", 's', KIND_TEXT, false, AT(socket), 0, 0, 0, ABI_SOCKET_DEFAULT,
	  "PATH", "socket that applications connect to", false },
	{ "daemon", "pid_file", "pid-file", 0, KIND_TEXT, false, AT(pid_file), 0, 0, 0, NULL,
	  "PATH", "write the process id there", false },
	{ .section = "daemon", .key = "metrics", .option = "metrics", .kind = KIND_TEXT, .offset = AT(metrics),
	  .arg = "ADDRESS", .text = "serve metrics for Prometheus there: 127.0.0.1:PORT, [::1]:PORT, or the\n"
	  "path of a Unix socket" },
	{ "daemon", "verbose", "verbose", 'v', KIND_BOOL, true, AT(verbose), 0, 1, 0, NULL,
	  NULL, "say more", true },
	LIVE_NUMBER("daemon", "spin_us", "spin-us", spin_us, 0, 1000000, 50,
	       "microseconds to go on polling after the last packet"),
	{ "ports", "port", "port", 0, KIND_PORT, false, AT(port), 0, 0, 0, "afxdp",
	  "KIND", "afxdp: BPF programs and AF_XDP; socket: plain UDP sockets, slower, needs no\n"
	  "privilege; auto: afxdp, and socket where that cannot be had", false },
	NUMBER("ports", "udp_port", "udp-port", udp_port, 1, 65535, MROCE_UDP_PORT,
	       "UDP destination port, the same on all hosts"),
	{ "ports", "allow_generic", "allow-generic", 0, KIND_BOOL, true, AT(allow_generic), 0, 1, 0, NULL,
	  NULL, "take generic (slow) XDP mode where a driver has no native one", false },
	{ "ports", "share", "share", 0, KIND_BOOL, true, AT(share), 0, 1, 0, NULL,
	  NULL, "share the interfaces with XDP programs of others, by libxdp's dispatcher", false },
	{ "ports", "pin", "pin", 0, KIND_BOOL, true, AT(pin), 0, 1, 0, NULL,
	  NULL, "pin maps and programs under /sys/fs/bpf/mroce, for bpftool", false },
	{ "ports", "nack", "no-nack", 0, KIND_BOOL, false, AT(nack), 0, 1, 1, NULL,
	  NULL, "no NACKs from the kernel: losses are found by polling", false },
	{ "ports", "handover", "no-handover", 0, KIND_BOOL, false, AT(handover), 0, 1, 1, NULL,
	  NULL, "UDP sockets: paths are picked by the daemon, also where a TC program could", false },
	NUMBER("ports", "link_mbps", "link-mbps", link_mbps, 0, 10000000, 0,
	       "Mbit/s that each interface's link carries; 0: as its driver says"),
	{ "ports", "mark", "mark", 0, KIND_BOOL, true, AT(mark), 0, 1, 0, NULL,
	  NULL, "mark congestion by a virtual queue for each link, where the network does not", false },
	NUMBER("ports", "ring_size", "ring-size", ring_size, 64, 32768, 4096,
	       "entries of each AF_XDP ring, a power of two"),
	NUMBER("transport", "paths", "paths", paths, 1, MROCE_MAX_PATHS, 8, "paths of a connection"),
	{ "transport", "cc", "cc", 0, KIND_CC, false, AT(cc), 0, 0, 0, "ecn",
	  "NAME", "congestion control: ecn, delay, fixed", false },
	{ "transport", "hints", "no-hints", 0, KIND_BOOL, false, AT(hints), 0, 1, 1, NULL,
	  NULL, "neither give nor take rate hints", false },
	NUMBER("transport", "tries", NULL, tries, 1, 1000, 8,
	       "tries on silent paths before a connection ends"),
	NUMBER("transport", "silence_ms", NULL, silence_ms, 10, 3600000, 2000,
	       "and at least this long without a sign of life"),
	NUMBER("transport", "handshake_ms", NULL, handshake_ms, 10, 600000, 5000,
	       "milliseconds until a set-up is given up"),
	NUMBER("transport", "keepalive_ms", NULL, keepalive_ms, 10, 3600000, 1000,
	       "an idle connection asks so often whether its peer lives"),
	NUMBER("transport", "stall_ms", NULL, stall_ms, 10, 3600000, 3000,
	       "report a message without progress for so long"),
	{ "security", "psk_file", "psk-file", 0, KIND_TEXT, false, AT(psk_file), 0, 0, 0, NULL,
	  "PATH", "connect only with hosts that have the same key; a file that others cannot read", false },
	{ "security", "psk", NULL, 0, KIND_SECRET, false, AT(psk), 0, 0, 0, NULL,
	  NULL, "that key itself, if the configuration file cannot be read by others", false },
	NUMBER("security", "cookies_above", NULL, cookies_above, 0, MROCE_MAX_CONNS, 64,
	       "set-ups half open from which on peers must show that they receive; 0: always"),
	LIVE_NUMBER("quota", "contexts", NULL, contexts, 1, 65536, 256, "contexts of one user"),
	LIVE_NUMBER("quota", "connections", NULL, connections, 1, MROCE_MAX_CONNS, MROCE_MAX_CONNS,
	       "connections of one user"),
	LIVE_NUMBER("quota", "services", NULL, services, 1, 65536, 4096, "services one user listens for"),
	LIVE_NUMBER("quota", "regions", NULL, regions, 1, 1000000, 65536, "regions of one user"),
	LIVE_NUMBER("quota", "memory_mib", NULL, memory_mib, 1, UINT32_MAX, 1048576,
	       "MiB of all regions of one user"),
};
/* clang-format on */

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))
_Static_assert(SETTINGS <= CONFIG_SETTINGS_MAX, "config.h: CONFIG_SETTINGS_MAX");

/* Options that set nothing. Values above those of short options. */
enum {
	OPTION_CONFIG = 'c',
	OPTION_HELP = 'h',
	OPTION_VERSION = 'V',
	OPTION_CHECK = 1000,
	OPTION_SETTING = 2000, /* + place in the table */
};

static const struct {
	const char *option;
	int value;
	const char *arg, *text;
} actions[] = {
	{ "config", OPTION_CONFIG, "FILE",
	  "read this configuration file (default " CONFIG_FILE_DEFAULT ", if there)" },
	{ "check-config", OPTION_CHECK, NULL, "check file and options, then stop" },
	{ "version", OPTION_VERSION, NULL, "print the version" },
	{ "help", OPTION_HELP, NULL, "print this text" },
};

#define ACTIONS (sizeof(actions) / sizeof(actions[0]))

/* ---- fields ---- */

static uint32_t *number_of(const struct config *c, const struct setting *s)
{
	return (uint32_t *)((char *)c + s->offset);
}

static char **text_of(const struct config *c, const struct setting *s)
{
	return (char **)((char *)c + s->offset);
}

static int set_text(char **field, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

void config_init(struct config *c)
{
	memset(c, 0, sizeof(*c));
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];

		if (s->kind == KIND_NUMBER || s->kind == KIND_BOOL)
			*number_of(c, s) = s->initial;
		else if (s->text_initial)
			set_text(text_of(c, s), s->text_initial);
	}
}

static void clear_interfaces(struct config *c)
{
	for (int i = 0; i < MROCE_MAX_PORTS; i++) {
		free(c->interfaces[i]);
		c->interfaces[i] = NULL;
	}
}

void config_free(struct config *c)
{
	clear_interfaces(c);
	free(c->socket);
	free(c->pid_file);
	free(c->metrics);
	free(c->cc);
	free(c->psk_file);
	if (c->psk)
		sodium_memzero(c->psk, strlen(c->psk));
	free(c->psk);
	free(c->port);
	free(c->file);
	memset(c, 0, sizeof(*c));
}

/* ---- values ---- */

struct place {
	char *error;
	size_t size;
	const char *where; /* "FILE:LINE: [section] key" or "--option" */
};

static int bad(const struct place *p, const char *value, const char *expected)
{
	snprintf(p->error, p->size, "%s: '%s' is not %s", p->where, value, expected);
	return -EINVAL;
}

static int set_number(struct config *c, const struct setting *s, const char *value,
		      const struct place *p)
{
	char expected[64];
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(value, &end, 10);
	snprintf(expected, sizeof(expected), "a number from %u to %u", s->min, s->max);
	if (*value < '0' || *value > '9' || *end || errno || n < s->min || n > s->max)
		return bad(p, value, expected);
	if (s->offset == AT(ring_size) && (n & (n - 1)))
		return bad(p, value, "a power of two");
	*number_of(c, s) = (uint32_t)n;
	return 0;
}

static int set_bool(struct config *c, const struct setting *s, const char *value,
		    const struct place *p)
{
	static const char *const words[2][4] = { { "no", "false", "off", "0" },
						 { "yes", "true", "on", "1" } };

	for (uint32_t b = 0; b < 2; b++)
		for (int i = 0; i < 4; i++)
			if (strcasecmp(value, words[b][i]) == 0) {
				*number_of(c, s) = b;
				return 0;
			}
	return bad(p, value, "yes or no");
}

static int add_interface(struct config *c, const char *value, const struct place *p)
{
	size_t name = strcspn(value, "@");
	int n = 0;

	/* IFNAMSIZ is 16 with the closing zero. */
	if (name == 0 || name > 15 || (value[name] == '@' && !value[name + 1]))
		return bad(p, value, "NAME or NAME@ADDRESS of an interface");
	for (; n < MROCE_MAX_PORTS && c->interfaces[n]; n++)
		if (strncmp(c->interfaces[n], value, name) == 0 &&
		    strcspn(c->interfaces[n], "@") == name)
			return bad(p, value, "an interface that was not named before");
	if (n == MROCE_MAX_PORTS)
		return bad(p, value, "among the first 8 interfaces; there can be no more");
	return set_text(&c->interfaces[n], value);
}

/* Several may be given at once, separated by commas or blanks. */
static int add_interfaces(struct config *c, const char *value, const struct place *p)
{
	char *copy = strdup(value);
	char *save = NULL;
	int err = copy ? 0 : -ENOMEM;
	int n = 0;

	for (char *word = copy ? strtok_r(copy, ", \t", &save) : NULL; word && !err;
	     word = strtok_r(NULL, ", \t", &save), n++)
		err = add_interface(c, word, p);
	free(copy);
	if (!err && n == 0)
		return bad(p, value, "the name of an interface");
	return err;
}

/* Never told what it was, not even if it is wrong. */
static int set_secret(struct config *c, const struct setting *s, const char *value,
		      const struct place *p)
{
	if (strlen(value) < CONFIG_PSK_MIN)
		return bad(p, "(not shown)", "a key of 16 characters or more");
	return set_text(text_of(c, s), value);
}

static int set(struct config *c, const struct setting *s, const char *value, const struct place *p)
{
	switch (s->kind) {
	case KIND_NUMBER: return set_number(c, s, value, p);
	case KIND_BOOL: return set_bool(c, s, value, p);
	case KIND_INTERFACES: return add_interfaces(c, value, p);
	case KIND_CC:
		if (!cc_find(value))
			return bad(p, value, "a congestion control: ecn, delay or fixed");
		return set_text(text_of(c, s), value);
	case KIND_PORT:
		if (strcmp(value, "afxdp") && strcmp(value, "socket") && strcmp(value, "auto"))
			return bad(p, value, "a kind of port: afxdp, socket or auto");
		return set_text(text_of(c, s), value);
	case KIND_TEXT:
		if (s->offset == AT(metrics) &&
		    !metrics_address(value, &(struct metrics_address){ 0 }))
			return bad(p, value, "ADDRESS:PORT, [ADDRESS]:PORT or the path of a socket");
		if (!*value)
			return bad(p, value, "a path");
		return set_text(text_of(c, s), value);
	case KIND_SECRET: return set_secret(c, s, value, p);
	}
	return -EINVAL;
}

/* ---- file ---- */

struct reading {
	struct config *c;
	FILE *file;
	const char *path;
	int line;
	char *error;
	size_t size;
	int err;
};

/* An interface list begins where its first line is. */
static void set_origin(struct config *c, const struct setting *s, enum config_origin origin,
		       int line)
{
	size_t i = (size_t)(s - settings);

	if (s->kind == KIND_INTERFACES && c->origin[i] == origin)
		return;
	c->origin[i] = (uint8_t)origin;
	c->line[i] = (uint32_t)line;
}

static const struct setting *find_key(const char *section, const char *key)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (strcmp(settings[i].section, section) == 0 && strcmp(settings[i].key, key) == 0)
			return &settings[i];
	return NULL;
}

/* For inih, which does not tell its handler the line. */
static char *read_line(char *line, int size, void *user)
{
	struct reading *r = user;

	r->line++;
	return fgets(line, size, r->file);
}

static int unknown_key(struct reading *r, const char *section, const char *key)
{
	char known[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < SETTINGS; i++)
		if (strcmp(settings[i].section, section) == 0)
			used += (size_t)snprintf(known + used, sizeof(known) - used, " %s",
						 settings[i].key);
	if (used)
		snprintf(r->error, r->size, "%s:%d: unknown key '%s' in [%s]; known are:%s",
			 r->path, r->line, key, section, known);
	else
		snprintf(r->error, r->size,
			 "%s:%d: key '%s' in unknown section [%s]; sections are "
			 "daemon, ports, transport, security, quota",
			 r->path, r->line, key, section);
	return -EINVAL;
}

/* For inih: 0 stops. */
static int on_line(void *user, const char *section, const char *key, const char *value)
{
	struct reading *r = user;
	const struct setting *s = find_key(section, key);
	char where[512];
	struct place p = { r->error, r->size, where };

	if (r->err)
		return 0; /* the first error is the one to tell */
	if (!s) {
		r->err = unknown_key(r, section, key);
		return 0;
	}
	if (r->c->origin[s - settings] == CONFIG_FROM_OPTION)
		return 1;
	snprintf(where, sizeof(where), "%s:%d: [%s] %s", r->path, r->line, section, key);
	r->err = set(r->c, s, value ? value : "", &p);
	if (r->err)
		return 0;
	set_origin(r->c, s, CONFIG_FROM_FILE, r->line);
	return 1;
}

/* What holds a key must be readable by its owner alone. */
static int check_private(int fd, const char *path, char *error, size_t size)
{
	struct stat st;

	if (fstat(fd, &st))
		st.st_mode = 0;
	if (S_ISREG(st.st_mode) && !(st.st_mode & (S_IRWXG | S_IRWXO)) &&
	    (st.st_uid == 0 || st.st_uid == geteuid()))
		return 0;
	snprintf(error, size,
		 "%s holds a key and must be a file that only its owner, root or uid %u, "
		 "can read: chmod 600 %s",
		 path, geteuid(), path);
	return -EPERM;
}

static int read_psk(int fd, const char *path, uint8_t out[CONFIG_KEY_LEN], char *error, size_t size)
{
	char text[CONFIG_PSK_MAX + 1];
	ssize_t n = read(fd, text, sizeof(text));
	int err = 0;

	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	if (n < CONFIG_PSK_MIN || n > CONFIG_PSK_MAX) {
		snprintf(error, size,
			 "%s: a key has %d to %d characters (`openssl rand -hex 32` makes one)",
			 path, CONFIG_PSK_MIN, CONFIG_PSK_MAX);
		err = -EINVAL;
	} else {
		crypto_generichash(out, CONFIG_KEY_LEN, (const uint8_t *)text, (size_t)n, NULL, 0);
	}
	sodium_memzero(text, sizeof(text));
	return err;
}

int config_psk(const struct config *c, uint8_t out[CONFIG_KEY_LEN], char *error, size_t error_size)
{
	int fd, err;

	if (!c->psk_file && !c->psk)
		return 0;
	if (c->psk_file && c->psk) {
		snprintf(error, error_size, "[security] has both psk and psk_file: one must do");
		return -EINVAL;
	}
	if (c->psk) {
		crypto_generichash(out, CONFIG_KEY_LEN, (const uint8_t *)c->psk, strlen(c->psk),
				   NULL, 0);
		return 1;
	}
	fd = open(c->psk_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		snprintf(error, error_size, "[security] psk_file %s: %s", c->psk_file,
			 strerror(-err));
		return err;
	}
	err = check_private(fd, c->psk_file, error, error_size);
	if (!err)
		err = read_psk(fd, c->psk_file, out, error, error_size);
	close(fd);
	return err ? err : 1;
}

int config_read_file(struct config *c, const char *path, char *error, size_t error_size)
{
	struct reading r = { c, fopen(path, "re"), path, 0, error, error_size, 0 };
	int line;

	if (path != c->file)
		set_text(&c->file, path);

	if (!r.file) {
		int err = -errno;

		snprintf(error, error_size, "%s: %s", path, strerror(-err));
		return err;
	}
	line = ini_parse_stream(read_line, &r, on_line, &r);
	if (c->psk && !r.err)
		r.err = check_private(fileno(r.file), path, error, error_size);
	fclose(r.file);
	if (r.err)
		return r.err;
	if (line) {
		snprintf(error, error_size, "%s:%d: neither '[section]' nor 'key = value'", path,
			 line < 0 ? 0 : line);
		return -EINVAL;
	}
	return 0;
}

/* ---- command line ---- */

static void build_options(struct option *longs, char *shorts)
{
	char *s = shorts;

	*s++ = ':';
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *t = &settings[i];

		if (!t->option)
			continue;
		*longs++ = (struct option){ t->option, t->arg ? required_argument : no_argument,
					    NULL, OPTION_SETTING + (int)i };
		if (!t->letter)
			continue;
		*s++ = t->letter;
		if (t->arg)
			*s++ = ':';
	}
	for (size_t i = 0; i < ACTIONS; i++) {
		*longs++ = (struct option){ actions[i].option,
					    actions[i].arg ? required_argument : no_argument, NULL,
					    actions[i].value };
		if (actions[i].value >= OPTION_CHECK)
			continue;
		*s++ = (char)actions[i].value;
		if (actions[i].arg)
			*s++ = ':';
	}
	*longs = (struct option){ 0 };
	*s = '\0';
}

static const struct setting *find_option(int value)
{
	if (value >= OPTION_SETTING)
		return &settings[value - OPTION_SETTING];
	for (size_t i = 0; i < SETTINGS; i++)
		if (settings[i].letter && settings[i].letter == value)
			return &settings[i];
	return NULL;
}

static int set_by_option(struct config *c, const struct setting *s, const char *value,
			 const struct place *p)
{
	set_origin(c, s, CONFIG_FROM_OPTION, 0);
	if (s->arg)
		return set(c, s, value, p);
	*number_of(c, s) = s->option_value;
	return 0;
}

static int bad_option(int value, char **argv, char *error, size_t size)
{
	snprintf(error, size, "%s: %s; mroced --help lists the options", argv[optind - 1],
		 value == ':' ? "needs an argument" : "unknown option, or an argument too many");
	return -EINVAL;
}

static int read_options(struct config *c, int argc, char **argv, enum config_action *action,
			char *error, size_t size)
{
	struct option longs[SETTINGS + ACTIONS + 1];
	char shorts[2 * (SETTINGS + ACTIONS) + 2];
	int value;

	build_options(longs, shorts);
	optind = 0; /* glibc: start anew, also for a second reading in the same process */
	while ((value = getopt_long(argc, argv, shorts, longs, NULL)) >= 0) {
		const struct setting *s = find_option(value);
		char where[64] = "";
		struct place p = { error, size, where };
		int err;

		if (s) {
			snprintf(where, sizeof(where), "--%s", s->option);
			err = set_by_option(c, s, optarg, &p);
			if (err)
				return err;
			continue;
		}
		switch (value) {
		case OPTION_CONFIG: set_text(&c->file, optarg); break;
		case OPTION_CHECK: *action = CONFIG_CHECK; break;
		case OPTION_HELP: *action = CONFIG_HELP; return 0;
		case OPTION_VERSION: *action = CONFIG_VERSION; return 0;
		default: return bad_option(value, argv, error, size);
		}
	}
	if (optind < argc) {
		snprintf(error, size, "'%s': mroced takes only options; an interface is named by -i",
			 argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int config_read(struct config *c, int argc, char **argv, enum config_action *action, char *error,
		size_t error_size)
{
	int err;

	*action = CONFIG_RUN;
	error[0] = '\0';
	err = read_options(c, argc, argv, action, error, error_size);
	if (err || *action == CONFIG_HELP || *action == CONFIG_VERSION)
		return err;
	if (!c->file && access(CONFIG_FILE_DEFAULT, F_OK) == 0)
		err = set_text(&c->file, CONFIG_FILE_DEFAULT);
	if (!err && c->file)
		err = config_read_file(c, c->file, error, error_size);
	return err;
}

/* ---- for people ---- */

static void usage_line(FILE *out, char letter, const char *option, const char *arg, const char *text)
{
	char left[64];

	snprintf(left, sizeof(left), "%c%c%c --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ',
		 letter ? ',' : ' ', option, arg ? " " : "", arg ? arg : "");
	fprintf(out, "  %-31s ", left);
	for (; *text; text++) {
		fputc(*text, out);
		if (*text == '\n')
			fprintf(out, "%34s", "");
	}
}

/* " (range, default value)", as far as a setting has them. */
static void usage_range(FILE *out, const struct setting *s)
{
	switch (s->kind) {
	case KIND_NUMBER:
		fprintf(out, " (%u to %u, default %u)", s->min, s->max, s->initial);
		break;
	case KIND_BOOL: fprintf(out, " (yes or no, default %s)", s->initial ? "yes" : "no"); break;
	case KIND_TEXT:
	case KIND_CC:
	case KIND_PORT:
	case KIND_SECRET:
	case KIND_INTERFACES:
		if (s->text_initial)
			fprintf(out, " (default %s)", s->text_initial);
	}
}

static void usage_option(FILE *out, const struct setting *s)
{
	if (!s->option)
		return;
	usage_line(out, s->letter, s->option, s->arg, s->text);
	if (s->kind != KIND_BOOL)
		usage_range(out, s);
	fputc('\n', out);
}

static void usage_key(FILE *out, const struct setting *s)
{
	fprintf(out, "  [%s] %s: ", s->section, s->key);
	if (s->option)
		fprintf(out, "as --%s", s->option);
	else
		fputs(s->text, out);
	usage_range(out, s);
	fputc('\n', out);
}

void config_usage(FILE *out)
{
	fprintf(out, "Usage: mroced -i INTERFACE [-i INTERFACE]... [OPTION]...\n"
		     "Carries mroce connections of this host's applications over the interfaces "
		     "named.\n\n");
	for (size_t i = 0; i < SETTINGS; i++)
		usage_option(out, &settings[i]);
	for (size_t i = 0; i < ACTIONS; i++) {
		usage_line(out, actions[i].value < OPTION_CHECK ? (char)actions[i].value : 0,
			   actions[i].option, actions[i].arg, actions[i].text);
		fputc('\n', out);
	}
	fprintf(out, "\nKeys of the configuration file:\n");
	for (size_t i = 0; i < SETTINGS; i++)
		usage_key(out, &settings[i]);
}

static json_t *value_of(const struct config *c, const struct setting *s)
{
	json_t *list;

	switch (s->kind) {
	case KIND_NUMBER: return json_integer(*number_of(c, s));
	case KIND_BOOL: return json_boolean(*number_of(c, s));
	case KIND_TEXT:
	case KIND_CC:
	case KIND_PORT: return json_string(*text_of(c, s) ? *text_of(c, s) : "");
	case KIND_SECRET: return json_string(*text_of(c, s) ? "(set, not shown)" : "");
	case KIND_INTERFACES: break;
	}
	list = json_array();
	for (int i = 0; c->interfaces[i]; i++)
		json_array_append_new(list, json_string(c->interfaces[i]));
	return list;
}

static json_t *origin_of(const struct config *c, size_t i)
{
	switch ((enum config_origin)c->origin[i]) {
	case CONFIG_DEFAULT: break;
	case CONFIG_FROM_FILE: return json_sprintf("%s:%u", c->file, c->line[i]);
	case CONFIG_FROM_OPTION: return json_sprintf("--%s", settings[i].option);
	}
	return json_string("default");
}

json_t *config_show(const struct config *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < SETTINGS; i++) {
		char key[64];

		snprintf(key, sizeof(key), "%s.%s", settings[i].section, settings[i].key);
		json_array_append_new(list, json_pack("{s:s,s:o,s:o}", "key", key, "value",
						      value_of(c, &settings[i]), "origin",
						      origin_of(c, i)));
	}
	return list;
}

/* ---- reload ---- */

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_interfaces(const struct config *a, const struct config *b)
{
	for (int i = 0; i < MROCE_MAX_PORTS; i++)
		if (!same_text(a->interfaces[i], b->interfaces[i]))
			return false;
	return true;
}

static bool same_value(const struct config *a, const struct config *b, const struct setting *s)
{
	switch (s->kind) {
	case KIND_NUMBER:
	case KIND_BOOL: return *number_of(a, s) == *number_of(b, s);
	case KIND_TEXT:
	case KIND_SECRET:
	case KIND_CC:
	case KIND_PORT: return same_text(*text_of(a, s), *text_of(b, s));
	case KIND_INTERFACES: break;
	}
	return same_interfaces(a, b);
}

void config_update(struct config *running, const struct config *fresh,
		   void (*tell)(const char *section, const char *key, bool taken))
{
	if (fresh->file)
		set_text(&running->file, fresh->file);
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		bool same = same_value(running, fresh, s);

		if (!same)
			tell(s->section, s->key, s->live);
		if (!same && !s->live)
			continue;
		if (!same)
			*number_of(running, s) = *number_of(fresh, s);
		running->origin[i] = fresh->origin[i];
		running->line[i] = fresh->line[i];
	}
}
