// SPDX-License-Identifier: BSD-2-Clause
/*
 * Congestion control from both sides: incast, fairness, bystanders, slow links, marking. Ideal times count
 * the headers of data packets: what a link cannot do without.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define WRITES (1 << MROCE_WR_WRITE)
/* Per data packet: our headers, UDP, IPv4, Ethernet and its gap. */
#define HEADERS (36 + 44 + 66)

static double wire_ns(const struct sim_config *c, uint64_t bytes)
{
	double chunk = (double)((c->mtu - 28 - 80) & ~7u);

	return (double)bytes * (chunk + HEADERS) / chunk * 8e3 / c->rate_mbps / c->planes;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* (sum x)^2 / (n sum x^2): 1 if all have the same. */
static double jain(const double *x, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += x[i];
		squares += x[i] * x[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

static uint64_t overflows(const struct sim *s, uint32_t host)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->hosts[host]->nports; i++)
		sum += s->hosts[host]->ports[i].down.overflowed;
	return sum;
}

/* ---- incast ---- */

struct incast {
	double last, jain; /* last completion / ideal */
	uint64_t first_drops, drops; /* in the first two round trips, and after */
};

static bool connect_all_to(struct sim *s, uint32_t to)
{
	for (uint32_t i = 0; i < s->cfg.hosts && !s->failed; i++) {
		if (i != to)
			pair_connect(pair_new(s, i, to));
	}
	return world_wait_for(s, 10 * SEC, world_all_up, "all connections to be up");
}

/* As long as it is after the first burst: the switch's queue is full, and the hosts take their time. */
static uint64_t two_round_trips(const struct sim *s)
{
	uint64_t queue = s->cfg.queue_bytes * 8000 / s->cfg.rate_mbps;

	return 2 * (2 * s->cfg.delay_ns + s->cfg.wake_ns + s->cfg.jitter_ns + queue);
}

static void incast_measure(struct sim *s, struct incast *r)
{
	double rate[MAX_LANES], ideal, last = 0;
	uint64_t start;

	world_build(s);
	if (!connect_all_to(s, 0))
		return;
	world_wait(s, 20 * MS);
	start = s->now;
	world_traffic(s);
	world_wait(s, two_round_trips(s));
	r->first_drops = overflows(s, 0);
	world_wait_lanes(s);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		double took = (double)s->lanes[i]->last_tx_at - (double)start;

		rate[i] = took > 0 ? 1e9 / took : 0;
		last = took > last ? took : last;
	}
	ideal = wire_ns(&s->cfg, s->cfg.max * s->cfg.count * s->nlanes);
	r->last = last / ideal;
	r->jain = jain(rate, s->nlanes);
	r->drops = overflows(s, 0) - r->first_drops;
}

static void incast(struct sim *s)
{
	struct incast r = { 0 };

	incast_measure(s, &r);
	sim_note(s, "last after %.3f of the ideal time, Jain's index %.3f, %llu drops in two RTTs, "
		    "%llu after",
		 r.last, r.jain, (unsigned long long)r.first_drops, (unsigned long long)r.drops);
	CHECK(s, s->failed || r.last <= 1.10, "incast took %.3f times the ideal time", r.last);
	CHECK(s, s->failed || r.jain >= 0.95, "Jain's index is %.3f", r.jain);
	CHECK(s, !r.drops, "%llu drops after the second RTT", (unsigned long long)r.drops);
	world_finish(s);
}

#define RUNS 100

static double at_percent(double *x, uint32_t n, uint32_t percent)
{
	qsort(x, n, sizeof(*x), by_value);
	return x[(uint64_t)(n - 1) * percent / 100];
}

/* A hundred incasts of as many seeds. */
static void incast_runs(struct sim *s)
{
	double last[RUNS], fair[RUNS];
	uint32_t dropping = 0;

	for (uint32_t i = 0; i < RUNS && !s->failed; i++) {
		struct sim *child = world_child(s, &s->cfg);
		struct incast r = { 0 };

		child->seed = s->seed * 1000 + i;
		incast_measure(child, &r);
		last[i] = r.last;
		fair[i] = -r.jain;
		dropping += r.drops != 0;
		world_finish(child);
		world_child_end(s, child);
	}
	if (s->failed)
		return;
	sim_note(s, "%u runs: last / ideal: median %.3f, 99 %% %.3f; Jain's index: median %.3f, 1 %% "
		    "%.3f; %u with drops after two RTTs",
		 RUNS, at_percent(last, RUNS, 50), at_percent(last, RUNS, 99),
		 -at_percent(fair, RUNS, 50), -at_percent(fair, RUNS, 99), dropping);
	CHECK(s, last[RUNS / 2] <= 1.15, "the median incast took %.3f of the ideal time",
	      last[RUNS / 2]);
	CHECK(s, at_percent(last, RUNS, 99) <= 1.30, "1 %% of incasts took %.3f of the ideal time",
	      at_percent(last, RUNS, 99));
	CHECK(s, -at_percent(fair, RUNS, 99) >= 0.95, "Jain's index was %.3f",
	      -at_percent(fair, RUNS, 99));
	CHECK(s, dropping <= RUNS / 20, "%u of %u runs drop after two RTTs", dropping, RUNS);
}

#define GIGABIT .mtu = 3498, .rate_mbps = 1000
#define INCAST(senders, bytes)                                                       \
	.hosts = (senders) + 1, .pairs = (senders), .kinds = WRITES, .min = (bytes),           \
	.max = (bytes), .count = 1, .window = 1, .lanes = 1, .one_way = true

const struct scenario cc_scenarios[] = {
	{ "p7_incast_8", "eight hosts send 1 MiB to one", { INCAST(8, MIB), GIGABIT }, incast },
	{ "p7_incast_32", "32 hosts send 1 MiB to one", { INCAST(32, MIB), GIGABIT }, incast },
	{ "p7_incast_8_marked",
	  "eight to one through switches that mark",
	  { INCAST(8, MIB), GIGABIT, .ce_bytes = 60000 },
	  incast },
	{ "p7_incast_32_10g",
	  "32 to one at 10 Gbit/s, MTU 1500",
	  { INCAST(32, MIB), .ce_bytes = 60000, .mtu = 1500, .rate_mbps = 10000 },
	  incast },
	{ "p7_incast_planes",
	  "eight to one over two planes",
	  { INCAST(8, MIB), GIGABIT, .planes = 2 },
	  incast },
	{ "p7_incast_runs", "a hundred incasts 8:1", { INCAST(8, 128 * KIB), GIGABIT }, incast_runs },
	{ NULL, NULL, { 0 }, NULL },
};
