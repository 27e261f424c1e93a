// SPDX-License-Identifier: BSD-2-Clause
/* Do the checks bite? Each of these breaks something on purpose and wants to see the world fail. */
#include <string.h>
#include "sim.h"

typedef void (*damage_fn)(struct sim *s, struct lane *l);

static void expect_failure(struct sim *s, damage_fn damage, const char *part)
{
	struct sim *child = world_child(s, &s->cfg);

	child->trace.print = false;
	world_build(child);
	if (world_connect(child)) {
		world_traffic(child);
		world_wait(child, 300 * US);
		if (!child->failed)
			damage(child, child->lanes[0]);
		world_wait_lanes(child);
	}
	world_finish(child);
	CHECK(s, child->failed, "damage of the kind '%s' was not noticed", part);
	CHECK(s, !child->failed || strstr(child->failure, part), "expected '%s', but: %s", part,
	      child->failure);
	child->failed = false;
	world_child_end(s, child);
}

static void flip_sent_byte(struct sim *s, struct lane *l)
{
	for (uint32_t i = 0; i < 400 && !s->failed; i++) { /* some of it is read just then */
		world_wait(s, 10 * US);
		arena_slot(l->local, i % l->p.window)[l->p.max - 1] = 0x5a;
	}
}

static void touch_guard(struct sim *s, struct lane *l)
{
	(void)s;
	for (uint32_t i = 0; i < l->p.window; i++)
		arena_slot(l->memory, i)[-1] = 0;
}

static void write_after_completion(struct sim *s, struct lane *l)
{
	world_wait_lanes(s);
	arena_slot(l->memory, 0)[5] = 5;
}

static void complete_twice(struct sim *s, struct lane *l)
{
	struct engine_completion c = { .stream = l->p.stream, .opcode = MROCE_WR_WRITE };

	while (!l->tx_done && !s->failed)
		world_wait(s, 100 * US);
	c.id = 1ull << 63 | (l->tx_done - 1);
	app_complete(l->pair->end[0].host, l->pair->end[0].conn, &c);
}

static void complete_early(struct sim *s, struct lane *l)
{
	for (uint32_t i = l->tx_done; i < l->posted && !s->failed; i++) {
		struct engine_completion c = { .id = 1ull << 63 | i,
					       .stream = l->p.stream,
					       .opcode = MROCE_WR_WRITE,
					       .length = l->p.max };

		app_complete(l->pair->end[0].host, l->pair->end[0].conn, &c);
	}
}

static void lose_everything(struct sim *s, struct lane *l)
{
	(void)l;
	net_plane_down(s, 0, true);
}

static void self_check(struct sim *s)
{
	expect_failure(s, flip_sent_byte, "should be");
	expect_failure(s, touch_guard, "guard bytes");
	expect_failure(s, write_after_completion, "slot was free");
	expect_failure(s, complete_twice, "twice");
	expect_failure(s, complete_early, "should be");
	expect_failure(s, lose_everything, "PEER_GONE, expected OK");
}

const struct scenario self_scenarios[] = {
	{ "checks_bite",
	  "damage done on purpose is noticed",
	  { .kinds = 1 << MROCE_WR_WRITE,
	    .min = 200000,
	    .max = 200000,
	    .count = 40,
	    .lanes = 1,
	    .window = 4,
	    .rate_mbps = 1000 },
	  self_check },
	{ NULL, NULL, { 0 }, NULL },
};
