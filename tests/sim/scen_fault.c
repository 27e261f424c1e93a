// SPDX-License-Identifier: BSD-2-Clause
/* What breaks while traffic runs: planes, routes, rings, daemons, regions, requests that are wrong. */
#include <arpa/inet.h>
#include <string.h>
#include "sim.h"

#define SENDS (1 << MROCE_WR_SEND | 1 << MROCE_WR_SEND_IMM)
#define FAULT(f) (1u << FAULT_##f)

static uint64_t deaths(const struct sim *s)
{
	struct path_stats sum;

	world_sum(s, &sum);
	return sum.deaths;
}

static bool any_death(struct sim *s)
{
	return deaths(s) > 0;
}

static void start(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
}

static void finish(struct sim *s)
{
	world_wait_lanes(s);
	world_finish(s);
}

/* ---- planes and routes ---- */

static uint64_t bytes_done(const struct sim *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->nlanes; i++)
		sum += s->lanes[i]->bytes_done;
	return sum;
}

/* Milliseconds without a completed byte in the next `ns`, at the longest. */
static uint64_t longest_silence(struct sim *s, uint64_t ns)
{
	uint64_t last = bytes_done(s), since = s->now, longest = 0, until = s->now + ns;

	while (s->now < until && !s->failed && s->open) {
		world_wait(s, MS / 2);
		if (bytes_done(s) != last) {
			last = bytes_done(s);
			since = s->now;
		}
		longest = s->now - since > longest ? s->now - since : longest;
	}
	return longest;
}

static uint32_t paths_up(const struct sim *s)
{
	struct path_stats st;
	uint32_t up = 0;

	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t p = 0; !engine_path_stats(s->pairs[0]->end[i].conn, p, &st); p++)
			up += st.state == 0;
	}
	return up;
}

static bool all_paths_up(struct sim *s)
{
	return paths_up(s) == 2 * s->cfg.paths;
}

static void plane_down(struct sim *s)
{
	uint64_t silence;

	start(s);
	world_wait(s, 5 * MS);
	net_plane_down(s, 2, true);
	silence = longest_silence(s, 100 * MS);
	sim_note(s, "nothing completed for %llu us at the longest",
		 (unsigned long long)(silence / US));
	CHECK(s, silence <= 60 * MS, "nothing completed for %llu ms after a plane died",
	      (unsigned long long)(silence / MS));
	if (s->failed)
		goto out;
	CHECK(s, s->open, "all was done before the plane could matter");
	CHECK(s, deaths(s), "no path was declared dead on a dead plane");
	net_plane_down(s, 2, false);
	world_wait_for(s, 5 * SEC, all_paths_up, "all paths to be up again");
out:
	finish(s);
}

static void link_down(struct sim *s)
{
	uint64_t silence;

	start(s);
	world_wait(s, 5 * MS);
	if (s->failed)
		goto out;
	host_link(s->hosts[0], 1, false);
	silence = longest_silence(s, 50 * MS);
	sim_note(s, "nothing completed for %llu us at the longest",
		 (unsigned long long)(silence / US));
	CHECK(s, silence <= 60 * MS, "nothing completed for %llu ms after a link went down",
	      (unsigned long long)(silence / MS));
	CHECK(s, paths_up(s) < 2 * s->cfg.paths, "all paths are up with a link down");
	host_link(s->hosts[0], 1, true);
	world_wait_for(s, 5 * SEC, all_paths_up, "all paths to be up again");
out:
	finish(s);
}

static void flapping(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 30 && !s->failed; i++) {
		host_link(s->hosts[i & 1], i % s->cfg.planes, i / 2 & 1);
		world_wait(s, MS + rng_below(&s->app_rng, 9 * MS));
	}
	for (uint32_t i = 0; i < 2 * s->cfg.planes; i++)
		host_link(s->hosts[i & 1], i / 2, true);
	finish(s);
}

/* Hosts with different numbers of planes; links of the one with more. */
static void flapping_one(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 30 && !s->failed; i++) {
		host_link(s->hosts[0], i / 2 % s->cfg.planes, i & 1);
		world_wait(s, MS + rng_below(&s->app_rng, 9 * MS));
	}
	finish(s);
}

static void plane_flapping(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 30 && !s->failed; i++) {
		net_plane_down(s, i / 2 % s->cfg.planes, !(i & 1));
		world_wait(s, MS + rng_below(&s->app_rng, 9 * MS));
	}
	finish(s);
}

/* One plane after the other goes for good; the last one must carry everything. */
static void last_plane(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i + 1 < s->cfg.planes && !s->failed; i++) {
		world_wait(s, 10 * MS);
		net_plane_down(s, i, true);
	}
	finish(s);
}

static void black_hole(struct sim *s)
{
	start(s);
	world_wait(s, 3 * MS);
	trace_text(s, TR_EVENT, 0, "spine 1 is a black hole from now on");
	s->spine_down[0][1] = true;
	world_wait_for(s, 5 * SEC, any_death, "a path to be declared dead");
	world_wait_for(s, 10 * SEC, all_paths_up, "all paths to have found another spine");
	finish(s);
}

/* Data pass, but nothing comes back through spine 0. */
static bool half_dead(struct sim *s, struct frame *p)
{
	return p->from_host == 0 || net_spine(s, p) != 0 || s->now < 3 * MS;
}

static void one_way_hole(struct sim *s)
{
	s->tap = half_dead;
	start(s);
	finish(s);
}

static uint32_t smallest_mtu(const struct sim *s, uint32_t side)
{
	uint32_t least = UINT32_MAX;
	struct path_stats st;

	for (uint32_t p = 0; !engine_path_stats(s->pairs[0]->end[side].conn, p, &st); p++)
		least = st.mtu < least ? st.mtu : least;
	return least;
}

/* The largest of the sizes tried that passes at 1400 or at 1450 bytes. */
static bool mtu_known(struct sim *s)
{
	uint32_t mtu = smallest_mtu(s, 0);

	return mtu == 1380 || mtu == 1420;
}

/* Packets above 1400 bytes vanish on one plane, or on all, in the middle of everything. */
static void mtu_hole(struct sim *s)
{
	uint32_t planes = s->cfg.planes == 1 ? 1 : s->cfg.planes - 1;

	start(s);
	world_wait(s, 3 * MS);
	for (uint32_t i = 0; i < planes; i++)
		net_plane_mtu(s, i, 1400);
	CHECK(s, s->open, "all was done before the switches could matter");
	world_wait_for(s, 20 * SEC, mtu_known, "the smaller MTU to be found");
	finish(s);
}

/* Switches that never took more: known before the first large message begins. */
static void mtu_narrow(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < s->cfg.planes; i++)
		net_plane_mtu(s, i, 1450);
	world_connect(s);
	world_traffic(s);
	world_wait_for(s, 5 * SEC, mtu_known, "the MTU of the switches to be found");
	finish(s);
}

static void mtu_lowered(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 12 && !s->failed; i++) {
		uint16_t mtu = (uint16_t)rng_between(&s->app_rng, 1280, s->cfg.mtu);

		host_mtu(s->hosts[i & 1], i / 2 % s->cfg.planes, i < 8 ? mtu : (uint16_t)s->cfg.mtu);
		world_wait(s, MS + rng_below(&s->app_rng, 3 * MS));
	}
	finish(s);
}

static void addresses_change(struct sim *s)
{
	uint64_t silence = 0, one;

	start(s);
	for (uint32_t i = 0; i < 6 && !s->failed; i++) {
		world_wait(s, 2 * MS);
		host_move(s->hosts[i & 1], i % s->cfg.planes);
		one = longest_silence(s, 20 * MS);
		silence = one > silence ? one : silence;
	}
	sim_note(s, "nothing completed for %llu us at the longest",
		 (unsigned long long)(silence / US));
	CHECK(s, silence <= 60 * MS, "nothing completed for %llu ms after an address had changed",
	      (unsigned long long)(silence / MS));
	world_wait_for(s, 5 * SEC, all_paths_up, "all paths to be up at the new addresses");
	finish(s);
}

static void unequal_planes(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 2; i++) {
		s->hosts[i]->ports[1].down.rate /= 10;
		s->hosts[i]->ports[2].down.delay += 2 * MS;
		s->hosts[i]->ports[3].down.imp.loss = 20 * PERCENT;
	}
	world_connect(s);
	world_traffic(s);
	finish(s);
}

/* ---- rings and daemons ---- */

static void ring_tiny(struct sim *s)
{
	start(s);
	world_wait_lanes(s);
	CHECK(s, host_ring_drops(s->hosts[0]) + host_ring_drops(s->hosts[1]) > 20,
	      "rings of %u overflowed only %llu times", s->cfg.ring,
	      (unsigned long long)(host_ring_drops(s->hosts[0]) + host_ring_drops(s->hosts[1])));
	world_finish(s);
}

static void starve(struct sim *s, uint32_t host, bool starved, uint32_t rings)
{
	for (uint32_t i = 0; i < s->hosts[host]->nports; i++) {
		for (uint32_t j = 0; j < rings; j++)
			s->hosts[host]->ports[i].ring[j].starved = starved;
	}
	trace_text(s, TR_EVENT, (int)host, "rings %s", starved ? "starve" : "are fed");
}

static void ring_starved(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 20 && !s->failed; i++) {
		starve(s, i & 1, true, i % 3 ? 1 : MAX_RINGS);
		world_wait(s, 1 * MS + rng_below(&s->app_rng, 15 * MS));
		starve(s, i & 1, false, MAX_RINGS);
		world_wait(s, rng_below(&s->app_rng, 10 * MS));
	}
	world_wait_lanes(s);
	CHECK(s, host_ring_drops(s->hosts[0]) + host_ring_drops(s->hosts[1]) > 20,
	      "the starved rings lost next to nothing");
	world_finish(s);
}

static void daemon_pauses(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 10 && !s->failed; i++) {
		host_pause(s->hosts[i & 1], s->now + 50 * MS + rng_below(&s->app_rng, 100 * MS));
		world_wait(s, 200 * MS);
	}
	finish(s);
}

/* The tracker hears POLLs, and so of una, but for a while no letter reaches the daemon on its only path. */
static void una_unseen(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < 4 && !s->failed; i++) {
		starve(s, 1, true, MAX_RINGS);
		world_wait(s, 400 * MS);
		starve(s, 1, false, MAX_RINGS);
		world_wait(s, 5 * MS);
	}
	finish(s);
}

/* Longer than a silent peer is borne with; but the tracker still answers. */
static void daemon_stops(struct sim *s)
{
	start(s);
	world_wait(s, MS);
	host_pause(s->hosts[1], s->now + 6 * SEC);
	world_wait(s, 6 * SEC);
	finish(s);
}

/* ---- requests that are wrong ---- */

static void count_faults(struct sim *s)
{
	uint32_t seen[FAULT_MAX] = { 0 };

	start(s);
	world_wait_lanes(s);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		for (uint32_t j = 0; j < s->lanes[i]->p.count; j++)
			seen[s->lanes[i]->msgs[j].fault]++;
	}
	for (uint32_t f = 1; f < FAULT_MAX; f++)
		CHECK(s, seen[f] || !(s->cfg.faults >> f & 1), "no message had fault %u", f);
	world_finish(s);
}

static void faulty_flood(struct sim *s)
{
	start(s);
	finish(s);
}

static void region_removed(struct sim *s)
{
	start(s);
	for (uint32_t i = 0; i < s->nlanes && !s->failed; i++) {
		struct lane *l = s->lanes[i];

		world_wait(s, 200 * US);
		l->any_status = l->spoiled = true;
		l->broken = true;
		arena_remove(i & 1 ? l->local : l->memory, l->pair);
		CHECK(s, !s->failed && l->posted < l->p.count, "all was posted already");
		if (i % 4 < 2 && l->recv)
			arena_remove(l->recv, l->pair);
	}
	if (s->lanes[0]->recv) { /* sends will never meet a receive again */
		world_wait(s, 200 * MS);
		pair_close(s->pairs[0], 0, MROCE_CLOSE_NORMAL);
	}
	world_wait_lanes(s);
	world_wait(s, 100 * MS);
	for (uint32_t i = 0; i < s->nlanes && !s->failed; i++) {
		struct arena *a = i & 1 ? s->lanes[i]->local : s->lanes[i]->memory;

		CHECK(s, a->released, "a removed region that nobody uses was not released");
		a->sum = 0;
	}
	world_finish(s);
}

/* The application's memory goes away under the daemon's hands. */
static void region_gone(struct sim *s)
{
	start(s);
	world_wait(s, 300 * US);
	for (uint32_t i = 0; i < s->nlanes && !s->failed; i++) {
		struct lane *l = s->lanes[i];

		l->any_status = l->spoiled = l->broken = true;
		if (i & 1)
			l->local->gone = true;
		else if (l->memory)
			l->memory->gone = true;
		if (i % 4 == 0 && l->recv)
			l->recv->gone = true;
	}
	finish(s);
}

/* ---- credits and streams that do not wait for each other ---- */

static void no_credit(struct sim *s)
{
	struct lane_params p = { .stream = 5,
				 .kinds = SENDS,
				 .max = 5000,
				 .count = 40,
				 .window = 40,
				 .recv_window = 4,
				 .hold_recv = true };
	struct lane *held;

	start(s);
	held = lane_new(s->pairs[0], &p);
	s->open--; /* it is to hang */
	world_wait_lanes(s);
	world_wait(s, 50 * MS);
	CHECK(s, held->posted == 40 && held->tx_done == 0, "%u sends ended without a receive",
	      held->tx_done);
	s->open++;
	lane_release_recv(held);
	finish(s);
}

static uint64_t worst_wait(const struct lane *l)
{
	uint64_t worst = 0;

	for (uint32_t i = 0; i < l->tx_done; i++) {
		uint64_t wait = l->msgs[i].tx_at - l->msgs[i].posted_at;

		worst = wait > worst ? wait : worst;
	}
	return worst;
}

/* Loses all data of stream 0 for a while, in whatever envelope they come. */
static bool stream_0_blocked(struct sim *s, struct frame *p)
{
	const struct mroce_data *d = (void *)(p->data + MROCE_HDR_LEN);

	if (frame_type(p) != MROCE_DATA || s->now < 2 * MS || s->now > 60 * MS)
		return true;
	return ntohl(d->stream) != 0;
}

static void stream_blocked(struct sim *s)
{
	uint64_t worst = 0, blocked;

	s->tap = stream_0_blocked;
	world_build(s);
	world_connect(s);
	for (uint32_t i = 0; i < 4 && !s->failed; i++) {
		struct lane_params p = { .stream = i,
					 .kinds = SENDS | 1 << MROCE_WR_WRITE,
					 .max = 3000,
					 .count = 500,
					 .window = 4,
					 .interval = 100 * US };

		lane_new(s->pairs[0], &p);
	}
	world_wait_lanes(s);
	for (uint32_t i = 1; i < 4; i++)
		worst = worst_wait(s->lanes[i]) > worst ? worst_wait(s->lanes[i]) : worst;
	blocked = worst_wait(s->lanes[0]);
	sim_note(s, "stream 0 waited %llu us, the others %llu us at most",
		 (unsigned long long)(blocked / US), (unsigned long long)(worst / US));
	CHECK(s, blocked >= 50 * MS, "stream 0 was blocked for 58 ms, but waited only %llu us",
	      (unsigned long long)(blocked / US));
	CHECK(s, worst <= 2 * MS, "other streams waited %llu us for a blocked one",
	      (unsigned long long)(worst / US));
	world_finish(s);
}

/* A letter of a stream is lost: the next message of the stream waits, others do not notice. */
static void streams_under_loss(struct sim *s)
{
	uint64_t sum = 0, n = 0;

	world_build(s);
	world_connect(s);
	for (uint32_t i = 0; i < 16 && !s->failed; i++) {
		struct lane_params p = { .stream = i,
					 .kinds = SENDS,
					 .max = 500,
					 .count = 100,
					 .window = 4,
					 .interval = 200 * US };

		lane_new(s->pairs[0], &p);
	}
	world_wait_lanes(s);
	for (uint32_t i = 0; i < s->nlanes; i++) {
		for (uint32_t j = 0; j < s->lanes[i]->tx_done; j++) {
			sum += s->lanes[i]->msgs[j].tx_at - s->lanes[i]->msgs[j].posted_at;
			n++;
		}
	}
	CHECK(s, n && sum / n <= 200 * US, "a message took %llu us on average",
	      (unsigned long long)(n ? sum / n / US : 0));
	sim_note(s, "%llu us per message on average", (unsigned long long)(n ? sum / n / US : 0));
	world_finish(s);
}

/* Few records in the engine: it must wait and go on, not lose or hang. */
static void few_records(struct sim *s)
{
	uint32_t refused = 0;

	start(s);
	world_wait_lanes(s);
	for (uint32_t i = 0; i < s->nlanes; i++)
		refused += s->lanes[i]->refused;
	sim_note(s, "%u posts were put off", refused);
	world_finish(s);
}

/* Receive counters near their wrap when the traffic begins. */
static void counters_wrap(struct sim *s)
{
	world_build(s);
	world_connect(s);
	for (uint32_t i = 0; i < 2 && !s->failed; i++) {
		struct port *port = &s->hosts[i]->ports[0].port;

		for (uint32_t slot = 0; slot < s->cfg.max_conns; slot++) {
			for (uint32_t p = 0; port->conns[slot].cid && p < s->cfg.paths; p++) {
				struct mroce_path_rx *rx = &port->paths[slot * MROCE_MAX_PATHS + p];

				rx->rx_bytes = rx->ce_bytes = rx->rx_packets = 0xfffff000;
				rx->late = rx->duplicate = 0xffffffe0;
				rx->acks = rx->gaps = 0xfffffff0;
			}
		}
	}
	world_traffic(s);
	finish(s);
}

#define RDMA_FAULTS                                                                         \
	(FAULT(BAD_RKEY) | FAULT(BOUNDS) | FAULT(BELOW) | FAULT(WRAP) | FAULT(PERMISSION) | \
	 FAULT(OWNER))
#define ALL_FAULTS (RDMA_FAULTS | FAULT(LOCAL_KEY) | FAULT(LOCAL_BOUNDS) | FAULT(TOO_LONG))

const struct scenario fault_scenarios[] = {
	{ "plane_down",
	  "one plane of four dies without a word and comes back",
	  { .planes = 4, .count = 2000, .rate_mbps = 100, .max = 30000 },
	  plane_down },
	{ "link_down",
	  "a link goes down, and the host knows",
	  { .planes = 4, .count = 2000, .rate_mbps = 100, .max = 30000 },
	  link_down },
	{ "link_flapping",
	  "links of both hosts up and down",
	  { .planes = 4, .count = 1000, .rate_mbps = 100 },
	  flapping },
	{ "plane_flapping",
	  "planes up and down without a word",
	  { .planes = 4, .count = 1000, .rate_mbps = 100 },
	  plane_flapping },
	{ "last_plane",
	  "three of four planes die for good",
	  { .planes = 4, .count = 1000, .rate_mbps = 100 },
	  last_plane },
	{ "black_hole",
	  "one of four spines swallows everything",
	  { .spines = 4, .count = 1000, .rate_mbps = 100 },
	  black_hole },
	{ "one_way_hole",
	  "one of four spines works in one direction only",
	  { .spines = 4, .count = 600, .rate_mbps = 100 },
	  one_way_hole },
	{ "mtu_hole",
	  "packets above 1400 bytes vanish on three planes of four",
	  { .planes = 4, .count = 2000, .rate_mbps = 200, .max = 100000 },
	  mtu_hole },
	{ "mtu_hole_loss",
	  "the same everywhere, with loss",
	  { .planes = 1, .count = 2000, .rate_mbps = 200, .max = 100000, .imp.loss = PERCENT },
	  mtu_hole },
	{ "mtu_hole_deferred",
	  "the same with deferred writes",
	  { .planes = 1, .count = 1000, .rate_mbps = 200, .max = 100000, .mode = ARENA_DEFERRED },
	  mtu_hole },
	{ "mtu_narrow",
	  "switches that take 1450 bytes only",
	  { .planes = 2, .count = 400 },
	  mtu_narrow },
	{ "mtu_lowered",
	  "MTUs of interfaces change under way",
	  { .planes = 2, .count = 2000, .rate_mbps = 200, .max = 100000 },
	  mtu_lowered },
	{ "mtu_lowered_loss",
	  "the same with loss and deferred writes",
	  { .planes = 2,
	    .count = 2000,
	    .rate_mbps = 200,
	    .max = 100000,
	    .imp.loss = PERCENT,
	    .mode = ARENA_DEFERRED },
	  mtu_lowered },
	{ "mtu_lowered_ipv6",
	  "the same on one IPv6 plane",
	  { .ipv6 = true, .planes = 1, .count = 1000, .rate_mbps = 200, .max = 100000 },
	  mtu_lowered },
	{ "addresses_change",
	  "interfaces get other addresses under way",
	  { .planes = 4, .count = 2000, .rate_mbps = 100, .max = 30000 },
	  addresses_change },
	{ "addresses_change_alone",
	  "the only interface gets another address",
	  { .planes = 1, .count = 2000, .rate_mbps = 100, .max = 30000 },
	  addresses_change },
	{ "planes_4_and_1",
	  "hosts with four planes and one, a link that flaps",
	  { .planes = 4, .planes_b = 1, .routed = true, .count = 300, .rate_mbps = 300 },
	  flapping_one },
	{ "unequal_planes",
	  "one slow, one far, one lossy plane of four",
	  { .planes = 4, .count = 400, .rate_mbps = 300 },
	  unequal_planes },
	{ "ring_tiny",
	  "receive rings of four frames",
	  { .ring = 4, .count = 200, .wake_ns = 20 * US },
	  ring_tiny },
	{ "ring_tiny_loss",
	  "the same, with loss and one path",
	  { .ring = 4, .count = 200, .paths = 1, .imp.loss = 2 * PERCENT, .wake_ns = 20 * US },
	  ring_tiny },
	{ "ring_starved",
	  "rings without frames for milliseconds",
	  { .count = 3000, .rate_mbps = 1000, .max = 30000, .imp.loss = PERCENT },
	  ring_starved },
	{ "ring_starved_deferred",
	  "the same with deferred writes",
	  { .count = 1500, .rate_mbps = 1000, .max = 30000, .mode = ARENA_DEFERRED },
	  ring_starved },
	{ "una_unseen",
	  "no letter gets through on the only path for 400 ms",
	  { .paths = 1, .count = 2000, .max = 30000, .window = 32, .imp.loss = 10 * PERCENT },
	  una_unseen },
	{ "slow_daemon",
	  "daemons that need milliseconds to wake up",
	  { .wake_ns = 2 * MS, .jitter_ns = 3 * MS, .count = 100, .imp.loss = PERCENT },
	  NULL },
	{ "daemon_pauses",
	  "daemons that stop for 50 to 150 ms",
	  { .count = 1000, .rate_mbps = 100, .imp.loss = PERCENT },
	  daemon_pauses },
	{ "daemon_stops", "a daemon that stops for six seconds", { .count = 300 }, daemon_stops },
	{ "slow_socket",
	  "the second door is 2 ms slower",
	  { .socket_ns = 2 * MS, .imp.loss = 5 * PERCENT, .count = 200 },
	  NULL },
	{ "access_errors",
	  "every fault a request can have",
	  { .faults = ALL_FAULTS, .fault_ppm = 60 * PERCENT, .count = 500, .lanes = 4 },
	  count_faults },
	{ "access_errors_loss",
	  "the same with loss, duplicates and disorder",
	  { .faults = ALL_FAULTS,
	    .fault_ppm = 60 * PERCENT,
	    .count = 500,
	    .lanes = 4,
	    .imp = { .loss = 5 * PERCENT, .dup = 5 * PERCENT, .reorder = 5 * PERCENT } },
	  count_faults },
	{ "too_long",
	  "sends longer than their receives",
	  { .faults = FAULT(TOO_LONG),
	    .fault_ppm = 900000,
	    .kinds = SENDS,
	    .count = 300,
	    .imp.loss = 3 * PERCENT },
	  count_faults },
	{ "faulty_flood",
	  "almost nothing but faults, deep windows",
	  { .faults = ALL_FAULTS,
	    .fault_ppm = 1000000,
	    .count = 1000,
	    .window = 64,
	    .imp.loss = 2 * PERCENT },
	  faulty_flood },
	{ "region_removed",
	  "regions are removed under way",
	  { .kinds = 1 << MROCE_WR_WRITE | 1 << MROCE_WR_READ,
	    .count = 3000,
	    .window = 16,
	    .lanes = 8,
	    .rate_mbps = 1000,
	    .imp.loss = PERCENT },
	  region_removed },
	{ "region_removed_all",
	  "the same with every kind of request",
	  { .count = 3000, .window = 16, .lanes = 8, .rate_mbps = 1000, .imp.loss = PERCENT },
	  region_removed },
	{ "region_gone",
	  "memory that is gone",
	  { .mode = ARENA_OPS, .lanes = 8, .count = 200, .imp.loss = PERCENT },
	  region_gone },
	{ "region_gone_deferred",
	  "memory that is gone, found at flush",
	  { .mode = ARENA_DEFERRED, .lanes = 8, .count = 200, .imp.loss = PERCENT },
	  region_gone },
	{ "no_credit", "a stream without credit, and others", { .count = 200 }, no_credit },
	{ "stream_blocked", "all packets of one stream are lost for 58 ms", { 0 }, stream_blocked },
	{ "streams_under_loss",
	  "16 streams at 2 % loss",
	  { .imp.loss = 2 * PERCENT },
	  streams_under_loss },
	{ "few_records",
	  "more requests than records",
	  { .messages = 64, .letters = 256, .lanes = 16, .window = 32, .count = 100, .imp.loss = PERCENT },
	  few_records },
	{ "counters_wrap",
	  "receive counters pass 2^32",
	  { .count = 300, .imp.loss = PERCENT },
	  counters_wrap },
	{ NULL, NULL, { 0 }, NULL },
};
