// SPDX-License-Identifier: BSD-2-Clause
/* collective.c: `mroce collective`: letters and columns as users of nccl-tests know them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "collective.h"
#include "link.h"
#include "options.h"

#define SERVICE_COLLECTIVE MROCE_COMM_SERVICE
#define SIZE_MOST (1ull << 34)

static struct {
	uint64_t min, max, factor, iterations, warmup, root, rank, service, seed, max_missing;
	double deadline, timeout;
	const char *type, *op, *algorithm, *hosts_file;
	bool same, hadamard, no_check;
} opts;

static const struct opt collective_opts[] = {
	{ 'b', "minbytes", "SIZE", "smallest size (default 1M)", OPT_SIZE, &opts.min, 0, SIZE_MOST },
	{ 'e', "maxbytes", "SIZE", "largest size (default the smallest)", OPT_SIZE, &opts.max, 0,
	  SIZE_MOST },
	{ 'f', "stepfactor", "N", "each size is so many times the one before (default 2)",
	  OPT_NUMBER, &opts.factor, 2, 1024 },
	{ 'n', "iters", "N", "operations of each size (default 20)", OPT_NUMBER, &opts.iterations,
	  1, 10000000 },
	{ 'w', "warmup", "N", "operations before that are not counted (default 5)", OPT_NUMBER,
	  &opts.warmup, 0, 10000000 },
	{ 'd', "datatype", "TYPE", "float32, float16, bfloat16 or int32 (default float32)",
	  OPT_STRING, &opts.type, 0, 0 },
	{ 'o', "op", "OP", "sum, average or max (default sum)", OPT_STRING, &opts.op, 0, 0 },
	{ 'r', "root", "RANK", "of a broadcast (default 0)", OPT_NUMBER, &opts.root, 0,
	  MROCE_COMM_RANKS - 1 },
	{ 0, "no-check", NULL, "do not compare with the exact result", OPT_FLAG, &opts.no_check, 0,
	  0 },
	{ 0, "max-missing", "PPM", "parts per million of a message that may be missing", OPT_NUMBER,
	  &opts.max_missing, 0, 1000000 },
	{ 0, "deadline", "SECONDS", "of a message, with --max-missing", OPT_SECONDS, &opts.deadline,
	  0, 4000 },
	{ 0, "same", NULL, "tell the sums of an all-reduce reliably", OPT_FLAG, &opts.same, 0, 0 },
	{ 0, "hadamard", NULL, "spread what is missing by a Hadamard transform", OPT_FLAG,
	  &opts.hadamard, 0, 0 },
	{ 0, "algorithm", "NAME", "auto, direct or ring (default auto)", OPT_STRING,
	  &opts.algorithm, 0, 0 },
	{ 0, "hosts", "FILE", "hosts from a file, one a line", OPT_STRING, &opts.hosts_file, 0, 0 },
	{ 0, "rank", "N", "which of the hosts this is (default: the one with an address of ours)",
	  OPT_NUMBER, &opts.rank, 0, MROCE_COMM_RANKS - 1 },
	{ 0, "service", "N", "rank r listens on service N + r (default 7100)", OPT_NUMBER,
	  &opts.service, 1, UINT32_MAX - MROCE_COMM_RANKS },
	{ 0, "seed", "N", "of the Hadamard transform", OPT_NUMBER, &opts.seed, 0, UINT64_MAX },
	{ 0, "timeout", "SECONDS", "for all ranks to come, and without progress (default 30)",
	  OPT_SECONDS, &opts.timeout, 1, 86400 },
	{ 0 },
};

static const struct opt_table collective_table = {
	.command = "mroce collective",
	.args = "[OPTIONS] COLLECTIVE HOST...\n[OPTIONS] --hosts FILE COLLECTIVE",
	.about = "Measures all-reduce, reduce-scatter, all-gather, all-to-all or broadcast among "
		 "hosts.\n"
		 "Started on each of them with the same arguments; the first one prints.",
	.opts = collective_opts,
	.json = true,
};

static const char *const kinds[] = { "all-reduce", "reduce-scatter", "all-gather",
				     "all-to-all", "broadcast",	     NULL };
static const char *const types[] = { "float32", "float16", "bfloat16", "int32", NULL };
static const char *const ops[] = { "sum", "average", "max", NULL };
static const char *const algorithms[] = { "auto", "direct", "ring", NULL };

struct world {
	char **read;		  /* from a file */
	const char *const *hosts; /* those, or the operands */
	uint32_t count, rank;
};

/* ---- printing ---- */

static bool is_reducing(const struct coll_test *t)
{
	return t->kind == COLL_ALL_REDUCE || t->kind == COLL_REDUCE_SCATTER;
}

static const char *op_text(const struct coll_test *t)
{
	return is_reducing(t) ? ops[t->op] : "none";
}

static void print_head(const struct coll_test *t, const struct world *w)
{
	if (cli.json)
		return;
	printf("# mroce collective %s: %u ranks, %llu iterations after %llu, %s\n", kinds[t->kind],
	       w->count, (unsigned long long)t->iterations, (unsigned long long)t->warmup,
	       t->options.max_missing ? "tolerant" : "reliable");
	for (uint32_t r = 0; r < w->count; r++)
		printf("#  rank %2u  %s\n", r, w->hosts[r]);
	printf("#\n#%11s %12s %9s %8s %9s %8s %8s %8s %11s %9s\n", "size", "count", "type", "redop",
	       "time", "algbw", "busbw", "#wrong", "missing", "error");
	printf("#%11s %12s %9s %8s %9s %8s %8s %8s %11s %9s\n", "(B)", "(elements)", "", "", "(us)",
	       "(GB/s)", "(GB/s)", "", "(B)", "");
	fflush(stdout);
}

static void print_line(const struct coll_test *t, const struct coll_result *r)
{
	char wrong[24] = "N/A", error[24] = "N/A";

	if (t->check) {
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)r->wrong);
		snprintf(error, sizeof(error), "%.2e", r->error);
	}
	printf("%12llu %12llu %9s %8s %9.1f %8.3f %8.3f %8s %11.0f %9s\n",
	       (unsigned long long)r->size, (unsigned long long)r->count, types[t->type],
	       op_text(t), r->time.avg, r->algbw, r->busbw, wrong, r->missing, error);
	fflush(stdout);
}

static json_t *line_json(const struct coll_test *t, const struct coll_result *r)
{
	json_t *o = json_pack("{s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:f}", "size",
			      (json_int_t)r->size, "count", (json_int_t)r->count, "type",
			      types[t->type], "redop", op_text(t), "time_us", r->time.avg,
			      "algbw_gbyte_per_s", r->algbw, "busbw_gbyte_per_s", r->busbw, "bytes",
			      r->bytes, "missing_bytes", r->missing);

	json_object_set_new(o, "time_min_us", json_real(r->time.min));
	json_object_set_new(o, "time_median_us", json_real(r->time.typical));
	json_object_set_new(o, "time_99_us", json_real(r->time.p99));
	json_object_set_new(o, "time_max_us", json_real(r->time.max));
	if (t->check) {
		json_object_set_new(o, "wrong", json_integer((json_int_t)r->wrong));
		json_object_set_new(o, "error", json_real(r->error));
	}
	return o;
}

static void print_json(const struct coll_test *t, const struct world *w, json_t *results)
{
	json_t *hosts = json_array();
	json_t *root;

	for (uint32_t i = 0; i < w->count; i++)
		json_array_append_new(hosts, json_string(w->hosts[i]));
	root = json_pack(
		"{s:s, s:o, s:I, s:I, s:I, s:I, s:b, s:b, s:s, s:O}", "collective", kinds[t->kind],
		"hosts", hosts, "iterations", (json_int_t)t->iterations, "warmup",
		(json_int_t)t->warmup, "max_missing", (json_int_t)t->options.max_missing,
		"deadline_us", (json_int_t)t->options.deadline_us, "same", opts.same, "hadamard",
		opts.hadamard, "algorithm", algorithms[t->options.algorithm], "results", results);
	json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(root);
}

/* ---- measuring ---- */

/* Reliable: nothing may be wrong. Tolerant: nothing that was there; a transform spreads what was not over all. */
static uint64_t unexplained(const struct coll_test *t, const struct coll_result *r)
{
	if (t->options.max_missing && opts.hadamard)
		return r->explained ? 0 : r->wrong;
	if (t->options.max_missing && r->wrong <= r->explained)
		return 0;
	return r->wrong;
}

static int measure_all(struct mroce_comm *comm, const struct coll_test *t, json_t *results,
		       uint64_t *wrong)
{
	for (uint64_t size = opts.min; size <= opts.max; size *= opts.factor) {
		struct coll_result r;
		int err = coll_measure(comm, t, size, &r);

		if (err)
			return err;
		*wrong += unexplained(t, &r);
		if (mroce_comm_rank(comm) == 0 && cli.json)
			json_array_append_new(results, line_json(t, &r));
		else if (mroce_comm_rank(comm) == 0)
			print_line(t, &r);
		if (!size)
			break;
	}
	return 0;
}

static int join(const struct world *w, struct mroce_comm **out)
{
	const struct mroce_comm_config config = { .socket = link_socket(),
						  .hosts = w->hosts,
						  .size = w->count,
						  .rank = w->rank,
						  .service = (uint32_t)opts.service,
						  .timeout_ms = (uint32_t)(opts.timeout * 1000),
						  .seed = opts.seed };
	char text[512];
	int err = mroce_comm_open(&config, out);

	if (!err)
		return 0;
	if (err == -ENOENT || err == -EACCES || err == -EPERM) {
		link_explain(err, text, sizeof(text));
		fail("%s", text);
	} else {
		fail("%s", mroce_comm_open_error());
	}
	return err;
}

static int run(const struct coll_test *t, const struct world *w)
{
	json_t *results = json_array();
	struct mroce_comm *comm;
	uint64_t wrong = 0;
	int err = join(w, &comm);

	if (!err) {
		if (w->rank == 0)
			print_head(t, w);
		err = measure_all(comm, t, results, &wrong);
		if (err)
			fail("%s: %s", kinds[t->kind], mroce_comm_last_error(comm));
		if (w->rank == 0 && cli.json)
			print_json(t, w, results);
		mroce_comm_close(&comm);
	}
	json_decref(results);
	if (wrong && w->rank == 0)
		fail("%llu elements are wrong", (unsigned long long)wrong);
	return err || wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- options ---- */

/* The index of a word in a list, -1 if it is not there. */
static int find(const char *const *list, const char *word)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(list[i], word))
			return i;
	return -1;
}

static int complete_test(const char *collective, struct coll_test *t)
{
	int kind = find(kinds, collective), type = find(types, opts.type), op = find(ops, opts.op),
	    algorithm = find(algorithms, opts.algorithm);

	if (kind < 0)
		return opt_misuse(
			&collective_table,
			"'%s': give all-reduce, reduce-scatter, all-gather, all-to-all or "
			"broadcast",
			collective);
	if (type < 0)
		return opt_misuse(&collective_table,
				  "--datatype '%s': give float32, float16, bfloat16 or int32",
				  opts.type);
	if (op < 0)
		return opt_misuse(&collective_table, "--op '%s': give sum, average or max", opts.op);
	if (algorithm < 0)
		return opt_misuse(&collective_table, "--algorithm '%s': give auto, direct or ring",
				  opts.algorithm);
	if (opts.deadline > 0 && !opts.max_missing)
		return opt_misuse(&collective_table, "--deadline goes with --max-missing only");
	*t = (struct coll_test){ .kind = (enum coll_kind)kind,
				 .type = (enum mroce_coll_type)type,
				 .op = (enum mroce_coll_op)op,
				 .root = (uint32_t)opts.root,
				 .iterations = opts.iterations,
				 .warmup = opts.warmup,
				 .check = !opts.no_check };
	t->options.max_missing = (uint32_t)opts.max_missing;
	t->options.deadline_us = (uint32_t)(opts.deadline * 1e6);
	t->options.flags = (opts.same ? MROCE_COLL_SAME : 0u) |
			   (opts.hadamard ? MROCE_COLL_HADAMARD : 0u);
	t->options.algorithm = (uint32_t)algorithm;
	return EXIT_SUCCESS;
}

static int find_rank(struct world *w)
{
	int err;

	if (opts.rank != UINT64_MAX) {
		w->rank = (uint32_t)opts.rank;
		if (opts.rank < w->count)
			return 0;
		return fail("--rank %u: there are %u hosts, so ranks 0 to %u", w->rank, w->count,
			    w->count - 1);
	}
	err = mroce_hosts_self(w->hosts, w->count, &w->rank);
	if (err == -ENOENT)
		return fail("none of the %u hosts has an address of this one: give its --rank",
			    w->count);
	if (err == -EEXIST)
		return fail("several of the hosts are addresses of this one: give its --rank");
	return err ? fail("looking for this host in the list: %s", strerror(-err)) : 0;
}

/* EXIT_USAGE or EXIT_FAILURE and said, or 0. */
static int find_world(int operands, char **argv, struct world *w)
{
	int err;

	if (opts.hosts_file && operands)
		return opt_misuse(&collective_table, "give HOSTs or --hosts FILE, not both");
	if (!opts.hosts_file && !operands)
		return opt_misuse(&collective_table, "needs HOSTs, or --hosts FILE");
	if (operands > MROCE_COMM_RANKS)
		return fail("%d hosts are too many: at most %d", operands, MROCE_COMM_RANKS);
	w->hosts = (const char *const *)argv;
	w->count = (uint32_t)operands;
	if (opts.hosts_file) {
		err = mroce_hosts_read(opts.hosts_file, &w->read, &w->count);
		if (err)
			return fail("%s: %s", opts.hosts_file,
				    err == -EINVAL ? "no hosts are in it" : strerror(-err));
		w->hosts = (const char *const *)w->read;
	}
	if (opts.root >= w->count)
		return fail("--root %llu: there are %u hosts, so ranks 0 to %u",
			    (unsigned long long)opts.root, w->count, w->count - 1);
	return find_rank(w);
}

int cmd_collective(int argc, char **argv)
{
	struct world w = { 0 };
	struct coll_test t;
	int first;
	int status;

	opts.min = 1u << 20;
	opts.max = opts.rank = UINT64_MAX;
	opts.factor = 2;
	opts.iterations = 20;
	opts.warmup = 5;
	opts.service = SERVICE_COLLECTIVE;
	opts.timeout = 30;
	opts.type = "float32";
	opts.op = "sum";
	opts.algorithm = "auto";
	switch (opt_parse(&collective_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (first == argc)
		return opt_misuse(&collective_table, "needs a COLLECTIVE");
	if (opts.max == UINT64_MAX)
		opts.max = opts.min;
	if (opts.max < opts.min)
		return opt_misuse(&collective_table,
				  "--maxbytes %llu is less than --minbytes %llu: no size is left",
				  (unsigned long long)opts.max, (unsigned long long)opts.min);
	status = complete_test(argv[first], &t);
	if (!status)
		status = find_world(argc - first - 1, argv + first + 1, &w);
	if (!status)
		status = run(&t, &w);
	mroce_hosts_free(&w.read, w.count);
	return status;
}
