/* SPDX-License-Identifier: BSD-2-Clause */
/* operation.c: what all operations begin and end with: checks, copies, the transform, the account. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "collective/internal.h"

#define PPM 1000000

bool is_tolerant(const struct mroce_coll_options *o)
{
	return o && o->max_missing;
}

/* ---- checks ---- */

static int check_options(struct mroce_comm *c, const struct request *r,
			 const struct mroce_coll_options *o)
{
	if (o->max_missing > PPM)
		return comm_fail(c, -EINVAL, "max_missing %u: parts per million, at most %d",
				 o->max_missing, PPM);
	if (o->flags & ~(uint32_t)(MROCE_COLL_SAME | MROCE_COLL_HADAMARD))
		return comm_fail(c, -EINVAL, "flags %#x: no such flag", o->flags);
	if (o->algorithm > MROCE_COLL_RING)
		return comm_fail(c, -EINVAL, "algorithm %u: no such algorithm", o->algorithm);
	if (o->algorithm == MROCE_COLL_RING && (is_tolerant(o) || !r->rings))
		return comm_fail(c, -EINVAL,
				 "a ring would pass on what is missing; tolerant operations and "
				 "all-to-all are direct");
	if (!(o->flags & MROCE_COLL_HADAMARD))
		return 0;
	if (!r->reduces || r->op == MROCE_MAX || r->type == MROCE_INT32)
		return comm_fail(c, -EINVAL,
				 "the Hadamard transform is for sums and averages of floats");
	return 0;
}

static bool is_misaligned(const void *p, size_t unit)
{
	return (uintptr_t)p % unit;
}

static int check(struct mroce_comm *c, const struct request *r)
{
	size_t unit = type_size(r->type);
	/* With padding and staging three times as much is needed. */
	size_t most = SIZE_MAX / 16;

	if (c->broken)
		return c->broken;
	if (!unit)
		return comm_fail(c, -EINVAL, "type %d: no such type", r->type);
	if (r->op > MROCE_MAX)
		return comm_fail(c, -EINVAL, "operation %d: no such operation", r->op);
	if (r->in_count > most || r->out_count > most)
		return comm_fail(c, -EINVAL, "%zu elements are too many",
				 r->in_count > most ? r->in_count : r->out_count);
	if ((r->in_count && (!r->in || is_misaligned(r->in, unit))) ||
	    (r->out_count && (!r->out || is_misaligned(r->out, unit))))
		return comm_fail(c, -EINVAL, "a buffer is NULL or not aligned to %zu bytes", unit);
	return r->options ? check_options(c, r, r->options) : 0;
}

/* ---- the transform ---- */

/* An all-reduce transforms the whole; a reduce-scatter each rank's share, for each comes back alone. */
static size_t parts_of(const struct request *r)
{
	return r->out_count ? r->in_count / r->out_count : 0;
}

static uint64_t seed_of(const struct operation *o)
{
	return o->comm->seed ^ (o->comm->operations * 0xd6e8feb86659fd93ull);
}

static void transform_part(struct operation *o, uint8_t *to, const uint8_t *from)
{
	size_t whole = o->shape.rows * o->shape.columns;
	float *x = o->scratch ? o->scratch : (float *)(void *)to;

	reduce_widen(o->type, x, from, o->user_count);
	memset(x + o->user_count, 0, (whole - o->user_count) * sizeof(*x));
	hadamard_forward(&o->shape, x, seed_of(o));
	if (o->scratch)
		reduce_narrow(o->type, to, x, whole);
}

static void transform_back(struct operation *o)
{
	float *x = o->scratch ? o->scratch : (float *)(void *)o->out;

	if (o->scratch)
		reduce_widen(o->type, x, o->out, o->out_count);
	hadamard_inverse(&o->shape, x, seed_of(o));
	reduce_narrow(o->type, o->user_out, x, o->user_count);
}

static int begin_transformed(struct operation *o, const struct request *r)
{
	size_t parts = parts_of(r);
	size_t whole;
	uint8_t *in;
	int err;

	o->shape = hadamard_shape(r->out_count);
	whole = o->shape.rows * o->shape.columns;
	o->in_count = parts * whole;
	o->out_count = whole;
	err = arena_reset(o->comm, arena_size(o->in_count * o->unit) + arena_size(whole * o->unit) +
					   arena_size(share_size(o->comm, o->in_count) * o->unit *
						      o->comm->size));
	if (err)
		return err;
	if (o->unit < sizeof(float)) {
		o->scratch = malloc(whole * sizeof(float));
		if (!o->scratch)
			return comm_fail(o->comm, -ENOMEM, "no memory for %zu coefficients", whole);
	}
	in = arena_take(o->comm, o->in_count * o->unit);
	o->in = in;
	o->out = arena_take(o->comm, whole * o->unit);
	o->staging = arena_take(o->comm, 0);
	for (size_t p = 0; p < parts; p++)
		transform_part(o, in + p * whole * o->unit,
			       (const uint8_t *)r->in + p * r->out_count * o->unit);
	return 0;
}

/* ---- beginning ---- */

static int begin_plain(struct operation *o, const struct request *r)
{
	struct mroce_comm *c = o->comm;
	size_t in_bytes = r->in_count * o->unit, out_bytes = r->out_count * o->unit;
	bool copy_in = in_bytes && !r->in_moves && !memory_find(c, r->in, in_bytes);
	bool copy_out = out_bytes && !memory_find(c, r->out, out_bytes);
	size_t staging = r->reduces ? share_size(c, r->in_count) * o->unit * c->size : 0;
	uint8_t *in;
	int err;

	o->in_count = r->in_count;
	o->out_count = r->out_count;
	err = arena_reset(c, (copy_in ? arena_size(in_bytes) : 0) +
				     (copy_out ? arena_size(out_bytes) : 0) + arena_size(staging));
	if (err)
		return err;
	o->in = r->in;
	o->out = r->out;
	if (copy_in) {
		in = arena_take(c, in_bytes);
		memcpy(in, r->in, in_bytes);
		o->in = in;
	}
	if (copy_out)
		o->out = arena_take(c, out_bytes);
	o->staging = arena_take(c, 0);
	return 0;
}

static bool wants_ring(const struct request *r, const struct operation *o)
{
	size_t most = r->in_count > r->out_count ? r->in_count : r->out_count;

	if (!r->rings || is_tolerant(&o->options) || o->comm->size < 2)
		return false;
	if (o->options.algorithm == MROCE_COLL_AUTO)
		return o->comm->size > 2 && most * o->unit >= RING_FROM_BYTES;
	return o->options.algorithm == MROCE_COLL_RING;
}

/* What is missing of an all-reduce's result keeps what this rank had there: its own contribution. */
static void state_tolerance(struct operation *o, const struct request *r)
{
	o->stated = (struct mroce_tolerance){ .max_missing = o->options.max_missing,
					      .deadline_us = o->options.deadline_us,
					      .fill = r->reduces ? MROCE_FILL_KEEP : MROCE_FILL_ZERO,
					      .over = MROCE_OVER_WAIT };
	o->tolerance = is_tolerant(&o->options) ? &o->stated : NULL;
}

int operation_begin(struct mroce_comm *c, const struct request *r, struct operation *o)
{
	int err = check(c, r);

	if (err)
		return err;
	memset(o, 0, sizeof(*o));
	o->comm = c;
	o->type = r->type;
	o->op = r->op;
	o->unit = type_size(r->type);
	if (r->options)
		o->options = *r->options;
	o->ring = wants_ring(r, o);
	state_tolerance(o, r);
	o->user_out = r->out;
	o->user_count = r->out_count;
	c->operations++;
	c->ngaps = c->nmissing = 0;
	memset(&c->account, 0, sizeof(c->account));
	if (o->options.flags & MROCE_COLL_HADAMARD && r->out_count)
		return begin_transformed(o, r);
	return begin_plain(o, r);
}

int operation_end(struct operation *o, int err)
{
	if (!err)
		err = comm_drain(o->comm);
	if (!err && o->shape.rows)
		transform_back(o);
	else if (!err && o->out != o->user_out && o->out_count)
		memcpy(o->user_out, o->out, o->out_count * o->unit);
	free(o->scratch);
	return err;
}

/* ---- what is missing ---- */

/*
 * Chunks of tolerant messages are multiples of 8 bytes, so gaps begin and end between elements; if
 * they did not, the element would be missing.
 */
static struct gap in_elements(const struct operation *o, const struct mroce_range *g)
{
	size_t first = g->offset / o->unit;

	return (struct gap){ first, (g->offset + g->length + o->unit - 1) / o->unit - first };
}

int operation_gaps(struct operation *o, const struct message *m, struct gap **gaps)
{
	struct gap *list = malloc((m->ngaps + 1) * sizeof(*list));

	if (!list)
		return comm_break(o->comm, -ENOMEM, "no memory for %u gaps", m->ngaps);
	for (uint32_t i = 0; i < m->ngaps; i++)
		list[i] = in_elements(o, &o->comm->gaps[m->first_gap + i]);
	*gaps = list;
	return 0;
}

int operation_note(struct operation *o, const struct message *m, size_t first)
{
	struct mroce_comm *c = o->comm;

	c->account.missing += m->missing;
	for (uint32_t i = 0; i < m->ngaps; i++) {
		struct gap g = in_elements(o, &c->gaps[m->first_gap + i]);

		if (c->nmissing == c->missing_room) {
			size_t room = c->missing_room ? 2 * c->missing_room : 64;
			struct mroce_coll_gap *more = realloc(c->missing, room * sizeof(*more));

			if (!more)
				return comm_break(c, -ENOMEM, "no memory for %zu gaps", room);
			c->missing = more;
			c->missing_room = room;
		}
		c->missing[c->nmissing++] = (struct mroce_coll_gap){ m->rank, first + g.first,
								     g.count };
	}
	return 0;
}

void mroce_comm_account(const struct mroce_comm *comm, struct mroce_coll_account *out)
{
	*out = comm->account;
}

uint32_t mroce_comm_missing(const struct mroce_comm *comm, struct mroce_coll_gap *out, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < comm->nmissing; i++)
		out[i] = comm->missing[i];
	return (uint32_t)comm->nmissing;
}
