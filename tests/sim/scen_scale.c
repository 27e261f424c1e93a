// SPDX-License-Identifier: BSD-2-Clause
/* A thousand connections between two hosts: all come up, all are served, none starves, idle ones cost nothing. */
#include <stdio.h>
#include <stdlib.h>
#include "sim.h"

static double goodput(const struct sim_config *c, uint64_t ns)
{
	return ns ? (double)c->max * c->count * c->lanes * c->pairs * 8 / (double)ns : 0;
}

static double jain(const struct sim *s)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < s->nlanes; i++) {
		double x = (double)s->lanes[i]->bytes_done;

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / (s->nlanes * squares) : 0;
}

static bool half_done(const struct sim *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->nlanes; i++)
		sum += s->lanes[i]->bytes_done;
	return sum >= s->cfg.max * s->cfg.count * s->cfg.pairs / 2;
}

/* The same bytes by one connection. */
static double alone(struct sim *s)
{
	struct sim_config one = s->cfg;

	one.pairs = 1;
	one.count = s->cfg.count * s->cfg.pairs / 10;
	return goodput(&one, world_time_of(s, &one, NULL));
}

static void all_at_once(struct sim *s)
{
	uint64_t start, up;
	double single, all, fair;

	world_defaults(&s->cfg);
	single = alone(s);
	world_build(s);
	if (!world_connect(s))
		goto out;
	up = s->now;
	start = s->now;
	world_traffic(s);
	while (!s->failed && s->now < start + s->cfg.limit_ns && !half_done(s))
		world_wait(s, MS / 4);
	fair = jain(s);
	world_wait_lanes(s);
	all = goodput(&s->cfg, s->now - start);
	sim_note(s, "%u connections up after %llu ms; %.2f Gbit/s, one alone %.2f; Jain's index half way %.3f",
		 s->npairs, (unsigned long long)(up / MS), all, single, fair);
	CHECK(s, all >= 0.8 * single, "%u connections get %.2f Gbit/s, one alone %.2f", s->npairs, all,
	      single);
	CHECK(s, fair >= 0.8, "Jain's index of bytes half way is %.3f", fair);
out:
	world_finish(s);
}

/* A daemon's steps while all but one connection are idle. */
static void idle_crowd(struct sim *s)
{
	uint64_t steps;

	world_build(s);
	if (world_connect(s)) {
		world_wait(s, 10 * MS);
		steps = s->hosts[0]->steps;
		world_wait(s, 900 * MS);
		steps = s->hosts[0]->steps - steps;
		sim_note(s, "%llu steps in 0.9 s with %u idle connections",
			 (unsigned long long)steps, s->npairs);
		/* Nothing but keepalives: a question each second by each side. */
		CHECK(s, steps <= 6ull * s->npairs, "%llu steps in 0.9 s with %u idle connections",
		      (unsigned long long)steps, s->npairs);
	}
	world_finish(s);
}

const struct scenario scale_scenarios[] = {
	{ "conns_1000",
	  "1000 connections of two hosts send at once",
	  { .pairs = 1000,
	    .max_conns = 1200,
	    .lanes = 1,
	    .one_way = true,
	    .kinds = 1 << MROCE_WR_WRITE,
	    .min = 20000,
	    .max = 20000,
	    .count = 10,
	    .window = 2,
	    .letters = 65536,
	    .rate_mbps = 10000,
	    .uplink_mbps = 10000,
	    .queue_bytes = 1000000,
	    .ce_bytes = 100000 },
	  all_at_once },
	{ "conns_idle",
	  "1000 idle connections",
	  { .pairs = 1000, .max_conns = 1200, .letters = 4096 },
	  idle_crowd },
	{ NULL, NULL, { 0 }, NULL },
};
