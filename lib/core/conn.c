// SPDX-License-Identifier: BSD-2-Clause
/* Connections: their place in the tables, their paths, their end. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include "core/internal.h"
#include "mroce/track.h"

/* How long a connection that has ended still answers the peer's questions. */
#define LINGER (500 * MSEC)
/* How long a CLOSE is repeated. */
#define CLOSE_WAIT (3 * SEC)
/* Every so many keepalives one is a letter, which only a living daemon can place. */
#define KEEPALIVE_LETTER 8
#define SPORT_FIRST 49152
#define SPORT_MASK 0x3fff

struct conn *conn_find(struct engine *e, uint32_t cid)
{
	uint32_t slot = cid & (MROCE_MAX_CONNS - 1);
	struct conn *c = slot < e->cfg.max_conns ? e->conns[slot] : NULL;

	return c && c->id == cid ? c : NULL;
}

static int free_slot(struct engine *e)
{
	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		uint32_t slot = (e->slot_hint + i) % e->cfg.max_conns;

		if (!e->conns[slot]) {
			e->slot_hint = slot + 1;
			return (int)slot;
		}
	}
	return -ENOSPC;
}

/* A full table: what only lingers to answer its peer has to make room. */
static int reclaim_slot(struct engine *e)
{
	struct conn *oldest = NULL;

	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		struct conn *c = e->conns[i];

		if (!c || c->state != CONN_ENDED || c->held_by_caller)
			continue;
		if (!oldest || c->last_heard < oldest->last_heard)
			oldest = c;
	}
	if (!oldest)
		return -ENOSPC;
	conn_release(oldest);
	return free_slot(e);
}

struct conn *conn_new(struct engine *e, void *owner, uint32_t service)
{
	uint32_t timers = (e->nconns + 1) * (e->cfg.paths + CONN_TIMERS);
	int slot = free_slot(e);
	struct conn *c;

	if (slot < 0)
		slot = reclaim_slot(e);
	if (slot < 0 || timer_heap_reserve(&e->timers, timers))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->e = e;
	c->slot = (uint32_t)slot;
	c->id = (rng_nonzero(&e->rng) & 0xffff0000u) | c->slot;
	if (!(c->id >> 16))
		c->id |= 0x10000;
	c->token = rng_nonzero(&e->rng);
	c->owner = owner;
	c->service = service;
	c->life.kind = TIMER_LIFE;
	c->sweep.kind = TIMER_SWEEP;
	c->stall.kind = TIMER_STALL;
	c->tolerance.kind = TIMER_TOLERANCE;
	TAILQ_INIT(&c->tolerant);
	TAILQ_INIT(&c->untold);
	c->mtu.kind = TIMER_MTU;
	c->pace.kind = TIMER_PACE;
	c->last_heard = e->now;
	STAILQ_INIT(&c->control);
	STAILQ_INIT(&c->repairs);
	TAILQ_INIT(&c->streams);
	TAILQ_INIT(&c->active);
	e->conns[slot] = c;
	e->nconns++;
	return c;
}

static void entry_close(struct conn *c)
{
	for (uint32_t i = 0; c->published && i < c->e->nports; i++) {
		struct mroce_conn_entry *entry = &c->e->ports[i]->conns[c->slot];

		if (entry->cid == c->id)
			__atomic_store_n(&entry->cid, 0, __ATOMIC_RELEASE);
		handover_forget(c, c->e->ports[i]);
	}
	c->published = false;
}

static void entry_open(struct conn *c, struct port *port)
{
	struct mroce_conn_entry *entry = &port->conns[c->slot];

	for (uint32_t p = 0; p < MROCE_MAX_PATHS; p++)
		track_reset(&port->paths[c->slot * MROCE_MAX_PATHS + p], c->peer_first_psn);
	entry->token = c->token;
	entry->peer_cid = c->peer_id;
	entry->peer_token = c->peer_token;
	entry->hint = 0;
	entry->npaths = c->peer_npaths;
	__atomic_store_n(&entry->cid, c->id, __ATOMIC_RELEASE);
}

/* A port that came later: its tracker has to know the connection too. */
void conn_open_port(struct conn *c, struct port *port)
{
	if (c->published)
		entry_open(c, port);
}

static void rxpaths_forget(struct conn *c)
{
	for (uint32_t i = 0; c->rxpaths && i < c->peer_npaths; i++) {
		if (c->rxpaths[i].is_due)
			TAILQ_REMOVE(&c->e->ack_due, &c->rxpaths[i], link);
		c->rxpaths[i].is_due = false;
	}
}

static void deferred_forget(struct conn *c)
{
	for (uint32_t i = 0; i < c->e->ndeferred; i++) {
		if (c->e->deferred[i].conn == c)
			c->e->deferred[i].conn = NULL;
	}
}

static void backlog_leave(struct conn *c)
{
	struct listener *l;

	if (!c->counts_in_backlog)
		return;
	c->counts_in_backlog = false;
	l = listener_find(c->e, c->service);
	if (l && l->pending)
		l->pending--;
}

/* Frees everything, telling nobody. */
void conn_release(struct conn *c)
{
	struct engine *e = c->e;
	struct stream *s;

	totals_keep(c);
	backlog_leave(c);
	hint_forget(c);
	handshake_left(c);
	entry_close(c);
	deferred_forget(c);
	rxpaths_forget(c);
	conn_drop_letters(c);
	while ((s = TAILQ_FIRST(&c->streams))) {
		stream_flush(s, UINT8_MAX);
		stream_free(s);
	}
	tolerance_drop(c);
	conn_unready(c);
	conn_fed(c);
	for (uint32_t i = 0; c->paths && i < c->npaths; i++)
		path_free(&c->paths[i]);
	timer_clear(&e->timers, &c->life);
	timer_clear(&e->timers, &c->sweep);
	timer_clear(&e->timers, &c->stall);
	timer_clear(&e->timers, &c->mtu);
	timer_clear(&e->timers, &c->pace);
	e->conns[c->slot] = NULL;
	e->nconns--;
	free(c->paths);
	free(c->rxpaths);
	free(c->peer_ports);
	free(c);
}

void conn_ready(struct conn *c)
{
	if (c->is_ready || (c->state != CONN_OPEN && c->state != CONN_CLOSING))
		return;
	c->is_ready = true;
	TAILQ_INSERT_TAIL(&c->e->ready, c, ready);
}

void conn_unready(struct conn *c)
{
	if (!c->is_ready)
		return;
	c->is_ready = false;
	TAILQ_REMOVE(&c->e->ready, c, ready);
}

void conn_starves(struct conn *c)
{
	c->e->starved_at = c->e->now;
	if (!c->is_starved)
		TAILQ_INSERT_TAIL(&c->e->starved, c, starved);
	c->is_starved = true;
}

void conn_fed(struct conn *c)
{
	if (c->is_starved)
		TAILQ_REMOVE(&c->e->starved, c, starved);
	c->is_starved = false;
}

/* ---- paths ---- */

struct pair {
	struct port *local;
	uint8_t remote;
};

static bool reaches(struct conn *c, struct port *local, uint32_t remote)
{
	struct ip ip;

	memcpy(ip.a, c->peer_ports[remote].addr, sizeof(ip.a));
	return local->ops->reachable(local, &ip);
}

/* Pairs of ports that reach each other: the same number on both sides if possible, so that planes are
 * loaded equally; every port of either side once. */
static uint32_t find_pairs(struct conn *c, struct pair *pairs)
{
	struct engine *e = c->e;
	uint32_t most = e->nports > c->peer_nports ? e->nports : c->peer_nports, n = 0;

	for (uint32_t i = 0; i < most && c->peer_nports; i++) {
		struct port *local = e->ports[i % e->nports];
		uint32_t remote = i % c->peer_nports;

		for (uint32_t j = 0; j < c->peer_nports;
		     j++, remote = (remote + 1) % c->peer_nports) {
			if (!reaches(c, local, remote))
				continue;
			pairs[n++] = (struct pair){ local, (uint8_t)remote };
			break;
		}
	}
	return n;
}

static uint16_t fresh_sport(struct conn *c)
{
	uint16_t sport;
	bool taken;

	do {
		sport = (uint16_t)(SPORT_FIRST + (rng_u32(&c->e->rng) & SPORT_MASK));
		taken = false;
		for (uint32_t i = 0; i < c->npaths; i++)
			taken |= c->paths[i].flow.sport == sport;
	} while (taken);
	return sport;
}

void path_new_route(struct path *p)
{
	p->flow.sport = fresh_sport(p->conn);
	p->flow.route = p->flow.route_version = 0;
}

/* 0; -EHOSTUNREACH; -ENOMEM. */
int conn_open_paths(struct conn *c)
{
	struct engine *e = c->e;
	struct pair pairs[MROCE_MAX_PORTS];
	uint32_t n = find_pairs(c, pairs);

	if (!n && !c->setup_port)
		return -EHOSTUNREACH;
	c->npaths = (uint8_t)e->cfg.paths;
	c->paths = calloc(c->npaths, sizeof(struct path));
	c->rxpaths = calloc(c->peer_npaths, sizeof(struct rxpath));
	if (!c->paths || !c->rxpaths)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		p->port = n ? pairs[i % n].local : c->setup_port;
		p->remote_port = n ? pairs[i % n].remote : 0;
		p->flow.remote = c->peer;
		if (n)
			memcpy(p->flow.remote.a, c->peer_ports[p->remote_port].addr,
			       sizeof(p->flow.remote.a));
		path_init(p, c, (uint8_t)i);
		path_new_route(p);
	}
	for (uint32_t i = 0; i < c->peer_npaths; i++) {
		c->rxpaths[i].conn = c;
		c->rxpaths[i].index = (uint8_t)i;
	}
	for (uint32_t i = 0; i < e->nports; i++)
		entry_open(c, e->ports[i]);
	c->published = true;
	return 0;
}

/* ---- life ---- */

static bool first_between_ports(const struct conn *c, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (path_siblings(&c->paths[i], &c->paths[index]))
			return false;
	}
	return true;
}

/*
 * Asks one path between each two ports, so that the round trip is known before data queues up. Not all: when
 * many connect at once, their questions would be a queue that all of them take for distance.
 */
static void greet_paths(struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (!first_between_ports(c, i))
			continue;
		p->spoken |= path_poll(p);
		path_arm(p);
	}
}

void conn_established(struct conn *c)
{
	c->state = CONN_OPEN;
	c->last_heard = c->last_placed = c->e->now;
	timer_set(&c->e->timers, &c->life, c->e->now + c->e->cfg.keepalive_ns);
	greet_paths(c);
	note_conn_up(c);
	mtu_begin_all(c);
	conn_tell_ports(c);
	if (letter_waiting(c))
		conn_ready(c);
}

void conn_complete(struct conn *c, const struct engine_completion *done)
{
	c->e->completions++;
	c->queued--;
	c->e->ops->complete(c->e->ctx, c, done);
}

/* Everything that waits to be sent or acknowledged is given up. */
void conn_drop_letters(struct conn *c)
{
	struct letter *l;

	for (uint32_t i = 0; c->paths && i < c->npaths; i++)
		path_give_up(&c->paths[i], false);
	while ((l = STAILQ_FIRST(&c->control))) {
		STAILQ_REMOVE_HEAD(&c->control, link);
		letter_free(c->e, l);
	}
	while ((l = STAILQ_FIRST(&c->repairs))) {
		STAILQ_REMOVE_HEAD(&c->repairs, link);
		letter_free(c->e, l);
	}
	if (c->cut)
		letter_free(c->e, c->cut);
	c->cut = NULL;
}

static void flush_requests(struct conn *c, uint8_t status)
{
	struct stream *s;

	rxmsg_deferred_flush(c->e);
	note_conn_down(c, status);
	conn_drop_letters(c);
	for (s = TAILQ_FIRST(&c->streams); s; s = TAILQ_NEXT(s, all))
		stream_flush(s, status);
	tolerance_drop(c);
	conn_unready(c);
	timer_clear(&c->e->timers, &c->stall);
	timer_clear(&c->e->timers, &c->sweep);
}

static void quiet_paths(struct conn *c)
{
	for (uint32_t i = 0; c->paths && i < c->npaths; i++)
		timer_clear(&c->e->timers, &c->paths[i].timer);
	timer_clear(&c->e->timers, &c->mtu);
}

/* It is over for the engine; the caller may still hold it. */
static void conn_finish(struct conn *c, bool linger)
{
	c->state = CONN_ENDED;
	hint_forget(c);
	timer_clear(&c->e->timers, &c->pace);
	conn_drop_letters(c);
	conn_unready(c);
	quiet_paths(c);
	c->lingering = linger;
	if (linger) {
		timer_set(&c->e->timers, &c->life, c->e->now + LINGER);
		return;
	}
	entry_close(c);
	/* Freed by its timer, not here: callers up the stack still look at it. */
	timer_set(&c->e->timers, &c->life, c->held_by_caller ? TIMER_NEVER : c->e->now);
}

static void end_with(struct conn *c, enum mroce_status status, bool linger)
{
	uint8_t state = c->state;

	if (state == CONN_ENDED)
		return;
	if (state == CONN_OPEN)
		flush_requests(c, status);
	conn_finish(c, linger);
	if (state == CONN_OPEN) {
		backlog_leave(c);
		c->e->ops->event(c->e->ctx, c, CONN_EVENT_ENDED, status);
	}
}

void conn_end(struct conn *c, enum mroce_status status)
{
	end_with(c, status, false);
}

/* The peer closed: what it asks about that is still answered for a while. */
void conn_closed_by_peer(struct conn *c, uint32_t code)
{
	end_with(c, code == MROCE_CLOSE_PROTOCOL ? MROCE_E_PROTOCOL : MROCE_E_PEER_GONE, true);
}

static bool queue_close(struct conn *c, enum mroce_close_code code)
{
	struct letter *l = letter_new(c, MROCE_CLOSE);

	if (!l)
		return false;
	l->code = (uint8_t)code;
	c->state = CONN_CLOSING;
	letter_control(c, l);
	timer_set(&c->e->timers, &c->life, c->e->now + CLOSE_WAIT);
	return true;
}

/* Ended by us; the peer is told why, the application how. */
static void end_telling(struct conn *c, enum mroce_status status, enum mroce_close_code code)
{
	flush_requests(c, status);
	if (!queue_close(c, code))
		conn_finish(c, false);
	backlog_leave(c);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_ENDED, status);
}

void conn_protocol_error(struct conn *c, const char *what)
{
	char peer[IPTEXT_MAX];

	if (c->state != CONN_OPEN)
		return;
	engine_log(c->e, LOG_ERR, "conn 0x%08x: %s broke the protocol: %s; connection closed",
		   c->id, ip_text(&c->peer, peer), what);
	end_telling(c, MROCE_E_PROTOCOL, MROCE_CLOSE_PROTOCOL);
}

void engine_conn_close(struct conn *c, enum mroce_close_code code, uint64_t now)
{
	c->e->now = now;
	switch ((enum conn_state)c->state) {
	case CONN_HELLO:
	case CONN_ACCEPT: conn_finish(c, false); break;
	case CONN_OPEN:
		flush_requests(c, MROCE_E_FLUSHED);
		backlog_leave(c);
		if (!queue_close(c, code))
			conn_finish(c, false);
		break;
	case CONN_CLOSING:
	case CONN_ENDED: break;
	}
}

void engine_conn_free(struct conn **conn)
{
	struct conn *c = *conn;

	*conn = NULL;
	if (!c)
		return;
	if (c->state == CONN_OPEN)
		engine_conn_close(c, MROCE_CLOSE_NORMAL, c->e->now);
	c->held_by_caller = false;
	if (c->state == CONN_ENDED && !c->lingering)
		conn_release(c);
}

void conn_close_acked(struct conn *c)
{
	/* By its timer, not here: the ACK that told is still being read. */
	if (c->state == CONN_CLOSING)
		timer_set(&c->e->timers, &c->life, c->e->now);
}

static void send_keepalive(struct conn *c)
{
	struct path *p = NULL;

	for (uint32_t i = 0; i < c->npaths && !p; i++) {
		c->keepalive_at = (c->keepalive_at + 1) % c->npaths;
		if (path_usable(&c->paths[c->keepalive_at]))
			p = &c->paths[c->keepalive_at];
	}
	if (!p || p->unplaced || p->unanswered)
		return;
	if (++c->poll_only % KEEPALIVE_LETTER == 0) {
		struct letter *l = letter_new(c, MROCE_PORT_STATUS);

		if (l) {
			l->number = p->port->index;
			l->code = p->port->up;
			letter_control(c, l);
		}
		return;
	}
	path_poll(p);
	path_arm(p);
}

void conn_doom(struct conn *c, enum doom why)
{
	if (c->doomed || c->state != CONN_OPEN)
		return;
	c->doomed = why;
	timer_set(&c->e->timers, &c->life, c->e->now);
}

static void meet_doom(struct conn *c)
{
	switch ((enum doom)c->doomed) {
	case DOOM_NONE: break;
	case DOOM_UNTOLD:
		conn_protocol_error(c, "more failing messages than can be reported");
		break;
	case DOOM_APP_DIED:
		engine_conn_close(c, MROCE_CLOSE_APP_DIED, c->e->now);
		c->e->ops->event(c->e->ctx, c, CONN_EVENT_ENDED, MROCE_E_LOCAL_ACCESS);
		break;
	}
}

static void open_timer(struct conn *c)
{
	uint64_t due = c->last_heard + c->e->cfg.keepalive_ns;

	if (c->doomed) {
		meet_doom(c);
		return;
	}
	if (c->e->now >= due) {
		send_keepalive(c);
		mtu_look_again(c);
		conn_check_silence(c);
		if (c->state != CONN_OPEN)
			return;
		due = c->e->now + c->e->cfg.keepalive_ns;
	}
	/* Letters may all have been lost between the tracker and here: then nothing else looks. */
	if (!c->sweep.place)
		receive_sweep(c);
	timer_set(&c->e->timers, &c->life, due);
}

void conn_life_timer(struct conn *c)
{
	switch ((enum conn_state)c->state) {
	case CONN_HELLO:
	case CONN_ACCEPT: handshake_timer(c); break;
	case CONN_OPEN: open_timer(c); break;
	case CONN_CLOSING: conn_finish(c, false); break;
	case CONN_ENDED:
		c->lingering = false;
		entry_close(c);
		if (!c->held_by_caller)
			conn_release(c);
		break;
	}
}

static void log_silence(struct conn *c)
{
	char peer[IPTEXT_MAX];
	uint64_t rtos = 0;
	uint32_t dead = 0;

	for (uint32_t i = 0; i < c->npaths; i++) {
		rtos += c->paths[i].rtos;
		dead += c->paths[i].dead;
	}
	engine_log(
		c->e, LOG_WARNING,
		"conn 0x%08x: %s is gone: nothing heard for %llu ms on any of %u paths (%u dead, "
		"%llu timeouts); connection ended, check that mroced runs there and the link is up",
		c->id, ip_text(&c->peer, peer),
		(unsigned long long)((c->e->now - c->last_heard) / MSEC), c->npaths, dead,
		(unsigned long long)rtos);
}

/* Ends a connection of which every path has been asked often enough, and long enough, in vain. */
void conn_check_silence(struct conn *c)
{
	if (c->state != CONN_OPEN && c->state != CONN_CLOSING)
		return;
	if (c->e->now - c->last_heard < c->e->cfg.silence_ns)
		return;
	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if (!p->dead && p->port->up && p->rto_count < c->e->cfg.tries)
			return;
	}
	log_silence(c);
	conn_end(c, MROCE_E_PEER_GONE);
}

void engine_conn_taken(struct conn *c)
{
	backlog_leave(c);
}
