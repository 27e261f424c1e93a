// SPDX-License-Identifier: BSD-2-Clause
/* collective_run.c: measures one collective with one size, and compares it with the exact result. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "collective.h"
#include "collective/reduce.h"

#define BLOCK 1024

struct run {
	struct mroce_comm *comm;
	const struct coll_test *t;
	uint32_t rank, ranks;
	size_t unit, count;	    /* bytes of an element; the operation's count */
	size_t in_count, out_count; /* elements */
	void *in, *out;
	float *times; /* us */
};

/* What each rank tells the others at the end, as 32-bit words. */
struct report {
	uint64_t wrong, bytes, missing, missing_last;
	double error2, exact2;
};

/* ---- values ---- */

/* -1000 .. 1000; floats are thousandths of it, rounded to the type. */
static int32_t drawn(uint32_t rank, uint64_t i)
{
	uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull + rank * 0xd1b54a32d192ed03ull;

	z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9ull;
	z ^= z >> 29;
	return (int32_t)(z % 2001) - 1000;
}

static void store(const struct run *r, void *at, uint32_t rank, uint64_t first, size_t n)
{
	float block[BLOCK];

	for (size_t i = 0; i < n; i++) {
		int32_t v = drawn(rank, first + i);

		if (r->t->type == MROCE_INT32)
			((int32_t *)at)[i] = v;
		else
			block[i] = (float)v / 1000;
	}
	if (r->t->type != MROCE_INT32)
		reduce_narrow(r->t->type, at, block, n);
}

static void fill(const struct run *r, void *at, size_t count)
{
	for (size_t i = 0; i < count; i += BLOCK)
		store(r, (char *)at + i * r->unit, r->rank, i,
		      count - i < BLOCK ? count - i : BLOCK);
}

static void load(const struct run *r, const void *at, double *out, size_t n)
{
	float block[BLOCK];

	if (r->t->type != MROCE_INT32)
		reduce_widen(r->t->type, block, at, n);
	for (size_t i = 0; i < n; i++)
		out[i] = r->t->type == MROCE_INT32 ? ((const int32_t *)at)[i] : block[i];
}

/* What rank `rank` contributed, from its element `first` on. */
static void contributed(const struct run *r, uint32_t rank, uint64_t first, double *out, size_t n)
{
	uint32_t block[BLOCK];

	store(r, block, rank, first, n);
	load(r, block, out, n);
}

/* ---- exact results ---- */

static void reduced(const struct run *r, uint64_t first, double *out, size_t n)
{
	double x[BLOCK];

	contributed(r, 0, first, out, n);
	for (uint32_t k = 1; k < r->ranks; k++) {
		contributed(r, k, first, x, n);
		for (size_t i = 0; i < n; i++)
			out[i] = r->t->op == MROCE_MAX ? fmax(out[i], x[i]) : out[i] + x[i];
	}
	for (size_t i = 0; i < n && r->t->op == MROCE_AVERAGE; i++) {
		out[i] /= r->ranks;
		if (r->t->type == MROCE_INT32)
			out[i] = trunc(out[i]);
	}
}

/* Elements of the result from `first` on; they must belong to one rank's share. */
static void exact(const struct run *r, uint64_t first, double *out, size_t n)
{
	uint32_t from = (uint32_t)(first / (r->count ? r->count : 1));

	switch (r->t->kind) {
	case COLL_ALL_REDUCE: reduced(r, first, out, n); return;
	case COLL_REDUCE_SCATTER: reduced(r, r->rank * r->count + first, out, n); return;
	case COLL_ALL_GATHER: contributed(r, from, first - from * r->count, out, n); return;
	case COLL_ALL_TO_ALL:
		contributed(r, from, r->rank * r->count + first - from * r->count, out, n);
		return;
	case COLL_BROADCAST: contributed(r, r->t->root, first, out, n); return;
	}
}

/* What rounding can do to an element: half a unit in the last place of each partial sum. */
static double rounding(const struct run *r)
{
	const bool reduces = r->t->kind == COLL_ALL_REDUCE || r->t->kind == COLL_REDUCE_SCATTER;
	double steps = r->ranks + (r->t->options.flags & MROCE_COLL_HADAMARD ? 64 : 0);

	if (!reduces || (r->t->op == MROCE_MAX))
		return 0;
	switch (r->t->type) {
	case MROCE_FLOAT32: return steps * r->ranks * 0x1p-24;
	case MROCE_FLOAT16: return steps * r->ranks * 0x1p-11;
	case MROCE_BFLOAT16: return steps * r->ranks * 0x1p-8;
	case MROCE_INT32: return 0;
	}
	return 0;
}

static void check(const struct run *r, struct report *report)
{
	size_t share = r->t->kind == COLL_ALL_GATHER || r->t->kind == COLL_ALL_TO_ALL ? r->count
										      : r->out_count;
	double allowed = rounding(r), want[BLOCK], got[BLOCK];

	for (size_t i = 0, n; i < r->out_count; i += n) {
		n = share - i % share < BLOCK ? share - i % share : BLOCK;
		exact(r, i, want, n);
		load(r, (char *)r->out + i * r->unit, got, n);
		for (size_t k = 0; k < n; k++) {
			double off = got[k] - want[k];

			report->wrong += !(fabs(off) <= allowed);
			report->error2 += off * off;
			report->exact2 += want[k] * want[k];
		}
	}
}

/* ---- running ---- */

static int once(struct run *r)
{
	const struct coll_test *t = r->t;
	const struct mroce_coll_options *o = &t->options;

	switch (t->kind) {
	case COLL_ALL_REDUCE:
		return mroce_all_reduce(r->comm, r->in, r->out, r->count, t->type, t->op, o);
	case COLL_REDUCE_SCATTER:
		return mroce_reduce_scatter(r->comm, r->in, r->out, r->count, t->type, t->op, o);
	case COLL_ALL_GATHER: return mroce_all_gather(r->comm, r->in, r->out, r->count, t->type, o);
	case COLL_ALL_TO_ALL: return mroce_all_to_all(r->comm, r->in, r->out, r->count, t->type, o);
	case COLL_BROADCAST: return mroce_broadcast(r->comm, r->out, r->count, t->type, t->root, o);
	}
	return -EINVAL;
}

/*
 * All operations of a size have the same result, so the last one, which is checked, must not find that of the one
 * before. Nobody may begin to write into `out` while it is cleared.
 */
static int forget_result(struct run *r)
{
	if (r->t->kind != COLL_BROADCAST || r->rank != r->t->root)
		memset(r->out, 0x7f, r->out_count * r->unit);
	return mroce_barrier(r->comm);
}

static int iterate(struct run *r, struct report *report)
{
	struct mroce_coll_account account = { 0 };
	int err = 0;

	for (uint64_t i = 0; i < r->t->warmup && !err; i++)
		err = once(r);
	if (!err)
		err = mroce_barrier(r->comm);
	for (uint64_t i = 0; i < r->t->iterations && !err; i++) {
		uint64_t start;

		if (r->t->check && i + 1 == r->t->iterations)
			err = forget_result(r);
		if (err)
			break;
		start = clock_ns();
		err = once(r);
		r->times[i] = (float)(clock_ns() - start) / 1000;
		mroce_comm_account(r->comm, &account);
		report->bytes += account.bytes;
		report->missing += account.missing;
	}
	report->missing_last = account.missing;
	return err;
}

/* ---- results ---- */

static int share_reports(struct run *r, const struct report *own, struct report *sum)
{
	struct report *all = calloc(r->ranks, sizeof(*all));
	int err;

	if (!all)
		return -ENOMEM;
	err = mroce_all_gather(r->comm, own, all, sizeof(*own) / sizeof(int32_t), MROCE_INT32, NULL);
	for (uint32_t k = 0; k < r->ranks && !err; k++) {
		sum->wrong += all[k].wrong;
		sum->bytes += all[k].bytes;
		sum->missing += all[k].missing;
		sum->missing_last += all[k].missing_last;
		sum->error2 += all[k].error2;
		sum->exact2 += all[k].exact2;
	}
	free(all);
	return err;
}

static int share_times(struct run *r, struct samples_summary *out)
{
	struct samples s = { 0 };
	int err = mroce_all_reduce(r->comm, r->times, r->times, r->t->iterations, MROCE_FLOAT32,
				   MROCE_MAX, NULL);

	for (uint64_t i = 0; i < r->t->iterations && !err; i++)
		err = samples_add(&s, r->times[i]);
	if (!err)
		samples_summarise(&s, out);
	samples_free(&s);
	return err;
}

static double bus_factor(const struct run *r)
{
	double n = r->ranks;

	switch (r->t->kind) {
	case COLL_ALL_REDUCE: return 2 * (n - 1) / n;
	case COLL_REDUCE_SCATTER:
	case COLL_ALL_GATHER:
	case COLL_ALL_TO_ALL: return (n - 1) / n;
	case COLL_BROADCAST: return 1;
	}
	return 1;
}

static int conclude(struct run *r, const struct report *own, struct coll_result *out)
{
	struct report sum = { 0 };
	int err = share_reports(r, own, &sum);

	if (!err)
		err = share_times(r, &out->time);
	if (err)
		return err;
	out->algbw = out->time.avg > 0 ? (double)out->size / out->time.avg / 1e3 : 0;
	out->busbw = out->algbw * bus_factor(r);
	out->wrong = sum.wrong;
	/* What one rank lacks of a contribution is wrong at all ranks. */
	out->explained = (sum.missing_last + r->unit - 1) / r->unit * r->ranks;
	out->error = sum.exact2 > 0 ? sqrt(sum.error2 / sum.exact2) : sum.error2 > 0;
	out->bytes = (double)sum.bytes / (double)r->t->iterations;
	out->missing = (double)sum.missing / (double)r->t->iterations;
	return 0;
}

/* ---- one size ---- */

static void shape(struct run *r, uint64_t size)
{
	size_t elements = size / r->unit;

	switch (r->t->kind) {
	case COLL_ALL_REDUCE: r->count = r->in_count = r->out_count = elements; return;
	case COLL_REDUCE_SCATTER:
		r->count = r->out_count = elements / r->ranks;
		r->in_count = r->count * r->ranks;
		return;
	case COLL_ALL_GATHER:
		r->count = r->in_count = elements / r->ranks;
		r->out_count = r->count * r->ranks;
		return;
	case COLL_ALL_TO_ALL:
		r->count = elements / r->ranks;
		r->in_count = r->out_count = r->count * r->ranks;
		return;
	case COLL_BROADCAST: r->count = r->out_count = elements; return;
	}
}

static int prepare(struct run *r)
{
	int err = mroce_comm_alloc(r->comm, r->in_count * r->unit + 1, &r->in);

	if (!err)
		err = mroce_comm_alloc(r->comm, r->out_count * r->unit + 1, &r->out);
	if (err)
		return err;
	r->times = calloc(r->t->iterations, sizeof(*r->times));
	if (!r->times)
		return -ENOMEM;
	fill(r, r->in, r->in_count);
	if (r->t->kind == COLL_BROADCAST && r->rank == r->t->root)
		fill(r, r->out, r->out_count);
	return 0;
}

int coll_measure(struct mroce_comm *comm, const struct coll_test *t, uint64_t size,
		 struct coll_result *out)
{
	struct run r = { .comm = comm,
			 .t = t,
			 .rank = mroce_comm_rank(comm),
			 .ranks = mroce_comm_size(comm),
			 .unit = type_size(t->type) };
	struct report report = { 0 };
	int err;

	memset(out, 0, sizeof(*out));
	shape(&r, size);
	out->count = r.count;
	out->size = (r.in_count > r.out_count ? r.in_count : r.out_count) * r.unit;
	err = prepare(&r);
	if (!err)
		err = iterate(&r, &report);
	if (!err && t->check)
		check(&r, &report);
	if (!err)
		err = conclude(&r, &report, out);
	mroce_comm_free(comm, &r.in);
	mroce_comm_free(comm, &r.out);
	free(r.times);
	return err;
}
