// SPDX-License-Identifier: BSD-2-Clause
/* How connections begin and end: set-up under every misfortune, closing and dying at any moment. */
#include <arpa/inet.h>
#include <string.h>
#include "sim.h"

#define TYPE(t) (1u << MROCE_##t)

static struct end *end_of(struct sim *s, uint32_t pair, uint32_t side)
{
	return &s->pairs[pair]->end[side];
}

static struct pair *new_pair(struct sim *s, uint32_t from, uint32_t to)
{
	struct pair *p = pair_new(s, from, to);
	int err = s->failed ? 0 : pair_connect(p);

	CHECK(s, !err, "engine_connect: %s", strerror(-err));
	return p;
}

static bool initiator_refused(struct sim *s)
{
	return end_of(s, s->npairs - 1, 0)->state == END_REFUSED;
}

static bool last_pair_up(struct sim *s)
{
	struct pair *p = s->pairs[s->npairs - 1];

	return p->end[0].state == END_UP && p->end[1].state == END_UP;
}

static void expect_refused(struct sim *s, int code, uint64_t within)
{
	uint64_t start = s->now;

	world_wait_for(s, within, initiator_refused, "the connection to be refused");
	if (s->failed)
		return;
	CHECK(s, end_of(s, s->npairs - 1, 0)->code == code, "refused with %s, expected %s",
	      strerror(end_of(s, s->npairs - 1, 0)->code), strerror(code));
	sim_note(s, "refused after %llu us", (unsigned long long)((s->now - start) / US));
}

/* ---- set-up ---- */

static void connect_nobody(struct sim *s)
{
	world_build(s);
	s->drop_first[MROCE_HELLO] = 1000000;
	new_pair(s, 0, 1);
	expect_refused(s, ETIMEDOUT, 6 * SEC);
	s->drop_first[MROCE_HELLO] = 0;
	new_pair(s, 0, 1);
	world_wait_for(s, SEC, last_pair_up, "a connection after one that timed out");
	world_finish(s);
}

static void connect_no_service(struct sim *s)
{
	struct pair *p;

	world_build(s);
	p = pair_new(s, 0, 1);
	engine_unlisten(s->hosts[1]->engine, p->service);
	pair_connect(p);
	expect_refused(s, ECONNREFUSED, 5 * MS);
	world_finish(s);
}

static bool other_version(struct sim *s, struct frame *p)
{
	struct mroce_hello *h = (void *)(p->data + MROCE_HDR_LEN);

	(void)s;
	if (frame_type(p) == MROCE_HELLO) {
		h->version_min = 77;
		h->version_max = 79;
		frame_seal(p);
	}
	return true;
}

static void connect_version(struct sim *s)
{
	world_build(s);
	s->tap = other_version;
	new_pair(s, 0, 1);
	expect_refused(s, EPROTONOSUPPORT, 5 * MS);
	world_finish(s);
}

static void connect_backlog(struct sim *s)
{
	struct pair *first;
	uint32_t busy = 0, up = 0;

	world_build(s);
	s->hold_taken = true;
	first = pair_new(s, 0, 1);
	engine_unlisten(s->hosts[1]->engine, first->service);
	CHECK(s, !engine_listen(s->hosts[1]->engine, first->service, first, 2), "listen");
	for (uint32_t i = 0; i < 5 && !s->failed; i++) {
		struct pair *p = i ? pair_new(s, 0, 1) : first;

		p->service = first->service;
		pair_connect(p);
		world_wait(s, 10 * MS);
		busy += p->end[0].state == END_REFUSED && p->end[0].code == EBUSY;
		up += p->end[0].state == END_UP;
	}
	CHECK(s, up == 2 && busy == 3, "backlog 2, five connects: %u up, %u refused with EBUSY", up,
	      busy);
	world_finish(s);
}

static void handshake_loss(struct sim *s)
{
	const uint32_t types[] = { MROCE_HELLO, MROCE_ACCEPT, MROCE_READY };

	world_build(s);
	for (uint32_t i = 0; i < 12 && !s->failed; i++) {
		s->drop_first[types[i % 3]] = 1 + i / 3;
		new_pair(s, i & 1, !(i & 1));
		world_wait_for(s, 4 * SEC, last_pair_up, "a connection with lost set-up packets");
		s->drop_first[types[i % 3]] = 0;
	}
	world_traffic(s);
	world_wait_lanes(s);
	world_finish(s);
}

/* READY is lost for good: the first data must do. */
static void ready_lost(struct sim *s)
{
	world_build(s);
	s->drop_first[MROCE_READY] = 1000000;
	new_pair(s, 0, 1);
	world_wait(s, MS);
	s->cfg.one_way = true;
	s->cfg.kinds = 1 << MROCE_WR_WRITE; /* needs no credit from somebody who is not there yet */
	world_traffic(s);
	world_wait_for(s, 4 * SEC, last_pair_up, "the acceptor to believe the first data");
	world_wait_lanes(s);
	world_finish(s);
}

/* With a key nothing but READY will do, and the initiator does not know that it was lost. */
static void ready_late(struct sim *s)
{
	world_build(s);
	s->drop_first[MROCE_READY] = 4;
	new_pair(s, 0, 1);
	world_wait(s, MS);
	s->cfg.one_way = true;
	s->cfg.kinds = 1 << MROCE_WR_WRITE;
	world_traffic(s);
	CHECK(s, end_of(s, 0, 1)->state != END_UP, "the acceptor believed letters");
	world_wait_for(s, SEC, last_pair_up, "READY to be asked for again");
	world_wait_lanes(s);
	world_finish(s);
}

/* Keeps the first packet of the wanted type. */
static bool keep_first(struct sim *s, struct frame *p)
{
	if (!s->tap_frame && frame_type(p) == s->tap_state[0])
		s->tap_frame = frame_copy(s, p);
	return true;
}

static void replay(struct sim *s, uint32_t times)
{
	for (uint32_t i = 0; i < times && s->tap_frame && !s->failed; i++) {
		net_inject(s, frame_copy(s, s->tap_frame));
		world_wait(s, (1 + i) * MS);
	}
}

static void replay_type(struct sim *s, uint32_t type)
{
	struct pair *p;

	world_build(s);
	s->tap = keep_first;
	s->tap_state[0] = type;
	p = new_pair(s, 0, 1);
	replay(s, 3);
	world_wait_for(s, SEC, last_pair_up, "the connection");
	replay(s, 10);
	world_traffic(s);
	replay(s, 5);
	world_wait_lanes(s);
	CHECK(s, p->accepted == 1, "accepted %u times", p->accepted);
	pair_close(p, 0, MROCE_CLOSE_NORMAL);
	world_wait(s, 50 * MS);
	CHECK(s, s->tap_frame, "no packet of type %u was seen", type);
	replay(s, 5);
	world_wait(s, 6 * SEC);
	replay(s, 5);
	world_wait(s, 6 * SEC);
	CHECK(s, p->accepted == 1, "accepted %u times after replays", p->accepted);
	world_finish(s);
}

static void replay_hello(struct sim *s)
{
	replay_type(s, MROCE_HELLO);
}

static void replay_accept(struct sim *s)
{
	replay_type(s, MROCE_ACCEPT);
}

static void replay_ready(struct sim *s)
{
	replay_type(s, MROCE_READY);
}

static void replay_data(struct sim *s)
{
	replay_type(s, MROCE_DATA);
}

static void replay_close(struct sim *s)
{
	replay_type(s, MROCE_CLOSE);
}

/* More connections than the tables hold: the surplus is refused, in words, and nothing else breaks. */
static void conns_full(struct sim *s)
{
	uint32_t up = 0, refused = 0, no_slot = 0;

	world_build(s);
	for (uint32_t i = 0; i < 12 && !s->failed; i++) {
		struct pair *p = pair_new(s, 0, 1);
		int err = pair_connect(p);

		CHECK(s, !err || err == -ENOSPC, "engine_connect: %s", strerror(-err));
		world_wait(s, 5 * MS);
		up += p->end[0].state == END_UP;
		refused += p->end[0].state == END_REFUSED && p->end[0].code == EBUSY;
		no_slot += err == -ENOSPC;
	}
	CHECK(s, up == 8 && refused + no_slot == 4, "tables of 8, 12 connects: %u up, %u + %u not",
	      up, refused, no_slot);
	world_traffic_on(s, s->pairs[0]);
	world_wait_lanes(s);
	world_finish(s);
}

/* Posts that are refused at once. */
static void post_errors(struct sim *s)
{
	struct work_request wr = { .opcode = MROCE_WR_SEND };
	struct conn *conn;

	world_build(s);
	world_connect(s);
	if (s->failed)
		return;
	conn = s->pairs[0]->end[0].conn;
	wr.stream = s->cfg.streams;
	CHECK(s, engine_post(conn, &wr, s->now) == -EINVAL, "a stream too high was taken");
	wr = (struct work_request){ .opcode = 0 };
	CHECK(s, engine_post(conn, &wr, s->now) == -EINVAL, "opcode 0 was taken");
	wr.opcode = MROCE_WR_RECV_IMM;
	CHECK(s, engine_post(conn, &wr, s->now) == -EINVAL, "opcode RECV_IMM was taken");
	wr = (struct work_request){ .opcode = MROCE_WR_WRITE, .len = MROCE_MSG_MAX + 1 };
	CHECK(s, engine_post(conn, &wr, s->now) == -EINVAL, "a message too long was taken");
	s->pairs[0]->may_end = true;
	pair_close(s->pairs[0], 1, MROCE_CLOSE_NORMAL);
	while (s->pairs[0]->end[0].state == END_UP && !s->failed)
		world_wait(s, 10 * US);
	wr = (struct work_request){ .opcode = MROCE_WR_SEND };
	if (s->pairs[0]->end[0].conn)
		CHECK(s, engine_post(s->pairs[0]->end[0].conn, &wr, s->now) == -ENOTCONN,
		      "a connection that has ended took a request");
	world_finish(s);
}

/* ---- closing ---- */

static bool last_pair_over(struct sim *s)
{
	struct pair *p = s->pairs[s->npairs - 1];

	return p->end[0].state != END_UP && p->end[1].state != END_UP;
}

static void expect_end(struct sim *s, struct pair *p, uint32_t side, uint64_t within)
{
	struct end *e = &p->end[side];
	uint64_t start = s->now;

	world_wait_for(s, within, last_pair_over, "the other side to see the end");
	if (s->failed || e->state != END_ENDED)
		return;
	CHECK(s, e->code == MROCE_E_PEER_GONE, "ended with status %d, expected PEER_GONE", e->code);
	s->tap_state[7] = s->tap_state[7] > s->now - start ? s->tap_state[7] : s->now - start;
}

/* Closes at a random moment, from a random side, with everything in flight. */
static void close_anytime(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 30 && !s->failed; i++) {
		struct pair *p = new_pair(s, i & 1, !(i & 1));
		uint32_t side = (uint32_t)rng_below(&s->app_rng, 2);

		world_wait_for(s, 5 * SEC, last_pair_up, "the connection");
		world_traffic_on(s, p);
		world_wait(s, rng_below(&s->app_rng, i % 3 ? 1000 * US : 20 * US));
		pair_close(p, side, (enum mroce_close_code)(i % 3));
		expect_end(s, p, !side, 5 * SEC);
	}
	sim_note(s, "the other side knew after %llu us at most",
		 (unsigned long long)(s->tap_state[7] / US));
	world_finish(s);
}

static void close_both(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 20 && !s->failed; i++) {
		struct pair *p = new_pair(s, 0, 1);

		world_wait_for(s, 5 * SEC, last_pair_up, "the connection");
		world_traffic_on(s, p);
		world_wait(s, rng_below(&s->app_rng, 500 * US));
		pair_close(p, 0, MROCE_CLOSE_NORMAL);
		world_wait(s, rng_below(&s->app_rng, 20 * US));
		pair_close(p, 1, MROCE_CLOSE_NORMAL);
	}
	world_finish(s);
}

static void close_at_once(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 20 && !s->failed; i++) {
		struct pair *p = new_pair(s, 0, 1);

		world_wait(s, rng_below(&s->app_rng, 100 * US));
		p->may_end = true;
		if (p->end[0].state == END_CONNECTING)
			p->end[0].state = END_UP; /* gives up while it is being set up */
		pair_close(p, 0, MROCE_CLOSE_NORMAL);
	}
	world_finish(s);
}

static void churn(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 150 && !s->failed; i++) {
		struct pair *p = new_pair(s, 0, 1);

		world_wait_for(s, 5 * SEC, last_pair_up, "the connection");
		world_traffic_on(s, p);
		world_wait_lanes(s);
		pair_close(p, i & 1, MROCE_CLOSE_NORMAL);
		expect_end(s, p, !(i & 1), 5 * SEC);
	}
	world_finish(s);
}

/* ---- dying ---- */

static void expect_gone(struct sim *s, struct pair *p, uint32_t side, uint64_t within)
{
	uint64_t start = s->now;

	if (s->failed)
		return;
	while (p->end[side].state == END_UP && s->now < start + within && !s->failed)
		world_wait(s, 10 * MS);
	CHECK(s, p->end[side].state == END_ENDED, "no end %llu ms after the peer was gone",
	      (unsigned long long)(within / MS));
	CHECK(s, p->end[side].code == MROCE_E_PEER_GONE, "ended with status %d", p->end[side].code);
	CHECK(s, p->end[side].host->logged, "no line was logged about it");
	sim_note(s, "known after %llu ms", (unsigned long long)((s->now - start) / MS));
}

static void peer_killed(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
	world_wait(s, 2 * MS);
	host_kill(s->hosts[1]);
	expect_gone(s, s->pairs[0], 0, 12 * SEC);
	world_finish(s);
}

/* The kernel goes on answering POLLs: the connection must end all the same. */
static void daemon_hangs(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
	world_wait(s, 2 * MS);
	s->pairs[0]->may_end = true;
	host_pause(s->hosts[1], s->now + 3600 * SEC);
	expect_gone(s, s->pairs[0], 0, 30 * SEC);
	host_kill(s->hosts[1]);
	world_finish(s);
}

static void initiator_killed(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
	world_wait(s, 2 * MS);
	host_kill(s->hosts[0]);
	expect_gone(s, s->pairs[0], 1, 12 * SEC);
	world_finish(s);
}

static void idle_peer_killed(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_wait(s, 5 * SEC);
	host_kill(s->hosts[1]);
	expect_gone(s, s->pairs[0], 0, 15 * SEC);
	world_finish(s);
}

static void restarts(struct sim *s)
{
	struct pair *old = NULL;

	world_build(s);
	for (uint32_t i = 0; i < 6 && !s->failed; i++) {
		struct host *victim = s->hosts[i & 1];
		struct pair *p = new_pair(s, 0, 1);

		world_wait_for(s, 5 * SEC, last_pair_up, "a connection after a restart");
		world_traffic_on(s, p);
		world_wait(s, MS + rng_below(&s->app_rng, MS));
		host_kill(victim);
		world_wait(s, rng_below(&s->app_rng, 20 * MS));
		CHECK(s, !host_start(victim), "no restart");
		old = p;
	}
	new_pair(s, 0, 1);
	world_wait_for(s, 5 * SEC, last_pair_up, "a connection after all restarts");
	world_traffic_on(s, s->pairs[s->npairs - 1]);
	world_wait_lanes(s);
	if (old)
		expect_gone(s, old, old->end[0].state == END_DEAD, 12 * SEC);
	world_wait(s, 12 * SEC);
	world_finish(s);
}

static void killed_in_handshake(struct sim *s)
{
	world_build(s);
	for (uint32_t i = 0; i < 16 && !s->failed; i++) {
		struct pair *p = new_pair(s, 0, 1);

		p->may_end = true;
		world_wait(s, i * 5 * US);
		host_kill(s->hosts[!(i & 1)]);
		world_wait(s, 12 * SEC);
		CHECK(s, p->end[i & 1].state != END_CONNECTING && p->end[i & 1].state != END_UP,
		      "end %u is in state %u long after its peer died", i & 1, p->end[i & 1].state);
		CHECK(s, !host_start(s->hosts[!(i & 1)]), "no restart");
	}
	world_finish(s);
}

static void outage_short(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
	for (uint32_t i = 0; i < 3 && !s->failed; i++) {
		world_wait(s, MS);
		net_plane_down(s, 0, true);
		world_wait(s, 700 * MS);
		net_plane_down(s, 0, false);
		world_wait(s, 300 * MS);
	}
	world_wait_lanes(s);
	world_finish(s);
}

static void outage_long(struct sim *s)
{
	world_build(s);
	world_connect(s);
	world_traffic(s);
	world_wait(s, 2 * MS);
	s->pairs[0]->may_end = true;
	net_plane_down(s, 0, true);
	expect_gone(s, s->pairs[0], 0, 12 * SEC);
	expect_gone(s, s->pairs[0], 1, 12 * SEC);
	net_plane_down(s, 0, false);
	new_pair(s, 0, 1);
	world_wait_for(s, 5 * SEC, last_pair_up, "a connection after the outage");
	world_finish(s);
}

static void idle(struct sim *s)
{
	uint64_t before, steps;

	world_build(s);
	world_connect(s);
	world_wait(s, SEC);
	before = s->packets;
	steps = s->hosts[0]->steps;
	world_wait(s, 30 * SEC);
	CHECK(s, s->packets - before <= 30 * 8, "%llu packets in 30 idle seconds",
	      (unsigned long long)(s->packets - before));
	CHECK(s, s->packets - before >= 30, "only %llu packets in 30 idle seconds",
	      (unsigned long long)(s->packets - before));
	CHECK(s, s->hosts[0]->steps - steps <= 30 * 20, "%llu wake-ups in 30 idle seconds",
	      (unsigned long long)(s->hosts[0]->steps - steps));
	sim_note(s, "%llu packets and %llu wake-ups in 30 s",
		 (unsigned long long)(s->packets - before),
		 (unsigned long long)(s->hosts[0]->steps - steps));
	world_traffic(s);
	world_wait_lanes(s);
	world_finish(s);
}

const struct scenario life_scenarios[] = {
	{ "connect_nobody", "set-up that nobody answers", { 0 }, connect_nobody },
	{ "connect_no_service", "nobody listens", { 0 }, connect_no_service },
	{ "connect_version", "no common version", { 0 }, connect_version },
	{ "connect_backlog", "more than the listener takes", { 0 }, connect_backlog },
	{ "connect_both_ways", "two hosts connect to each other at once", { .pairs = 2 }, NULL },
	{ "conns_full", "more connections than slots", { .max_conns = 8, .count = 20 }, conns_full },
	{ "post_errors", "requests that are refused at once", { 0 }, post_errors },
	{ "handshake_loss",
	  "the first packets of each type are lost",
	  { .count = 10 },
	  handshake_loss },
	{ "handshake_loss_50",
	  "half of everything is lost, 10 connections",
	  { .pairs = 10, .imp.loss = 50 * PERCENT, .count = 5 },
	  NULL },
	{ "handshake_loss_key",
	  "set-ups with cookie and key under 30 % loss",
	  { .planes = 2, .imp.loss = 30 * PERCENT, .key = 1, .lanes = 1, .count = 5 },
	  handshake_loss },
	{ "handshake_loss_cookie",
	  "set-ups with cookies under 30 % loss",
	  { .planes = 2, .imp.loss = 30 * PERCENT, .cookies = true, .lanes = 1, .count = 5 },
	  handshake_loss },
	{ "handshake_dup",
	  "everything comes twice and out of order",
	  { .pairs = 10,
	    .count = 10,
	    .imp = { .dup = 100 * PERCENT, .reorder = 50 * PERCENT, .reorder_ns = 300 * US } },
	  NULL },
	{ "ready_lost", "no READY ever arrives", { .lanes = 1, .count = 20 }, ready_lost },
	{ "ready_lost_key",
	  "with a key, READY arrives late",
	  { .key = 1, .lanes = 2, .count = 20 },
	  ready_late },
	{ "restarts_key",
	  "daemons that have a key and start anew",
	  { .key = 1, .lanes = 2, .count = 20 },
	  restarts },
	{ "replay_hello_key", "an old HELLO, signed", { .key = 1, .count = 20 }, replay_hello },
	{ "replay_ready_key", "an old READY, signed", { .key = 1, .count = 20 }, replay_ready },
	{ "replay_hello", "an old HELLO again and again", { .count = 20 }, replay_hello },
	{ "replay_accept", "an old ACCEPT again and again", { .count = 20 }, replay_accept },
	{ "replay_ready", "an old READY again and again", { .count = 20 }, replay_ready },
	{ "replay_data", "an old DATA again and again", { .count = 20 }, replay_data },
	{ "replay_close", "an old CLOSE again and again", { .count = 20 }, replay_close },
	{ "close_anytime",
	  "closed at any moment, everything in flight",
	  { .count = 200, .window = 16, .max = 30000, .lanes = 4, .imp.loss = 2 * PERCENT },
	  close_anytime },
	{ "close_both",
	  "closed by both sides at once",
	  { .count = 200, .window = 16, .max = 50000, .imp.loss = 2 * PERCENT },
	  close_both },
	{ "close_at_once", "closed while being set up", { 0 }, close_at_once },
	{ "churn", "150 connections one after the other", { .count = 3, .imp.loss = PERCENT }, churn },
	{ "peer_killed",
	  "the peer's daemon dies under load",
	  { .count = 20000, .max = 100000 },
	  peer_killed },
	{ "daemon_hangs",
	  "the peer's daemon hangs, its kernel answers",
	  { .count = 20000, .max = 100000 },
	  daemon_hangs },
	{ "initiator_killed",
	  "the same the other way round",
	  { .count = 20000, .max = 100000, .planes = 4 },
	  initiator_killed },
	{ "idle_peer_killed", "the peer of an idle connection dies", { 0 }, idle_peer_killed },
	{ "restarts",
	  "daemons die and start again under load",
	  { .count = 2000, .max = 30000, .imp.loss = PERCENT },
	  restarts },
	{ "killed_in_handshake", "one of them dies during set-up", { 0 }, killed_in_handshake },
	{ "outage_short", "no network for 0.7 s, three times", { .count = 2000 }, outage_short },
	{ "outage_long", "no network for longer than bearable", { .count = 20000 }, outage_long },
	{ "idle", "30 s without traffic", { 0 }, idle },
	{ NULL, NULL, { 0 }, NULL },
};
