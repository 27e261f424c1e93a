// SPDX-License-Identifier: BSD-2-Clause
/*
 * Congestion control from both sides: incast, fairness, bystanders, slow links, marking. Ideal times count
 * the headers of data packets: what a link cannot do without.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "figure.h"

#define WRITES (1 << MROCE_WR_WRITE)

/* ---- incast ---- */

struct incast {
	double last, jain;	     /* last completion / ideal */
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
	sim_note(s,
		 "last after %.3f of the ideal time, Jain's index %.3f, %llu drops in two RTTs, "
		 "%llu after",
		 r.last, r.jain, (unsigned long long)r.first_drops, (unsigned long long)r.drops);
	CHECK(s, s->failed || r.last <= 1.10, "incast took %.3f times the ideal time", r.last);
	CHECK(s, s->failed || r.jain >= 0.95, "Jain's index is %.3f", r.jain);
	CHECK(s, !r.drops, "%llu drops after the second RTT", (unsigned long long)r.drops);
	world_finish(s);
}

/* Without hints: windows alone, with what marks them. */
static void marks_alone(struct sim *s)
{
	struct incast r = { 0 };
	uint64_t all,
		least = s->cfg.mark || s->cfg.ce_bytes ? 50 : 10; /* delay alone is a rough guide */

	incast_measure(s, &r);
	all = s->hosts[0]->ports[0].down.packets;
	sim_note(s,
		 "last after %.3f of the ideal time, Jain's index %.3f, %llu of %llu packets "
		 "dropped, "
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

static uint64_t moved_within(struct sim *s, uint32_t lane, uint64_t ns)
{
	uint64_t before = moved(s, lane, 1);

	world_wait(s, ns);
	return moved(s, lane, 1) - before;
}

static void pour(struct pair *p, uint64_t size, uint32_t count, uint64_t start)
{
	struct lane_params lp = {
		.kinds = WRITES,
		.min = size,
		.max = size,
		.count = count,
		.window = 8,
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
	before = moved_within(s, 0, 30 * MS);
	for (uint32_t i = 1; i < s->npairs; i++)
		pour(s->pairs[i], MIB, 1, 0);
	during = moved_within(s, 0, 30 * MS);
	sim_note(s, "%.3f of its rate", (double)during / (double)before);
	CHECK(s, during * 100 >= before * 95, "a bystander keeps %.3f of its rate",
	      (double)during / (double)before);
	world_finish(s);
}

/*
 * Host 0 sends to both others, and one of them does not answer for its address any more. What it sends to host 0
 * still arrives, and wants answers that have nowhere to go.
 */
static void neighbour_lost(struct sim *s)
{
	const struct lane_params asks = {
		.kinds = WRITES, .min = KIB, .max = KIB, .count = 20000, .window = 1
	};
	struct sim_port *port;
	uint64_t before, during;

	world_build(s);
	port = &s->hosts[0]->ports[0];
	for (uint32_t i = 1; i < 3; i++)
		pair_connect(pair_new(s, 0, i));
	pair_connect(pair_new(s, 1, 0));
	if (!world_wait_for(s, 10 * SEC, world_all_up, "all connections to be up"))
		return;
	for (uint32_t i = 0; i < 2; i++)
		pour(s->pairs[i], 64 * KIB, 8000, 0);
	lane_new(s->pairs[2], &asks)->spoiled = true;
	world_wait(s, 10 * MS);
	before = moved_within(s, 1, 20 * MS);
	port->unresolved = &s->hosts[1]->ports[0].port;
	during = moved_within(s, 1, 20 * MS);
	CHECK(s, moved_within(s, 0, 20 * MS) == 0,
	      "packets leave for a neighbour that nobody knows");
	port->unresolved = NULL;
	sim_note(s, "the other one has %.3f of its rate", (double)during / (double)before);
	CHECK(s, during >= before, "a bystander keeps %.3f of its rate",
	      (double)during / (double)before);
	CHECK(s, moved_within(s, 0, 100 * MS) > 0, "nothing moves once the neighbour is back");
	world_finish(s);
}

/* Jain's index of what two senders move within so much time. */
static double fairness(struct sim *s, uint64_t ns)
{
	uint64_t was[2] = { moved(s, 0, 1), moved(s, 1, 1) };
	double rate[2];

	world_wait(s, ns);
	for (uint32_t i = 0; i < 2; i++)
		rate[i] = (double)(moved(s, i, 1) - was[i]);
	return jain(rate, 2);
}

static bool one_after_the_other(struct sim *s)
{
	world_build(s);
	if (!connect_all_to(s, 0))
		return false;
	pour(s->pairs[0], 64 * KIB, 8000, 0);
	world_wait(s, 20 * MS);
	pour(s->pairs[1], 64 * KIB, 8000, 0);
	world_wait(s, 6 * MS);
	return true;
}

/* How long until they share fairly. */
static void latecomer(struct sim *s)
{
	double fair;

	if (!one_after_the_other(s))
		return;
	fair = fairness(s, 30 * MS);
	sim_note(s, "from 6 ms on Jain's index is %.3f", fair);
	CHECK(s, s->failed || fair >= 0.95, "Jain's index is %.3f", fair);
	world_finish(s);
}

/*
 * The same without hints: windows grow by a packet per round trip, which all paths share, so it takes longer, and how long
 * differs from run to run.
 */
#define LATE_SEEDS 20
static void latecomer_marks(struct sim *s)
{
	double soon[LATE_SEEDS] = { 0 }, later[LATE_SEEDS] = { 0 };
	const uint32_t mid = LATE_SEEDS / 2;

	for (uint32_t i = 0; i < LATE_SEEDS && !s->failed; i++) {
		struct sim *c = world_child(s, &s->cfg);

		c->seed = s->seed * 7919 + i;
		if (one_after_the_other(c)) {
			soon[i] = fairness(c, 30 * MS);
			world_wait(c, 164 * MS);
			later[i] = fairness(c, 100 * MS);
		}
		world_finish(c);
		world_child_end(s, c);
	}
	qsort(soon, LATE_SEEDS, sizeof(*soon), by_value);
	qsort(later, LATE_SEEDS, sizeof(*later), by_value);
	sim_note(s,
		 "%u runs, Jain's index from 6 ms on: median %.3f, least %.3f; from 200 ms on: "
		 "median %.3f, least %.3f",
		 LATE_SEEDS, soon[mid], soon[0], later[mid], later[0]);
	CHECK(s, s->failed || (soon[0] >= 0.70 && soon[mid] >= 0.90),
	      "from 6 ms on Jain's index is %.3f, at least %.3f", soon[mid], soon[0]);
	CHECK(s, s->failed || (later[0] >= 0.95 && later[mid] >= 0.98),
	      "from 200 ms on Jain's index is %.3f, at least %.3f", later[mid], later[0]);
}

/*
 * Everybody sends to everybody else, and rests, step after step. What the windows knew at the end of a step they were
 * alone with is not what the next one has room for.
 */
static void steps(struct sim *s)
{
	uint64_t drops = 0;

	world_build(s);
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		for (uint32_t j = 0; j < s->cfg.hosts; j++) {
			if (i != j)
				pair_connect(pair_new(s, i, j));
		}
	}
	if (!world_wait_for(s, 10 * SEC, world_all_up, "all connections to be up"))
		return;
	for (int step = 0; step < 4 && !s->failed; step++) {
		for (uint32_t i = 0; i < s->npairs; i++)
			pour(s->pairs[i], s->cfg.max, 1, 0);
		world_wait_lanes(s);
		world_wait(s, 40 * MS);
	}
	for (uint32_t i = 0; i < s->cfg.hosts; i++)
		drops += overflows(s, i);
	sim_note(s, "%llu drops in four steps", (unsigned long long)drops);
	CHECK(s, !drops, "%llu packets dropped in four steps", (unsigned long long)drops);
	world_finish(s);
}

/* One that sends little leaves the rest to the others: max-min. */
static void modest_sender(struct sim *s)
{
	struct lane_params small = { .kinds = WRITES,
				     .min = 2 * KIB,
				     .max = 2 * KIB,
				     .count = 1000,
				     .window = 4,
				     .interval = 400 * US };
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

/* ---- bad routes ---- */

/* Half of what goes over the last spine is lost. */
static bool bad_spine(struct sim *s, struct frame *p)
{
	if (net_spine(s, p) != s->cfg.spines - 1)
		return true;
	return !rng_ppm(&s->net_rng, (uint32_t)s->tap_state[0]);
}

static bool marked(struct sim *s, struct frame *p)
{
	(void)s;
	p->ce = true;
	return true;
}

static bool marked_spine(struct sim *s, struct frame *p)
{
	p->ce |= net_spine(s, p) == s->cfg.spines - 1;
	return true;
}

/* Gbit/s of the standard traffic with a tap, and what the paths did. */
static double goodput(struct sim *s, tap_fn tap, uint64_t state, struct path_stats *sum)
{
	struct sim *child = world_child(s, &s->cfg);
	double took = 1, bits;

	child->tap = tap;
	child->tap_state[0] = state;
	world_build(child);
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

static void compare(struct sim *s, tap_fn tap, uint64_t state, double least, bool moves)
{
	struct path_stats sum = { 0 };
	double clean = goodput(s, NULL, 0, &sum), bad;

	CHECK(s, !sum.moves, "%llu moves without a reason", (unsigned long long)sum.moves);
	bad = goodput(s, tap, state, &sum);
	sim_note(s, "%.2f of %.2f Gbit/s, %llu moves, %llu deaths, %llu repairs", bad, clean,
		 (unsigned long long)sum.moves, (unsigned long long)sum.deaths,
		 (unsigned long long)sum.repairs);
	CHECK(s, s->failed || bad >= least * clean, "%.3f of the goodput is left", bad / clean);
	CHECK(s, s->failed || !moves || sum.moves + sum.deaths,
	      "no path was moved off its bad route");
	CHECK(s, sum.moves <= 40, "%llu moves", (unsigned long long)sum.moves);
}

static void lossy_route(struct sim *s)
{
	compare(s, bad_spine, 500000, 0.85, true);
}

static void marked_route(struct sim *s)
{
	compare(s, marked_spine, 0, 0.85, true);
}

static void all_marked(struct sim *s)
{
	compare(s, marked, 0, 0.75, false);
}

/* A route that is 2 ms longer than the others. */
static void slow_route(struct sim *s)
{
	struct path_stats fast = { 0 }, slow = { 0 };
	uint64_t step = s->cfg.spine_step_ns;
	double clean, bad;

	s->cfg.spine_step_ns = 1;
	clean = goodput(s, NULL, 0, &fast);
	s->cfg.spine_step_ns = step;
	bad = goodput(s, NULL, 0, &slow);
	sim_note(s, "%.2f of %.2f Gbit/s, %llu moves", bad, clean, (unsigned long long)slow.moves);
	CHECK(s, s->failed || bad >= 0.85 * clean, "%.3f of the goodput is left", bad / clean);
}

/* A plane that goes and comes every 100 ms, unannounced. */
static void flap(struct sim *s, void *a, uint64_t b)
{
	(void)a;
	net_plane_down(s, 1, b & 1);
	sim_after(s, 50 * MS, flap, NULL, b + 1);
}

static void flapping(struct sim *s)
{
	struct path_stats sum = { 0 };
	uint64_t was;
	double share;

	world_build(s);
	if (!world_connect(s))
		return;
	for (uint32_t i = 0; i < 2; i++)
		pour(s->pairs[0], 256 * KIB, 2000, 0);
	world_wait(s, 20 * MS);
	flap(s, NULL, 1);
	was = moved(s, 0, s->nlanes);
	world_wait(s, 400 * MS);
	share = wire_ns(&s->cfg, moved(s, 0, s->nlanes) - was) / (400.0 * MS);
	world_sum(s, &sum);
	net_plane_down(s, 1, false);
	sim_note(s, "%.2f of four planes of which one is there half of the time, %llu deaths",
		 share, (unsigned long long)sum.deaths);
	CHECK(s, s->failed || share >= 0.70, "%.2f of the planes are used", share);
	world_finish(s);
}

/* ---- hints that lie ---- */

static bool false_hint(struct sim *s, struct frame *p)
{
	struct mroce_ack *a = (void *)(p->data + MROCE_HDR_LEN);
	uint8_t type = frame_type(p);

	if ((type != MROCE_ACK && type != MROCE_NACK) || p->len < MROCE_HDR_LEN + sizeof(*a))
		return true;
	a->hint = (uint16_t)(s->tap_state[0] ? s->tap_state[0] : rng_next(&s->net_rng));
	frame_seal(p);
	return true;
}

static bool no_hint(struct sim *s, struct frame *p)
{
	struct mroce_ack *a = (void *)(p->data + MROCE_HDR_LEN);
	uint8_t type = frame_type(p);

	(void)s;
	if ((type != MROCE_ACK && type != MROCE_NACK) || p->len < MROCE_HDR_LEN + sizeof(*a))
		return true;
	a->hint = 0;
	frame_seal(p);
	return true;
}

/* Whatever the peer claims, what was posted arrives, and nothing overruns the switch for long. */
static void lying_hints(struct sim *s)
{
	struct path_stats sum = { 0 };
	double none, huge, tiny, any;

	none = goodput(s, no_hint, 0, &sum);
	huge = goodput(s, false_hint, 0xffff, &sum);
	any = goodput(s, false_hint, 0, &sum);
	s->cfg.count = 1; /* at 1 kbit/s, taken as 1 Mbit/s */
	s->cfg.max = s->cfg.min = 64 * KIB;
	tiny = goodput(s, false_hint, 0x0100, &sum); /* 1, big endian */
	sim_note(s, "none %.2f, absurd %.2f, random %.2f, 1 kbit/s %.5f Gbit/s", none, huge, any,
		 tiny);
	CHECK(s, s->failed || none > 0.8, "without a hint %.2f Gbit/s", none);
	CHECK(s, s->failed || huge > 0.8, "with an absurd hint %.2f Gbit/s", huge);
	CHECK(s, s->failed || (tiny > 0.0005 && tiny < 0.01), "a tiny hint gives %.5f Gbit/s", tiny);
}

#define GIGABIT .mtu = 3498, .rate_mbps = 1000
#define BULK(n)                                                                                \
	GIGABIT, .kinds = WRITES, .min = 64 * KIB, .max = 64 * KIB, .count = (n), .window = 8, \
		 .one_way = true, .lanes = 2
#define INCAST(senders, bytes)                                                       \
	.hosts = (senders) + 1, .pairs = (senders), .kinds = WRITES, .min = (bytes), \
	.max = (bytes), .count = 1, .window = 1, .lanes = 1, .one_way = true

const struct scenario cc_scenarios[] = {
	{ "p7_incast_8", "eight hosts send 1 MiB to one", { INCAST(8, MIB), GIGABIT }, incast },
	{ "steps_of_an_exchange",
	  "eight hosts send 256 KiB to each other, four times, with pauses",
	  { .hosts = 8, .max = 256 * KIB, .mtu = 1500 },
	  steps },
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
	{ "bystander",
	  "who shares no bottleneck with an incast keeps his rate",
	  { .hosts = 11, GIGABIT },
	  victim },
	{ "neighbour_lost",
	  "a neighbour that does not answer holds up nobody else",
	  { .hosts = 3, GIGABIT },
	  neighbour_lost },
	{ "latecomer", "a second sender gets its share", { .hosts = 3, GIGABIT }, latecomer },
	{ "latecomer_marks",
	  "the same without hints, with marks",
	  { .hosts = 3, GIGABIT, .no_hints = true, .ce_bytes = 40000 },
	  latecomer_marks },
	{ "modest_sender",
	  "what one does not use the others have",
	  { .hosts = 3, GIGABIT },
	  modest_sender },
	{ "lossy_route",
	  "half of what takes one route is lost: paths are moved off it",
	  { BULK(200), .spines = 4, .spine_step_ns = 1 },
	  lossy_route },
	{ "marked_route",
	  "one route is always marked",
	  { BULK(200), .spines = 4, .spine_step_ns = 1 },
	  marked_route },
	{ "all_marked", "CE on every packet", { BULK(100) }, all_marked },
	{ "slow_route",
	  "one route is much longer",
	  { BULK(200), .spines = 2, .spine_step_ns = 2 * MS },
	  slow_route },
	{ "flapping", "a plane comes and goes", { GIGABIT, .planes = 4 }, flapping },
	{ "lying_hints", "hints of zero, of nothing, of everything", { BULK(40) }, lying_hints },
	{ NULL, NULL, { 0 }, NULL },
};
