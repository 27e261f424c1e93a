/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
/* Fields of this file's own line would say nothing. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include "daemon/journal.h"

#define LINE_MAX_BYTES 1024
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define ERRORS_MAX 64
/* The same line is not written again for so long. */
#define QUIET_S 60
#define FIELDS_MAX 16
#define FIELD_BYTES 128

/* For `journalctl MESSAGE_ID=...`; never to be changed. docs/inspection.md lists them. */
static const char *const message_ids[NOTE_KINDS] = {
	[NOTE_CONN_UP] = "02ff349d4f874aa39c2b9d9f2ae75e2e",
	[NOTE_CONN_DOWN] = "e7158a8021f64544a06c85afbaec4ef7",
	[NOTE_PATH_DEAD] = "3c7ba9e38be9494dbc95ad20819ed6b6",
	[NOTE_PATH_BACK] = "8eca7365796540fe8d317c68022dd18d",
	[NOTE_PATH_MOVED] = "a71dba4955524a899ab4fcb8093f36eb",
	[NOTE_PORT_UP] = "8fde5639132a49cfa7cd95a026af91d1",
	[NOTE_PORT_DOWN] = "4f7b56bf55724a8aafa2d07c1121a14d",
	[NOTE_STALL] = "7f8eb3335f064fe2ac84eb6aaa32241c",
};

/* An error or warning, whatever numbers are in it. */
struct seen {
	char shape[LINE_MAX_BYTES / 4]; /* its text with # for numbers */
	char text[LINE_MAX_BYTES / 4];	/* as it was last */
	int level;
	uint64_t count, first, last; /* times in s */
	uint64_t told;		     /* when this very text was written last */
	uint64_t held;		     /* times since that it was not */
};

static int max_level = LOG_INFO;
static bool under_systemd;
static uint64_t counts[LOG_DEBUG + 1];
static struct seen errors[ERRORS_MAX];
static uint32_t nerrors;

/* As systemd.exec(5) says: shells inherit the variable, with a terminal for their errors. */
static bool errors_go_to_the_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       !fstat(STDERR_FILENO, &st) && st.st_dev == dev && st.st_ino == ino;
}

void journal_init(bool verbose)
{
	max_level = verbose ? LOG_DEBUG : LOG_INFO;
	under_systemd = errors_go_to_the_journal();
}

static uint64_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

/* ---- the same again ---- */

/* Numbers, ids and addresses become #: any word of hexadecimal digits, dots and colons with a digit in it. */
static void shape_of(const char *text, char *out, size_t size)
{
	size_t n = 0;

	while (*text && n + 1 < size) {
		size_t len = strspn(text, "0123456789abcdefABCDEFx.:");
		size_t digit = strcspn(text, "0123456789");

		if (len && digit < len && (!n || !isalpha((unsigned char)out[n - 1]))) {
			out[n++] = '#';
			text += len;
		} else {
			out[n++] = *text++;
		}
	}
	out[n] = '\0';
}

/* A full table forgets what is longest ago. */
static struct seen *find_seen(const char *shape)
{
	struct seen *oldest = &errors[0];

	for (uint32_t i = 0; i < nerrors; i++) {
		if (strcmp(errors[i].shape, shape) == 0)
			return &errors[i];
		if (errors[i].last < oldest->last)
			oldest = &errors[i];
	}
	if (nerrors < ERRORS_MAX)
		oldest = &errors[nerrors++];
	memset(oldest, 0, sizeof(*oldest));
	strcpy(oldest->shape, shape);
	return oldest;
}

/* False: it was written a moment ago. *held: how often it was not written since. */
static bool is_news(int level, const char *text, uint64_t *held)
{
	char shape[sizeof(errors[0].shape)];
	uint64_t now = seconds();
	struct seen *s;
	bool same;

	*held = 0;
	if (level > LOG_WARNING)
		return true;
	shape_of(text, shape, sizeof(shape));
	s = find_seen(shape);
	same = s->count && strncmp(s->text, text, sizeof(s->text) - 1) == 0;
	if (!s->count++)
		s->first = now;
	s->level = level;
	s->last = now;
	snprintf(s->text, sizeof(s->text), "%s", text);
	if (same && now - s->told < QUIET_S) {
		s->held++;
		return false;
	}
	*held = same ? s->held : 0;
	s->held = 0;
	s->told = now;
	return true;
}

json_t *journal_errors(void)
{
	json_t *list = json_array();
	uint64_t now = seconds();

	for (uint32_t i = 0; i < nerrors; i++) {
		const struct seen *s = &errors[i];

		json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:s}", "level",
						      s->level == LOG_WARNING ? "warning" : "error",
						      "count", (json_int_t)s->count, "first_s",
						      (json_int_t)(now - s->first), "last_s",
						      (json_int_t)(now - s->last), "text", s->text));
	}
	return list;
}

void journal_counts(uint64_t out[LOG_DEBUG + 1])
{
	memcpy(out, counts, sizeof(counts));
}

/* ---- writing ---- */

static void to_stderr(int level, const char *text)
{
	/* In one call, so that lines of several daemons on one terminal stay whole. */
	if (under_systemd)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "mroced: %s%s\n",
			level <= LOG_ERR       ? "error: "
			: level == LOG_WARNING ? "warning: "
					       : "",
			text);
}

/* False: not to be written. May add to the text. */
static bool admit(int level, char *text, size_t size)
{
	uint64_t held;
	size_t len;

	counts[level & LOG_PRIMASK]++;
	if (level > max_level || !is_news(level, text, &held))
		return false;
	len = strlen(text);
	if (held)
		snprintf(text + len, size - len,
			 " (and %llu times more since this was written last)",
			 (unsigned long long)held);
	return true;
}

static void line(int level, const char *fmt, va_list args)
{
	char text[LINE_MAX_BYTES];

	vsnprintf(text, sizeof(text), fmt, args);
	if (admit(level, text, sizeof(text)))
		to_stderr(level, text);
}

void journal(int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(level, fmt, args);
	va_end(args);
}

int journal_error(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(LOG_ERR, fmt, args);
	va_end(args);
	return err;
}

/* ---- events ---- */

struct fields {
	char text[FIELDS_MAX][FIELD_BYTES];
	struct iovec iov[FIELDS_MAX + 1]; /* and the message */
	int n;
};

static void add(struct fields *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct fields *f, const char *fmt, ...)
{
	char *at = f->text[f->n];
	va_list args;

	va_start(args, fmt);
	vsnprintf(at, FIELD_BYTES, fmt, args);
	va_end(args);
	f->iov[f->n++] = (struct iovec){ at, strlen(at) };
}

static void describe(struct fields *f, int level, const struct engine_note *n)
{
	char peer[IPTEXT_MAX];

	add(f, "PRIORITY=%d", level);
	add(f, "SYSLOG_IDENTIFIER=mroced");
	add(f, "MESSAGE_ID=%s", message_ids[n->kind]);
	add(f, "MROCE_EVENT=%s", note_name(n->kind));
	if (n->conn_id) {
		add(f, "MROCE_CONN=0x%08x", n->conn_id);
		add(f, "MROCE_PEER=%s", ip_text(&n->peer, peer));
		add(f, "MROCE_SERVICE=%u", n->service);
	}
	if (n->path >= 0)
		add(f, "MROCE_PATH=%d", n->path);
	if (n->port)
		add(f, "MROCE_PORT=%s", n->port->name);
	if (n->reason)
		add(f, "MROCE_REASON=%s", path_reason_text(n->reason));
	if (n->kind == NOTE_STALL) {
		add(f, "MROCE_STREAM=%u", n->stream);
		add(f, "MROCE_MSG=%u", n->msg);
	}
}

static bool to_journal(int level, const struct engine_note *n, const char *text)
{
	char message[LINE_MAX_BYTES + 16];
	struct fields f;
	int len = snprintf(message, sizeof(message), "MESSAGE=%s", text);

	/* libsystemd would say that all is well. */
	if (access(JOURNAL_SOCKET, W_OK))
		return false;
	f.n = 0;
	describe(&f, level, n);
	f.iov[f.n++] = (struct iovec){ message, (size_t)len };
	return sd_journal_sendv(f.iov, f.n) == 0;
}

void journal_note(int level, const struct engine_note *n, const char *text)
{
	char copy[LINE_MAX_BYTES];

	snprintf(copy, sizeof(copy), "%s", text);
	if (!admit(level, copy, sizeof(copy)))
		return;
	if (!under_systemd || !to_journal(level, n, copy))
		to_stderr(level, copy);
}
