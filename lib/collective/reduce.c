/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reduce.c: many arrays into one, a block at a time: a block of sums stays in the first-level cache while
 * the contributions are read once. Blocks in which nothing is missing need no counting.
 */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "collective/half.h"
#include "collective/reduce.h"
#include "collective/vector.h"

#define BLOCK 1024 /* elements */

/* Sums: floats of all kinds as float32, integers as they are. */
union sums {
	float f[BLOCK];
	int32_t i[BLOCK];
};

size_t type_size(enum mroce_coll_type type)
{
	switch (type) {
	case MROCE_FLOAT32:
	case MROCE_INT32: return 4;
	case MROCE_FLOAT16:
	case MROCE_BFLOAT16: return 2;
	}
	return 0;
}

/* ---- loops ---- */

static VECTORISED void add_float(float *restrict acc, const float *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		acc[i] += x[i];
}

/* Selections and not fmaxf(), which would lose NaNs. */
static VECTORISED void max_float(float *restrict acc, const float *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float a = acc[i], b = x[i];
		float larger = b > a ? b : a;

		acc[i] = b != b ? b : larger;
	}
}

static VECTORISED void add_int(int32_t *restrict acc, const int32_t *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)x[i]);
}

static VECTORISED void max_int(int32_t *restrict acc, const int32_t *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		acc[i] = x[i] > acc[i] ? x[i] : acc[i];
}

static VECTORISED void divide_float(float *acc, size_t n, float by)
{
	for (size_t i = 0; i < n; i++)
		acc[i] /= by;
}

/* Exact, for the quotient of two 32-bit integers is never nearer to another integer than a double can tell. */
static VECTORISED void divide_int(int32_t *acc, size_t n, double by)
{
	for (size_t i = 0; i < n; i++)
		acc[i] = (int32_t)(acc[i] / by);
}

/* ---- types ---- */

void reduce_widen(enum mroce_coll_type type, float *out, const void *in, size_t count)
{
	switch (type) {
	case MROCE_FLOAT16: half_widen(out, in, count); return;
	case MROCE_BFLOAT16: bfloat_widen(out, in, count); return;
	case MROCE_FLOAT32:
	case MROCE_INT32: memcpy(out, in, count * sizeof(*out)); return;
	}
	memset(out, 0, count * sizeof(*out));
}

void reduce_narrow(enum mroce_coll_type type, void *out, const float *in, size_t count)
{
	switch (type) {
	case MROCE_FLOAT16: half_narrow(out, in, count); return;
	case MROCE_BFLOAT16: bfloat_narrow(out, in, count); return;
	case MROCE_FLOAT32:
	case MROCE_INT32: memcpy(out, in, count * sizeof(*in)); return;
	}
}

static bool is_wide(enum mroce_coll_type type)
{
	return type_size(type) == 4;
}

/* Where the elements lie as sums do: in place if they are that wide, else in `room`. */
static const union sums *as_sums(enum mroce_coll_type type, const void *x, size_t n,
				 union sums *room)
{
	if (is_wide(type))
		return x;
	reduce_widen(type, room->f, x, n);
	return room;
}

static void combine(enum mroce_coll_type type, enum mroce_coll_op op, union sums *acc, size_t at,
		    const union sums *x, size_t n)
{
	if (type == MROCE_INT32 && op == MROCE_MAX)
		max_int(acc->i + at, x->i, n);
	else if (type == MROCE_INT32)
		add_int(acc->i + at, x->i, n);
	else if (op == MROCE_MAX)
		max_float(acc->f + at, x->f, n);
	else
		add_float(acc->f + at, x->f, n);
}

static void divide(enum mroce_coll_type type, union sums *acc, size_t n, uint32_t by)
{
	if (type == MROCE_INT32)
		divide_int(acc->i, n, by);
	else
		divide_float(acc->f, n, (float)by);
}

/* ---- a block in which nothing is missing ---- */

static const void *element(enum mroce_coll_type type, const void *data, size_t i)
{
	return (const char *)data + i * type_size(type);
}

static void whole_block(enum mroce_coll_type type, enum mroce_coll_op op, union sums *acc,
			const struct contribution *from, uint32_t n, size_t at, size_t count)
{
	union sums room;

	reduce_widen(type, acc->f, element(type, from[0].data, at), count);
	for (uint32_t i = 1; i < n; i++) {
		const void *x = element(type, from[i].data, at);

		combine(type, op, acc, 0, as_sums(type, x, count, &room), count);
	}
	if (op == MROCE_AVERAGE)
		divide(type, acc, count, n);
}

/* ---- a block with holes ---- */

struct block {
	union sums sums;
	uint16_t counts[BLOCK];
};

/* What to begin with, so that the first contribution gives itself. */
static void clear(enum mroce_coll_type type, enum mroce_coll_op op, struct block *b, size_t count)
{
	memset(b->counts, 0, sizeof(b->counts));
	memset(&b->sums, 0, sizeof(b->sums));
	if (op != MROCE_MAX)
		return;
	for (size_t i = 0; i < count; i++) {
		if (type == MROCE_INT32)
			b->sums.i[i] = INT32_MIN;
		else
			b->sums.f[i] = -INFINITY;
	}
}

static void add_part(enum mroce_coll_type type, enum mroce_coll_op op, struct block *b, size_t at,
		     const void *x, size_t n)
{
	union sums room;

	combine(type, op, &b->sums, at, as_sums(type, x, n, &room), n);
	for (size_t i = 0; i < n; i++)
		b->counts[at + i]++;
}

/* The parts of [at, at + count) that are there. */
static void add_present(enum mroce_coll_type type, enum mroce_coll_op op, struct block *b,
			const struct contribution *c, size_t at, size_t count)
{
	size_t end = at + count, here = at;

	for (uint32_t i = 0; i < c->ngaps && here < end; i++) {
		size_t first = c->gaps[i].first, after = first + c->gaps[i].count;

		if (after <= here)
			continue;
		if (first >= end)
			break;
		if (first > here)
			add_part(type, op, b, here - at, element(type, c->data, here), first - here);
		here = after;
	}
	if (here < end)
		add_part(type, op, b, here - at, element(type, c->data, here), end - here);
}

static void finish_counted(enum mroce_coll_type type, enum mroce_coll_op op, struct block *b,
			   size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!b->counts[i])
			b->sums.i[i] = 0;
		else if (op == MROCE_AVERAGE && type == MROCE_INT32)
			b->sums.i[i] /= b->counts[i];
		else if (op == MROCE_AVERAGE)
			b->sums.f[i] /= b->counts[i];
	}
}

static bool has_holes(const struct contribution *from, uint32_t n, size_t at, size_t count)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t g = 0; g < from[i].ngaps; g++)
			if (from[i].gaps[g].first < at + count &&
			    from[i].gaps[g].first + from[i].gaps[g].count > at)
				return true;
	return false;
}

/* ---- entrances ---- */

void reduce_all(enum mroce_coll_type type, enum mroce_coll_op op, void *out,
		const struct contribution *from, uint32_t n, size_t count)
{
	struct block b;

	for (size_t at = 0; at < count; at += BLOCK) {
		size_t here = count - at < BLOCK ? count - at : BLOCK;

		if (n && !has_holes(from, n, at, here)) {
			whole_block(type, op, &b.sums, from, n, at, here);
		} else {
			clear(type, op, &b, here);
			for (uint32_t i = 0; i < n; i++)
				add_present(type, op, &b, &from[i], at, here);
			finish_counted(type, op, &b, here);
		}
		reduce_narrow(type, (char *)out + at * type_size(type), b.sums.f, here);
	}
}

static void pair_narrow(enum mroce_coll_type type, enum mroce_coll_op op, void *acc, const void *x,
			size_t count)
{
	union sums a, b;

	reduce_widen(type, a.f, acc, count);
	reduce_widen(type, b.f, x, count);
	combine(type, op, &a, 0, &b, count);
	reduce_narrow(type, acc, a.f, count);
}

void reduce_pair(enum mroce_coll_type type, enum mroce_coll_op op, void *acc, const void *x,
		 size_t count)
{
	if (is_wide(type)) {
		combine(type, op, acc, 0, x, count);
		return;
	}
	for (size_t at = 0; at < count; at += BLOCK)
		pair_narrow(type, op, (uint16_t *)acc + at, (const uint16_t *)x + at,
			    count - at < BLOCK ? count - at : BLOCK);
}

void reduce_divide(enum mroce_coll_type type, void *acc, size_t count, uint32_t n)
{
	union sums room;

	if (is_wide(type)) {
		divide(type, acc, count, n);
		return;
	}
	for (size_t at = 0; at < count; at += BLOCK) {
		uint16_t *half = (uint16_t *)acc + at;
		size_t here = count - at < BLOCK ? count - at : BLOCK;

		reduce_widen(type, room.f, half, here);
		divide(type, &room, here, n);
		reduce_narrow(type, half, room.f, here);
	}
}
