/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * direct.c: everybody to everybody. What is missing in one message hurts the contribution of one rank to the share of
 * another, and nothing after it. All receives are posted first, so that nobody's sends wait for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "collective/internal.h"

int direct_receive_shares(struct operation *o, struct message *m, uint8_t *base, size_t count)
{
	struct mroce_comm *c = o->comm;
	int err = 0;

	for (uint32_t i = 0; i + 1 < c->size && !err; i++) {
		uint32_t r = peer_after(c, i);
		struct share s = share_of(c, count, r);

		err = comm_receive(c, r, base + s.first * o->unit, s.count * o->unit, &m[r]);
	}
	return err;
}

int direct_send_shares(struct operation *o, const uint8_t *base, size_t count)
{
	struct mroce_comm *c = o->comm;
	int err = 0;

	for (uint32_t i = 0; i + 1 < c->size && !err; i++) {
		uint32_t r = peer_after(c, i);
		struct share s = share_of(c, count, r);

		err = comm_send(c, r, base + s.first * o->unit, s.count * o->unit, o->tolerance);
	}
	return err;
}

int direct_send_same(struct operation *o, const uint8_t *at, size_t count,
		     const struct mroce_tolerance *tolerance)
{
	int err = 0;

	for (uint32_t i = 0; i + 1 < o->comm->size && !err; i++)
		err = comm_send(o->comm, peer_after(o->comm, i), at, count * o->unit, tolerance);
	return err;
}

static void replace(const struct operation *o, const struct gap *gaps, uint32_t n, uint8_t *to,
		    const uint8_t *from)
{
	for (uint32_t i = 0; i < n; i++)
		memmove(to + gaps[i].first * o->unit, from + gaps[i].first * o->unit,
			gaps[i].count * o->unit);
}

static int take_share(struct operation *o, const struct message *m, size_t first, uint8_t *to,
		      const uint8_t *instead)
{
	struct gap *gaps;
	int err = operation_note(o, m, first);

	if (err || !instead || !m->ngaps)
		return err;
	err = operation_gaps(o, m, &gaps);
	if (err)
		return err;
	replace(o, gaps, m->ngaps, to, instead);
	free(gaps);
	return 0;
}

int direct_await_shares(struct operation *o, struct message *m, size_t count, uint8_t *base,
			const uint8_t *instead)
{
	struct mroce_comm *c = o->comm;
	int err = 0;

	for (uint32_t i = 0; i + 1 < c->size && !err; i++) {
		uint32_t r = peer_after(c, i);
		size_t first = share_of(c, count, r).first;

		err = comm_await(c, &m[r]);
		if (!err)
			err = take_share(o, &m[r], first, base + first * o->unit,
					 instead ? instead + first * o->unit : NULL);
	}
	return err;
}

/* ---- reducing ---- */

static uint8_t *staged(const struct operation *o, uint32_t rank)
{
	return o->staging + rank * share_size(o->comm, o->in_count) * o->unit;
}

int direct_receive_contributions(struct operation *o, struct message *m)
{
	struct mroce_comm *c = o->comm;
	size_t bytes = share_of(c, o->in_count, c->rank).count * o->unit;
	int err = 0;

	for (uint32_t i = 0; i + 1 < c->size && !err; i++) {
		uint32_t r = peer_after(c, i);

		err = comm_receive(c, r, staged(o, r), bytes, &m[r]);
	}
	return err;
}

static int await_contributions(struct operation *o, struct message *m, size_t out_first,
			       struct contribution *from, struct gap **gaps)
{
	struct mroce_comm *c = o->comm;
	int err = 0;

	for (uint32_t r = 0; r < c->size && !err; r++) {
		if (r == c->rank) {
			from[r].data = o->in + share_of(c, o->in_count, r).first * o->unit;
			continue;
		}
		err = comm_await(c, &m[r]);
		if (!err)
			err = operation_note(o, &m[r], out_first);
		if (!err && m[r].ngaps)
			err = operation_gaps(o, &m[r], &gaps[r]);
		from[r] = (struct contribution){ staged(o, r), gaps[r], m[r].ngaps };
	}
	return err;
}

int direct_reduce(struct operation *o, struct message *m, uint8_t *out, size_t out_first)
{
	struct mroce_comm *c = o->comm;
	struct contribution from[MROCE_COMM_RANKS] = { 0 };
	struct gap *gaps[MROCE_COMM_RANKS] = { 0 };
	size_t count = share_of(c, o->in_count, c->rank).count;
	int err = await_contributions(o, m, out_first, from, gaps);

	/* In the order of the ranks, whoever came first, so that the bits are always the same. */
	if (!err)
		reduce_all(o->type, o->op, out, from, c->size, count);
	for (uint32_t r = 0; r < c->size; r++)
		free(gaps[r]);
	return err;
}
