// SPDX-License-Identifier: BSD-2-Clause
/* The engine as a whole: its tables, its clockwork, its doors. */
#include <stdio.h>
#include <stdlib.h>
#include "core/internal.h"

/* Records put aside before each batch, so that nothing is allocated while packets are handled. */
#define RESERVE 512
#define RESERVE_STREAMS 128
#define RESERVE_FIRST 8 /* of what most engines never need */
#define HASH_STREAMS 16384
#define HASH_REGIONS 4096
#define HASH_SERVICES 1024
/* Packets of one connection before the next has its turn. */
#define TURN 32
#define BLOCKED_MIN (10 * USEC)
#define BLOCKED_MAX (1 * MSEC)
#define TIMERS_PER_RUN 4096
#define STARVED_WAIT (100 * USEC)
#define OVERSLEPT (300 * USEC)

void engine_log(struct engine *e, int level, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!e->ops->log)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	e->ops->log(e->ctx, level, line);
}

static int hash_init(struct hash *t, uint32_t size)
{
	t->heads = calloc(size, sizeof(struct hnode *));
	t->mask = size - 1;
	return t->heads ? 0 : -ENOMEM;
}

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n && p < 1u << 31)
		p *= 2;
	return p;
}

static int letters_init(struct engine *e)
{
	e->letters_total = e->cfg.letters;
	e->letters = calloc(e->letters_total, sizeof(struct letter));
	if (!e->letters)
		return -ENOMEM;
	STAILQ_INIT(&e->free_letters);
	for (uint32_t i = 0; i < e->letters_total; i++)
		STAILQ_INSERT_TAIL(&e->free_letters, &e->letters[i], link);
	return 0;
}

static void pools_init(struct engine *e)
{
	const struct engine_config *cfg = &e->cfg;

	pool_init(&e->txmsg_pool, sizeof(struct txmsg), cfg->messages);
	pool_init(&e->rxmsg_pool, sizeof(struct rxmsg), cfg->messages);
	pool_init(&e->recv_pool, sizeof(struct recv), cfg->messages);
	pool_init(&e->words_pool, CHUNKSET_WORDS * sizeof(uint64_t), 2 * cfg->messages);
	pool_init(&e->tx_tol_pool, sizeof(struct mroce_tolerance), cfg->messages);
	pool_init(&e->rx_tol_pool, sizeof(struct tolerance), cfg->messages);
	pool_init(&e->stream_pool, sizeof(struct stream), UINT32_MAX);
	pool_init(&e->slots_pool, sizeof(struct slots), cfg->max_conns * MROCE_MAX_PATHS);
}

static void config_clamp(struct engine_config *cfg)
{
	struct engine_config d;

	engine_config_default(&d);
	if (!cfg->max_conns || cfg->max_conns > MROCE_MAX_CONNS)
		cfg->max_conns = d.max_conns;
	if (!cfg->paths || cfg->paths > MROCE_MAX_PATHS)
		cfg->paths = d.paths;
	cfg->streams = cfg->streams ? cfg->streams : d.streams;
	cfg->letters = cfg->letters ? cfg->letters : d.letters;
	cfg->messages = cfg->messages ? cfg->messages : d.messages;
	cfg->tries = cfg->tries ? cfg->tries : d.tries;
	cfg->silence_ns = cfg->silence_ns ? cfg->silence_ns : d.silence_ns;
	cfg->handshake_ns = cfg->handshake_ns ? cfg->handshake_ns : d.handshake_ns;
	cfg->keepalive_ns = cfg->keepalive_ns ? cfg->keepalive_ns : d.keepalive_ns;
	cfg->rto_min_ns = cfg->rto_min_ns ? cfg->rto_min_ns : d.rto_min_ns;
	cfg->pto_min_ns = cfg->pto_min_ns ? cfg->pto_min_ns : d.pto_min_ns;
	cfg->stall_ns = cfg->stall_ns ? cfg->stall_ns : d.stall_ns;
	cfg->cc = cfg->cc ? cfg->cc : d.cc;
}

struct engine *engine_new(const struct engine_config *cfg, const struct engine_ops *ops, void *ctx)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->cfg = *cfg;
	config_clamp(&e->cfg);
	e->ops = ops;
	e->ctx = ctx;
	rng_init(&e->rng, cfg->seed, cfg->seed_more);
	auth_init(e);
	TAILQ_INIT(&e->ready);
	TAILQ_INIT(&e->starved);
	TAILQ_INIT(&e->ack_due);
	TAILQ_INIT(&e->takers);
	LIST_INIT(&e->listeners);
	pools_init(e);
	e->conns = calloc(e->cfg.max_conns, sizeof(struct conn *));
	if (!e->conns || letters_init(e) || hash_init(&e->regions, HASH_REGIONS) ||
	    hash_init(&e->streams, HASH_STREAMS) || hash_init(&e->services, HASH_SERVICES) ||
	    hash_init(&e->setups, power_of_two(e->cfg.max_conns)) ||
	    hash_init(&e->rxmsgs, power_of_two(e->cfg.messages))) {
		engine_free(&e);
		return NULL;
	}
	engine_reserve(e);
	return e;
}

static void listeners_free(struct engine *e)
{
	struct listener *l;

	while ((l = LIST_FIRST(&e->listeners))) {
		LIST_REMOVE(l, link);
		free(l);
	}
}

void engine_free(struct engine **engine)
{
	struct engine *e = *engine;

	*engine = NULL;
	if (!e)
		return;
	for (uint32_t i = 0; e->conns && i < e->cfg.max_conns; i++) {
		if (e->conns[i])
			conn_release(e->conns[i]);
	}
	if (e->regions.heads)
		region_table_free(e);
	listeners_free(e);
	pool_fini(&e->txmsg_pool);
	pool_fini(&e->rxmsg_pool);
	pool_fini(&e->recv_pool);
	pool_fini(&e->words_pool);
	pool_fini(&e->tx_tol_pool);
	pool_fini(&e->rx_tol_pool);
	pool_fini(&e->stream_pool);
	pool_fini(&e->slots_pool);
	timer_heap_free(&e->timers);
	auth_fini(e);
	free(e->regions.heads);
	free(e->streams.heads);
	free(e->rxmsgs.heads);
	free(e->setups.heads);
	free(e->services.heads);
	free(e->letters);
	free(e->conns);
	free(e);
}

void engine_reserve(struct engine *e)
{
	pool_reserve(&e->txmsg_pool, RESERVE);
	pool_reserve(&e->rxmsg_pool, RESERVE);
	pool_reserve(&e->recv_pool, RESERVE);
	pool_reserve(&e->words_pool, RESERVE);
	pool_reserve(&e->rx_tol_pool, e->tolerance_used ? RESERVE_STREAMS : RESERVE_FIRST);
	pool_reserve(&e->stream_pool, RESERVE_STREAMS);
	pool_reserve(&e->slots_pool, RESERVE_STREAMS);
}

/* Bytes of payload per chunk that the largest port can carry: mtu.c sees to the others. */
uint32_t engine_chunk(const struct engine *e)
{
	uint32_t chunk = e->cfg.chunk_max ? e->cfg.chunk_max : UINT16_MAX, most = 0;

	for (uint32_t i = 0; i < e->nports; i++)
		most = e->ports[i]->payload_max > most ? e->ports[i]->payload_max : most;
	most = mtu_chunk(most);
	if (chunk > most)
		return most;
	return chunk < 24 ? chunk & ~7u : chunk - chunk % 24;
}

int engine_port_add(struct engine *e, struct port *port)
{
	if (e->nports == MROCE_MAX_PORTS)
		return -ENOSPC;
	port->index = (uint8_t)e->nports;
	e->ports[e->nports++] = port;
	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		if (e->conns[i])
			conn_open_port(e->conns[i], port);
	}
	return 0;
}

/* ---- receiving ---- */

void engine_rx(struct engine *e, struct port *port, const void *payload, uint32_t len,
	       const struct rx_info *info, uint64_t now)
{
	struct packet p;
	int err = packet_parse(payload, len, &p);

	e->now = now;
	if (err) {
		count(e, -err);
		return;
	}
	if (packet_is_setup(p.type))
		handshake_rx(e, port, &p, info);
	else
		receive_rx(e, port, &p, info);
}

void engine_rx_flush(struct engine *e, uint64_t now)
{
	e->now = now;
	rxmsg_deferred_flush(e);
	engine_reserve(e);
	e->blocked = 0;
	hint_run(e);
	receive_send_acks(e);
}

/* ---- running ---- */

static void timer_fire(struct timer *t)
{
	switch ((enum timer_kind)t->kind) {
	case TIMER_LIFE: conn_life_timer(container_of(t, struct conn, life)); break;
	case TIMER_SWEEP: receive_sweep(container_of(t, struct conn, sweep)); break;
	case TIMER_STALL: conn_stall_timer(container_of(t, struct conn, stall)); break;
	case TIMER_TOLERANCE: tolerance_timer(container_of(t, struct conn, tolerance)); break;
	case TIMER_MTU: mtu_timer(container_of(t, struct conn, mtu)); break;
	case TIMER_PACE: pace_timer(container_of(t, struct conn, pace)); break;
	case TIMER_PATH: path_timer(container_of(t, struct path, timer)); break;
	}
}

static bool waits_for_port(const struct conn *c)
{
	if (c->barred)
		return true;
	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if ((c->e->blocked & 1u << p->port->index) && path_open(p))
			return true;
	}
	return false;
}

/* Puts a letter back that found no path. True: it was too large for all, and is now several small ones. */
static bool cut_anew(struct conn *c, struct letter *l)
{
	uint32_t pieces = mtu_pieces(c, l);
	struct txmsg *m = l->msg;

	letter_put_back(c, l);
	if (!pieces)
		return false;
	if (txmsg_recut(m, pieces))
		return true;
	conn_starves(c);
	return false;
}

static uint32_t conn_transmit(struct conn *c, uint32_t quota)
{
	uint32_t n = 0;

	c->barred = 0;
	pace_update(c);
	while (n < quota) {
		struct letter *l;
		struct path *p;
		int err;

		if (!pace_open(c) && STAILQ_EMPTY(&c->control)) {
			pace_wait(c);
			conn_unready(c);
			break;
		}
		l = letter_next(c);
		if (!l) {
			conn_unready(c);
			break;
		}
		c->sending = MROCE_HDR_LEN + letter_len(l);
		p = spray_pick(c, l->losses > 1 ? l->lost_on : -1);
		if (!p) {
			if (cut_anew(c, l))
				continue;
			if (!waits_for_port(c))
				conn_unready(c);
			break;
		}
		if (handover_possible(c, p->port)) {
			n += handover_send(c, p, l, quota - n);
			continue;
		}
		l->sent_on = p->index;
		err = path_send(p, l, letter_flags(c, l));
		if (err == -EAGAIN) {
			letter_put_back(c, l);
			path_refused(p, p->port->ops->full(p->port));
		} else if (!err) {
			n++;
			c->flying++;
		}
	}
	return n;
}

/* No port has room: nobody needs to be asked what he would send. */
static bool all_blocked(const struct engine *e)
{
	for (uint32_t i = 0; e->blocked && i < e->nports; i++) {
		if (e->ports[i]->up && !(e->blocked & 1u << i))
			return false;
	}
	return e->blocked;
}

static uint32_t transmit(struct engine *e, uint32_t budget)
{
	uint32_t sent = 0;
	struct conn *c, *idle_from = NULL;

	while (sent < budget && !all_blocked(e) && (c = TAILQ_FIRST(&e->ready))) {
		uint32_t left = budget - sent;
		uint32_t n = conn_transmit(c, left < TURN ? left : TURN);

		sent += n;
		if (!c->is_ready)
			continue;
		TAILQ_REMOVE(&e->ready, c, ready);
		TAILQ_INSERT_TAIL(&e->ready, c, ready);
		if (n) {
			idle_from = NULL;
			continue;
		}
		if (c == idle_from)
			break; /* once round, and no port had room */
		if (!idle_from)
			idle_from = c;
	}
	return sent;
}

/* Ports without room and closed ways are tried again soon; later and later while it lasts. */
static void note_blocked(struct engine *e, bool progress)
{
	uint64_t wait;

	if (progress || !(e->blocked || e->barred)) {
		e->blocked_since = e->blocked_until = 0;
		return;
	}
	if (!e->blocked_since)
		e->blocked_since = e->now;
	wait = (e->now - e->blocked_since) / 8;
	e->blocked_until = e->now + min_u64(max_u64(wait, BLOCKED_MIN), BLOCKED_MAX);
}

/* Connections that found no record free try again. */
static void feed_the_starved(struct engine *e)
{
	struct conn *c;

	if (!e->starved_at || e->now < e->starved_at + STARVED_WAIT)
		return;
	e->starved_at = 0;
	while ((c = TAILQ_FIRST(&e->starved))) {
		conn_fed(c);
		if (letter_waiting(c))
			conn_ready(c);
	}
}

uint32_t engine_run(struct engine *e, uint64_t now, uint32_t budget)
{
	uint32_t before = e->sent, left = TIMERS_PER_RUN;
	struct timer *t;

	e->now = now;
	e->blocked = 0;
	e->barred = false;
	if (now > OVERSLEPT && timer_next(&e->timers) < now - OVERSLEPT)
		e->overslept_at = now;
	engine_reserve(e);
	feed_the_starved(e);
	hint_run(e);
	receive_send_acks(e);
	/* Timers of a crowd may want to send far more than a turn's packets: the rest is due at once. */
	while (left-- && e->sent - before < 2 * budget && (t = timer_due(&e->timers, now)))
		timer_fire(t);
	transmit(e, budget);
	note_blocked(e, e->sent != before);
	return e->sent - before;
}

uint64_t engine_deadline(const struct engine *e, uint64_t now)
{
	uint64_t next = timer_next(&e->timers);

	if (e->starved_at)
		next = min_u64(next, e->starved_at + STARVED_WAIT);
	if (e->ntakers)
		next = min_u64(next, e->hint_at);
	if (TAILQ_EMPTY(&e->ready) && TAILQ_EMPTY(&e->ack_due))
		return next;
	return min_u64(next, e->blocked_until > now ? e->blocked_until : now);
}
