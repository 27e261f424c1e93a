/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coll_peer: one rank of a communicator; compares what every collective gives with the exact result.
 *
 *	coll_peer SOCKET RANK check HOST...		all of them, all types, sizes, algorithms, memories
 *	coll_peer SOCKET RANK tolerant HOST...	what is missing is exactly what is said to be; says how much it was
 *	coll_peer SOCKET RANK loop HOST...		all-reduce again and again, until it fails: says why, status 3
 *	coll_peer SOCKET RANK disagree HOST...	rank 0 calls with another count: all have to see an error, status 3
 *	coll_peer SOCKET RANK late HOST...		as check of one size; the last rank starts late
 *	coll_peer SOCKET RANK strange HOST...		no rank at all: connects to rank 0 again and again and says nothing, or
 *							nonsense; stays until it is killed
 *
 * Values are small integers, so that sums are exact in every type and in any order. The line "loop runs" says that
 * the communicator stands.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "mroce.h"
#include "mroce_collective.h"

static struct mroce_comm *comm;
static uint32_t rank, size;
static unsigned long checked;

enum memory_kind { SHARED, PLAIN, INPLACE, KINDS };
static const char *const memory_name[KINDS] = { "shared", "plain", "in place" };
static const char *const type_name[] = { "float32", "float16", "bfloat16", "int32" };
static const char *const op_name[] = { "sum", "average", "max" };
static const char *const algorithm_name[] = { "auto", "direct", "ring" };

static void die(const char *what)
{
	fprintf(stderr, "rank %u: %s: %s\n", rank, what, mroce_comm_last_error(comm));
	exit(1);
}

/* ---- values ---- */

static int value(uint32_t r, size_t i)
{
	return (int)((i * 7 + r * 5 + i / 11) % 17) - 8;
}

static size_t unit(enum mroce_coll_type type)
{
	return type == MROCE_FLOAT32 || type == MROCE_INT32 ? 4 : 2;
}

static void put(enum mroce_coll_type type, void *at, size_t i, int v)
{
	float f = (float)v;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	switch (type) {
	case MROCE_FLOAT32: ((float *)at)[i] = f; break;
	case MROCE_FLOAT16: ((_Float16 *)at)[i] = (_Float16)f; break;
	case MROCE_BFLOAT16: ((uint16_t *)at)[i] = (uint16_t)(bits >> 16); break;
	case MROCE_INT32: ((int32_t *)at)[i] = v; break;
	}
}

static double get(enum mroce_coll_type type, const void *at, size_t i)
{
	uint32_t bits;
	float f;

	switch (type) {
	case MROCE_FLOAT32: return ((const float *)at)[i];
	case MROCE_FLOAT16: return (double)((const _Float16 *)at)[i];
	case MROCE_BFLOAT16:
		bits = (uint32_t)((const uint16_t *)at)[i] << 16;
		memcpy(&f, &bits, sizeof(f));
		return f;
	case MROCE_INT32: return ((const int32_t *)at)[i];
	}
	return 0;
}

static double reduced(enum mroce_coll_type type, enum mroce_coll_op op, size_t i)
{
	int sum = 0, max = value(0, i);

	for (uint32_t r = 0; r < size; r++) {
		int v = value(r, i);

		sum += v;
		max = v > max ? v : max;
	}
	if (op == MROCE_MAX)
		return max;
	if (op == MROCE_SUM)
		return sum;
	return type == MROCE_INT32 ? sum / (int)size : (double)sum / size;
}

/* ---- memory ---- */

/* A guard behind the end finds what writes too much. */
#define GUARD 64

static uint8_t *memory(enum memory_kind kind, size_t bytes)
{
	void *at = NULL;

	if (kind == PLAIN)
		at = malloc(bytes + GUARD);
	else if (mroce_comm_alloc(comm, bytes + GUARD, &at))
		die("alloc");
	if (!at)
		die("malloc");
	memset((uint8_t *)at, 0xa5, bytes + GUARD);
	return at;
}

static void check_guard(const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < GUARD; i++) {
		if (at[bytes + i] == 0xa5)
			continue;
		fprintf(stderr, "rank %u: byte %zu behind a buffer of %zu was written\n", rank, i,
			bytes);
		exit(1);
	}
}

static void release(enum memory_kind kind, uint8_t *at)
{
	void *p = at;

	if (kind == PLAIN)
		free(at);
	else
		mroce_comm_free(comm, &p);
}

/* ---- collectives ---- */

struct test {
	enum mroce_coll_type type;
	enum mroce_coll_op op;
	enum mroce_coll_algorithm algorithm;
	enum memory_kind kind;
	size_t count;
	const char *what;
};

static void wrong(const struct test *t, size_t i, double got, double want)
{
	fprintf(stderr,
		"rank %u: %s of %zu %s, %s, %s, %s memory: element %zu is %g instead of %g\n", rank,
		t->what, t->count, type_name[t->type], op_name[t->op], algorithm_name[t->algorithm],
		memory_name[t->kind], i, got, want);
	exit(1);
}

static void expect(const struct test *t, const uint8_t *at, size_t i, double want)
{
	double got = get(t->type, at, i);

	if (got != want)
		wrong(t, i, got, want);
}

static void failed(const struct test *t, int err)
{
	fprintf(stderr, "rank %u: %s of %zu %s, %s, %s, %s memory: %s (%s)\n", rank, t->what,
		t->count, type_name[t->type], op_name[t->op], algorithm_name[t->algorithm],
		memory_name[t->kind], strerror(-err), mroce_comm_last_error(comm));
	exit(1);
}

static void all_reduce(struct test *t)
{
	const struct mroce_coll_options o = { .algorithm = t->algorithm };
	size_t bytes = t->count * unit(t->type);
	uint8_t *in = memory(t->kind, bytes);
	uint8_t *out = t->kind == INPLACE ? in : memory(t->kind, bytes);
	int err;

	t->what = "all-reduce";
	for (size_t i = 0; i < t->count; i++)
		put(t->type, in, i, value(rank, i));
	err = mroce_all_reduce(comm, in, out, t->count, t->type, t->op, &o);
	if (err)
		failed(t, err);
	for (size_t i = 0; i < t->count; i++)
		expect(t, out, i, reduced(t->type, t->op, i));
	for (size_t i = 0; i < t->count && in != out; i++)
		expect(t, in, i, value(rank, i));
	check_guard(out, bytes);
	check_guard(in, bytes);
	release(t->kind, in);
	if (out != in)
		release(t->kind, out);
	checked++;
}

static void reduce_scatter(struct test *t)
{
	const struct mroce_coll_options o = { .algorithm = t->algorithm };
	size_t bytes = t->count * unit(t->type);
	uint8_t *in = memory(t->kind, size * bytes);
	uint8_t *out = memory(t->kind, bytes);
	int err;

	t->what = "reduce-scatter";
	for (size_t i = 0; i < size * t->count; i++)
		put(t->type, in, i, value(rank, i));
	err = mroce_reduce_scatter(comm, in, out, t->count, t->type, t->op, &o);
	if (err)
		failed(t, err);
	for (size_t i = 0; i < t->count; i++)
		expect(t, out, i, reduced(t->type, t->op, rank * t->count + i));
	check_guard(out, bytes);
	release(t->kind, in);
	release(t->kind, out);
	checked++;
}

static void all_gather(struct test *t)
{
	const struct mroce_coll_options o = { .algorithm = t->algorithm };
	size_t bytes = t->count * unit(t->type);
	uint8_t *out = memory(t->kind, size * bytes);
	uint8_t *in = t->kind == INPLACE ? out + rank * bytes : memory(t->kind, bytes);
	int err;

	t->what = "all-gather";
	for (size_t i = 0; i < t->count; i++)
		put(t->type, in, i, value(rank, i));
	err = mroce_all_gather(comm, in, out, t->count, t->type, &o);
	if (err)
		failed(t, err);
	for (size_t i = 0; i < size * t->count; i++)
		expect(t, out, i, value((uint32_t)(i / t->count), i % t->count));
	check_guard(out, size * bytes);
	if (t->kind != INPLACE)
		release(t->kind, in);
	release(t->kind, out);
	checked++;
}

static void all_to_all(struct test *t)
{
	size_t bytes = size * t->count * unit(t->type);
	uint8_t *in = memory(t->kind, bytes), *out = memory(t->kind, bytes);
	int err;

	t->what = "all-to-all";
	for (size_t i = 0; i < size * t->count; i++)
		put(t->type, in, i, value(rank, i));
	err = mroce_all_to_all(comm, in, out, t->count, t->type, NULL);
	if (err)
		failed(t, err);
	for (size_t i = 0; i < size * t->count; i++)
		expect(t, out, i, value((uint32_t)(i / t->count), rank * t->count + i % t->count));
	check_guard(out, bytes);
	release(t->kind, in);
	release(t->kind, out);
	checked++;
}

static void broadcast(struct test *t)
{
	const struct mroce_coll_options o = { .algorithm = t->algorithm };
	size_t bytes = t->count * unit(t->type);
	uint32_t root = (uint32_t)(t->count % size);
	uint8_t *at = memory(t->kind, bytes);
	int err;

	t->what = "broadcast";
	for (size_t i = 0; i < t->count; i++)
		put(t->type, at, i, value(rank, i));
	err = mroce_broadcast(comm, at, t->count, t->type, root, &o);
	if (err)
		failed(t, err);
	for (size_t i = 0; i < t->count; i++)
		expect(t, at, i, value(root, i));
	check_guard(at, bytes);
	release(t->kind, at);
	checked++;
}

static void every_collective(struct test *t)
{
	for (t->op = MROCE_SUM; t->op <= MROCE_MAX; t->op++) {
		all_reduce(t);
		if (t->kind != INPLACE)
			reduce_scatter(t);
	}
	t->op = MROCE_SUM;
	all_gather(t);
	broadcast(t);
	if (t->algorithm == MROCE_COLL_AUTO && t->kind != INPLACE)
		all_to_all(t);
	if (mroce_barrier(comm))
		die("barrier");
	checked++;
}

static void check_all(void)
{
	static const size_t counts[] = { 0, 1, 2, 3, 7, 1009, 4096 };
	struct test t = { 0 };

	for (t.type = MROCE_FLOAT32; t.type <= MROCE_INT32; t.type++) {
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			t.count = counts[i];
			t.algorithm = (enum mroce_coll_algorithm)(i % 3);
			t.kind = (enum memory_kind)((i + t.type) % KINDS);
			every_collective(&t);
		}
		/* Long enough for several slices. */
		t.count = 100003;
		t.kind = (enum memory_kind)(t.type % KINDS);
		for (t.algorithm = MROCE_COLL_AUTO; t.algorithm <= MROCE_COLL_RING; t.algorithm++)
			every_collective(&t);
	}
}

/* ---- with tolerance ---- */

#define TOLERANT_PPM 50000
#define TOLERANT_COUNT 400000 /* float32: hundreds of packets to each rank */
#define GAPS_MOST 100000

static uint64_t missing_bytes;
static struct mroce_coll_gap gaps[GAPS_MOST];
static uint32_t ngaps;

/* Takes the account of the last operation; the list has to agree with it. */
static void take_account(const char *what)
{
	struct mroce_coll_account account;
	uint64_t listed = 0;

	mroce_comm_account(comm, &account);
	ngaps = mroce_comm_missing(comm, gaps, GAPS_MOST);
	for (uint32_t i = 0; i < ngaps && i < GAPS_MOST; i++)
		listed += gaps[i].count * sizeof(float);
	if (ngaps > GAPS_MOST || listed != account.missing ||
	    account.missing > account.bytes / 1000000.0 * TOLERANT_PPM) {
		fprintf(stderr, "rank %u: %s: %llu of %llu bytes missing, %llu listed\n", rank,
			what, (unsigned long long)account.missing,
			(unsigned long long)account.bytes, (unsigned long long)listed);
		exit(1);
	}
	missing_bytes += account.missing;
	checked++;
}

/* For each element a bit for each rank whose contribution it lacks. */
static uint32_t *lacks(size_t count)
{
	uint32_t *map = calloc(count, sizeof(*map));

	if (!map)
		die("calloc");
	for (uint32_t i = 0; i < ngaps; i++)
		for (uint64_t k = 0; k < gaps[i].count; k++)
			map[gaps[i].first + k] |= 1u << gaps[i].rank;
	return map;
}

static void must_be(const char *what, size_t i, float got, float want, float margin)
{
	if (got >= want - margin && got <= want + margin)
		return;
	fprintf(stderr, "rank %u: tolerant %s: element %zu is %g instead of %g\n", rank, what, i,
		(double)got, (double)want);
	exit(1);
}

static float made_of(enum mroce_coll_op op, size_t i, uint32_t lack)
{
	int sum = 0, n = 0, max = -1000;

	for (uint32_t r = 0; r < size; r++) {
		if (lack & 1u << r)
			continue;
		sum += value(r, i);
		max = value(r, i) > max ? value(r, i) : max;
		n++;
	}
	return op == MROCE_MAX ? (float)max : op == MROCE_SUM ? (float)sum : (float)sum / (float)n;
}

static void tolerant_scatter(enum mroce_coll_op op, const struct mroce_coll_options *o, float *in,
			     float *out)
{
	size_t count = TOLERANT_COUNT / size;
	uint32_t *lack;

	for (size_t i = 0; i < count * size; i++)
		in[i] = (float)value(rank, i);
	if (mroce_reduce_scatter(comm, in, out, count, MROCE_FLOAT32, op, o))
		die("tolerant reduce-scatter");
	take_account("reduce-scatter");
	lack = lacks(count);
	for (size_t i = 0; i < count; i++)
		must_be("reduce-scatter", i, out[i], made_of(op, rank * count + i, lack[i]), 0);
	free(lack);
}

/* A mean of equals is the same whatever is missing. */
static void tolerant_mean(const struct mroce_coll_options *o, float *in, float *out, float margin)
{
	for (size_t i = 0; i < TOLERANT_COUNT; i++)
		in[i] = (float)value(0, i);
	if (mroce_all_reduce(comm, in, out, TOLERANT_COUNT, MROCE_FLOAT32, MROCE_AVERAGE, o))
		die("tolerant all-reduce");
	if (!(o->flags & MROCE_COLL_HADAMARD))
		take_account("all-reduce");
	for (size_t i = 0; i < TOLERANT_COUNT; i++)
		must_be("all-reduce", i, out[i], (float)value(0, i), margin);
}

static void tolerant_same(const struct mroce_coll_options *plain, float *in, float *out)
{
	struct mroce_coll_options o = *plain;
	int32_t sum = 0, all[64];

	o.flags |= MROCE_COLL_SAME;
	for (size_t i = 0; i < TOLERANT_COUNT; i++)
		in[i] = (float)value(rank, i);
	if (mroce_all_reduce(comm, in, out, TOLERANT_COUNT, MROCE_FLOAT32, MROCE_SUM, &o))
		die("all-reduce of the same");
	take_account("all-reduce of the same");
	for (size_t i = 0; i < TOLERANT_COUNT; i++)
		sum = (int32_t)((uint32_t)sum * 31 + (uint32_t)(int32_t)out[i]);
	if (mroce_all_gather(comm, &sum, all, 1, MROCE_INT32, NULL))
		die("all-gather");
	for (uint32_t r = 0; r < size; r++)
		must_be("checksum", r, (float)(all[r] == sum), 1, 0);
}

/* What is missing reads as zero, the rest is right. */
static void tolerant_moves(const struct mroce_coll_options *o, float *in, float *out)
{
	size_t count = TOLERANT_COUNT / size;
	uint32_t *lack;

	for (size_t i = 0; i < count * size; i++)
		in[i] = (float)value(rank, i) + 100;
	if (mroce_all_to_all(comm, in, out, count, MROCE_FLOAT32, o))
		die("tolerant all-to-all");
	take_account("all-to-all");
	lack = lacks(count * size);
	for (size_t i = 0; i < count * size; i++) {
		uint32_t r = (uint32_t)(i / count);

		must_be("all-to-all", i, out[i],
			lack[i] ? 0 : (float)value(r, rank * count + i % count) + 100, 0);
	}
	free(lack);
	if (mroce_all_gather(comm, in, out, count, MROCE_FLOAT32, o))
		die("tolerant all-gather");
	take_account("all-gather");
	lack = lacks(count * size);
	for (size_t i = 0; i < count * size; i++)
		must_be("all-gather", i, out[i],
			lack[i] ? 0 : (float)value((uint32_t)(i / count), i % count) + 100, 0);
	free(lack);
	memcpy(out, in, count * size * sizeof(*out));
	if (mroce_broadcast(comm, out, TOLERANT_COUNT / size * size, MROCE_FLOAT32, 1, o))
		die("tolerant broadcast");
	take_account("broadcast");
	lack = lacks(count * size);
	for (size_t i = 0; i < count * size; i++)
		must_be("broadcast", i, out[i], lack[i] ? 0 : (float)value(1, i) + 100, 0);
	free(lack);
}

static void check_tolerant(void)
{
	struct mroce_coll_options o = { .max_missing = TOLERANT_PPM };
	float *in = (float *)memory(SHARED, TOLERANT_COUNT * sizeof(float));
	float *out = (float *)memory(SHARED, TOLERANT_COUNT * sizeof(float));
	float *plain = (float *)memory(PLAIN, TOLERANT_COUNT * sizeof(float));

	for (int round = 0; round < 3; round++) {
		o.deadline_us = round ? 20000 : 0;
		for (enum mroce_coll_op op = MROCE_SUM; op <= MROCE_MAX; op++)
			tolerant_scatter(op, &o, in, out);
		tolerant_mean(&o, in, out, 0);
		tolerant_mean(&o, in, in, 0);
		tolerant_mean(&o, plain, plain, 0);
		o.flags = MROCE_COLL_HADAMARD;
		tolerant_mean(&o, in, out, 1e-4f);
		o.flags = 0;
		tolerant_same(&o, in, out);
		tolerant_moves(&o, in, plain);
		/* Reliable ones beside them stay so. */
		every_collective(&(struct test){ .count = 20011, .kind = SHARED });
	}
	printf("rank %u: missing %llu bytes\n", rank, (unsigned long long)missing_bytes);
}

/* ---- what has to fail ---- */

static void refused(const char *what, int err)
{
	if (err == -EINVAL)
		return;
	fprintf(stderr, "rank %u: %s: %d instead of EINVAL\n", rank, what, err);
	exit(1);
}

/* Nonsense is refused before anybody is asked, and nothing is broken by it. */
static void check_misuse(void)
{
	const struct mroce_coll_options odd[] = {
		{ .max_missing = 1000001 },
		{ .flags = 4 },
		{ .algorithm = 3 },
		{ .algorithm = MROCE_COLL_RING, .max_missing = 1 },
		{ .flags = MROCE_COLL_HADAMARD },
	};
	int32_t x[4] = { 0 }, y[4];

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		refused("options", mroce_all_reduce(comm, x, y, 1, MROCE_INT32, MROCE_SUM, &odd[i]));
	refused("type", mroce_all_reduce(comm, x, y, 1, (enum mroce_coll_type)4, MROCE_SUM, NULL));
	refused("op", mroce_all_reduce(comm, x, y, 1, MROCE_INT32, (enum mroce_coll_op)3, NULL));
	refused("NULL", mroce_all_reduce(comm, NULL, y, 1, MROCE_INT32, MROCE_SUM, NULL));
	refused("NULL to gather", mroce_all_gather(comm, NULL, y, 1, MROCE_INT32, NULL));
	refused("alignment",
		mroce_all_reduce(comm, (char *)x + 1, y, 1, MROCE_INT32, MROCE_SUM, NULL));
	refused("root", mroce_broadcast(comm, x, 1, MROCE_INT32, size, NULL));
	refused("count", mroce_all_gather(comm, x, y, SIZE_MAX / 2, MROCE_INT32, NULL));
	refused("one buffer", mroce_all_to_all(comm, x, x, 1, MROCE_INT32, NULL));
}

static int ends_with_error(int err)
{
	printf("rank %u: %s: %s\n", rank, strerror(-err), mroce_comm_last_error(comm));
	/* Whatever follows fails as well, at once. */
	if (mroce_barrier(comm) != err)
		return 1;
	return 3;
}

static int loop(size_t count)
{
	float *x = (float *)memory(SHARED, count * sizeof(*x));
	unsigned long rounds = 0;
	int err;

	do {
		err = mroce_all_reduce(comm, x, x, count, MROCE_FLOAT32, MROCE_MAX, NULL);
		if (!err && ++rounds == 3) {
			puts("loop runs");
			fflush(stdout);
		}
	} while (!err);
	return ends_with_error(err);
}

static int disagree(void)
{
	float x[200] = { 0 };
	int err = mroce_all_reduce(comm, x, x, rank ? 100 : 200, MROCE_FLOAT32, MROCE_SUM, NULL);

	/* Who got all that it wanted sees it next time. */
	if (!err)
		err = mroce_barrier(comm);
	return err ? ends_with_error(err) : 1;
}

/* ---- strangers ---- */

static int strange(const struct mroce_comm_config *config)
{
	const struct timespec moment = { .tv_nsec = 10000000 };
	uint32_t wanted = 3 * config->size;
	struct mroce_mr *nonsense;
	struct mroce *m;

	if (mroce_open(config->socket, &m) || mroce_alloc(m, 32, MROCE_ACCESS_LOCAL, &nonsense))
		return 1;
	memset(mroce_mr_addr(nonsense), 0x5a, 32);
	while (wanted) {
		struct mroce_conn *conn;
		int err = mroce_connect(m, config->hosts[0], MROCE_COMM_SERVICE, 5000, &conn);

		if (err && err != -EBUSY && err != -ECONNREFUSED)
			return 1;
		if (!err && --wanted % 2)
			err = mroce_post_send(conn, 0, nonsense, 0, 32, 0);
		if (err)
			nanosleep(&moment, NULL);
	}
	puts("strangers are there");
	fflush(stdout);
	pause();
	return 1;
}

int main(int argc, char **argv)
{
	struct mroce_comm_config config = { .timeout_ms = 20000 };
	int status = 0;
	int err;

	if (argc < 5)
		return 2;
	config.socket = argv[1];
	config.rank = rank = (uint32_t)atoi(argv[2]);
	config.hosts = (const char *const *)argv + 4;
	config.size = size = (uint32_t)(argc - 4);
	if (!strcmp(argv[3], "strange"))
		return strange(&config);
	if (!strcmp(argv[3], "late") && rank == size - 1)
		sleep(2);
	err = mroce_comm_open(&config, &comm);
	if (err) {
		printf("rank %u: open: %s: %s\n", rank, strerror(-err), mroce_comm_open_error());
		/* Who is quick may have failed and gone before the last one was there. */
		return strcmp(argv[3], "disagree") ? 4 : 3;
	}
	if (!strcmp(argv[3], "loop"))
		status = loop(1u << 20);
	else if (!strcmp(argv[3], "disagree"))
		status = disagree();
	else if (!strcmp(argv[3], "late"))
		every_collective(&(struct test){ .count = 1000 });
	else if (!strcmp(argv[3], "tolerant"))
		check_tolerant();
	else {
		check_misuse();
		check_all();
	}
	mroce_comm_close(&comm);
	if (!status)
		printf("rank %u: %lu results right\n", rank, checked);
	return status;
}
