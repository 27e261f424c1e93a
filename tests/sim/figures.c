// SPDX-License-Identifier: BSD-2-Clause
/*
 * The figures we promise, as distributions: each is measured in many runs that differ in their seed, in the
 * distance of the hosts, in how promptly these are scheduled, and in the moment something happens. A few runs
 * by default, with limits that each of them must keep; hundreds by `sim --distribution N`, which prints the
 * median, what 99 % of the runs keep, and the worst, beside the target. Time is virtual: the load of the
 * machine changes nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "figure.h"

#define WRITES (1 << MROCE_WR_WRITE)
#define DEFAULT_RUNS 2
#define METRICS 3
#define WARM_UP (12 * MS)
#define CONVERGED (200 * MS) /* without hints windows take so long to become alike */

struct metric {
	const char *what;
	bool more_is_better;
	double target; /* NAN: none */
	double limit;  /* that every run must keep */
};

struct figure {
	const char *name;
	/* One value per metric, from worlds of this seed. */
	void (*measure)(struct sim *s, uint64_t seed, double *value);
	struct metric metric[METRICS];
};

/* ---- worlds ---- */

/* Begins a world like s's, with the whims of a seed. */
static struct sim *begin(const struct sim *s, const struct sim_config *cfg, uint64_t seed)
{
	struct sim *w = world_child(s, cfg);
	struct rng r = { mix64(seed ^ 0x666967) };

	w->seed = seed;
	if (!w->cfg.delay_ns)
		w->cfg.delay_ns = rng_between(&r, 5 * US, 25 * US);
	if (!w->cfg.jitter_ns)
		w->cfg.jitter_ns = rng_between(&r, 2 * US, 10 * US);
	world_build(w);
	return w;
}

static void end(struct sim *s, struct sim *w)
{
	world_finish(w);
	world_child_end(s, w);
}

/* Long enough for a figure, and not longer where it is one of many tests. */
static uint64_t window(const struct sim *s)
{
	return s->distribution ? 40 * MS : 10 * MS;
}

/* A moment that the seed chooses. */
static void wait_a_while(struct sim *w, uint64_t least, uint64_t most)
{
	world_wait(w, rng_between(&w->app_rng, least, most));
}

static bool connect_all_to(struct sim *w, uint32_t to)
{
	for (uint32_t i = 0; i < w->cfg.hosts && !w->failed; i++) {
		if (i != to)
			pair_connect(pair_new(w, i, to));
	}
	return world_wait_for(w, 10 * SEC, world_all_up, "all connections to be up");
}

/* Writes without end, on two streams. */
static void pour(struct pair *p, uint64_t size)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct lane_params lp = { .stream = i,
					  .kinds = WRITES,
					  .min = size,
					  .max = size,
					  .count = 20000,
					  .window = 8 };

		lane_new(p, &lp)->spoiled = true;
	}
}

/* Bytes of messages that have been placed in the acceptor's memory, each once. */
static uint64_t placed(const struct pair *p)
{
	struct conn_stats st;

	engine_conn_stats(p->end[1].conn, p->s->now, &st);
	return st.rx_bytes;
}

/* Bytes placed per ns within the next `ns`. */
static double rate_of(struct pair *p, uint64_t ns)
{
	uint64_t was = placed(p);

	world_wait(p->s, ns);
	return (double)(placed(p) - was) / (double)ns;
}

/* One connection that always has something to send; what all its paths did is added up in *sum. */
static double goodput(struct sim *s, const struct sim_config *cfg, uint64_t seed,
		      struct path_stats *sum)
{
	struct sim *w = begin(s, cfg, seed);
	double rate = 0;

	if (world_connect(w)) {
		pour(w->pairs[0], 64 * KIB);
		world_wait(w, WARM_UP);
		rate = rate_of(w->pairs[0], window(s));
		if (sum)
			world_sum(w, sum);
	}
	end(s, w);
	return rate;
}

/* ---- what is measured ---- */

/* P3, P4: what is left of the goodput under the impairment of the scenario. */
static void kept(struct sim *s, uint64_t seed, double *value)
{
	struct sim_config clean = s->cfg;

	memset(&clean.imp, 0, sizeof(clean.imp));
	value[0] = goodput(s, &s->cfg, seed, NULL) / goodput(s, &clean, seed, NULL);
}

/* P5: beside as many planes alone. */
static void planes(struct sim *s, uint64_t seed, double *value)
{
	struct sim_config one = s->cfg;

	one.planes = 1;
	value[0] = goodput(s, &s->cfg, seed, NULL) / goodput(s, &one, seed, NULL) / s->cfg.planes;
}

/* P10 */
static void spurious(struct sim *s, uint64_t seed, double *value)
{
	struct path_stats sum = { 0 };

	value[0] = goodput(s, &s->cfg, seed, &sum) * 8 / s->cfg.rate_mbps / s->cfg.planes * 1e3;
	value[1] = sum.repairs ? (double)sum.spurious / (double)sum.repairs : 0;
}

#define SLOT (50 * US)
#define SLOTS 1200 /* 60 ms after the failure */
#define AHEAD 40   /* slots whose mean counts: 2 ms */

/* The first slot from which on 2 ms carry at least `rate`. */
static uint32_t first_slot(const uint64_t *at, double rate)
{
	uint32_t i = 0;

	while (i + AHEAD < SLOTS && (double)(at[i + AHEAD] - at[i]) < rate * AHEAD * SLOT)
		i++;
	return i;
}

static bool old_are_done(const struct sim *w, const uint32_t *posted)
{
	for (uint32_t i = 0; i < w->nlanes; i++) {
		if ((int32_t)(w->lanes[i]->tx_done - posted[i]) < 0)
			return false;
	}
	return true;
}

/*
 * P6. From which moment on 2 ms carry 0.95 of what the other planes can; how much less arrived in 60 ms than these
 * could carry, in ms of their time; and when all messages that were under way at the failure were done.
 */
static void watch_failure(struct sim *w, double left, double *value)
{
	uint32_t posted[2] = { w->lanes[0]->posted, w->lanes[1]->posted };
	uint32_t done = SLOTS;
	uint64_t at[SLOTS + 1];

	for (uint32_t i = 0; i <= SLOTS; i++) {
		at[i] = placed(w->pairs[0]);
		if (done == SLOTS && old_are_done(w, posted))
			done = i;
		if (i < SLOTS)
			world_wait(w, SLOT);
	}
	value[0] = (double)(first_slot(at, 0.95 * left) * SLOT) / MS;
	value[1] = (double)(done * SLOT) / MS;
	value[2] = (SLOTS * (double)SLOT - (double)(at[SLOTS] - at[0]) / left) / MS;
}

static void fail_plane(struct sim *s, uint64_t seed, double *value, bool announced)
{
	struct sim *w = begin(s, &s->cfg, seed);
	double before;
	uint32_t plane;

	if (!world_connect(w))
		goto out;
	pour(w->pairs[0], 64 * KIB);
	wait_a_while(w, WARM_UP, 2 * WARM_UP);
	before = rate_of(w->pairs[0], 10 * MS);
	plane = (uint32_t)rng_below(&w->app_rng, w->cfg.planes);
	net_plane_down(w, plane, true);
	for (uint32_t i = 0; i < 2 && announced; i++)
		host_link(w->hosts[i], plane, false);
	watch_failure(w, before * (w->cfg.planes - 1) / w->cfg.planes, value);
	for (uint32_t i = 0; i < 2 && announced; i++)
		host_link(w->hosts[i], plane, true);
	net_plane_down(w, plane, false);
out:
	end(s, w);
}

static void link_down(struct sim *s, uint64_t seed, double *value)
{
	fail_plane(s, seed, value, true);
}

static void silent_plane(struct sim *s, uint64_t seed, double *value)
{
	fail_plane(s, seed, value, false);
}

/* P7: last completion / ideal, Jain's index, drops after the second round trip. */
static void incast(struct sim *s, uint64_t seed, double *value)
{
	struct sim *w = begin(s, &s->cfg, seed);
	double rate[MAX_HOSTS], last = 0;
	uint64_t start, early;

	if (!connect_all_to(w, 0))
		goto out;
	wait_a_while(w, 5 * MS, 25 * MS);
	start = w->now;
	world_traffic(w);
	world_wait(w, two_round_trips(w));
	early = overflows(w, 0);
	world_wait_lanes(w);
	for (uint32_t i = 0; i < w->nlanes; i++) {
		double took = (double)(w->lanes[i]->last_tx_at - start);

		rate[i] = took > 0 ? 1 / took : 0;
		last = took > last ? took : last;
	}
	value[0] = last / wire_ns(&w->cfg, w->cfg.max * w->nlanes);
	value[1] = jain(rate, w->nlanes);
	value[2] = (double)(overflows(w, 0) - early);
out:
	end(s, w);
}

/* Jain's index of what the connections carry within the next `ns`; *sum: all together. */
static double fairness(struct sim *w, uint64_t ns, double *sum)
{
	double rate[MAX_PAIRS];

	*sum = 0;
	for (uint32_t i = 0; i < w->npairs; i++)
		rate[i] = -(double)placed(w->pairs[i]);
	world_wait(w, ns);
	for (uint32_t i = 0; i < w->npairs; i++) {
		rate[i] += (double)placed(w->pairs[i]);
		*sum += rate[i];
	}
	return jain(rate, w->npairs);
}

/* Connections to host 0 that always have something to send, from as many hosts, or all from one. */
static void fair(struct sim *s, uint64_t seed, double *value)
{
	struct sim *w = begin(s, &s->cfg, seed);
	double sum;

	for (uint32_t i = 0; i < w->cfg.pairs && !w->failed; i++)
		pair_connect(pair_new(w, 1 + i % (w->cfg.hosts - 1), 0));
	if (!world_wait_for(w, 10 * SEC, world_all_up, "all connections to be up"))
		goto out;
	for (uint32_t i = 0; i < w->npairs; i++) { /* one after the other, as they would come */
		pour(w->pairs[i], 64 * KIB);
		wait_a_while(w, 0, MS);
	}
	value[1] = fairness(w, CONVERGED / 2, &sum);
	world_wait(w, CONVERGED / 2);
	value[0] = fairness(w, CONVERGED / 2, &sum);
	value[2] = wire_ns(&w->cfg, (uint64_t)sum) / (CONVERGED / 2);
out:
	end(s, w);
}

/* Hosts 2 .. overrun host 0; the last sends to host 1, and shares no bottleneck with them. */
static void victim(struct sim *s, uint64_t seed, double *value)
{
	struct sim *w = begin(s, &s->cfg, seed);
	uint32_t last = w->cfg.hosts - 1;
	double before;

	pair_connect(pair_new(w, last, 1));
	for (uint32_t i = 2; i < last && !w->failed; i++)
		pair_connect(pair_new(w, i, 0));
	if (!world_wait_for(w, 10 * SEC, world_all_up, "all connections to be up"))
		goto out;
	pour(w->pairs[0], 64 * KIB);
	wait_a_while(w, WARM_UP, 2 * WARM_UP);
	before = rate_of(w->pairs[0], window(s));
	for (uint32_t i = 1; i < w->npairs; i++)
		pour(w->pairs[i], 256 * KIB);
	value[0] = rate_of(w->pairs[0], window(s)) / before;
out:
	end(s, w);
}

/*
 * One connection and one flow of TCP to the same host. TCP's share of what would be its fair share, and ours; with
 * marking on TCP must keep a third.
 */
static void coexist(struct sim *s, uint64_t seed, double *value, bool ecn)
{
	struct sim *w = begin(s, &s->cfg, seed);
	uint64_t tcp, time = 10 * window(s);
	struct cross *cross;
	double ours, theirs;

	pair_connect(pair_new(w, 1, 0));
	if (!world_wait_for(w, 10 * SEC, world_all_up, "all connections to be up"))
		goto out;
	cross = cross_start(w, 2, 0, ecn);
	wait_a_while(w, 0, 10 * MS);
	pour(w->pairs[0], 64 * KIB);
	world_wait(w, time);
	tcp = cross_bytes(cross);
	ours = rate_of(w->pairs[0], time);
	theirs = (double)(cross_bytes(cross) - tcp) / (double)time;
	value[0] = theirs / ((ours + theirs) / 2);
	value[1] = ours / ((ours + theirs) / 2);
	cross_stop(cross);
out:
	end(s, w);
}

static void beside_tcp(struct sim *s, uint64_t seed, double *value)
{
	coexist(s, seed, value, false);
}

static void beside_tcp_ecn(struct sim *s, uint64_t seed, double *value)
{
	coexist(s, seed, value, true);
}

/* ---- the table ---- */

#define KEPT(goal, least)                                          \
	kept,                                                      \
	{                                                          \
		{                                                  \
			"share of goodput kept", true, goal, least \
		}                                                  \
	}
#define PLANES(least)                                                    \
	planes,                                                          \
	{                                                                \
		{                                                        \
			"share of planes x one plane", true, 0.97, least \
		}                                                        \
	}
#define FAILS(fn, ms, done, lost)                                                    \
	fn,                                                                          \
	{                                                                            \
		{ "ms until 0.95 of what is left", false, 5, ms },                   \
			{ "ms until what was under way is done", false, NAN, done }, \
			{ "ms of goodput lost", false, NAN, lost },                  \
	}
#define INCAST(worst, drops)                                              \
	incast,                                                           \
	{                                                                 \
		{ "last completion / ideal", false, 1.10, worst },        \
			{ "Jain's index", true, 0.95, 0.95 },             \
			{ "drops after 2 round trips", false, 0, drops }, \
	}
#define FAIR(least, first, used)                                            \
	fair,                                                               \
	{                                                                   \
		{ "Jain's index after 200 ms", true, 0.95, least },         \
			{ "Jain's index, first 100 ms", true, NAN, first }, \
			{ "share of the link used", true, NAN, used },      \
	}

#define BESIDE(fn, goal, least)                                         \
	fn,                                                             \
	{                                                               \
		{ "TCP's share of its fair share", true, goal, least }, \
		{                                                       \
			"ours of ours", true, NAN, 0                    \
		}                                                       \
	}

static const struct figure figures[] = {
	{ "fig_loss_0.1", KEPT(0.995, 0.98) },
	{ "fig_loss_01", KEPT(0.98, 0.96) },
	{ "fig_loss_05", KEPT(0.93, 0.90) },
	{ "fig_loss_10", KEPT(0.88, 0.84) },
	{ "fig_bursts_01", KEPT(0.95, 0.92) },
	{ "fig_bursts_05", KEPT(0.90, 0.85) },
	{ "fig_acks_01", KEPT(0.95, 0.95) },
	{ "fig_acks_10", KEPT(0.85, 0.85) },
	{ "fig_planes_2", PLANES(0.95) },
	{ "fig_planes_4", PLANES(0.95) },
	{ "fig_planes_8", PLANES(0.95) },
	{ "fig_link_down", FAILS(link_down, 5, 10, 5) },
	{ "fig_silent_plane", FAILS(silent_plane, 10, 20, 10) },
	{ "fig_incast_8", INCAST(1.10, 0) },
	{ "fig_incast_32", INCAST(1.12, 0) },
	{ "fig_fair_hints", FAIR(0.95, 0.60, 0.80) },
	{ "fig_fair_marks", FAIR(0.90, 0.60, 0.80) },
	{ "fig_fair_own_marks", FAIR(0.90, 0.40, 0.80) },
	{ "fig_fair_same_hosts", FAIR(0.95, 0.60, 0.80) },
	{ "fig_victim", victim, { { "share of its rate kept", true, 0.95, 0.95 } } },
	{ "fig_tcp_no_marks", BESIDE(beside_tcp, 0.333, 0.333) },
	{ "fig_tcp_marks", BESIDE(beside_tcp, 0.333, 0.333) },
	{ "fig_tcp_own_marks", BESIDE(beside_tcp, 0.333, 0.333) },
	{ "fig_tcp_ecn", BESIDE(beside_tcp_ecn, 0.4, 0.4) },
	{ "fig_spurious",
	  spurious,
	  { { "goodput / link rate", true, NAN, 0.85 },
	    { "spurious / repairs", false, 0.01, 0.01 } } },
};

static const struct figure *figure_of(const char *scenario)
{
	for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
		if (!strcmp(figures[i].name, scenario))
			return &figures[i];
	}
	abort();
}

/* The value that `percent` of all runs reach or do better than; x is sorted. */
static double kept_by(const struct metric *m, const double *x, uint32_t n, uint32_t percent)
{
	uint32_t i = (uint32_t)((uint64_t)(n - 1) * percent / 100);

	return x[m->more_is_better ? n - 1 - i : i];
}

static bool good(const struct metric *m, double value, double bound)
{
	return m->more_is_better ? value >= bound : value <= bound;
}

static const char *judge(const struct metric *m, double median, double most)
{
	if (isnan(m->target))
		return "-";
	if (good(m, most, m->target))
		return "pass";
	return good(m, median, m->target) ? "median" : "miss";
}

/* One line by tabs, for scripts/sim-figures; x gets sorted. */
static void report(struct sim *s, const struct metric *m, double *x, uint32_t n)
{
	double median, most, worst;

	for (uint32_t i = 0; i < n && s->distribution; i++)
		printf("# sample\t%s\t%s\t%llu\t%.6g\n", s->scenario, m->what,
		       (unsigned long long)(s->seed + i), x[i]);
	qsort(x, n, sizeof(*x), by_value);
	median = kept_by(m, x, n, 50);
	most = kept_by(m, x, n, 99);
	worst = kept_by(m, x, n, 100);
	if (s->distribution)
		printf("# figure\t%s\t%s\t%s%g\t%u\t%.4g\t%.4g\t%.4g\t%s\n", s->scenario, m->what,
		       isnan(m->target)	   ? ""
		       : m->more_is_better ? ">= "
					   : "<= ",
		       m->target, n, median, most, worst, judge(m, median, most));
	else
		sim_note(s, "%s %.4g, worst %.4g", m->what, median, worst);
	CHECK(s, s->failed || good(m, worst, m->limit),
	      "%s: %.4g in the worst of %u runs, limit %g", m->what, worst, n, m->limit);
}

static void run_figure(struct sim *s)
{
	const struct figure *f = figure_of(s->scenario);
	uint32_t n = s->distribution ? s->distribution : DEFAULT_RUNS;
	double *x = calloc((size_t)n * METRICS, sizeof(*x)), value[METRICS];

	if (!x)
		abort();
	world_defaults(&s->cfg);
	s->cfg.delay_ns = s->cfg.jitter_ns = 0;
	for (uint32_t i = 0; i < n && !s->failed; i++) {
		memset(value, 0, sizeof(value));
		f->measure(s, s->seed + i, value);
		for (uint32_t m = 0; m < METRICS; m++)
			x[m * n + i] = value[m];
	}
	if (s->failed)
		goto out;
	for (uint32_t m = 0; m < METRICS && f->metric[m].what; m++)
		report(s, &f->metric[m], x + m * n, n);
out:
	free(x);
}

#define FOUR_PLANES .mtu = 3498, .rate_mbps = 1000, .planes = 4
#define GIGABIT .mtu = 3498, .rate_mbps = 1000
#define ACKS (1 << MROCE_ACK | 1 << MROCE_NACK)
#define BURSTS(ppm) .imp = { .burst_start = (ppm), .burst_end = 125000, .burst_loss = 1000000 }
#define TO_ONE(n)                                                                            \
	.hosts = (n) + 1, .pairs = (n), .kinds = WRITES, .min = MIB, .max = MIB, .count = 1, \
	.window = 1, .lanes = 1, .one_way = true

const struct scenario figure_scenarios[] = {
	{ "fig_loss_0.1", "P3: 0.1 % loss", { FOUR_PLANES, .imp.loss = PERCENT / 10 }, run_figure },
	{ "fig_loss_01", "P3: 1 % loss", { FOUR_PLANES, .imp.loss = PERCENT }, run_figure },
	{ "fig_loss_05", "P3: 5 % loss", { FOUR_PLANES, .imp.loss = 5 * PERCENT }, run_figure },
	{ "fig_loss_10", "P3: 10 % loss", { FOUR_PLANES, .imp.loss = 10 * PERCENT }, run_figure },
	{ "fig_bursts_01", "P4: 1 % loss in bursts of 8", { FOUR_PLANES, BURSTS(1260) }, run_figure },
	{ "fig_bursts_05", "P4: 5 % loss in bursts of 8", { FOUR_PLANES, BURSTS(6580) }, run_figure },
	{ "fig_acks_01",
	  "P4: 1 % of ACKs and NACKs lost",
	  { FOUR_PLANES, .imp = { .types = ACKS, .type_loss = PERCENT } },
	  run_figure },
	{ "fig_acks_10",
	  "P4: 10 % of ACKs and NACKs lost",
	  { FOUR_PLANES, .imp = { .types = ACKS, .type_loss = 10 * PERCENT } },
	  run_figure },
	{ "fig_planes_2", "P5: two planes", { GIGABIT, .planes = 2, .paths = 16 }, run_figure },
	{ "fig_planes_4", "P5: four planes", { GIGABIT, .planes = 4, .paths = 16 }, run_figure },
	{ "fig_planes_8", "P5: eight planes", { GIGABIT, .planes = 8, .paths = 16 }, run_figure },
	{ "fig_link_down", "P6: one of four planes dies, links go down", { FOUR_PLANES }, run_figure },
	{ "fig_silent_plane", "P6: one of four planes dies in silence", { FOUR_PLANES }, run_figure },
	{ "fig_incast_8", "P7: eight hosts send 1 MiB to one", { TO_ONE(8), GIGABIT }, run_figure },
	{ "fig_incast_32", "P7: 32 hosts send 1 MiB to one", { TO_ONE(32), GIGABIT }, run_figure },
	{ "fig_fair_hints", "eight hosts to one", { TO_ONE(8), GIGABIT }, run_figure },
	{ "fig_fair_marks",
	  "eight hosts to one, no hints, the switch marks",
	  { TO_ONE(8), GIGABIT, .no_hints = true, .ce_bytes = 40000 },
	  run_figure },
	{ "fig_fair_own_marks",
	  "eight hosts to one, no hints, the receiver's virtual queue marks",
	  { TO_ONE(8), GIGABIT, .no_hints = true, .mark = true },
	  run_figure },
	{ "fig_fair_same_hosts",
	  "eight connections between two hosts",
	  { .pairs = 8, .hosts = 2, GIGABIT },
	  run_figure },
	{ "fig_victim",
	  "beside an incast of eight, without a common bottleneck",
	  { .hosts = 11, GIGABIT },
	  run_figure },
	{ "fig_tcp_no_marks", "beside TCP, nothing marks", { .hosts = 3, GIGABIT }, run_figure },
	{ "fig_tcp_marks",
	  "beside TCP without ECN, the switch marks",
	  { .hosts = 3, GIGABIT, .ce_bytes = 40000 },
	  run_figure },
	{ "fig_tcp_own_marks",
	  "beside TCP without ECN, the receiver's virtual queue marks",
	  { .hosts = 3, GIGABIT, .mark = true },
	  run_figure },
	{ "fig_tcp_ecn",
	  "beside TCP with ECN, the switch marks",
	  { .hosts = 3, GIGABIT, .ce_bytes = 40000 },
	  run_figure },
	{ "fig_spurious", "P10: 1 % loss", { FOUR_PLANES, .imp.loss = PERCENT }, run_figure },
	{ NULL, NULL, { 0 }, NULL },
};
