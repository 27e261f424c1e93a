// SPDX-License-Identifier: BSD-2-Clause
/*
 * Several planes: used equally; what is left of the goodput, and how soon, when one of them dies; and what goes wrong
 * on one path, or with one host's clock, alone.
 */
#include <stdlib.h>
#include "sim.h"

#define WRITES (1 << MROCE_WR_WRITE)
#define GIGABIT .mtu = 3498, .rate_mbps = 1000
#define BULK(n)                                                                                \
	GIGABIT, .kinds = WRITES, .min = 64 * KIB, .max = 64 * KIB, .count = (n), .window = 8, \
		 .one_way = true, .lanes = 2

static void pour(struct sim *s)
{
	struct lane_params p = {
		.kinds = WRITES, .min = 64 * KIB, .max = 64 * KIB, .count = 100000, .window = 8
	};

	for (p.stream = 0; p.stream < 4; p.stream++)
		lane_new(s->pairs[0], &p)->spoiled = true;
}

static uint64_t placed(const struct sim *s)
{
	struct conn_stats st;

	engine_conn_stats(s->pairs[0]->end[1].conn, host_now(s->hosts[1]), &st);
	return st.rx_bytes;
}

/* ---- several planes are used equally ---- */

static void equal_planes(struct sim *s)
{
	uint64_t was[MROCE_MAX_PORTS], least = UINT64_MAX, most = 0;
	struct host *to;

	world_build(s);
	if (!world_connect(s))
		return;
	to = s->hosts[1];
	pour(s);
	world_wait(s, 5 * MS);
	for (uint32_t i = 0; i < to->nports; i++)
		was[i] = to->ports[i].down.packets;
	world_wait(s, 50 * MS);
	for (uint32_t i = 0; i < to->nports; i++) {
		uint64_t n = to->ports[i].down.packets - was[i];

		least = n < least ? n : least;
		most = n > most ? n : most;
	}
	sim_note(s, "%llu to %llu packets by each plane", (unsigned long long)least,
		 (unsigned long long)most);
	CHECK(s, s->failed || least * 100 >= most * 95, "one plane has %llu packets, another %llu",
	      (unsigned long long)least, (unsigned long long)most);
	world_finish(s);
}

/* ---- a plane dies under load ---- */

#define RUNS_MAX 200
#define STEP (50 * US)
#define SPAN 20u   /* steps over which goodput is looked at */
#define STEPS 200u /* that are looked at after the death */

enum death { DIES_SILENTLY, DIES_WITH_THE_LINK };

/*
 * Milliseconds until goodput is 0.95 * 3/4 of what it was, over a millisecond and all that follow; -1: not within the
 * time that is looked at.
 */
static double recovery(const uint64_t *bytes, double usual)
{
	double least = 0.95 * 0.75 * usual * SPAN;
	int32_t last_bad = -1;

	for (uint32_t i = 0; i + SPAN < STEPS; i++) {
		if ((double)(bytes[i + SPAN] - bytes[i]) < least)
			last_bad = (int32_t)i;
	}
	return last_bad + 1 + SPAN >= STEPS ? -1 : (double)(last_bad + 1) * STEP / MS;
}

static double die_once(struct sim *s, enum death how)
{
	uint64_t bytes[STEPS], before;
	uint32_t plane;
	double usual;

	world_build(s);
	if (!world_connect(s))
		return -1;
	pour(s);
	world_wait(s, 6 * MS + rng_below(&s->app_rng, 2 * MS));
	before = placed(s);
	world_wait(s, 5 * MS);
	usual = (double)(placed(s) - before) / (5 * MS / STEP);
	plane = (uint32_t)rng_below(&s->app_rng, s->cfg.planes);
	if (how == DIES_SILENTLY)
		net_plane_down(s, plane, true);
	else
		host_link(s->hosts[rng_below(&s->app_rng, 2)], plane, false);
	for (uint32_t i = 0; i < STEPS && !s->failed; i++) {
		bytes[i] = placed(s);
		world_wait(s, STEP);
	}
	for (uint32_t i = 0; i < s->nlanes; i++)
		s->lanes[i]->stopped = true;
	return s->failed ? -1 : recovery(bytes, usual);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* As many deaths as seeds; the time until goodput is back, as a distribution. */
static void deaths(struct sim *s, enum death how, uint32_t runs, double median, double p99)
{
	double took[RUNS_MAX];
	uint32_t never = 0;

	for (uint32_t i = 0; i < runs && !s->failed; i++) {
		struct sim *child = world_child(s, &s->cfg);

		child->seed = s->seed * 1000 + i;
		took[i] = die_once(child, how);
		never += took[i] < 0;
		if (took[i] < 0)
			took[i] = (double)STEPS * STEP / MS;
		world_finish(child);
		world_child_end(s, child);
	}
	if (s->failed)
		return;
	qsort(took, runs, sizeof(*took), by_value);
	sim_note(s,
		 "%u deaths: goodput back after %.2f ms in the median, 90 %% %.2f, 99 %% %.2f, at "
		 "most "
		 "%.2f; %u not within %.0f ms",
		 runs, took[runs / 2], took[runs * 90 / 100], took[runs * 99 / 100], took[runs - 1],
		 never, (double)STEPS * STEP / MS);
	CHECK(s, took[runs / 2] <= median, "half of the time goodput took %.2f ms to be back",
	      took[runs / 2]);
	CHECK(s, took[runs * 99 / 100] <= p99,
	      "once in a hundred times goodput took %.2f ms to be back", took[runs * 99 / 100]);
}

static void plane_dies(struct sim *s)
{
	deaths(s, DIES_SILENTLY, RUNS_MAX, 2, 5);
}

static void link_dies(struct sim *s)
{
	deaths(s, DIES_WITH_THE_LINK, 60, 0.5, 1);
}

/* ---- one path is bad ---- */

/* Nothing that the receiver says about path 0 arrives. */
static bool deaf_path(struct sim *s, struct frame *p)
{
	uint8_t type = frame_type(p);

	(void)s;
	return (type != MROCE_ACK && type != MROCE_NACK) || p->len < MROCE_HDR_LEN ||
	       p->data[3] != 0;
}

static double goodput(struct sim *s, tap_fn tap, int lossy, const struct impair *imp,
		      struct path_stats *sum)
{
	struct sim *child = world_child(s, &s->cfg);
	double took = 1, bits;

	child->tap = tap;
	world_build(child);
	if (imp)
		net_impair(child, lossy, imp);
	if (world_connect(child)) {
		uint64_t start = child->now;

		world_traffic(child);
		world_wait_lanes(child);
		took = (double)(child->now - start);
		world_sum(child, sum);
	}
	bits = (double)child->cfg.max * child->cfg.count * child->nlanes * 8;
	world_finish(child);
	world_child_end(s, child);
	return bits / took;
}

static void compare(struct sim *s, tap_fn tap, const struct impair *imp, double least)
{
	struct path_stats clean = { 0 }, sum = { 0 };
	double good = goodput(s, NULL, 0, NULL, &clean), bad;

	bad = goodput(s, tap, 0, imp, &sum);
	sim_note(
		s,
		"%.2f of %.2f Gbit/s, %llu moves, %llu deaths, %llu repairs of which %llu spurious",
		bad, good, (unsigned long long)sum.moves, (unsigned long long)sum.deaths,
		(unsigned long long)sum.repairs, (unsigned long long)sum.spurious);
	CHECK(s, s->failed || bad >= least * good, "%.3f of the goodput is left", bad / good);
}

static void acks_lost(struct sim *s)
{
	compare(s, deaf_path, NULL, 0.85);
}

static void half_lost(struct sim *s)
{
	struct impair imp = { .loss = 50 * PERCENT };

	compare(s, NULL, &imp, 0.70);
}

static void disorder(struct sim *s)
{
	struct impair imp = { .reorder = 30 * PERCENT, .reorder_ns = 200 * US };

	compare(s, NULL, &imp, 0.85);
}

/* ---- clocks ---- */

static void clock_jumps(struct sim *s)
{
	world_build(s);
	if (!world_connect(s))
		return;
	world_traffic(s);
	for (uint32_t i = 0; i < 8 && !s->failed; i++) {
		world_wait(s, 3 * MS + rng_below(&s->app_rng, 3 * MS));
		host_clock_jump(s->hosts[i & 1], (1 + rng_below(&s->app_rng, 30)) * SEC);
	}
	CHECK(s, s->open, "all was done before the clocks had jumped");
	world_wait_lanes(s);
	world_finish(s);
}

static void clock_stands(struct sim *s)
{
	world_build(s);
	if (!world_connect(s))
		return;
	world_traffic(s);
	for (uint32_t i = 0; i < 8 && !s->failed; i++) {
		world_wait(s, 3 * MS + rng_below(&s->app_rng, 3 * MS));
		host_clock_stop(s->hosts[i & 1], 2 * MS + rng_below(&s->app_rng, 50 * MS));
	}
	CHECK(s, s->open, "all was done before the clocks had stood");
	world_wait_lanes(s);
	world_finish(s);
}

const struct scenario plane_scenarios[] = {
	{ "planes_equal", "four planes are used equally", { GIGABIT, .planes = 4 }, equal_planes },
	{ "planes_equal_4_to_2",
	  "of four planes to two, too",
	  { GIGABIT, .planes = 4, .planes_b = 2, .routed = true },
	  equal_planes },
	{ "planes_equal_3", "three planes, eight paths", { GIGABIT, .planes = 3 }, equal_planes },
	{ "p6_plane_dies",
	  "one of four planes dies without a word, 200 times",
	  { GIGABIT, .planes = 4 },
	  plane_dies },
	{ "p6_link_dies",
	  "one of four links goes down, and a host knows, 60 times",
	  { GIGABIT, .planes = 4 },
	  link_dies },
	{ "acks_lost_on_a_path",
	  "no answer about one path arrives",
	  { BULK(200), .planes = 4 },
	  acks_lost },
	{ "half_lost_on_a_plane",
	  "half of what takes one of four planes is lost",
	  { BULK(200), .planes = 4 },
	  half_lost },
	{ "disorder_on_a_plane",
	  "disorder on one of four planes",
	  { BULK(200), .planes = 4 },
	  disorder },
	{ "clock_jumps",
	  "clocks that jump by seconds",
	  { .planes = 2, .count = 3000, .rate_mbps = 200, .max = 30000, .imp.loss = PERCENT },
	  clock_jumps },
	{ "clock_stands",
	  "clocks that stand still",
	  { .planes = 2, .count = 3000, .rate_mbps = 200, .max = 30000, .imp.loss = PERCENT },
	  clock_stands },
	{ NULL, NULL, { 0 }, NULL },
};
