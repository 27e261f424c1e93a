// SPDX-License-Identifier: BSD-2-Clause
/* Which path takes the next packet: the one least filled in relation to its window. */
#include "core/internal.h"

static bool less_filled(const struct path *a, const struct path *b)
{
	return (a->in_flight + 1) * b->cc.cwnd < (b->in_flight + 1) * a->cc.cwnd;
}

/* avoid: a path to be taken only if there is no other, or -1. NULL: none has a window and room. */
struct path *spray_pick(struct conn *c, int avoid)
{
	struct path *best = NULL, *p;
	uint32_t at = c->spray_at;

	for (uint32_t i = 0; i < c->npaths; i++, at++) {
		if (at >= c->npaths)
			at = 0;
		p = &c->paths[at];
		if (!path_open(p) || (c->e->blocked & 1u << p->port->index))
			continue;
		if (p->index == avoid)
			continue;
		if (!best || less_filled(p, best))
			best = p;
	}
	if (!best && avoid >= 0 && avoid < c->npaths) {
		p = &c->paths[avoid];
		if (path_open(p) && !(c->e->blocked & 1u << p->port->index))
			best = p;
	}
	if (best)
		c->spray_at = best->index + 1u;
	return best;
}
