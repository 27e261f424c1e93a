// SPDX-License-Identifier: BSD-2-Clause
/*
 * Completions, and what no real application could check: that at the moment of the sender's completion every
 * byte is at its place in the other host's memory, that each request completes once and in order,
 * that nothing beside the message was written, and that memory which was given back stays as it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "app.h"
#include "mroce/gaps.h"

static bool ended_status(const struct pair *p, uint8_t status)
{
	return p->may_end && (status == MROCE_E_FLUSHED || status == MROCE_E_PEER_GONE);
}

/* Must its receiver's completion come before the slot can be used again? */
static bool must_be_received(const struct lane *l, const struct msg *m)
{
	return msg_takes_receive(m) && !l->broken && !l->s->hostile;
}

/* Which messages both sides are done with: their slots may be used again. */
static void lane_retire(struct lane *l)
{
	while (l->retired < l->posted) {
		const struct msg *m = &l->msgs[l->retired];

		if (!m->tx_done || (must_be_received(l, m) && !m->rx_done))
			break;
		if (!opcode_is_send(m->opcode) && !l->memory->sum)
			arena_scribble(l->memory, l->retired % l->p.window);
		l->retired++;
	}
	if (l->retired == l->p.count)
		lane_finish(l);
	app_wake(lane_tx_end(l)->host);
}

/* What this message may state to the peer: reads cannot, and the peer may not know of it. */
static bool counts_as_tolerant(const struct lane *l, const struct msg *m)
{
	return m->tolerant && m->opcode != MROCE_WR_READ && !l->s->cfg.no_tolerance;
}

static bool touches_critical(const struct msg *m, const struct mroce_range *gap)
{
	for (uint32_t i = 0; i < m->tol.ncritical; i++) {
		const struct mroce_range *c = &m->tol.critical[i];

		if (c->length && c->offset < gap->offset + gap->length &&
		    gap->offset < c->offset + c->length)
			return true;
	}
	return false;
}

/* May a message that stated this end so? */
static void check_verdict(struct lane *l, const struct msg *m, uint32_t seq,
			  const struct engine_completion *c)
{
	struct sim *s = l->s;
	uint64_t bound = counts_as_tolerant(l, m) ? m->len * m->tol.max_missing / 1000000 : 0;
	struct mroce_range gap[64];
	uint32_t n = c->gaps ? gaps_ranges(c->gaps, gap, 64) : 0;

	CHECK(s, c->length + c->missing == m->len,
	      "lane %u message %u: %llu bytes here, %llu missing, sent were %llu", l->id, seq,
	      (unsigned long long)c->length, (unsigned long long)c->missing,
	      (unsigned long long)m->len);
	if (c->status == MROCE_OK) {
		CHECK(s, c->missing <= bound,
		      "lane %u message %u: %llu bytes missing, bound is %llu", l->id, seq,
		      (unsigned long long)c->missing, (unsigned long long)bound);
		for (uint32_t i = 0; i < n && i < 64; i++)
			CHECK(s, !touches_critical(m, &gap[i]),
			      "lane %u message %u: critical bytes are missing", l->id, seq);
	} else {
		CHECK(s,
		      counts_as_tolerant(l, m) && m->tol.deadline_us &&
			      m->tol.over == MROCE_OVER_FAIL && c->missing &&
			      (c->missing > bound || m->tol.ncritical),
		      "lane %u message %u: completed LOSS with %llu bytes missing, bound is %llu",
		      l->id, seq, (unsigned long long)c->missing, (unsigned long long)bound);
	}
}

static bool lost_as_stated(const struct lane *l, const struct msg *m, uint8_t status)
{
	return status == MROCE_E_LOSS && counts_as_tolerant(l, m) && !m->fault;
}

static bool ended_with_account(const struct lane *l, const struct msg *m, uint8_t status)
{
	return status == MROCE_OK || lost_as_stated(l, m, status);
}

/* Both sides tell the same of a message. */
static void check_agreement(struct lane *l, const struct msg *m, uint32_t seq)
{
	if (!m->tx_done || !m->rx_done || m->fault || l->any_status ||
	    ended_status(l->pair, m->tx_status))
		return;
	CHECK(l->s, m->tx_status == m->rx_status && m->tx_missing == m->rx_missing,
	      "lane %u message %u: its sender was told %s, %llu bytes missing, its receiver %s, "
	      "%llu",
	      l->id, seq, status_text(m->tx_status), (unsigned long long)m->tx_missing,
	      status_text(m->rx_status), (unsigned long long)m->rx_missing);
}

static bool memory_right(struct arena *a, uint32_t slot, const struct msg *m,
			 const struct engine_completion *c, char *why)
{
	uint8_t fill = m->tol.fill == MROCE_FILL_KEEP ? FREE_BYTE : 0;

	if (c->gaps)
		return arena_check_gaps(a, slot, m->pattern, m->len, c->gaps, fill, why);
	if (c->missing)
		return arena_check_missing(a, slot, m->pattern, m->len, c->missing, fill, why);
	return arena_check(a, slot, m->pattern, m->len, why);
}

static void check_arrived(struct lane *l, const struct msg *m, uint32_t seq,
			  const struct engine_completion *c, const char *when)
{
	char why[160];
	struct arena *a;
	uint32_t slot = seq % l->p.window;

	if (m->opcode == MROCE_WR_READ) {
		a = l->local;
	} else if (opcode_is_write(m->opcode)) {
		a = l->memory;
	} else {
		if (m->rx_done || l->broken)
			return; /* checked then, and the memory has another use by now */
		a = l->recv;
		slot = m->recv % l->p.recv_window;
	}
	if (!memory_right(a, slot, m, c, why))
		sim_fail(l->s, "lane %u message %u (opcode %u) at %s: %s", l->id, seq, m->opcode,
			 when, why);
}

static void check_untouched(struct lane *l, const struct msg *m, uint32_t seq)
{
	char why[160];

	if (!opcode_is_write(m->opcode) || l->broken || l->memory->sum)
		return;
	if (!arena_untouched(l->memory, seq % l->p.window, why))
		sim_fail(l->s, "lane %u message %u was refused, but: %s", l->id, seq, why);
}

static bool lane_remote_alive(const struct lane *l)
{
	const struct end *e = lane_rx_end(l);

	return e->life == e->host->life && e->host->engine;
}

void lane_sent(struct end *e, struct lane *l, uint32_t seq, const struct engine_completion *c)
{
	struct sim *s = l->s;
	struct msg *m = &l->msgs[seq];
	enum mroce_status expect;

	if (lane_tx_end(l) != e || seq >= l->posted || m->tx_done || seq != l->tx_done) {
		sim_fail(s, "lane %u: message %u completed %s (next is %u, posted are %u)", l->id,
			 seq, seq < l->posted && m->tx_done ? "twice" : "out of order", l->tx_done,
			 l->posted);
		return;
	}
	expect = fault_status(m->fault);
	m->tx_done = true;
	m->tx_status = c->status;
	m->tx_missing = c->missing;
	m->tx_at = l->last_tx_at = s->now;
	l->tx_done++;
	if (ended_status(l->pair, c->status)) {
		l->spoiled = true;
		arena_scribble(l->local, seq % l->p.window);
		return;
	}
	if (s->hostile) {
		arena_scribble(l->local, seq % l->p.window);
		lane_retire(l);
		return;
	}
	CHECK(s,
	      c->status == expect || (l->any_status && c->status) || lost_as_stated(l, m, c->status),
	      "lane %u message %u (opcode %u, %llu bytes) completed %s, expected %s", l->id, seq,
	      m->opcode, (unsigned long long)m->len, status_text(c->status), status_text(expect));
	CHECK(s, c->opcode == m->opcode, "lane %u message %u: opcode %u, posted was %u", l->id, seq,
	      c->opcode, m->opcode);
	if (s->failed)
		return;
	if (ended_with_account(l, m, c->status)) {
		check_verdict(l, m, seq, c);
		if (lane_remote_alive(l) || m->opcode == MROCE_WR_READ)
			check_arrived(l, m, seq, c, "its sender's completion");
		check_agreement(l, m, seq);
		l->bytes_done += c->length;
		l->bytes_missing += c->missing;
	} else if (m->fault) {
		check_untouched(l, m, seq);
	}
	arena_scribble(l->local, seq % l->p.window);
	lane_retire(l);
}

/* The message that took receive `number`: they are given out in the order of the messages. */
static struct msg *received_by(struct lane *l, uint32_t number, uint32_t *seq)
{
	struct msg *m;

	if (number >= l->need_recv)
		return NULL;
	*seq = l->by_recv[number];
	m = &l->msgs[*seq];
	return *seq < l->posted ? m : NULL;
}

static void check_receive(struct lane *l, struct msg *m, uint32_t seq, uint32_t slot,
			  const struct engine_completion *c)
{
	struct sim *s = l->s;
	uint8_t opcode = m->opcode == MROCE_WR_WRITE_IMM ? MROCE_WR_RECV_IMM : MROCE_WR_RECV;
	char why[160];

	CHECK(s, !c->missing == !c->gaps, "lane %u message %u: %llu bytes missing, %s list", l->id,
	      seq, (unsigned long long)c->missing, c->gaps ? "a" : "no");
	check_verdict(l, m, seq, c);
	CHECK(s, c->opcode == opcode, "lane %u message %u: receive has opcode %u, expected %u",
	      l->id, seq, c->opcode, opcode);
	CHECK(s, c->has_imm == opcode_has_imm(m->opcode), "lane %u message %u: has_imm is %d",
	      l->id, seq, c->has_imm);
	CHECK(s, !c->has_imm || c->imm == m->imm, "lane %u message %u: imm %08x, sent was %08x",
	      l->id, seq, c->imm, m->imm);
	if (s->failed)
		return;
	check_arrived(l, m, seq, c, "its receiver's completion");
	if (opcode_is_write(m->opcode) && !arena_untouched(l->recv, slot, why))
		sim_fail(s, "lane %u message %u: a write touched the receive: %s", l->id, seq, why);
}

void lane_received(struct end *e, struct lane *l, uint32_t number, const struct engine_completion *c)
{
	struct sim *s = l->s;
	uint32_t slot = number % l->p.recv_window, seq = 0;
	enum mroce_status expect;
	struct msg *m;
	char why[160];

	/*
	 * Only a receive whose memory is refused when it is posted may end before its turn; and a peer that
	 * lies about which receive a message takes gets what it asked for.
	 */
	if (lane_rx_end(l) != e || number >= l->recv_posted || l->recv_seen[number] ||
	    (number != l->recv_next && c->status != MROCE_E_LOCAL_ACCESS && !s->hostile)) {
		sim_fail(s, "lane %u: receive %u completed %s (next is %u, posted are %u)", l->id,
			 number,
			 number < l->recv_posted && l->recv_seen[number] ? "twice" : "out of order",
			 l->recv_next, l->recv_posted);
		return;
	}
	l->recv_seen[number] = true;
	while (l->recv_next < l->recv_posted && l->recv_seen[l->recv_next])
		l->recv_next++;
	l->recv_done++;
	l->last_rx_at = s->now;
	if (l->broken || s->hostile) {
		arena_scribble(l->recv, slot);
		app_wake(e->host);
		return;
	}
	CHECK(s, arena_guards(l->recv, slot, why), "lane %u receive %u: %s", l->id, number, why);
	m = received_by(l, number, &seq);
	if (ended_status(l->pair, c->status)) {
		if (m)
			m->rx_done = true;
		arena_scribble(l->recv, slot);
		return;
	}
	if (!m) {
		sim_fail(s, "lane %u: receive %u completed %s, but nothing was sent", l->id, number,
			 status_text(c->status));
		return;
	}
	expect = fault_recv_status(m->fault);
	CHECK(s,
	      c->status == expect || (l->any_status && c->status) || lost_as_stated(l, m, c->status),
	      "lane %u message %u: receive completed %s, expected %s", l->id, seq,
	      status_text(c->status), status_text(expect));
	if (ended_with_account(l, m, c->status))
		check_receive(l, m, seq, slot, c);
	m->rx_done = true;
	m->rx_status = c->status;
	m->rx_missing = c->missing;
	m->rx_at = s->now;
	if (!s->failed)
		check_agreement(l, m, seq);
	arena_scribble(l->recv, slot);
	app_wake(e->host);
	lane_retire(l);
}

void app_complete(struct host *h, struct conn *conn, const struct engine_completion *c)
{
	struct sim *s = h->s;
	struct end *e = engine_conn_cookie(conn);
	uint32_t id = c->id >> 32 & 0x7fffffff;
	struct lane *l = id < s->nlanes ? s->lanes[id] : NULL;

	if (s->stopping || s->failed || (e && e->state == END_DEAD))
		return;
	trace_text(s, TR_APP, (int)h->index, "%s lane %u number %u: %s, %llu bytes",
		   c->id & TX_ID ? "sent" : "received", id, (uint32_t)c->id, status_text(c->status),
		   (unsigned long long)c->length);
	if (!e || e->conn != conn || !l || l->pair != e->pair || l->p.stream != c->stream) {
		sim_fail(s, "h%u: completion %llx belongs to nobody", h->index,
			 (unsigned long long)c->id);
		return;
	}
	CHECK(s, e->state == END_UP || e->state == END_CLOSED,
	      "h%u: completion %llx on a connection that is not up (state %u)", h->index,
	      (unsigned long long)c->id, e->state);
	if (c->id & TX_ID)
		lane_sent(e, l, (uint32_t)c->id, c);
	else
		lane_received(e, l, (uint32_t)c->id, c);
}
