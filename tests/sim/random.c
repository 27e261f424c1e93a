// SPDX-License-Identifier: BSD-2-Clause
/* Scenarios that nobody thought of: a network, hosts, traffic and accidents drawn from a seed. */
#include <string.h>
#include "sim.h"

static const uint32_t mtus[] = { 1280, 1500, 1500, 3498, 9000 };

static uint32_t pick(struct rng *r, const uint32_t *of, uint32_t n)
{
	return of[rng_below(r, n)];
}

/* Often nothing, else up to `most`, small values more often. */
static uint32_t some(struct rng *r, uint32_t most)
{
	if (rng_below(r, 2))
		return 0;
	return (uint32_t)rng_below(r, most >> rng_below(r, 6));
}

static void random_network(struct rng *r, struct sim_config *c)
{
	static const uint32_t rates[] = { 100, 1000, 10000, 10000, 40000 };

	c->planes = 1 + (uint32_t)rng_below(r, 8) % 5;
	c->planes_b = rng_below(r, 3) ? c->planes : 1 + (uint32_t)rng_below(r, 4);
	c->spines = 1 + (uint32_t)rng_below(r, 4);
	c->spine_step_ns = rng_below(r, 20 * US);
	c->ipv6 = rng_below(r, 2);
	c->mtu = pick(r, mtus, 5);
	c->rate_mbps = pick(r, rates, 5);
	c->uplink_mbps = c->rate_mbps * (1 + (uint32_t)rng_below(r, 3));
	c->delay_ns = 1 * US + rng_below(r, 100 * US);
	if (!rng_below(r, 8))
		c->delay_ns = rng_below(r, 20 * MS);
	c->queue_bytes = 20000 + rng_below(r, 500000);
	c->ce_bytes = rng_below(r, 2) ? c->queue_bytes / 4 : 0;
}

static void random_impairments(struct rng *r, struct impair *imp)
{
	imp->loss = some(r, 30 * PERCENT);
	imp->burst_start = some(r, 10000);
	imp->burst_end = 20000 + (uint32_t)rng_below(r, 400000);
	imp->burst_loss = 1000000;
	imp->reorder = some(r, 40 * PERCENT);
	imp->reorder_ns = 1 + rng_below(r, 500 * US);
	imp->dup = some(r, 30 * PERCENT);
	imp->corrupt = some(r, 10 * PERCENT);
	imp->trunc = some(r, 10 * PERCENT);
	imp->types = (uint32_t)rng_next(r);
	imp->type_loss = some(r, 60 * PERCENT);
}

static void random_hosts(struct rng *r, struct sim_config *c)
{
	c->queues = 1 + (uint32_t)rng_below(r, 4);
	c->ring = rng_below(r, 4) ? 2048 : 4 + (uint32_t)rng_below(r, 60);
	c->tx_ring = rng_below(r, 3) ? 1024 : 8 + (uint32_t)rng_below(r, 60);
	c->batch = 1 + (uint32_t)rng_below(r, 128);
	c->wake_ns = 1 + rng_below(r, rng_below(r, 5) ? 20 * US : 2 * MS);
	c->jitter_ns = 1 + rng_below(r, rng_below(r, 5) ? 20 * US : 2 * MS);
	c->socket_ns = 1 + rng_below(r, 200 * US);
	c->share_maps = rng_below(r, 4) == 0;
	c->paths = 1 + (uint32_t)rng_below(r, MROCE_MAX_PATHS);
	c->first_psn = rng_below(r, 2) ? (uint32_t)rng_next(r) : (uint32_t)(0 - rng_below(r, 500));
	c->first_msg = rng_below(r, 2) ? 0 : (uint32_t)(0 - rng_below(r, 100));
	c->chunk = rng_below(r, 4) ? 0 : 520 + (uint32_t)rng_below(r, 900);
	if (!rng_below(r, 5))
		c->messages = 64 + (uint32_t)rng_below(r, 200);
	if (!rng_below(r, 5))
		c->letters = 512 + (uint32_t)rng_below(r, 1000);
}

static void random_traffic(struct rng *r, struct sim_config *c)
{
	c->pairs = 1 + (uint32_t)rng_below(r, 3);
	c->lanes = 1 + (uint32_t)rng_below(r, 10);
	c->one_way = rng_below(r, 4) == 0;
	do
		c->kinds = (uint32_t)rng_next(r) & 0x3e;
	while (!c->kinds);
	c->max = rng_below(r, 1ull << (1 + rng_below(r, 17))) + 1;
	c->min = rng_below(r, 2) ? 0 : rng_below(r, c->max);
	c->window = 1 + (uint32_t)rng_below(r, 24);
	c->recv_window = rng_below(r, 2) ? 0 : 1 + (uint32_t)rng_below(r, 24);
	c->count = 1 + (uint32_t)(600000 / (c->lanes * c->pairs * (c->max / 2 + 1500)));
	c->count = c->count > 150 ? 150 : c->count;
	c->faults = rng_below(r, 3) ? 0 : (uint32_t)rng_next(r) & ((1u << FAULT_MAX) - 2);
	c->fault_ppm = c->faults ? 20 * PERCENT : 0;
	c->mode = (enum arena_mode)rng_below(r, ARENA_DEFERRED + 1);
	c->limit_ns = 600 * SEC;
}

void random_config(uint64_t seed, struct sim_config *cfg)
{
	struct rng r = { mix64(seed ^ 0x72616e64) };

	memset(cfg, 0, sizeof(*cfg));
	random_network(&r, cfg);
	random_impairments(&r, &cfg->imp);
	random_hosts(&r, cfg);
	random_traffic(&r, cfg);
	cfg->keepalive_ns = 200 * MS;
	cfg->silence_ns = 20 * SEC; /* the network may be as bad as it likes */
	cfg->tries = 20;
	cfg->handshake_ns = 60 * SEC;
	cfg->key = rng_below(&r, 4) == 0;
	cfg->cookies = rng_below(&r, 4) == 0;
	cfg->posts = rng_below(&r, 4) == 0;
	cfg->tolerant_ppm = rng_below(&r, 2) ? (uint32_t)rng_below(&r, 100 * PERCENT) : 0;
}

/* ---- accidents ---- */

static void link_back(struct sim *s, void *a, uint64_t port)
{
	(void)s;
	host_link(a, (uint32_t)port, true);
}

static void plane_back(struct sim *s, void *a, uint64_t plane)
{
	(void)a;
	net_plane_down(s, (uint32_t)plane, false);
}

static void ring_back(struct sim *s, void *a, uint64_t ring)
{
	struct sim_port *sp = a;

	(void)s;
	sp->ring[ring].starved = false;
}

static void spine_back(struct sim *s, void *a, uint64_t b)
{
	(void)a;
	s->spine_down[b >> 8][b & 255] = false;
}

static void accident(struct sim *s, void *a, uint64_t left)
{
	struct rng *r = &s->app_rng;
	struct host *h = s->hosts[rng_below(r, 2)];
	uint32_t port = (uint32_t)rng_below(r, h->nports), ring = (uint32_t)rng_below(r, MAX_RINGS);
	uint32_t spine = (uint32_t)rng_below(r, s->cfg.spines);
	uint64_t time = rng_below(r, 100 * MS);

	if (s->now > 30 * SEC)
		return;
	switch (rng_below(r, 8)) {
	case 0:
		host_link(h, port, false);
		sim_after(s, time, link_back, h, port);
		break;
	case 1:
		net_plane_down(s, port, true);
		sim_after(s, time, plane_back, NULL, port);
		break;
	case 2: host_pause(h, s->now + time); break;
	case 3:
		h->ports[port].ring[ring].starved = true;
		sim_after(s, time, ring_back, &h->ports[port], ring);
		break;
	case 4:
		s->spine_down[port][spine] = true;
		sim_after(s, time, spine_back, NULL, (uint64_t)port << 8 | spine);
		break;
	case 5: host_mtu(h, port, (uint16_t)rng_between(r, 1280, s->cfg.mtu)); break;
	case 6: /* not both: who has no other plane could not be found any more */
		if (world_all_up(s))
			host_move(s->hosts[0], port % s->hosts[0]->nports);
		break;
	case 7: net_plane_mtu(s, port, (uint32_t)rng_between(r, 1280, s->cfg.mtu)); break;
	}
	if (left)
		sim_after(s, rng_below(r, 50 * MS), accident, a, left - 1);
}

/* Half of the runs end in the middle of everything. */
void random_run(struct sim *s)
{
	struct rng r = { mix64(s->seed ^ 0x6d697368) };
	uint64_t way = rng_below(&r, 8);

	world_build(s);
	if (rng_below(&r, 2))
		sim_after(s, rng_below(&r, 2 * MS), accident, NULL, rng_below(&r, 20));
	for (uint32_t i = 0; i < s->cfg.pairs && !s->failed; i++) {
		pair_new(s, i & 1, !(i & 1));
		pair_connect(s->pairs[i]);
	}
	world_wait_for(s, 120 * SEC, world_all_up, "all connections to be up");
	world_traffic(s);
	if (way < 2) {
		world_wait(s, rng_below(&r, 20 * MS));
		pair_close(s->pairs[0], (uint32_t)way, MROCE_CLOSE_NORMAL);
	} else if (way == 2) {
		world_wait(s, rng_below(&r, 20 * MS));
		host_kill(s->hosts[rng_below(&r, 2)]);
	}
	world_wait_lanes(s);
	world_finish(s);
}
