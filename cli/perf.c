// SPDX-License-Identifier: BSD-2-Clause
/*
 * perf.c: `mroce perf`: options and tables as users of perftest know them. Two letters differ, since
 * one program does what a dozen do there: -s is the server, so the size is -m.
 */
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "options.h"
#include "perf.h"

#define SIZE_DEFAULT_BW 65536
#define SIZE_DEFAULT_LATENCY 2
#define ITERATIONS_BW 5000
#define ITERATIONS_LATENCY 1000
#define ALL_FIRST 2
#define ALL_LAST (1u << 23)

static struct {
	bool server, once, all, latency, both, check, inplace, quiet;
	const char *op;
	struct perf_options p;
} opts;

static const struct opt perf_opts[] = {
	{ 's', "server", NULL, "answer clients until stopped", OPT_FLAG, &opts.server, 0, 0 },
	{ 0, "once", NULL, "server: end when the first client is done", OPT_FLAG, &opts.once, 0, 0 },
	{ 'o', "op", "OP", "write, send or read (default write)", OPT_STRING, &opts.op, 0, 0 },
	{ 'm', "size", "SIZE", "bytes of a message (default 64K, with -l 2)", OPT_SIZE,
	  &opts.p.size, 0, PERF_SIZE_MAX },
	{ 'a', "all", NULL, "all sizes from 2 to 8M", OPT_FLAG, &opts.all, 0, 0 },
	{ 'n', "iters", "N", "messages per connection (default 5000, with -l 1000)", OPT_NUMBER,
	  &opts.p.iterations, 1, UINT32_MAX },
	{ 'D', "duration", "SECONDS", "run for so long instead", OPT_SECONDS, &opts.p.duration, 0,
	  86400 },
	{ 'q', "qp", "N", "connections (default 1)", OPT_NUMBER, &opts.p.connections, 1, 1024 },
	{ 0, "streams", "N", "streams of each connection (default 4)", OPT_NUMBER, &opts.p.streams,
	  1, PERF_STREAMS_MAX },
	{ 't', "tx-depth", "N", "messages in flight per connection (default 128)", OPT_NUMBER,
	  &opts.p.depth, 1, PERF_DEPTH_MAX },
	{ 'l', "latency", NULL, "latency instead of bandwidth: one message at a time", OPT_FLAG,
	  &opts.latency, 0, 0 },
	{ 'b', "bidirectional", NULL, "writes and reads in turn: data flows both ways", OPT_FLAG,
	  &opts.both, 0, 0 },
	{ 0, "check", NULL, "verify every byte of every message; exit 1 if any is wrong", OPT_FLAG,
	  &opts.check, 0, 0 },
	{ 0, "max-missing", "PPM", "so much of every message may be missing, in parts per million",
	  OPT_NUMBER, &opts.p.max_missing, 1, 1000000 },
	{ 0, "deadline", "USEC", "with it: when a message is to end, if no more than that is missing",
	  OPT_NUMBER, &opts.p.deadline_us, 1, UINT32_MAX },
	{ 0, "inplace", NULL, "memory registered in place instead of allocated", OPT_FLAG,
	  &opts.inplace, 0, 0 },
	{ 0, "service", "N", "service of the server (default 7002)", OPT_NUMBER, &opts.p.service, 1,
	  UINT32_MAX },
	{ 0, "timeout", "SECONDS", "give up after so long without a completion (default 30)",
	  OPT_SECONDS, &opts.p.timeout, 1, 86400 },
	{ 0, "quiet", NULL, "server: say nothing", OPT_FLAG, &opts.quiet, 0, 0 },
	{ 0 },
};

static const struct opt_table perf_table = {
	.command = "mroce perf",
	.args = "-s [OPTIONS]\n[OPTIONS] HOST",
	.about = "Measures bandwidth or latency to a host where 'mroce perf -s' runs.",
	.opts = perf_opts,
	.json = true,
};

/* ---- printing ---- */

#define RULE "------------------------------------------------------------------------------------"

static const char *test_name(void)
{
	return opts.both ? "write+read" : opts.op;
}

static void print_head(void)
{
	if (cli.json)
		return;
	puts(RULE);
	printf("  mroce %s %s: %s, service %llu, %llu connection%s, %llu stream%s, depth %llu, "
	       "%s%s\n",
	       test_name(), opts.latency ? "latency" : "bandwidth", opts.p.host,
	       (unsigned long long)opts.p.service, (unsigned long long)opts.p.connections,
	       opts.p.connections == 1 ? "" : "s", (unsigned long long)opts.p.streams,
	       opts.p.streams == 1 ? "" : "s", (unsigned long long)opts.p.depth,
	       opts.inplace ? "registered memory" : "allocated memory",
	       opts.check ? ", checked" : "");
	puts(RULE);
	if (opts.latency)
		printf(" %-10s %-12s %-12s %-12s %-14s %-12s %-12s %-10s %s\n", "#bytes",
		       "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]",
		       "t_avg[usec]", "t_stdev[usec]", "99%[usec]", "99.9%[usec]");
	else
		printf(" %-10s %-14s %-18s %-21s %s%s\n", "#bytes", "#iterations",
		       "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]",
		       opts.p.max_missing ? "   #forgiven      missing[bytes]" : "");
	fflush(stdout);
}

static void print_bandwidth(const struct perf_result *r)
{
	printf(" %-10llu %-14llu %-18.2f %-21.2f %.6f", (unsigned long long)r->size,
	       (unsigned long long)r->messages, r->peak_gbit, r->average_gbit, r->mpps);
	if (opts.p.max_missing)
		printf("        %-14llu %llu", (unsigned long long)r->forgiven,
		       (unsigned long long)r->missing);
	putchar('\n');
}

static void print_latency(const struct perf_result *r, const struct samples_summary *t)
{
	printf(" %-10llu %-12llu %-12.2f %-12.2f %-15.2f %-12.2f %-13.2f %-10.2f %.2f\n",
	       (unsigned long long)r->size, (unsigned long long)r->messages, t->min, t->max,
	       t->typical, t->avg, t->stdev, t->p99, t->p999);
}

static void add_latency(json_t *o, const struct samples_summary *t)
{
	json_object_set_new(o, "t_min_us", json_real(t->min));
	json_object_set_new(o, "t_max_us", json_real(t->max));
	json_object_set_new(o, "t_typical_us", json_real(t->typical));
	json_object_set_new(o, "t_avg_us", json_real(t->avg));
	json_object_set_new(o, "t_stdev_us", json_real(t->stdev));
	json_object_set_new(o, "t_99_us", json_real(t->p99));
	json_object_set_new(o, "t_99_9_us", json_real(t->p999));
}

static void add_bandwidth(json_t *o, const struct perf_result *r)
{
	json_object_set_new(o, "bytes", json_integer(r->bytes));
	if (opts.p.max_missing) {
		json_object_set_new(o, "forgiven", json_integer(r->forgiven));
		json_object_set_new(o, "missing_bytes", json_integer(r->missing));
	}
	json_object_set_new(o, "bw_peak_gbit_per_s", json_real(r->peak_gbit));
	json_object_set_new(o, "bw_average_gbit_per_s", json_real(r->average_gbit));
	json_object_set_new(o, "msg_rate_mpps", json_real(r->mpps));
}

static json_t *result_json(const struct perf_result *r, const struct samples_summary *t)
{
	json_t *o = json_pack("{s:I, s:I, s:f}", "size", (json_int_t)r->size, "iterations",
			      (json_int_t)r->messages, "seconds", r->seconds);

	if (opts.latency)
		add_latency(o, t);
	else
		add_bandwidth(o, r);
	if (r->repairs.known) {
		json_object_set_new(o, "tx_packets", json_integer(r->repairs.tx_packets));
		json_object_set_new(o, "repairs", json_integer(r->repairs.repairs));
		json_object_set_new(o, "spurious_repairs", json_integer(r->repairs.spurious));
	}
	if (opts.check)
		json_object_set_new(o, "check_errors", json_integer(r->check_errors));
	json_object_set_new(o, "cpu_seconds_client", json_real(r->cpu_self));
	if (r->cpu_daemon >= 0)
		json_object_set_new(o, "cpu_seconds_daemon", json_real(r->cpu_daemon));
	return o;
}

static void print_foot(const struct perf_result *sum)
{
	puts(RULE);
	if (sum->repairs.known)
		printf("  %llu packets, %llu repairs (%.3f %%), %llu spurious\n",
		       (unsigned long long)sum->repairs.tx_packets,
		       (unsigned long long)sum->repairs.repairs,
		       sum->repairs.tx_packets
			       ? 100.0 * sum->repairs.repairs / sum->repairs.tx_packets
			       : 0,
		       (unsigned long long)sum->repairs.spurious);
	printf("  CPU on this host: client %.2f s", sum->cpu_self);
	if (sum->cpu_daemon >= 0)
		printf(", mroced %.2f s", sum->cpu_daemon);
	putchar('\n');
	if (opts.check)
		printf("  %llu messages with wrong contents\n",
		       (unsigned long long)sum->check_errors);
}

static void print_json(json_t *results)
{
	json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:O}", "test",
				 opts.latency ? "latency" : "bandwidth", "op", test_name(), "host",
				 opts.p.host, "connections", (json_int_t)opts.p.connections,
				 "streams", (json_int_t)opts.p.streams, "depth",
				 (json_int_t)opts.p.depth, "inplace", opts.inplace, "results",
				 results);

	json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(root);
}

/* ---- measuring ---- */

static void accumulate(struct perf_result *sum, const struct perf_result *r)
{
	sum->repairs.known |= r->repairs.known;
	sum->repairs.tx_packets += r->repairs.tx_packets;
	sum->repairs.repairs += r->repairs.repairs;
	sum->repairs.spurious += r->repairs.spurious;
	sum->check_errors += r->check_errors;
	sum->cpu_self += r->cpu_self;
	/* Unknown once is unknown in sum. */
	sum->cpu_daemon = sum->cpu_daemon < 0 || r->cpu_daemon < 0 ? -1
								   : sum->cpu_daemon + r->cpu_daemon;
}

static int measure_size(struct mroce *m, const struct perf_options *p, json_t *results,
			struct perf_result *sum)
{
	struct samples_summary t = { 0 };
	struct perf_result r;
	int err = opts.latency ? perf_latency(m, p, &r) : perf_bandwidth(m, p, &r);

	if (!err) {
		samples_summarise(&r.samples, &t);
		accumulate(sum, &r);
		if (cli.json)
			json_array_append_new(results, result_json(&r, &t));
		else if (opts.latency)
			print_latency(&r, &t);
		else
			print_bandwidth(&r);
		fflush(stdout);
	}
	samples_free(&r.samples);
	return err;
}

static int measure_all(struct mroce *m, json_t *results, struct perf_result *sum)
{
	struct perf_options p = opts.p;
	int err = 0;

	if (!opts.all)
		return measure_size(m, &p, results, sum);
	for (uint64_t size = ALL_FIRST; size <= ALL_LAST && !err; size *= 2) {
		p.size = size;
		p.more = size < ALL_LAST;
		err = measure_size(m, &p, results, sum);
	}
	return err;
}

static int client(void)
{
	struct perf_result sum = { 0 };
	json_t *results;
	struct mroce *m;
	int err;

	signals_catch();
	if (link_open(&m))
		return EXIT_FAILURE;
	results = json_array();
	print_head();
	err = measure_all(m, results, &sum);
	mroce_close(&m);
	if (cli.json)
		print_json(results);
	else if (!err)
		print_foot(&sum);
	json_decref(results);
	if (sum.check_errors)
		fail("%llu messages arrived with wrong contents",
		     (unsigned long long)sum.check_errors);
	return err || sum.check_errors ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- options ---- */

static int choose_op(void)
{
	static const struct {
		const char *name;
		enum perf_op bandwidth, latency;
	} ops[] = { { "write", PERF_WRITE, PERF_ECHO_WRITE },
		    { "send", PERF_SEND, PERF_ECHO_SEND },
		    { "read", PERF_READ, PERF_READ } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(opts.op, ops[i].name))
			continue;
		opts.p.op = opts.latency ? ops[i].latency : ops[i].bandwidth;
		return 0;
	}
	return opt_misuse(&perf_table, "--op '%s': give write, send or read", opts.op);
}

static int complete_options(void)
{
	if (opts.both && (opts.latency || opts.check || strcmp(opts.op, "write")))
		return opt_misuse(&perf_table,
				  "-b goes with neither --latency, --check nor another --op");
	if (opts.latency && (opts.check || opts.p.connections > 1))
		return opt_misuse(&perf_table, "-l goes with neither --check nor --qp");
	if (opts.p.deadline_us && !opts.p.max_missing)
		return opt_misuse(&perf_table, "--deadline needs --max-missing");
	if (opts.p.max_missing && (opts.latency || opts.check || !strcmp(opts.op, "read")))
		return opt_misuse(
			&perf_table,
			"--max-missing goes with neither --latency, --check nor --op read");
	if (choose_op())
		return EXIT_USAGE;
	if (opts.both)
		opts.p.op = PERF_BOTH;
	if (opts.p.size == UINT64_MAX)
		opts.p.size = opts.latency ? SIZE_DEFAULT_LATENCY : SIZE_DEFAULT_BW;
	if (!opts.p.iterations)
		opts.p.iterations = opts.latency ? ITERATIONS_LATENCY : ITERATIONS_BW;
	if (opts.latency)
		opts.p.streams = opts.p.depth = 1;
	opts.p.check = opts.check;
	opts.p.inplace = opts.inplace;
	return EXIT_SUCCESS;
}

static int server(int operands)
{
	const struct perf_server_options o = { .service = opts.p.service,
					       .once = opts.once,
					       .inplace = opts.inplace,
					       .quiet = opts.quiet };

	if (operands)
		return opt_misuse(&perf_table, "-s takes no HOST");
	return perf_serve(&o);
}

int cmd_perf(int argc, char **argv)
{
	int first;
	int status;

	opts.op = "write";
	opts.p = (struct perf_options){ .service = SERVICE_PERF,
					.size = UINT64_MAX,
					.connections = 1,
					.streams = 4,
					.depth = 128,
					.timeout = 30 };
	switch (opt_parse(&perf_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (opts.server)
		return server(argc - first);
	if (argc - first != 1)
		return opt_misuse(&perf_table, "needs one HOST, or -s to be the server");
	status = complete_options();
	if (status)
		return status;
	opts.p.host = argv[first];
	return client();
}
