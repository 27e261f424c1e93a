// SPDX-License-Identifier: BSD-2-Clause
/* Lanes: one direction of one stream. Their memory, and the posting of requests and receives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "app.h"

static void lane_arenas(struct lane *l, struct host *from, struct host *to)
{
	const struct lane_params *p = &l->p;
	bool writes = p->kinds & (1 << MROCE_WR_WRITE | 1 << MROCE_WR_WRITE_IMM);
	bool reads = p->kinds & 1 << MROCE_WR_READ;
	uint64_t local_max = p->max + (p->faults >> FAULT_TOO_LONG & 1 ? TOO_LONG_ROOM : 0);
	uint32_t rights = (writes ? MROCE_ACCESS_REMOTE_WRITE : 0) |
			  (reads ? MROCE_ACCESS_REMOTE_READ : 0);

	l->local = arena_new(l->s, from, l->pair, p->window, local_max, MROCE_ACCESS_LOCAL, p->mode);
	if (writes || reads)
		l->memory = arena_new(l->s, to, l->pair, p->window, p->max, rights, p->mode);
	if (l->need_recv)
		l->recv = arena_new(l->s, to, l->pair, p->recv_window, p->max, MROCE_ACCESS_LOCAL,
				    p->mode);
	if (p->faults >> FAULT_PERMISSION & 1)
		l->closed = arena_new(l->s, to, l->pair, 1, p->max, MROCE_ACCESS_LOCAL, p->mode);
	if (p->faults >> FAULT_OWNER & 1)
		l->forbidden = arena_new(l->s, to, l->s, 1, p->max,
					 MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ,
					 p->mode);
}

struct lane *lane_new(struct pair *p, const struct lane_params *params)
{
	struct lane *l = calloc(1, sizeof(*l));
	struct end *from = &p->end[params->from], *to = &p->end[!params->from];

	if (!l || p->s->nlanes == MAX_LANES)
		abort();
	l->s = p->s;
	l->pair = p;
	l->p = *params;
	l->id = p->s->nlanes;
	if (!l->p.recv_window)
		l->p.recv_window = l->p.window;
	l->msgs = calloc(params->count, sizeof(*l->msgs));
	l->by_recv = calloc(params->count, sizeof(*l->by_recv));
	l->recv_seen = calloc(4 * params->count + 2, sizeof(*l->recv_seen));
	if (!l->msgs || !l->by_recv || !l->recv_seen)
		abort();
	for (uint32_t i = 0; i < params->count; i++)
		msg_make(l, &l->msgs[i]);
	p->s->lanes[p->s->nlanes++] = l;
	p->lanes = realloc(p->lanes, (p->nlanes + 1) * sizeof(*p->lanes));
	if (!p->lanes)
		abort();
	p->lanes[p->nlanes++] = l;
	p->s->open++;
	from->tx_of[params->stream] = l;
	to->rx_of[params->stream] = l;
	lane_arenas(l, from->host, to->host);
	l->next_post = params->start;
	from->host->app_dirty = to->host->app_dirty = true;
	host_wake(from->host, p->s->now);
	host_wake(to->host, p->s->now);
	return l;
}

void lane_free(struct lane *l)
{
	arena_free(l->local);
	arena_free(l->memory);
	arena_free(l->recv);
	arena_free(l->closed);
	arena_free(l->forbidden);
	free(l->msgs);
	free(l->by_recv);
	free(l->recv_seen);
	free(l);
}

void app_wake(struct host *h)
{
	h->app_dirty = true;
	host_wake(h, h->s->now);
}

void lane_release_recv(struct lane *l)
{
	l->p.hold_recv = false;
	app_wake(l->pair->end[!l->p.from].host);
}

bool lane_done(const struct lane *l)
{
	return l->finished;
}

void lane_finish(struct lane *l)
{
	if (l->finished)
		return;
	l->finished = true;
	l->s->open--;
}

/* ---- posting ---- */

static void aim(struct lane *l, const struct msg *m, uint32_t slot, struct work_request *wr)
{
	struct arena *a = l->memory;
	uint64_t size;

	if (!a || opcode_is_send(m->opcode))
		return;
	size = a->stride * a->slots;
	wr->raddr = arena_addr(a, slot);
	wr->rkey = a->key;
	switch ((enum fault)m->fault) {
	case FAULT_BAD_RKEY: wr->rkey ^= 0x5a5a5a5a; break;
	case FAULT_BOUNDS: wr->raddr = a->iova + size - m->len + 1; break;
	case FAULT_BELOW: wr->raddr = a->iova - 1; break;
	case FAULT_WRAP: wr->raddr = UINT64_MAX - m->len / 2; break;
	case FAULT_PERMISSION:
		wr->rkey = l->closed->key;
		wr->raddr = arena_addr(l->closed, 0);
		break;
	case FAULT_OWNER:
		wr->rkey = l->forbidden->key;
		wr->raddr = arena_addr(l->forbidden, 0);
		break;
	case FAULT_LOCAL_KEY:
	case FAULT_LOCAL_BOUNDS:
	case FAULT_TOO_LONG:
	case FAULT_NONE:
	case FAULT_MAX: break;
	}
}

static void request(struct lane *l, uint32_t seq, struct work_request *wr)
{
	const struct msg *m = &l->msgs[seq];
	uint32_t slot = seq % l->p.window;

	*wr = (struct work_request){
		.id = TX_ID | (uint64_t)l->id << 32 | seq,
		.opcode = m->opcode,
		.stream = l->p.stream,
		.key = l->local->key,
		.addr = arena_addr(l->local, slot),
		.len = m->len,
		.imm = m->imm,
		.tolerance = m->tolerant ? &m->tol : NULL,
	};
	if (m->fault == FAULT_LOCAL_KEY)
		wr->key ^= 0x5a5a5a5a;
	if (m->fault == FAULT_LOCAL_BOUNDS)
		wr->addr = l->local->iova + l->local->stride * l->local->slots - m->len + 1;
	aim(l, m, slot, wr);
}

/* Fills what is to be sent, and looks whether the destination is still as it was left. */
static bool prepare(struct lane *l, uint32_t seq)
{
	const struct msg *m = &l->msgs[seq];
	struct arena *dst = m->opcode == MROCE_WR_READ ? l->local : l->memory;
	struct arena *src = m->opcode == MROCE_WR_READ ? l->memory : l->local;
	uint32_t slot = seq % l->p.window;
	char why[160];

	if (!src->sum)
		arena_fill(src, slot, m->pattern, m->len);
	if (opcode_is_send(m->opcode))
		dst = l->p.mode == ARENA_VIRTUAL ? l->recv : NULL;
	if (!dst)
		return true;
	if (!l->spoiled && !l->s->hostile && !arena_untouched(dst, slot, why)) {
		sim_fail(l->s, "lane %u message %u, before posting it: %s", l->id, seq, why);
		return false;
	}
	if (l->p.mode == ARENA_VIRTUAL)
		dst->pattern = m->pattern;
	return true;
}

static bool post_message(struct lane *l)
{
	uint32_t seq = l->posted;
	struct work_request wr;
	int err;

	if (!l->prepared && !prepare(l, seq))
		return false;
	l->prepared = true;
	request(l, seq, &wr);
	l->msgs[seq].posted_at = l->s->now;
	l->prepared = false;
	l->posted++; /* before: it may complete within the call */
	err = engine_post(lane_tx_end(l)->conn, &wr, host_now(lane_tx_end(l)->host));
	if (err) {
		l->prepared = true;
		l->posted--;
		CHECK(l->s, err == -EAGAIN, "engine_post(lane %u, message %u): %s", l->id, seq,
		      strerror(-err));
		l->refused++;
		return false;
	}
	l->next_post = l->s->now + l->p.interval;
	return true;
}

static void post_timer(struct sim *s, void *a, uint64_t b)
{
	(void)b;
	(void)s;
	app_wake(a);
}

static void post_messages(struct lane *l)
{
	uint64_t now = l->s->now;

	while (l->posted < l->p.count && l->posted - l->retired < l->p.window && !l->s->failed) {
		if (l->next_post > now) {
			if (l->timer_at != l->next_post)
				sim_at(l->s, l->next_post, post_timer, lane_tx_end(l)->host, 0);
			l->timer_at = l->next_post;
			return;
		}
		if (!post_message(l))
			return;
	}
}

static bool post_recv(struct lane *l)
{
	uint32_t slot = l->recv_posted % l->p.recv_window;
	struct work_request wr = {
		.id = (uint64_t)l->id << 32 | l->recv_posted,
		.opcode = MROCE_WR_RECV,
		.stream = l->p.stream,
		.key = l->recv->key,
		.addr = arena_addr(l->recv, slot),
		.len = l->p.max,
	};
	char why[160];
	int err;

	if (!l->s->hostile && !arena_untouched(l->recv, slot, why)) {
		sim_fail(l->s, "lane %u receive %u, before posting it: %s", l->id, l->recv_posted,
			 why);
		return false;
	}
	l->recv_posted++;
	err = engine_post(lane_rx_end(l)->conn, &wr, host_now(lane_rx_end(l)->host));
	if (err) {
		l->recv_posted--;
		CHECK(l->s, err == -EAGAIN, "engine_post(lane %u, receive %u): %s", l->id,
		      l->recv_posted, strerror(-err));
		return false;
	}
	return true;
}

/* One more than needed at the end, so that closing finds something to flush. */
static void post_recvs(struct lane *l)
{
	uint32_t need = l->need_recv * (l->broken || l->s->hostile ? 4 : 1) + (l->p.recv_window > 1);

	if (!l->recv || l->p.hold_recv)
		return;
	while (l->recv_posted < need && l->recv_posted - l->recv_done < l->p.recv_window) {
		if (l->s->failed || !post_recv(l))
			return;
	}
}

void end_post(struct end *e)
{
	if (e->conn && (e->state == END_ENDED || e->state == END_REFUSED)) {
		engine_conn_free(&e->conn);
		CHECK(e->host->s, !e->conn, "engine_conn_free() left the pointer");
		return;
	}
	if (!end_alive(e))
		return;
	if (e == &e->pair->end[1] && !e->taken && !e->host->s->hold_taken) {
		engine_conn_taken(e->conn);
		e->taken = true;
	}
	for (uint32_t i = 0; i < e->pair->nlanes; i++) {
		struct lane *l = e->pair->lanes[i];

		if (l->stopped)
			continue;
		if (lane_tx_end(l) == e)
			post_messages(l);
		else
			post_recvs(l);
	}
}

void app_step(struct host *h)
{
	h->app_dirty = false;
	for (uint32_t i = 0; i < h->npairs && !h->s->failed; i++) {
		struct pair *p = h->pairs[i];

		if (p->end[0].host == h)
			end_post(&p->end[0]);
		if (p->end[1].host == h)
			end_post(&p->end[1]);
	}
}
