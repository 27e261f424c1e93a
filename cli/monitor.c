// SPDX-License-Identifier: BSD-2-Clause
/* monitor.c: `mroce monitor`: events of the daemon as they happen, a line each. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include "cmd.h"
#include "link.h"
#include "options.h"

#define RECORD_MAX 4096
#define POLL_MS 200

static uint64_t want_count;

static const struct opt monitor_opts[] = {
	{ 'c', "count", "N", "end after so many events", OPT_NUMBER, &want_count, 1, UINT32_MAX },
	{ 0 },
};

static const struct opt_table monitor_table = {
	.command = "mroce monitor",
	.args = "[OPTIONS] [conn | path | port | stall | EVENT]...",
	.about = "Prints what happens to connections, paths and ports of mroced on this host, "
		 "until it is\n"
		 "interrupted or mroced ends. Without arguments, everything.",
	.opts = monitor_opts,
	.json = true,
};

static const char *const events[] = { "conn_up",    "conn_down", "path_dead", "path_back",
				      "path_moved", "port_up",	 "port_down", "stall" };

/* "path" stands for all that begin with "path_". */
static bool matches(const char *word, const char *event)
{
	size_t len = strlen(word);

	return !strncmp(event, word, len) && (event[len] == '\0' || event[len] == '_');
}

static bool is_known(const char *word)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (matches(word, events[i]))
			return true;
	return false;
}

/* About the listening itself, not what is listened for. */
static bool is_frame(const char *event)
{
	return !strcmp(event, "start") || !strcmp(event, "stop") || !strcmp(event, "lost");
}

static bool is_wanted(const char *event, int nwords, char **words)
{
	if (!nwords || is_frame(event))
		return true;
	for (int i = 0; i < nwords; i++)
		if (matches(words[i], event))
			return true;
	return false;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static void print_text(const json_t *o, const char *event)
{
	double at = json_number_value(json_object_get(o, "time"));
	time_t seconds = (time_t)at;
	struct tm tm;
	char clock[16];

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
	printf("%s.%06d %-10s ", clock, (int)((at - (double)seconds) * 1e6), event);
	if (!strcmp(event, "lost"))
		printf("%.0f events: this terminal or pipe is too slow for them\n",
		       json_number_value(json_object_get(o, "count")));
	else if (!strcmp(event, "start"))
		printf("mroced %s, pid %.0f\n", text_of(o, "version"),
		       json_number_value(json_object_get(o, "pid")));
	else
		printf("%s\n", !strcmp(event, "stop") ? "mroced ends" : text_of(o, "text"));
}

/* True: one of the events that were asked for. */
static bool print_record(const char *text, size_t len, int nwords, char **words)
{
	json_t *o = json_loadb(text, len, 0, NULL);
	const char *event = text_of(o, "event");
	bool wanted = o && is_wanted(event, nwords, words), counts = wanted && !is_frame(event);

	if (wanted && cli.json)
		printf("%.*s\n", (int)len, text);
	else if (wanted)
		print_text(o, event);
	if (wanted)
		fflush(stdout);
	json_decref(o);
	return counts;
}

static int listen_to(int fd, int nwords, char **words)
{
	char text[RECORD_MAX];
	uint64_t seen = 0;

	while (!cli_stop && (!want_count || seen < want_count)) {
		struct pollfd event = { .fd = fd, .events = POLLIN };
		ssize_t n;

		/* A signal between the question and the wait would be noticed by the next event only. */
		if (poll(&event, 1, POLL_MS) <= 0)
			continue;
		n = recv(fd, text, sizeof(text), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return cli_stop ? EXIT_SUCCESS : fail("mroced has ended");
		seen += print_record(text, (size_t)n, nwords, words);
		if (ferror(stdout))
			return EXIT_FAILURE; /* whoever read it has gone */
	}
	return EXIT_SUCCESS;
}

int cmd_monitor(int argc, char **argv)
{
	char text[512];
	int first, fd, err, status;

	switch (opt_parse(&monitor_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	for (int i = first; i < argc; i++)
		if (!is_known(argv[i]))
			return opt_misuse(
				&monitor_table,
				"'%s' is no event; they are conn_up, conn_down, path_dead, "
				"path_back, path_moved, port_up, port_down, stall",
				argv[i]);
	signals_catch();
	err = link_monitor(&fd);
	if (err == -EDQUOT)
		return fail("too many listen to mroced's events already");
	if (err) {
		link_explain(err, text, sizeof(text));
		return fail("%s", text);
	}
	status = listen_to(fd, argc - first, argv + first);
	close(fd);
	return status;
}
