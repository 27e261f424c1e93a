// SPDX-License-Identifier: BSD-2-Clause
/* Which path takes the next packet: the one least filled in relation to its window. */
#include "core/internal.h"

#define RUN 8 /* half of the packets after which a path is asked about */

/*
 * Without the packet itself: paths with nothing in flight take turns, whatever their windows, and the one with
 * a queue loses its turn. Otherwise, where few packets fly, the largest window would get them all.
 */
static bool less_filled(const struct path *a, const struct path *b)
{
	return (uint64_t)a->in_flight * b->cc.window < (uint64_t)b->in_flight * a->cc.window;
}

/* Others have something to send as well. */
static bool in_a_crowd(const struct conn *c)
{
	return c->is_ready && TAILQ_NEXT(c, ready);
}

/*
 * A connection alone sprays packet by packet. Among many, each has few packets at a time, and if each packet were on
 * another path, each were asked about and answered by itself. So there one path between two ports takes RUN packets
 * before the next has its turn. Ports, which are planes, take turns with every packet all the same. A run ends when all
 * of it was placed, so that what comes next does not begin at the end of one and go on with another.
 */
static bool runs(const struct path *p)
{
	return p->run && p->unplaced;
}

static bool better(const struct path *a, const struct path *b)
{
	if (path_siblings(a, b) && (runs(a) || runs(b)))
		return runs(a);
	return less_filled(a, b);
}

static void run_on(struct conn *c, struct path *p)
{
	if (runs(p)) {
		p->run--;
		return;
	}
	for (uint32_t i = 0; i < c->npaths; i++)
		if (path_siblings(&c->paths[i], p))
			c->paths[i].run = 0;
	p->run = in_a_crowd(c) ? RUN - 1 : 0;
}

static bool has_room(const struct path *p)
{
	return path_open(p) && p->conn->sending <= p->limit &&
	       !(p->conn->e->blocked & 1u << p->port->index) && !(p->conn->barred & 1u << p->index);
}

/* A path that owes an answer is left alone as long as there are others that do not. */
static bool is_sound(const struct path *p)
{
	return !p->suspect && !p->rto_count;
}

static bool any_sound(const struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		if (path_usable(&c->paths[i]) && is_sound(&c->paths[i]))
			return true;
	}
	return false;
}

static struct path *pick(struct conn *c, int avoid, bool steering)
{
	struct path *best = NULL, *p;
	uint32_t at = c->spray_at;
	int sound = -1;

	for (uint32_t i = 0; i < c->npaths; i++, at++) {
		if (at >= c->npaths)
			at = 0;
		p = &c->paths[at];
		if (!has_room(p) || p->index == avoid)
			continue;
		if (steering && p->steer)
			continue;
		if (!is_sound(p) && sound < 0)
			sound = any_sound(c);
		if (!is_sound(p) && sound)
			continue;
		if (!best || better(p, best))
			best = p;
	}
	return best;
}

/* One packet more has been given to others. True: somebody is still passed over. */
static bool serve_turns(struct conn *c)
{
	bool any = false;

	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (p->steer && --p->steer)
			any = true;
	}
	return any;
}

/* So many packets have been given to the group of the path that was picked last. */
void spray_served(struct path *leader, uint32_t n)
{
	struct conn *c = leader->conn;

	leader->run -= (uint8_t)min_u64(
		leader->run, n ? n - 1 : 0); /* the first was counted when it was picked */
	while (c->steering && n--)
		c->steering = serve_turns(c);
}

/* The path, and those beside it between the same two ports that may be taken as well: none while it has a run. */
struct spray_group spray_group(const struct path *leader)
{
	const struct conn *c = leader->conn;
	struct spray_group g = { 0 };

	if (leader->run) {
		g.mask = 1u << leader->index;
		g.room = (uint32_t)min_u64(leader->cc.cwnd - leader->in_flight, leader->run + 1);
		return g;
	}

	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if (p != leader &&
		    (!path_siblings(p, leader) || !has_room(p) || p->steer || !is_sound(p)))
			continue;
		g.mask |= 1u << i;
		g.room += p->cc.cwnd - p->in_flight;
	}
	return g;
}

/*
 * avoid: a path to be taken only if there is no other, or -1. NULL: none has a window and room. A path that
 * is steered away from (CE, losses again and again) is passed over as long as there is another.
 */
struct path *spray_pick(struct conn *c, int avoid)
{
	struct path *best = pick(c, avoid, true);

	if (c->steering) {
		if (!best)
			best = pick(c, avoid, false);
		c->steering = serve_turns(c);
	}
	if (!best && avoid >= 0 && avoid < c->npaths && has_room(&c->paths[avoid]))
		best = &c->paths[avoid];
	if (best) {
		c->spray_at = best->index + 1u;
		run_on(c, best);
	}
	return best;
}
