/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.c: every rank receives from the one before it and sends to the one after it. In step t rank r receives piece r - 2 - t
 * (mod N). In the first N - 1 steps it adds its own contribution and passes the piece on, so that piece r ends at r
 * when everybody has added to it; in the next N - 1 steps the finished pieces go round. Reduce-scatter is the
 * first half of that, all-gather the second.
 */
#include <errno.h>
#include <string.h>
#include "collective/internal.h"

/* Receives posted at a time: queues are finite. */
#define AHEAD 256

struct ring {
	struct operation *o;
	struct mroce_comm *c;
	uint32_t before, after;
	size_t total;	       /* elements that are cut into pieces */
	size_t slice, slices;  /* elements of a slice; slices of a piece */
	uint32_t first, steps; /* the first step, and the one after the last */
	uint8_t *reduced;      /* where this rank's piece is to be */
	struct message *m;
	size_t posted, messages;
};

size_t ring_slice(const struct operation *o, size_t piece)
{
	size_t slice = RING_SLICE_BYTES / o->unit;
	size_t least = (piece + RING_SLICES - 1) / RING_SLICES;

	return slice > least ? slice : least;
}

static bool is_reducing(const struct ring *g, uint32_t step)
{
	return step + 1 < g->c->size;
}

static uint32_t piece_of(const struct ring *g, uint32_t step)
{
	return (g->c->rank + 2 * g->c->size - 2 - step) % g->c->size;
}

/* Slice s of what is received in a step. */
static struct share slice_of(const struct ring *g, uint32_t step, size_t s)
{
	struct share piece = share_of(g->c, g->total, piece_of(g, step));
	size_t at = s * g->slice < piece.count ? s * g->slice : piece.count;

	return (struct share){ piece.first + at,
			       piece.count - at < g->slice ? piece.count - at : g->slice };
}

static uint8_t *staged(const struct ring *g, uint32_t step, size_t s)
{
	return g->o->staging + (step * share_size(g->c, g->total) + s * g->slice) * g->o->unit;
}

static uint8_t *received_at(const struct ring *g, uint32_t step, size_t s)
{
	if (is_reducing(g, step))
		return staged(g, step, s);
	return g->o->out + slice_of(g, step, s).first * g->o->unit;
}

static int post_receives(struct ring *g, size_t until)
{
	int err = 0;

	for (; g->posted < until && g->posted < g->messages && !err; g->posted++) {
		uint32_t step = g->first + (uint32_t)(g->posted / g->slices);
		size_t s = g->posted % g->slices;

		err = comm_receive(g->c, g->before, received_at(g, step, s),
				   slice_of(g, step, s).count * g->o->unit, &g->m[g->posted]);
	}
	return err;
}

/* Step 0 begins with this rank's contribution, the first step of gathering with its finished piece. */
static int send_first(struct ring *g)
{
	struct share piece = share_of(g->c, g->total, (piece_of(g, g->first) + 1) % g->c->size);
	const uint8_t *from = g->first ? g->o->out : g->o->in;
	int err = 0;

	for (size_t at = 0; at < piece.count && !err; at += g->slice) {
		size_t count = piece.count - at < g->slice ? piece.count - at : g->slice;

		err = comm_send(g->c, g->after, from + (piece.first + at) * g->o->unit,
				count * g->o->unit, NULL);
	}
	return err;
}

/* Adds this rank's contribution to a slice; the last one to do so finishes it. Returns where it is then. */
static const uint8_t *contribute(struct ring *g, uint32_t step, size_t s)
{
	struct operation *o = g->o;
	struct share part = slice_of(g, step, s);
	uint8_t *acc = staged(g, step, s), *end;

	reduce_pair(o->type, o->op, acc, o->in + part.first * o->unit, part.count);
	if (step + 2 < g->c->size)
		return acc;
	if (o->op == MROCE_AVERAGE)
		reduce_divide(o->type, acc, part.count, g->c->size);
	end = g->reduced + s * g->slice * o->unit;
	memcpy(end, acc, part.count * o->unit);
	return end;
}

static int pass_on(struct ring *g, size_t k)
{
	uint32_t step = g->first + (uint32_t)(k / g->slices);
	size_t s = k % g->slices;
	const uint8_t *at = received_at(g, step, s);
	int err = comm_await(g->c, &g->m[k]);

	if (err)
		return err;
	if (is_reducing(g, step))
		at = contribute(g, step, s);
	if (step + 1 == g->steps)
		return 0;
	return comm_send(g->c, g->after, at, slice_of(g, step, s).count * g->o->unit, NULL);
}

int ring_run(struct operation *o, bool reduce, bool gather, uint8_t *reduced)
{
	struct mroce_comm *c = o->comm;
	size_t total = reduce ? o->in_count : o->out_count;
	size_t piece = share_size(c, total), slice = ring_slice(o, piece);
	struct ring g = { .o = o,
			  .c = c,
			  .before = (c->rank + c->size - 1) % c->size,
			  .after = (c->rank + 1) % c->size,
			  .total = total,
			  .slice = slice,
			  .slices = (piece + slice - 1) / slice,
			  .first = reduce ? 0 : c->size - 1,
			  .steps = gather ? 2 * c->size - 2 : c->size - 1,
			  .reduced = reduced };
	int err;

	g.messages = (g.steps - g.first) * g.slices;
	g.m = comm_messages(c, g.messages);
	err = g.m || !g.messages ? post_receives(&g, AHEAD) : -ENOMEM;
	if (!err)
		err = send_first(&g);
	for (size_t k = 0; k < g.messages && !err; k++) {
		err = post_receives(&g, k + AHEAD);
		if (!err)
			err = pass_on(&g, k);
	}
	return err;
}
