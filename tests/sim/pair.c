// SPDX-License-Identifier: BSD-2-Clause
/* Pairs of applications: how their connection begins, and all the ways in which it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "app.h"

static void end_init(struct pair *p, uint32_t side, uint32_t host)
{
	struct end *e = &p->end[side];

	e->pair = p;
	e->host = p->s->hosts[host];
	e->tx_of = calloc(1024, sizeof(*e->tx_of));
	e->rx_of = calloc(1024, sizeof(*e->rx_of));
	if (!e->tx_of || !e->rx_of)
		abort();
	if (!side || p->end[0].host != e->host)
		e->host->pairs[e->host->npairs++] = p;
}

struct pair *pair_new(struct sim *s, uint32_t from, uint32_t to)
{
	struct pair *p = calloc(1, sizeof(*p));

	if (!p || s->npairs == MAX_PAIRS)
		abort();
	p->s = s;
	p->index = s->npairs;
	p->service = 1000 + s->npairs;
	s->pairs[s->npairs++] = p;
	end_init(p, 0, from);
	end_init(p, 1, to);
	pair_listen(p);
	return p;
}

void pair_listen(struct pair *p)
{
	int err = engine_listen(p->end[1].host->engine, p->service, p, 16);

	if (err)
		sim_fail(p->s, "engine_listen(%u): %s", p->service, strerror(-err));
}

int pair_connect(struct pair *p)
{
	struct end *e = &p->end[0];
	struct ip to = net_address(p->s, p->end[1].host->index, 0);
	int err = engine_connect(e->host->engine, &to, p->service, p, e, host_now(e->host),
				 &e->conn);

	if (err)
		return err;
	e->state = END_CONNECTING;
	e->life = e->host->life;
	host_wake(e->host, p->s->now);
	return 0;
}

static void lanes_given_up(struct pair *p)
{
	for (uint32_t i = 0; i < p->nlanes; i++) {
		p->lanes[i]->spoiled = true;
		lane_finish(p->lanes[i]);
	}
}

/* All that was posted at this end must have completed. */
static void check_all_completed(struct end *e, const char *when)
{
	for (uint32_t i = 0; i < e->pair->nlanes; i++) {
		struct lane *l = e->pair->lanes[i];

		if (lane_tx_end(l) == e)
			CHECK(l->s, l->tx_done == l->posted,
			      "lane %u: %u of %u requests have no completion at %s", l->id,
			      l->posted - l->tx_done, l->posted, when);
		else
			CHECK(l->s, l->recv_done == l->recv_posted,
			      "lane %u: %u of %u receives have no completion at %s", l->id,
			      l->recv_posted - l->recv_done, l->recv_posted, when);
	}
}

/* What half-written messages have left there stays as it is from now on. */
static void sum_memory(struct end *e)
{
	for (uint32_t i = 0; i < e->pair->nlanes; i++) {
		struct lane *l = e->pair->lanes[i];

		if (lane_rx_end(l) == e && l->memory)
			l->memory->sum = arena_sum(l->memory);
	}
}

static void on_accepted(struct host *h, struct conn *conn)
{
	struct pair *p = engine_conn_owner(conn);
	struct end *e = &p->end[1];

	if (h->s->hold_taken && p->accepted && p->nextra < 8) {
		p->extra[p->nextra++] = conn;
		return;
	}
	CHECK(h->s, e->host == h && !end_alive(e), "h%u: service %u was accepted twice", h->index,
	      p->service);
	if (h->s->failed)
		return;
	p->accepted++;
	engine_conn_set_cookie(conn, e);
	e->conn = conn;
	e->state = END_UP;
	e->life = h->life;
	e->taken = false;
	e->up_at = h->s->now;
}

static void on_ended(struct end *e, int code)
{
	struct sim *s = e->host->s;

	CHECK(s, e->state == END_UP, "h%u: ENDED in state %u", e->host->index, e->state);
	CHECK(s, e->pair->may_end || s->hostile,
	      "h%u: the connection ended by itself: %s; last log: %s", e->host->index,
	      status_text((uint32_t)code), e->host->last_log);
	check_all_completed(e, "ENDED");
	sum_memory(e);
	e->state = END_ENDED;
	e->code = code;
	e->ended_at = s->now;
	lanes_given_up(e->pair);
}

void app_event(struct host *h, struct conn *conn, enum conn_event ev, int code)
{
	static const char *const names[] = { "CONNECTED", "REFUSED", "ACCEPTED", "ENDED" };
	struct end *e = engine_conn_cookie(conn);
	struct sim *s = h->s;

	if (s->stopping || s->failed || (e && e->state == END_DEAD))
		return;
	trace_text(s, TR_EVENT, (int)h->index, "%s, code %d", names[ev], code);
	h->app_dirty = true;
	if (ev == CONN_EVENT_ACCEPTED) {
		on_accepted(h, conn);
		return;
	}
	if (s->hold_taken && !e)
		return;
	if (!e || e->conn != conn) {
		sim_fail(s, "h%u: event %s of a connection nobody knows", h->index, names[ev]);
		return;
	}
	switch (ev) {
	case CONN_EVENT_CONNECTED:
		CHECK(s, e->state == END_CONNECTING, "h%u: CONNECTED in state %u", h->index,
		      e->state);
		e->state = END_UP;
		e->up_at = s->now;
		break;
	case CONN_EVENT_REFUSED:
		CHECK(s, e->state == END_CONNECTING, "h%u: REFUSED in state %u", h->index, e->state);
		CHECK(s, code > 0, "h%u: REFUSED with code %d", h->index, code);
		e->state = END_REFUSED;
		e->code = code;
		e->ended_at = s->now;
		break;
	case CONN_EVENT_ENDED: on_ended(e, code); break;
	case CONN_EVENT_ACCEPTED: break;
	}
}

void pair_close(struct pair *p, uint32_t side, enum mroce_close_code code)
{
	struct end *e = &p->end[side];

	p->may_end = true;
	if (!end_alive(e))
		return;
	trace_text(p->s, TR_EVENT, (int)e->host->index, "closes pair %u", p->index);
	for (uint32_t i = 0; i < p->nextra; i++) {
		engine_conn_close(p->extra[i], code, host_now(e->host));
		engine_conn_free(&p->extra[i]);
	}
	p->nextra = 0;
	e->state = END_CLOSED;
	engine_conn_close(e->conn, code, host_now(e->host));
	check_all_completed(e, "close");
	sum_memory(e);
	engine_conn_free(&e->conn);
	CHECK(p->s, !e->conn, "engine_conn_free() left the pointer");
	lanes_given_up(p);
	host_wake(e->host, p->s->now);
}

void app_host_died(struct host *h)
{
	for (uint32_t i = 0; i < h->npairs; i++) {
		struct pair *p = h->pairs[i];

		for (uint32_t side = 0; side < 2; side++) {
			if (p->end[side].host != h)
				continue;
			p->end[side].state = END_DEAD;
			p->end[side].conn = NULL;
			p->may_end = true;
		}
		lanes_given_up(p);
	}
	for (uint32_t i = 0; i < h->s->nlanes; i++) {
		struct lane *l = h->s->lanes[i];
		struct arena *all[] = { l->local, l->memory, l->recv, l->closed, l->forbidden };

		for (uint32_t j = 0; j < 5; j++) {
			if (all[j] && all[j]->host == h)
				all[j]->registered = false;
		}
	}
}
