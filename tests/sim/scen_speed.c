// SPDX-License-Identifier: BSD-2-Clause
/* How fast, how fair, how much is sent in vain: figures in virtual time, so they can be asserted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define SENDS (1 << MROCE_WR_SEND)
#define WRITES (1 << MROCE_WR_WRITE)

static double gbps(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes * 8 / (double)ns : 0;
}

static uint64_t total_bytes(const struct sim_config *c)
{
	return c->max * c->count * c->lanes;
}

/* Share of the loss-free goodput that is left under `imp`. */
static double kept(struct sim *s, const struct impair *imp, const char *name, double least)
{
	struct sim_config clean = s->cfg, bad = s->cfg;
	struct path_stats sum = { 0 };
	uint64_t t0, t1;
	double ratio;

	bad.imp = *imp;
	t0 = world_time_of(s, &clean, NULL);
	t1 = world_time_of(s, &bad, &sum);
	if (s->failed || !t1)
		return 0;
	ratio = (double)t0 / (double)t1;
	sim_note(s, "%s: %.2f of %.2f Gbit/s = %.3f (%llu repairs, %llu spurious, %llu RTOs)", name,
		 gbps(total_bytes(&bad), t1), gbps(total_bytes(&clean), t0), ratio,
		 (unsigned long long)sum.repairs, (unsigned long long)sum.spurious,
		 (unsigned long long)sum.rtos);
	CHECK(s, ratio >= least, "%s keeps %.3f of its goodput, should keep %.2f", name, ratio,
	      least);
	return ratio;
}

static void kept_1(struct sim *s)
{
	struct impair imp = { .loss = PERCENT };

	kept(s, &imp, "1 % loss", 0.90);
}

static void kept_10(struct sim *s)
{
	struct impair imp = { .loss = 10 * PERCENT };

	kept(s, &imp, "10 % loss", 0.75);
}

static void kept_bursts(struct sim *s)
{
	struct impair imp = { .burst_start = 1260, .burst_end = 125000, .burst_loss = 1000000 };

	kept(s, &imp, "1 % in bursts of 8", 0.85);
}

static void kept_acks(struct sim *s)
{
	struct impair imp = { .types = 1 << MROCE_ACK | 1 << MROCE_NACK | 1 << MROCE_POLL,
			      .type_loss = 10 * PERCENT };

	kept(s, &imp, "10 % of ACK, NACK, POLL", 0.90);
}

/* Without loss the planes must be full. */
static void full_rate(struct sim *s)
{
	struct sim_config c = s->cfg;
	double rate, line;

	world_defaults(&c);
	rate = gbps(total_bytes(&c), world_time_of(s, &c, NULL));
	line = c.planes * c.rate_mbps / 1000.0;

	sim_note(s, "%.2f of %.2f Gbit/s", rate, line);
	CHECK(s, s->failed || rate >= 0.85 * line, "%.2f Gbit/s over %.2f Gbit/s of planes", rate,
	      line);
}

/* The scenarios above with plane count 1, 2, 4, 8: linear. */
static void planes_scale(struct sim *s)
{
	double one = 0;

	for (uint32_t n = 1; n <= 8 && !s->failed; n *= 2) {
		struct sim_config c = s->cfg;
		double rate;

		c.planes = n;
		c.count *= n;
		rate = gbps(total_bytes(&c), world_time_of(s, &c, NULL));
		one = n == 1 ? rate : one;
		sim_note(s, "%u planes %.2f Gbit/s", n, rate);
		CHECK(s, rate >= 0.85 * n * one, "%u planes give %.2f Gbit/s, one gives %.2f", n,
		      rate, one);
	}
}

static void few_spurious(struct sim *s)
{
	struct path_stats sum = { 0 };

	world_build(s);
	if (world_connect(s))
		world_traffic(s);
	world_wait_lanes(s);
	world_sum(s, &sum);
	sim_note(s, "%llu of %llu repairs were spurious", (unsigned long long)sum.spurious,
		 (unsigned long long)sum.repairs);
	CHECK(s, s->failed || sum.repairs > 50, "only %llu repairs",
	      (unsigned long long)sum.repairs);
	CHECK(s, sum.spurious * 100 <= sum.repairs, "%llu of %llu repairs were spurious",
	      (unsigned long long)sum.spurious, (unsigned long long)sum.repairs);
	world_finish(s);
}

static void no_repairs(struct sim *s)
{
	struct path_stats sum = { 0 };

	world_build(s);
	if (world_connect(s))
		world_traffic(s);
	world_wait_lanes(s);
	world_sum(s, &sum);
	CHECK(s, sum.repairs == 0, "%llu repairs although nothing was lost",
	      (unsigned long long)sum.repairs);
	world_finish(s);
}

/* Reordering must be learnt: the later half of the traffic has fewer spurious repairs. */
static void learns_reordering(struct sim *s)
{
	struct path_stats sum = { 0 };

	world_build(s);
	if (world_connect(s))
		world_traffic(s);
	world_wait_lanes(s);
	world_sum(s, &sum);
	sim_note(s, "%llu repairs in %llu packets", (unsigned long long)sum.repairs,
		 (unsigned long long)sum.tx_packets);
	CHECK(s, s->failed || sum.repairs * 10 <= sum.tx_packets,
	      "%llu repairs in %llu packets for nothing but reordering",
	      (unsigned long long)sum.repairs, (unsigned long long)sum.tx_packets);
	world_finish(s);
}

/* Two streams of one connection, one greedy with large messages. */
static void fair_streams(struct sim *s)
{
	struct lane *l[2] = { NULL };
	double share;

	world_build(s);
	world_connect(s);
	for (uint32_t i = 0; i < 2 && !s->failed; i++) {
		struct lane_params p = { .stream = i,
					 .kinds = WRITES,
					 .min = i ? 20000 : 200000,
					 .max = i ? 20000 : 200000,
					 .count = i ? 20000 : 2000,
					 .window = i ? 40 : 20 };

		l[i] = lane_new(s->pairs[0], &p);
	}
	world_wait(s, 60 * MS);
	if (s->failed)
		return;
	share = (double)l[1]->bytes_done / (double)(l[0]->bytes_done + l[1]->bytes_done);
	sim_note(s, "stream 1 has %.2f of the bytes", share);
	CHECK(s, share > 0.40 && share < 0.60, "stream 1 has %.2f of the bytes", share);
	world_finish(s);
}

/* Small messages beside a bulk transfer must not wait behind all of it. */
static void small_beside_bulk(struct sim *s)
{
	struct lane_params bulk = {
		.stream = 0, .kinds = WRITES, .min = MIB, .max = MIB, .count = 200, .window = 4
	};
	struct lane_params ping = { .stream = 1,
				    .kinds = SENDS,
				    .min = 64,
				    .max = 64,
				    .count = 60,
				    .window = 1,
				    .interval = 500 * US };
	uint64_t worst = 0;
	struct lane *l;

	world_build(s);
	world_connect(s);
	if (s->failed)
		return;
	lane_new(s->pairs[0], &bulk)->spoiled = true;
	l = lane_new(s->pairs[0], &ping);
	s->open--; /* of the bulk: it need not end */
	world_wait_lanes(s);
	s->open++;
	for (uint32_t i = 0; i < l->tx_done; i++) {
		uint64_t wait = l->msgs[i].rx_at - l->msgs[i].posted_at;

		worst = wait > worst ? wait : worst;
	}
	sim_note(s, "64 bytes beside a bulk transfer: %llu us at most",
		 (unsigned long long)(worst / US));
	CHECK(s, worst <= 8 * MS, "64 bytes waited %llu us", (unsigned long long)(worst / US));
	world_finish(s);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void latency(struct sim *s)
{
	static uint64_t took[2000];
	struct lane_params p = { .kinds = SENDS, .min = 64, .max = 64, .count = 1000, .window = 1 };
	struct lane *l;
	uint32_t n;

	world_build(s);
	world_connect(s);
	if (s->failed)
		return;
	l = lane_new(s->pairs[0], &p);
	world_wait_lanes(s);
	for (n = 0; n < l->tx_done; n++)
		took[n] = l->msgs[n].rx_at - l->msgs[n].posted_at;
	qsort(took, n, sizeof(*took), by_size);
	if (n)
		sim_note(s, "64 bytes one way: median %.1f us, 99 %% %.1f us",
			 (double)took[n / 2] / 1e3, (double)took[n * 99 / 100] / 1e3);
	CHECK(s, n == 1000 && took[n / 2] <= 40 * US, "median of %llu ns",
	      (unsigned long long)took[n / 2]);
	world_finish(s);
}

/* Everybody sends to host 0. */
static void incast(struct sim *s)
{
	uint64_t start, first = NEVER, last = 0, drops = 0;
	double ideal;

	world_build(s);
	for (uint32_t i = 1; i < s->cfg.hosts && !s->failed; i++) {
		struct pair *p = pair_new(s, i, 0);

		pair_connect(p);
	}
	world_wait(s, 100 * MS);
	start = s->now;
	world_traffic(s);
	world_wait_lanes(s);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		uint64_t at = s->lanes[i]->last_tx_at - start;

		first = at < first ? at : first;
		last = at > last ? at : last;
	}
	for (uint32_t i = 0; i < s->hosts[0]->nports; i++)
		drops += s->hosts[0]->ports[i].down.overflowed;
	ideal = (double)(s->cfg.hosts - 1) * (double)total_bytes(&s->cfg) * 8 /
		(s->cfg.rate_mbps * 1e6 * s->cfg.planes) * 1e9;
	sim_note(s, "first done after %.2f, last after %.2f of the ideal time, %llu drops",
		 (double)first / ideal, (double)last / ideal, (unsigned long long)drops);
	CHECK(s, s->failed || (double)last <= 1.3 * ideal, "incast took %.2f times the ideal time",
	      (double)last / ideal);
	world_finish(s);
}

#define BULK(n)                                                                         \
	.kinds = WRITES, .min = 256 * KIB, .max = 256 * KIB, .count = (n), .window = 4, \
	.one_way = true, .lanes = 2, .mtu = 3498, .rate_mbps = 1000

const struct scenario speed_scenarios[] = {
	{ "full_rate", "four planes of 1 Gbit/s are full", { BULK(48), .planes = 4 }, full_rate },
	{ "full_rate_10g",
	  "one plane of 10 Gbit/s is full",
	  { .kinds = WRITES,
	    .min = 256 * KIB,
	    .max = 256 * KIB,
	    .count = 24,
	    .window = 4,
	    .one_way = true,
	    .lanes = 2,
	    .mtu = 3498 },
	  full_rate },
	{ "kept_1", "goodput kept at 1 % loss", { BULK(48), .planes = 4 }, kept_1 },
	{ "kept_10", "goodput kept at 10 % loss", { BULK(48), .planes = 4 }, kept_10 },
	{ "kept_bursts", "goodput kept with bursts", { BULK(48), .planes = 4 }, kept_bursts },
	{ "kept_acks", "goodput kept when ACKs are lost", { BULK(48), .planes = 4 }, kept_acks },
	{ "planes_scale",
	  "goodput grows with the planes",
	  { .kinds = WRITES,
	    .min = 128 * KIB,
	    .max = 128 * KIB,
	    .count = 6,
	    .window = 8,
	    .one_way = true,
	    .lanes = 2,
	    .mtu = 3498,
	    .rate_mbps = 1000,
	    .paths = 16 },
	  planes_scale },
	{ "few_spurious",
	  "repairs in vain at 1 % loss: at most 1 %",
	  { BULK(64), .planes = 4, .imp.loss = PERCENT },
	  few_spurious },
	{ "few_spurious_fast",
	  "the same at 10 Gbit/s with small messages",
	  { .count = 1500, .lanes = 4, .imp.loss = PERCENT },
	  few_spurious },
	{ "no_repairs", "no loss, no repair", { .count = 800, .lanes = 4, .planes = 2 }, no_repairs },
	{ "learns_reordering",
	  "3 % of packets late: few repairs for nothing",
	  { BULK(16), .imp = { .reorder = 3 * PERCENT, .reorder_ns = 40 * US } },
	  learns_reordering },
	{ "fair_streams",
	  "two streams share a connection",
	  { .mtu = 3498, .rate_mbps = 1000 },
	  fair_streams },
	{ "small_beside_bulk",
	  "a small message beside a bulk transfer",
	  { .mtu = 3498, .rate_mbps = 1000 },
	  small_beside_bulk },
	{ "latency", "64 bytes on an idle network", { 0 }, latency },
	{ "incast_8",
	  "eight hosts send to one",
	  { .hosts = 9,
	    .pairs = 8,
	    .kinds = WRITES,
	    .min = 256 * KIB,
	    .max = 256 * KIB,
	    .count = 1,
	    .window = 1,
	    .lanes = 1,
	    .one_way = true,
	    .mtu = 3498,
	    .rate_mbps = 1000 },
	  incast },
	{ NULL, NULL, { 0 }, NULL },
};
