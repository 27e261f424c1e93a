// SPDX-License-Identifier: BSD-2-Clause
/*
 * ping.c: `mroce ping HOST`: round trips of messages through both daemons to a perf server; if none
 * listens there, round trips of refused set-ups, which the daemon answers alone.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "json.h"
#include "options.h"
#include "perf.h"

#define CONNECT_MS 5000

static struct {
	bool server, quiet;
	uint64_t count, size, service;
	double interval, timeout;
} opts;

static const struct opt ping_opts[] = {
	{ 'c', "count", "N", "stop after so many (default: until Ctrl-C)", OPT_NUMBER, &opts.count,
	  1, UINT32_MAX },
	{ 'i', "interval", "SECONDS", "time between two (default 1)", OPT_SECONDS, &opts.interval,
	  0, 3600 },
	{ 's', "size", "SIZE", "bytes of a message (default 64)", OPT_SIZE, &opts.size, 0,
	  64u << 20 },
	{ 'W', "timeout", "SECONDS", "wait for an answer so long (default 10)", OPT_SECONDS,
	  &opts.timeout, 0, 3600 },
	{ 0, "server", NULL, "answer pings, as 'mroce perf -s' does", OPT_FLAG, &opts.server, 0, 0 },
	{ 'q', "quiet", NULL, "only the summary", OPT_FLAG, &opts.quiet, 0, 0 },
	{ 0, "service", "N", "service of the answering side (default 7002)", OPT_NUMBER,
	  &opts.service, 1, UINT32_MAX },
	{ 0 },
};

static const struct opt_table ping_table = {
	.command = "mroce ping",
	.args = "[OPTIONS] HOST\n--server",
	.about = "Round trips to HOST. Where 'mroce ping --server' or 'mroce perf -s' runs, "
		 "messages are sent\n"
		 "there and back; elsewhere the set-up of a connection is timed, which mroced "
		 "refuses.",
	.opts = ping_opts,
	.json = true,
};

struct tally {
	uint64_t sent, answered;
	struct samples samples; /* ms */
	json_t *paths;		/* of the connection at its end; NULL: none */
};

static bool wants_more(const struct tally *t)
{
	return !cli_stop && (!opts.count || t->sent < opts.count);
}

static int note(struct tally *t, double usec, const char *host, const char *what)
{
	t->answered++;
	if (samples_add(&t->samples, usec / 1e3))
		return -ENOMEM;
	if (opts.quiet || cli.json)
		return 0;
	printf("%s %s: seq=%llu time=%.3f ms\n", what, host, (unsigned long long)t->sent,
	       usec / 1e3);
	/* Nobody reads any more, as behind `| head`. */
	if (fflush(stdout))
		cli_stop = SIGPIPE;
	return 0;
}

static void pause_between(void)
{
	/* Signals wake it. */
	if (opts.interval > 0)
		poll(NULL, 0, (int)(opts.interval * 1000));
}

/* ---- messages there and back ---- */

static int ping_messages(struct perf_client *c, struct tally *t)
{
	char what[64];
	double usec;

	snprintf(what, sizeof(what), "%llu bytes from", (unsigned long long)opts.size);
	while (wants_more(t)) {
		int err;

		t->sent++;
		err = perf_client_echo(c, opts.timeout, &usec);
		if (err)
			return err == -EINTR ? t->sent--, 0 : err;
		err = note(t, usec, mroce_conn_peer(c->conn), what);
		if (err)
			return err;
		if (wants_more(t))
			pause_between();
	}
	return 0;
}

static void keep_paths(struct tally *t, uint32_t conn_id)
{
	json_t *root;

	if (link_show("path", conn_id, &root))
		return;
	t->paths = json_incref(json_object_get(root, "paths"));
	json_decref(root);
}

/* ---- refused set-ups ---- */

static int ping_setup(struct mroce *m, const char *host, struct tally *t)
{
	while (wants_more(t)) {
		uint64_t start = clock_ns();
		struct mroce_conn *conn;
		int err;

		t->sent++;
		err = mroce_connect(m, host, opts.service, (int)(opts.timeout * 1000), &conn);
		if (!err)
			mroce_conn_close(&conn);
		else if (cli_stop)
			return t->sent--, 0;
		else if (err != -ECONNREFUSED)
			return fail("%s: set-up was not answered: %s", host, strerror(-err)), err;
		err = note(t, (clock_ns() - start) / 1e3, host, "set-up answered by");
		if (err)
			return err;
		if (wants_more(t))
			pause_between();
	}
	return 0;
}

/* ---- results ---- */

static void print_paths(const json_t *paths)
{
	const json_t *p;
	size_t i;

	if (!json_array_size(paths))
		return;
	printf("\n%-5s %-5s %-24s %-6s %-6s %10s %10s %10s %9s\n", "path", "port", "remote",
	       "sport", "state", "srtt[us]", "min[us]", "var[us]", "repairs");
	json_array_foreach(paths, i, p)
	{
		printf("%-5.0f %-5.0f %-24s %-6.0f %-6s %10.0f %10.0f %10.0f %9.0f\n",
		       json_num(p, "path"), json_num(p, "port"), json_str(p, "remote"),
		       json_num(p, "sport"), json_str(p, "state"), json_num(p, "srtt_us"),
		       json_num(p, "min_rtt_us"), json_num(p, "rttvar_us"), json_num(p, "repairs"));
	}
}

static void print_json(const char *host, const char *kind, struct tally *t,
		       const struct samples_summary *s)
{
	json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "host", host, "kind",
			      kind, "size", (json_int_t)opts.size, "sent", (json_int_t)t->sent,
			      "answered", (json_int_t)t->answered, "min_ms", s->min, "avg_ms",
			      s->avg, "max_ms", s->max, "mdev_ms", s->stdev);

	if (t->paths)
		json_object_set(o, "paths", t->paths);
	json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(o);
}

static int conclude(const char *host, const char *kind, struct tally *t, int err)
{
	struct samples_summary s;

	samples_summarise(&t->samples, &s);
	if (cli.json) {
		print_json(host, kind, t, &s);
	} else {
		printf("--- %s: %s ---\n%llu sent, %llu answered\n", host, kind,
		       (unsigned long long)t->sent, (unsigned long long)t->answered);
		if (t->answered)
			printf("rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", s.min, s.avg,
			       s.max, s.stdev);
		print_paths(t->paths);
	}
	json_decref(t->paths);
	samples_free(&t->samples);
	return err || !t->answered ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the command ---- */

static int run_messages(struct mroce *m, const char *host)
{
	const struct perf_options o = { .host = host,
					.service = opts.service,
					.op = PERF_ECHO_SEND,
					.size = opts.size,
					.iterations = 1,
					.connections = 1,
					.streams = 1,
					.depth = 1 };
	struct tally t = { 0 };
	struct perf_client c;
	int err = perf_client_open(&c, m, &o, 1);

	if (err)
		return EXIT_FAILURE;
	err = ping_messages(&c, &t);
	keep_paths(&t, mroce_conn_id(c.conn));
	perf_client_close(&c);
	return conclude(host, "messages", &t, err);
}

static int run_setup(struct mroce *m, const char *host)
{
	struct tally t = { 0 };
	int err;

	if (!cli.json && !opts.quiet)
		printf("Nobody listens on service %llu of %s, so set-ups are timed, which its "
		       "mroced "
		       "refuses. For messages run there: mroce ping --server\n",
		       (unsigned long long)opts.service, host);
	err = ping_setup(m, host, &t);
	return conclude(host, "set-up", &t, err);
}

static int ping(const char *host)
{
	struct mroce_conn *probe;
	struct mroce *m;
	int status;
	int err;

	signals_catch();
	if (link_open(&m))
		return EXIT_FAILURE;
	err = mroce_connect(m, host, opts.service, CONNECT_MS, &probe);
	if (!err)
		mroce_conn_close(&probe);
	if (err && err != -ECONNREFUSED) {
		link_connect_failed(m, err, host, opts.service, "mroce ping --server");
		status = EXIT_FAILURE;
	} else {
		status = err ? run_setup(m, host) : run_messages(m, host);
	}
	mroce_close(&m);
	return status;
}

int cmd_ping(int argc, char **argv)
{
	struct perf_server_options server = { 0 };
	int first;

	opts.size = 64;
	opts.service = SERVICE_PERF;
	opts.interval = 1;
	opts.timeout = 10;
	switch (opt_parse(&ping_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	server.service = opts.service;
	server.quiet = opts.quiet;
	if (opts.server && first == argc)
		return perf_serve(&server);
	if (opts.server || argc - first != 1)
		return opt_misuse(&ping_table, "needs one HOST, or --server alone to answer");
	return ping(argv[first]);
}
