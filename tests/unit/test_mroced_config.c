/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon/config.c: command line and configuration file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "daemon/config.h"
#include "unit.h"

static struct config cfg;
static char error[1024];
static char path[64];

static void setup(void)
{
	config_init(&cfg);
	error[0] = '\0';
}

static void teardown(void)
{
	config_free(&cfg);
	if (path[0])
		unlink(path);
	path[0] = '\0';
}

static int read_text(const char *text)
{
	int fd;

	strcpy(path, "/tmp/mroced-config-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return config_read_file(&cfg, path, error, sizeof(error));
}

#define READ_OPTIONS(action, ...) read_options((char *[]){ "mroced", __VA_ARGS__, NULL }, action)

static int read_options(char **argv, enum config_action *action)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return config_read(&cfg, argc, argv, action, error, sizeof(error));
}

START_TEST(config_read_file__all_kinds)
{
	ck_assert_int_eq(
		read_text("# comment\n[ports]\ninterface = eth0\ninterface = eth1@10.0.0.1, eth2\n"
			  "port = auto\nudp_port = 5000\nnack = "
			  "no\nallow_generic=yes\n\n[transport]\n"
			  "cc = fixed\npaths = 16\n[quota]\ncontexts = 7\n[daemon]\n"
			  "socket = /run/x.sock\n"),
		0);
	ck_assert_str_eq(cfg.interfaces[0], "eth0");
	ck_assert_str_eq(cfg.interfaces[1], "eth1@10.0.0.1");
	ck_assert_str_eq(cfg.interfaces[2], "eth2");
	ck_assert_ptr_null(cfg.interfaces[3]);
	ck_assert_str_eq(cfg.port, "auto");
	ck_assert_uint_eq(cfg.udp_port, 5000);
	ck_assert_uint_eq(cfg.nack, 0);
	ck_assert_uint_eq(cfg.allow_generic, 1);
	ck_assert_str_eq(cfg.cc, "fixed");
	ck_assert_uint_eq(cfg.paths, 16);
	ck_assert_uint_eq(cfg.contexts, 7);
	ck_assert_str_eq(cfg.socket, "/run/x.sock");
	ck_assert_uint_eq(cfg.ring_size, 4096);
}
END_TEST

/* Each is refused, with an explanation that holds these words. */
static const struct {
	const char *text, *words[4];
} bad_files[] = {
	{ "[ports]\nudp_port = 0\n", { ":2:", "udp_port", "'0'", "1 to 65535" } },
	{ "[ports]\nudp_port = 65536\n", { ":2:", "udp_port", "65536", "1 to 65535" } },
	{ "[ports]\nudp_port = -1\n", { ":2:", "udp_port", "-1", "1 to 65535" } },
	{ "[ports]\nudp_port = 12x\n", { ":2:", "12x" } },
	{ "[ports]\nudp_port =\n", { ":2:", "udp_port" } },
	{ "[ports]\nring_size = 65536\n", { ":2:", "65536", "64 to 32768" } },
	{ "[ports]\nring_size = 1000\n", { ":2:", "1000", "power of two" } },
	{ "\n\n[ports]\nnack = maybe\n", { ":4:", "maybe", "yes or no" } },
	{ "[ports]\nudp_prot = 1\n", { ":2:", "udp_prot", "udp_port" } },
	{ "[prots]\nudp_port = 1\n", { ":2:", "[prots]", "transport" } },
	{ "[ports]\nport = pigeon\n", { ":2:", "port", "pigeon", "afxdp, socket or auto" } },
	{ "[transport]\ncc = cubic\n", { ":2:", "cubic", "ecn, delay or fixed" } },
	{ "[transport]\npaths = 17\n", { ":2:", "17", "1 to 16" } },
	{ "[transport]\npaths = 99999999999999999999999\n", { ":2:", "1 to 16" } },
	{ "[ports]\nthis is no setting\n", { ":2:", "key = value" } },
	{ "[ports]\ninterface = a-name-that-is-too-long\n", { ":2:", "interface" } },
	{ "[ports]\ninterface = eth0\ninterface = eth0@10.0.0.2\n",
	  { ":3:", "eth0@10.0.0.2", "before" } },
	{ "[ports]\ninterface = a b c d e f g h i\n", { ":2:", "'i'", "8" } },
	{ "[ports]\ninterface = eth0@\n", { ":2:", "ADDRESS" } },
	{ "udp_port = 5000\n", { ":1:", "udp_port", "section" } },
	/* The first of several, whatever follows. */
	{ "[ports]\nudp_prot = 1\nudp_port = 5000\n", { ":2:", "udp_prot" } },
	{ "[ports]\nudp_prot = 1\nudp_port = 0\n[prots]\nx = 1\n", { ":2:", "udp_prot" } },
};

START_TEST(config_read_file__bad)
{
	ck_assert_int_eq(read_text(bad_files[_i].text), -EINVAL);
	for (int w = 0; w < 4 && bad_files[_i].words[w]; w++)
		ck_assert_msg(strstr(error, bad_files[_i].words[w]), "'%s' is not in: %s",
			      bad_files[_i].words[w], error);
	ck_assert_ptr_nonnull(strstr(error, path));
}
END_TEST

START_TEST(config_read_file__not_there)
{
	ck_assert_int_eq(config_read_file(&cfg, "/nonexistent/mroced.conf", error, sizeof(error)),
			 -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, "/nonexistent/mroced.conf"));
}
END_TEST

START_TEST(config_read__options_beat_the_file)
{
	enum config_action action;

	ck_assert_int_eq(read_text("[ports]\ninterface = eth0\nudp_port = 5000\nring_size = 128\n"),
			 0);
	config_free(&cfg);
	config_init(&cfg);
	ck_assert_int_eq(
		READ_OPTIONS(&action, "-i", "eth7", "--udp-port", "6000", "--no-nack", "-c", path),
		0);
	ck_assert_int_eq(action, CONFIG_RUN);
	ck_assert_str_eq(cfg.interfaces[0], "eth7");
	ck_assert_ptr_null(cfg.interfaces[1]);
	ck_assert_uint_eq(cfg.udp_port, 6000);
	ck_assert_uint_eq(cfg.nack, 0);
	ck_assert_uint_eq(cfg.ring_size, 128);
}
END_TEST

START_TEST(config_read__bad_options)
{
	enum config_action action;

	ck_assert_int_eq(READ_OPTIONS(&action, "--paths", "0"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "--paths"));
	ck_assert_ptr_nonnull(strstr(error, "1 to 16"));
	ck_assert_int_eq(READ_OPTIONS(&action, "--frobnicate"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "--frobnicate"));
	ck_assert_int_eq(READ_OPTIONS(&action, "--socket"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "argument"));
	ck_assert_int_eq(READ_OPTIONS(&action, "eth0"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "-i"));
	ck_assert_int_eq(READ_OPTIONS(&action, "-c", "/nonexistent/x"), -ENOENT);
}
END_TEST

START_TEST(config_read__actions)
{
	enum config_action action;

	ck_assert_int_eq(READ_OPTIONS(&action, "--help"), 0);
	ck_assert_int_eq(action, CONFIG_HELP);
	ck_assert_int_eq(READ_OPTIONS(&action, "--version"), 0);
	ck_assert_int_eq(action, CONFIG_VERSION);
	ck_assert_int_eq(READ_OPTIONS(&action, "--check-config"), 0);
	ck_assert_int_eq(action, CONFIG_CHECK);
}
END_TEST

static const char *origin_of(json_t *list, const char *key)
{
	size_t i;
	json_t *o;

	json_array_foreach(list, i, o)
	{
		if (strcmp(json_string_value(json_object_get(o, "key")), key) == 0)
			return json_string_value(json_object_get(o, "origin"));
	}
	return "missing";
}

START_TEST(config_show__tells_the_origin)
{
	enum config_action action;
	char line[80];
	json_t *list;

	ck_assert_int_eq(read_text("[ports]\nudp_port = 5000\n# comment\ninterface = a\n"
				   "interface = b\nudp_port = 5001\n[transport]\npaths = 2\n"),
			 0);
	config_free(&cfg);
	config_init(&cfg);
	ck_assert_int_eq(READ_OPTIONS(&action, "--paths", "4", "--no-nack", "-c", path), 0);
	list = config_show(&cfg);
	/* The line that counts: the last, but of a list the first. */
	snprintf(line, sizeof(line), "%s:6", path);
	ck_assert_str_eq(origin_of(list, "ports.udp_port"), line);
	snprintf(line, sizeof(line), "%s:4", path);
	ck_assert_str_eq(origin_of(list, "ports.interface"), line);
	ck_assert_str_eq(origin_of(list, "transport.paths"), "--paths");
	ck_assert_str_eq(origin_of(list, "ports.nack"), "--no-nack");
	ck_assert_str_eq(origin_of(list, "transport.cc"), "default");
	json_decref(list);
}
END_TEST

static char changes[256];

static void note_change(const char *section, const char *key, bool taken)
{
	size_t used = strlen(changes);

	snprintf(changes + used, sizeof(changes) - used, "%s.%s %s; ", section, key,
		 taken ? "taken" : "waits");
}

static void read_fresh(struct config *fresh, const char *text)
{
	struct config saved = cfg;

	config_init(&cfg);
	ck_assert_int_eq(read_text(text), 0);
	*fresh = cfg;
	cfg = saved;
}

START_TEST(config_update__takes_only_what_can_be_changed)
{
	struct config fresh;
	json_t *list;

	ck_assert_int_eq(read_text("[daemon]\nspin_us = 5\n[ports]\nudp_port = 5000\n"), 0);
	unlink(path);
	changes[0] = '\0';
	read_fresh(&fresh, "[quota]\ncontexts = 7\n[ports]\nudp_port = 5001\ninterface = eth0\n"
			   "[daemon]\nverbose = yes\n[security]\npsk_file = /k\n");
	config_update(&cfg, &fresh, note_change);
	ck_assert_str_eq(changes, "ports.interface waits; daemon.verbose taken; "
				  "daemon.spin_us taken; ports.udp_port waits; "
				  "security.psk_file waits; quota.contexts taken; ");
	ck_assert_uint_eq(cfg.contexts, 7);
	ck_assert_uint_eq(cfg.verbose, 1);
	ck_assert_uint_eq(cfg.spin_us, 50);
	ck_assert_uint_eq(cfg.udp_port, 5000);
	ck_assert_ptr_null(cfg.interfaces[0]);
	ck_assert_ptr_null(cfg.psk_file);
	list = config_show(&cfg);
	ck_assert_str_eq(origin_of(list, "daemon.spin_us"), "default");
	ck_assert_ptr_nonnull(strstr(origin_of(list, "ports.udp_port"), ":4"));
	json_decref(list);
	config_free(&fresh);
}
END_TEST

START_TEST(config_update__tells_nothing_when_nothing_differs)
{
	struct config fresh;
	static const char text[] = "[ports]\ninterface = eth0 eth1\nnack = no\n"
				   "[security]\npsk_file = /k\n";

	ck_assert_int_eq(read_text(text), 0);
	unlink(path);
	changes[0] = '\0';
	read_fresh(&fresh, text);
	config_update(&cfg, &fresh, note_change);
	ck_assert_str_eq(changes, "");
	config_free(&fresh);
}
END_TEST

START_TEST(config_usage__names_every_option)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	static const char *const options[] = {
		"-i, --interface", "--port",	 "--socket",	  "--udp-port",
		"--paths",	   "--cc",	 "--config",	  "--check-config",
		"--allow-generic", "--no-nack",	 "--no-handover", "--ring-size",
		"--verbose",	   "--pid-file", "--version",	  "--help"
	};

	config_usage(f);
	fclose(f);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		ck_assert_msg(strstr(text, options[i]), "%s is missing", options[i]);
	free(text);
}
END_TEST

static void write_key(const char *text, mode_t mode)
{
	int fd;

	strcpy(path, "/tmp/mroced-config-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
	free(cfg.psk_file);
	cfg.psk_file = strdup(path);
}

static const struct {
	const char *text;
	mode_t mode;
	int result;
} keys[] = {
	{ "0123456789abcdef", 0600, 1 },	{ "0123456789abcdef\n", 0400, 1 },
	{ "0123456789abcdef", 0640, -EPERM },	{ "0123456789abcdef", 0604, -EPERM },
	{ "0123456789abcde\n", 0600, -EINVAL }, { "", 0600, -EINVAL },
};

START_TEST(config_psk__file)
{
	uint8_t key[CONFIG_KEY_LEN] = { 0 };

	write_key(keys[_i].text, keys[_i].mode);
	ck_assert_int_eq(config_psk(&cfg, key, error, sizeof(error)), keys[_i].result);
	if (keys[_i].result < 0)
		ck_assert_ptr_nonnull(strstr(error, path));
	ck_assert_ptr_null(strstr(error, "0123456789"));
}
END_TEST

START_TEST(config_psk__the_same_in_file_and_configuration)
{
	uint8_t none[CONFIG_KEY_LEN], a[CONFIG_KEY_LEN], b[CONFIG_KEY_LEN];

	ck_assert_int_eq(config_psk(&cfg, none, error, sizeof(error)), 0);
	write_key("0123456789abcdef\n", 0600);
	ck_assert_int_eq(config_psk(&cfg, a, error, sizeof(error)), 1);
	unlink(path);
	ck_assert_int_eq(read_text("[security]\npsk = 0123456789abcdef\n"), 0);
	ck_assert_int_eq(config_psk(&cfg, b, error, sizeof(error)), -EINVAL); /* both */
	free(cfg.psk_file);
	cfg.psk_file = NULL;
	ck_assert_int_eq(config_psk(&cfg, b, error, sizeof(error)), 1);
	ck_assert_mem_eq(a, b, sizeof(a));
	cfg.psk[0]++;
	ck_assert_int_eq(config_psk(&cfg, b, error, sizeof(error)), 1);
	ck_assert_mem_ne(a, b, sizeof(a));
}
END_TEST

START_TEST(config_psk__not_there)
{
	uint8_t key[CONFIG_KEY_LEN];

	cfg.psk_file = strdup("/nowhere/key");
	ck_assert_int_eq(config_psk(&cfg, key, error, sizeof(error)), -ENOENT);
}
END_TEST

START_TEST(config_psk__readable_configuration)
{
	ck_assert_int_eq(read_text("[security]\npsk = 0123456789abcdef\n"), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(config_read_file(&cfg, path, error, sizeof(error)), -EPERM);
}
END_TEST

START_TEST(config_psk__never_shown)
{
	json_t *list;
	char *text;

	ck_assert_int_eq(read_text("[security]\npsk = 0123456789abcdef\n"), 0);
	list = config_show(&cfg);
	text = json_dumps(list, 0);
	ck_assert_ptr_null(strstr(text, "0123456789"));
	ck_assert_ptr_nonnull(strstr(text, "not shown"));
	free(text);
	json_decref(list);
	unlink(path);
	ck_assert_int_eq(read_text("[security]\npsk = 0123456789\n"), -EINVAL);
	ck_assert_ptr_null(strstr(error, "0123456789"));
}
END_TEST

static Suite *config_suite(void)
{
	Suite *suite = suite_create("mroced_config");
	TCase *tcase = tcase_create("file and options");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, config_read_file__all_kinds);
	tcase_add_loop_test(tcase, config_read_file__bad, 0,
			    (int)(sizeof(bad_files) / sizeof(bad_files[0])));
	tcase_add_test(tcase, config_read_file__not_there);
	tcase_add_test(tcase, config_read__options_beat_the_file);
	tcase_add_test(tcase, config_read__bad_options);
	tcase_add_test(tcase, config_read__actions);
	tcase_add_test(tcase, config_show__tells_the_origin);
	tcase_add_test(tcase, config_update__takes_only_what_can_be_changed);
	tcase_add_test(tcase, config_update__tells_nothing_when_nothing_differs);
	tcase_add_test(tcase, config_usage__names_every_option);
	tcase_add_loop_test(tcase, config_psk__file, 0, (int)(sizeof(keys) / sizeof(keys[0])));
	tcase_add_test(tcase, config_psk__the_same_in_file_and_configuration);
	tcase_add_test(tcase, config_psk__not_there);
	tcase_add_test(tcase, config_psk__readable_configuration);
	tcase_add_test(tcase, config_psk__never_shown);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(config_suite)
