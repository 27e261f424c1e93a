// SPDX-License-Identifier: BSD-2-Clause
/* From a configuration to hosts, connections and lanes; what every scenario checks at its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

#define ALL_KINDS                                                            \
	(1 << MROCE_WR_SEND | 1 << MROCE_WR_SEND_IMM | 1 << MROCE_WR_WRITE | \
	 1 << MROCE_WR_WRITE_IMM | 1 << MROCE_WR_READ)

static void preset32(uint32_t *field, uint32_t value)
{
	if (!*field)
		*field = value;
}

static void preset64(uint64_t *field, uint64_t value)
{
	if (!*field)
		*field = value;
}

void world_defaults(struct sim_config *c)
{
	preset32(&c->hosts, 2);
	preset32(&c->planes, 1);
	preset32(&c->planes_b, c->planes);
	preset32(&c->spines, 1);
	preset64(&c->spine_step_ns, 3 * US);
	preset32(&c->mtu, 1500);
	preset32(&c->rate_mbps, 10000);
	preset32(&c->uplink_mbps, 25000);
	preset64(&c->delay_ns, 10 * US);
	preset64(&c->queue_bytes, 300 * KIB);
	preset64(&c->imp.reorder_ns, 100 * US);
	preset32(&c->queues, 2);
	preset32(&c->ring, 2048);
	preset32(&c->tx_ring, 1024);
	preset32(&c->batch, 64);
	preset64(&c->wake_ns, 5 * US);
	preset64(&c->jitter_ns, 5 * US);
	preset64(&c->socket_ns, 30 * US);
	preset32(&c->paths, 8);
	preset32(&c->streams, 1024);
	preset32(&c->max_conns, 64);
	preset32(&c->letters, 16384);
	preset32(&c->messages, 8192);
	preset32(&c->pairs, 1);
	preset32(&c->lanes, 2);
	preset32(&c->kinds, ALL_KINDS);
	preset64(&c->max, 20000);
	preset32(&c->count, 50);
	preset32(&c->window, 8);
	preset64(&c->limit_ns, 60 * SEC);
}

void world_build(struct sim *s)
{
	world_defaults(&s->cfg);
	s->net_rng.state = mix64(s->seed ^ 0x6e6574);
	s->app_rng.state = mix64(s->seed ^ 0x617070);
	s->frame_room = s->cfg.mtu + 64;
	for (uint32_t i = 0; i < s->cfg.hosts; i++)
		host_init(s, i, i ? s->cfg.planes_b : s->cfg.planes);
	for (uint32_t i = 0; i < s->cfg.hosts && !s->failed; i++) {
		int err = host_start(s->hosts[i]);

		CHECK(s, !err, "host %u does not start: %s", i, strerror(-err));
	}
}

static void free_pair(struct pair *p)
{
	for (uint32_t i = 0; i < 2; i++) {
		free(p->end[i].tx_of);
		free(p->end[i].rx_of);
	}
	free(p->lanes);
	free(p);
}

/* Frames that are still on their way are known to the event queue alone. */
static void free_events(struct sim *s)
{
	for (uint32_t i = 0; i < s->events.used; i++) {
		if (net_owns_frame(s->events.heap[i].fn) || host_owns_frame(s->events.heap[i].fn))
			frame_free(s, s->events.heap[i].a);
	}
	events_free(&s->events);
}

void world_free(struct sim *s)
{
	struct frame *p, *next;

	s->stopping = true;
	for (uint32_t i = 0; i < s->cfg.hosts; i++)
		host_free(s->hosts[i]);
	free_events(s);
	for (uint32_t i = 0; i < s->nlanes; i++)
		lane_free(s->lanes[i]);
	for (uint32_t i = 0; i < s->npairs; i++)
		free_pair(s->pairs[i]);
	frame_free(s, s->tap_frame);
	CHECK(s, !s->frames_out, "%u packets were lost from sight", s->frames_out);
	for (p = s->pool; p; p = next) {
		next = p->next;
		free(p);
	}
	s->pool = NULL;
}

bool world_all_up(struct sim *s)
{
	for (uint32_t i = 0; i < s->npairs; i++) {
		if (s->pairs[i]->end[0].state != END_UP || s->pairs[i]->end[1].state != END_UP)
			return false;
	}
	return true;
}

bool world_connect(struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.pairs && !s->failed; i++) {
		uint32_t from = i % s->cfg.hosts;
		uint32_t to = (from + 1 + i / s->cfg.hosts % (s->cfg.hosts - 1)) % s->cfg.hosts;
		struct pair *p = pair_new(s, from, to);
		int err = pair_connect(p);

		CHECK(s, !err, "engine_connect: %s", strerror(-err));
	}
	return world_wait_for(s, 10 * SEC, world_all_up, "all connections to be up");
}

void world_traffic(struct sim *s)
{
	const struct sim_config *c = &s->cfg;

	for (uint32_t i = 0; i < s->npairs * c->lanes && !s->failed; i++) {
		uint32_t n = i / s->npairs;
		struct lane_params p = {
			.stream = c->one_way ? n : n / 2,
			.from = c->one_way ? 0 : n & 1,
			.kinds = c->kinds,
			.min = c->min,
			.max = c->max,
			.count = c->count,
			.window = c->window,
			.recv_window = c->recv_window,
			.faults = c->faults,
			.fault_ppm = c->fault_ppm,
			.mode = c->mode,
			.tolerant_ppm = c->tolerant_ppm,
			.tolerance = c->tolerance,
		};

		lane_new(s->pairs[i % s->npairs], &p);
	}
}

void world_traffic_on(struct sim *s, struct pair *p)
{
	for (uint32_t i = 0; i < s->cfg.lanes && !s->failed; i++) {
		struct lane_params lp = {
			.stream = i / 2,
			.from = i & 1,
			.kinds = s->cfg.kinds,
			.max = s->cfg.max,
			.count = s->cfg.count,
			.window = s->cfg.window,
			.mode = s->cfg.mode,
		};

		lane_new(p, &lp);
	}
}

bool world_lanes_done(struct sim *s)
{
	return s->open == 0;
}

void world_wait(struct sim *s, uint64_t ns)
{
	sim_run(s, s->now + ns, NULL);
}

bool world_wait_for(struct sim *s, uint64_t ns, bool (*done)(struct sim *s), const char *what)
{
	if (s->failed || sim_run(s, s->now + ns, done))
		return !s->failed;
	sim_fail(s, "waited %llu ms in vain for %s", (unsigned long long)(ns / MS), what);
	return false;
}

static void report_stuck(struct sim *s)
{
	for (uint32_t i = 0; i < s->nlanes; i++) {
		struct lane *l = s->lanes[i];

		if (l->finished)
			continue;
		sim_fail(
			s,
			"lane %u (pair %u, stream %u, from end %u) is not done: %u of %u messages "
			"posted, %u sent, %u retired, receives %u of %u; last log: h0 '%s' h1 '%s'",
			l->id, l->pair->index, l->p.stream, l->p.from, l->posted, l->p.count,
			l->tx_done, l->retired, l->recv_done, l->recv_posted, s->hosts[0]->last_log,
			s->hosts[1]->last_log);
	}
}

void world_wait_lanes(struct sim *s)
{
	if (!s->failed && !sim_run(s, s->now + s->cfg.limit_ns, world_lanes_done))
		report_stuck(s);
}

/* ---- the end ---- */

static void check_slots(struct sim *s, const struct lane *l, const struct arena *a, uint32_t busy)
{
	char why[160];

	for (uint32_t i = 0; a && i < a->slots && !s->failed; i++) {
		if (i != busy && !arena_untouched(a, i, why))
			sim_fail(s, "lane %u at the end: %s", l->id, why);
	}
}

static bool arena_alive(const struct arena *a)
{
	return a->host->engine && a->life == a->host->life;
}

/* Nothing may have landed after memory was given back. */
static void check_memory(struct sim *s, bool closed)
{
	for (uint32_t i = 0; i < s->nlanes && !s->failed; i++) {
		struct lane *l = s->lanes[i];

		check_slots(s, l, l->closed, UINT32_MAX);
		check_slots(s, l, l->forbidden, UINT32_MAX);
		if (s->hostile || (!closed && l->retired < l->p.count))
			continue;
		if (arena_alive(l->local))
			check_slots(s, l, l->local,
				    l->prepared ? l->posted % l->p.window : UINT32_MAX);
		if (l->recv && arena_alive(l->recv))
			check_slots(s, l, l->recv, UINT32_MAX);
		if (!l->spoiled && l->retired == l->p.count)
			check_slots(s, l, l->memory, UINT32_MAX);
		else if (l->memory && l->memory->sum)
			CHECK(s, arena_sum(l->memory) == l->memory->sum,
			      "lane %u: memory was written after the connection had ended", l->id);
	}
}

static bool none_up(struct sim *s)
{
	for (uint32_t i = 0; i < s->npairs; i++) {
		if (s->pairs[i]->end[0].state == END_UP || s->pairs[i]->end[1].state == END_UP)
			return false;
	}
	return true;
}

static bool nothing_left(struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		struct engine_stats st;

		if (!s->hosts[i]->engine)
			continue;
		engine_stats(s->hosts[i]->engine, &st);
		if (st.conns || st.letters_used)
			return false;
	}
	return true;
}

static void remove_regions(struct sim *s)
{
	for (uint32_t i = 0; i < s->nlanes; i++) {
		struct lane *l = s->lanes[i];

		arena_remove(l->local, l->pair);
		arena_remove(l->memory, l->pair);
		arena_remove(l->recv, l->pair);
		arena_remove(l->closed, l->pair);
		arena_remove(l->forbidden, s);
	}
}

static void check_idle(struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		struct host *h = s->hosts[i];
		struct engine_stats st;

		if (!h->engine)
			continue;
		engine_stats(h->engine, &st);
		CHECK(s, !st.regions, "h%u: %u regions are left", i, st.regions);
		CHECK(s, engine_deadline(h->engine, s->now) == NEVER,
		      "h%u: an engine without connections still has a deadline", i);
	}
}

void world_finish(struct sim *s)
{
	world_wait(s, 20 * MS);
	check_memory(s, false);
	for (uint32_t i = 0; i < s->npairs && !s->failed; i++)
		pair_close(s->pairs[i], s->pairs[i]->end[0].state == END_UP ? 0 : 1,
			   MROCE_CLOSE_NORMAL);
	world_wait_for(s, 20 * SEC, none_up, "the peers to see the end of their connections");
	world_wait_for(s, 30 * SEC, nothing_left, "the engines to give everything back");
	check_memory(s, true);
	remove_regions(s);
	if (!s->failed)
		check_idle(s);
}

void world_sum(const struct sim *s, struct path_stats *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < s->npairs * 2; i++) {
		const struct end *e = &s->pairs[i / 2]->end[i % 2];
		struct path_stats st;

		for (uint32_t p = 0; e->conn && !engine_path_stats(e->conn, p, &st); p++) {
			sum->tx_packets += st.tx_packets;
			sum->tx_bytes += st.tx_bytes;
			sum->repairs += st.repairs;
			sum->spurious += st.spurious;
			sum->rtos += st.rtos;
			sum->ptos += st.ptos;
			sum->acks += st.acks;
			sum->nacks += st.nacks;
			sum->deaths += st.deaths;
			sum->moves += st.moves;
		}
	}
}

void world_standard(struct sim *s)
{
	world_build(s);
	if (world_connect(s)) {
		world_traffic(s);
		world_wait_lanes(s);
	}
	world_finish(s);
}

/* A world beside this one, for scenarios that need several; ends with world_child_end(). */
struct sim *world_child(const struct sim *s, const struct sim_config *cfg)
{
	struct sim *child = calloc(1, sizeof(*child));

	if (!child)
		abort();
	child->scenario = s->scenario;
	child->cfg = *cfg;
	child->seed = s->seed;
	child->trace.print = s->trace.print;
	return child;
}

void world_child_end(struct sim *s, struct sim *child)
{
	bool failed = child->failed;

	if (failed) {
		trace_dump(child);
		s->now = child->now;
	}
	world_free(child);
	if (child->failed)
		sim_fail(s, "in a world of its own: %s", child->failure);
	s->trace.hash = mix64(s->trace.hash ^ child->trace.hash);
	s->packets += child->packets;
	free(child);
}

uint64_t world_time_of(struct sim *s, const struct sim_config *cfg, struct path_stats *sum)
{
	struct sim *child = world_child(s, cfg);
	uint64_t took = 0;

	world_build(child);
	if (world_connect(child)) {
		uint64_t start = child->now;

		world_traffic(child);
		world_wait_lanes(child);
		took = child->now - start;
		if (sum)
			world_sum(child, sum);
	}
	world_finish(child);
	world_child_end(s, child);
	return took;
}
