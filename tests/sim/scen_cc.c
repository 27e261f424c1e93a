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

/* Without hints: windows alone, with what marks them. */
static void marks_alone(struct sim *s)
{
	struct incast r = { 0 };
	uint64_t all, least = s->cfg.mark || s->cfg.ce_bytes ? 50 : 10; /* delay alone is a rough guide */

	incast_measure(s, &r);
	all = s->hosts[0]->ports[0].down.packets;
	sim_note(s, "last after %.3f of the ideal time, Jain's index %.3f, %llu of %llu packets dropped, "
		    "%llu of these in two RTTs",
		 r.last, r.jain, (unsigned long long)(r.drops + r.first_drops),
		 (unsigned long long)all, (unsigned long long)r.first_drops);
	CHECK(s, s->failed || r.last <= 1.35, "it took %.3f times the ideal time", r.last);
	CHECK(s, s->failed || r.jain >= 0.90, "Jain's index is %.3f", r.jain);
	CHECK(s, r.drops * least <= all, "%llu of %llu packets dropped after two RTTs",
	      (unsigned long long)r.drops, (unsigned long long)all);
	world_finish(s);
}

/* What two groups of lanes have moved between two moments. */
static uint64_t moved(const struct sim *s, uint32_t first, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = first; i < first + n; i++)
		sum += s->lanes[i]->bytes_done;
	return sum;
}

static void pour(struct pair *p, uint64_t size, uint32_t count, uint64_t start)
{
	struct lane_params lp = {
		.kinds = WRITES, .min = size, .max = size, .count = count, .window = 8,
		.start = start,
	};

	lane_new(p, &lp)->spoiled = true;
}

/*
 * Hosts 2..9 overrun host 0 while host 10 sends to host 1 all the time: it shares no bottleneck with them, and
 * keeps its rate.
 */
static void victim(struct sim *s)
{
	uint64_t before, during;
	struct pair *p;

	world_build(s);
	p = pair_new(s, 10, 1);
	pair_connect(p);
	for (uint32_t i = 2; i < 10 && !s->failed; i++)
		pair_connect(pair_new(s, i, 0));
	if (!world_wait_for(s, 10 * SEC, world_all_up, "all connections to be up"))
		return;
	pour(p, 64 * KIB, 4000, 0);
	world_wait(s, 10 * MS);
	before = moved(s, 0, 1);
	world_wait(s, 30 * MS);
	before = moved(s, 0, 1) - before;
	for (uint32_t i = 1; i < s->npairs; i++)
		pour(s->pairs[i], MIB, 1, 0);
	during = moved(s, 0, 1);
	world_wait(s, 30 * MS);
	during = moved(s, 0, 1) - during;
	sim_note(s, "%.3f of its rate", (double)during / (double)before);
	CHECK(s, during * 100 >= before * 95, "a bystander keeps %.3f of its rate",
	      (double)during / (double)before);
	world_finish(s);
}

/* One comes after the other: how long until they share fairly. */
static void latecomer(struct sim *s)
{
	uint64_t was[2];
	double rate[2];

	world_build(s);
	if (!connect_all_to(s, 0))
		return;
	pour(s->pairs[0], 64 * KIB, 4000, 0);
	world_wait(s, 20 * MS);
	pour(s->pairs[1], 64 * KIB, 4000, 0);
	world_wait(s, 6 * MS);
	for (uint32_t i = 0; i < 2; i++)
		was[i] = moved(s, i, 1);
	world_wait(s, 30 * MS);
	for (uint32_t i = 0; i < 2; i++)
		rate[i] = (double)(moved(s, i, 1) - was[i]);
	sim_note(s, "from 6 ms on Jain's index is %.3f", jain(rate, 2));
	CHECK(s, s->failed || jain(rate, 2) >= 0.95, "Jain's index is %.3f", jain(rate, 2));
	world_finish(s);
}

/* One that sends little leaves the rest to the others: max-min. */
static void modest_sender(struct sim *s)
{
	struct lane_params small = { .kinds = WRITES, .min = 2 * KIB, .max = 2 * KIB, .count = 1000,
				     .window = 4, .interval = 400 * US };
	uint64_t was;
	double share;

	world_build(s);
	if (!connect_all_to(s, 0))
		return;
	lane_new(s->pairs[0], &small)->spoiled = true;
	pour(s->pairs[1], 64 * KIB, 4000, 0);
	world_wait(s, 20 * MS);
	was = moved(s, 1, 1);
	world_wait(s, 40 * MS);
	share = wire_ns(&s->cfg, moved(s, 1, 1) - was) / (40.0 * MS);
	sim_note(s, "beside a sender of 41 Mbit/s another has %.2f of the link", share);
	CHECK(s, s->failed || share >= 0.84, "only %.2f of the link", share);
	world_finish(s);
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
	{ "marks_of_switches",
	  "without hints: switches that mark",
	  { INCAST(8, MIB), GIGABIT, .no_hints = true, .ce_bytes = 40000 },
	  marks_alone },
	{ "marks_of_our_own",
	  "without hints: the receiver's virtual queue marks",
	  { INCAST(8, MIB), GIGABIT, .no_hints = true, .mark = true },
	  marks_alone },
	{ "marks_32",
	  "without hints 32:1: windows below one packet",
	  { INCAST(32, 512 * KIB), GIGABIT, .no_hints = true, .ce_bytes = 40000 },
	  marks_alone },
	{ "no_marks_no_hints",
	  "neither hints nor marks: delay alone",
	  { INCAST(8, MIB), GIGABIT, .no_hints = true },
	  marks_alone },
	{ "marked_and_hinted",
	  "both: the virtual queue does not slow what is hinted",
	  { INCAST(8, MIB), GIGABIT, .mark = true },
	  incast },
	{ "bystander", "who shares no bottleneck with an incast keeps his rate",
	  { .hosts = 11, GIGABIT }, victim },
	{ "latecomer", "a second sender gets its share", { .hosts = 3, GIGABIT }, latecomer },
	{ "latecomer_marks", "the same without hints, with marks",
	  { .hosts = 3, GIGABIT, .no_hints = true, .ce_bytes = 40000 }, latecomer },
	{ "modest_sender", "what one does not use the others have",
	  { .hosts = 3, GIGABIT }, modest_sender },
	{ NULL, NULL, { 0 }, NULL },
};
