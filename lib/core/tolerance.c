// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stated loss tolerance. The receiver keeps the account: it ends a message with bytes missing as soon as that
 * is allowed, and tells the sender by FORGIVE. Decisions are made by a timer of the connection, never
 * while packets are being placed: then nothing is half written, and what the account says is what the
 * memory holds.
 *
 * Until the sender has acknowledged FORGIVE, no letter of the message is acknowledged. Otherwise the sender
 * could hear of the last missing chunk, swallowed here as too late, before it hears of FORGIVE, and
 * count it as delivered.
 */
#include <arpa/inet.h>
#include <endian.h>
#include "core/internal.h"
#include "mroce/track.h"

#define PPM 1000000u
/* Silence after which what was sent and has not come counts as lost. */
#define QUIET_MIN (25 * USEC)
#define QUIET_MAX (1 * MSEC)
/* Not all has been sent: the time of so many chunks, or up to four times as many, from so many (log2) on. */
#define PACE_CHUNKS 8
#define PACE_LOG 3

_Static_assert(MROCE_CRITICAL == MROCE_CRITICAL_MAX, "the interface and the wire agree");

/* ---- the extension of DATA ---- */

uint32_t tolerance_ext_len(const struct mroce_tolerance *t)
{
	return (uint32_t)(sizeof(struct mroce_data_tolerance) +
			  t->ncritical * sizeof(struct mroce_wire_range));
}

uint32_t tolerance_build(const struct mroce_tolerance *t, void *out)
{
	struct mroce_data_tolerance w = {
		.max_missing = htonl(t->max_missing),
		.deadline = htonl(t->deadline_us),
		.ncritical = t->ncritical,
	};
	uint8_t *at = out;

	w.flags |= t->fill == MROCE_FILL_KEEP ? MROCE_TOL_KEEP : 0;
	w.flags |= t->over == MROCE_OVER_FAIL ? MROCE_TOL_FAIL : 0;
	memcpy(at, &w, sizeof(w));
	at += sizeof(w);
	for (uint32_t i = 0; i < t->ncritical; i++, at += sizeof(struct mroce_wire_range)) {
		struct mroce_wire_range r = { htobe64(t->critical[i].offset),
					      htobe64(t->critical[i].length) };

		memcpy(at, &r, sizeof(r));
	}
	return tolerance_ext_len(t);
}

int tolerance_parse(const void *data, uint32_t len, struct mroce_tolerance *t)
{
	struct mroce_data_tolerance w;
	const uint8_t *at = data;

	if (len < sizeof(w))
		return -EINVAL;
	memcpy(&w, at, sizeof(w));
	at += sizeof(w);
	if (w.ncritical > MROCE_CRITICAL ||
	    len < sizeof(w) + w.ncritical * sizeof(struct mroce_wire_range))
		return -EINVAL;
	*t = (struct mroce_tolerance){
		.max_missing = ntohl(w.max_missing),
		.deadline_us = ntohl(w.deadline),
		.fill = w.flags & MROCE_TOL_KEEP ? MROCE_FILL_KEEP : MROCE_FILL_ZERO,
		.over = w.flags & MROCE_TOL_FAIL ? MROCE_OVER_FAIL : MROCE_OVER_WAIT,
		.ncritical = w.ncritical,
	};
	for (uint32_t i = 0; i < t->ncritical; i++, at += sizeof(struct mroce_wire_range)) {
		struct mroce_wire_range r;

		memcpy(&r, at, sizeof(r));
		t->critical[i] = (struct mroce_range){ be64toh(r.offset), be64toh(r.length) };
	}
	return (int)tolerance_ext_len(t);
}

bool tolerance_fits(const struct mroce_tolerance *t, uint64_t msg_len)
{
	if (t->max_missing > PPM || t->fill > MROCE_FILL_KEEP || t->over > MROCE_OVER_FAIL ||
	    t->ncritical > MROCE_CRITICAL)
		return false;
	for (uint32_t i = 0; i < t->ncritical; i++) {
		const struct mroce_range *r = &t->critical[i];

		if (r->offset > msg_len || r->length > msg_len - r->offset)
			return false;
	}
	return true;
}

uint64_t tolerance_bound(const struct mroce_tolerance *t, uint64_t msg_len)
{
	return msg_len * t->max_missing / PPM;
}

bool tolerance_matters(const struct mroce_tolerance *t)
{
	return t->max_missing || (t->deadline_us && t->over == MROCE_OVER_FAIL);
}

/* ---- records ---- */

bool tolerance_open(struct rxmsg *m, const struct mroce_tolerance *t, uint64_t base)
{
	struct conn *c = m->stream->conn;
	struct tolerance *r = pool_get(&c->e->rx_tol_pool);

	c->e->tolerance_used = true;
	if (!r)
		return false;
	r->msg = m;
	r->stream = m->stream->id;
	r->number = m->msg;
	r->t = *t;
	r->base = base;
	r->first_at = r->last_at = c->e->now;
	r->deadline = t->deadline_us ? c->e->now + t->deadline_us * USEC : UINT64_MAX;
	r->open = true;
	m->tol = r;
	TAILQ_INSERT_TAIL(&c->tolerant, r, link);
	timer_by(&c->e->timers, &c->tolerance, r->deadline);
	return true;
}

void tolerance_kick(struct conn *c)
{
	timer_by(&c->e->timers, &c->tolerance, c->e->now);
}

static void stop_watching(struct conn *c, struct tolerance *r)
{
	if (!r->open)
		return;
	r->open = false;
	TAILQ_REMOVE(&c->tolerant, r, link);
}

/* It may have to wait for those before it, but there is nothing to decide any more. */
void tolerance_ended(struct rxmsg *m)
{
	struct conn *c = m->stream->conn;

	if (!m->tol->open)
		return;
	stop_watching(c, m->tol);
	if (m->status == MROCE_OK) {
		c->tol_stats.complete++;
		c->e->tol_stats.complete++;
	}
}

/* Its message is freed: the record stays while its sender does not know how it ended. */
void tolerance_close(struct rxmsg *m)
{
	struct conn *c = m->stream->conn;
	struct tolerance *r = m->tol;

	m->tol = NULL;
	r->msg = NULL;
	stop_watching(c, r);
	if (!r->untold)
		pool_put(&c->e->rx_tol_pool, r);
}

static struct tolerance *find_untold(struct conn *c, uint32_t stream, uint32_t msg)
{
	struct tolerance *r;

	TAILQ_FOREACH(r, &c->untold, link) {
		if (r->stream == stream && r->number == msg)
			return r;
	}
	return NULL;
}

bool tolerance_untold(struct conn *c, uint32_t stream, uint32_t msg)
{
	return find_untold(c, stream, msg);
}

void tolerance_told(struct conn *c, uint32_t stream, uint32_t msg)
{
	struct tolerance *r = find_untold(c, stream, msg);

	if (!r)
		return;
	TAILQ_REMOVE(&c->untold, r, link);
	r->untold = false;
	if (!r->msg)
		pool_put(&c->e->rx_tol_pool, r);
}

void tolerance_drop(struct conn *c)
{
	struct tolerance *r;

	while ((r = TAILQ_FIRST(&c->untold)))
		tolerance_told(c, r->stream, r->number);
	timer_clear(&c->e->timers, &c->tolerance);
}

/* ---- the account ---- */

static bool range_here(const struct rxmsg *m, const struct mroce_range *r)
{
	uint64_t last;

	if (!r->length)
		return true;
	last = (r->offset + r->length - 1) / m->chunk_size;
	for (uint64_t c = r->offset / m->chunk_size; c <= last; c++) {
		if (c < m->chunks.base)
			c = min_u64(last, m->chunks.base - 1);
		else if (!chunkset_has(&m->chunks, (uint32_t)c))
			return false;
	}
	return true;
}

static bool within_bound(const struct rxmsg *m)
{
	if (m->msg_len - m->got > tolerance_bound(&m->tol->t, m->msg_len))
		return false;
	for (uint32_t i = 0; i < m->tol->t.ncritical; i++) {
		if (!range_here(m, &m->tol->t.critical[i]))
			return false;
	}
	return true;
}

/* Chunks are first sent in order, and so are the messages of a stream. */
static bool all_sent(struct rxmsg *m)
{
	return chunkset_has(&m->chunks, m->chunks.count - 1) ||
	       rxmsg_find(m->stream, m->msg + 1, false) || rxmsg_find(m->stream, m->msg + 2, false);
}

static uint32_t missing_chunks(const struct rxmsg *m)
{
	uint32_t n = 0;

	for (uint32_t c = m->chunks.base; c < m->chunks.count; c++) {
		if (c - m->chunks.base >= MROCE_CHUNK_SPAN)
			return n + (m->chunks.count - c);
		n += !chunkset_has(&m->chunks, c);
	}
	return n;
}

/* PSNs that the tracker takes for lost and whose repair has not been told by una yet. */
static uint32_t holes_of(const struct rxpath *rp)
{
	const struct mroce_path_rx *rx;
	uint32_t base, n, holes = 0;

	if (!rp->port)
		return 0;
	rx = &rp->port->paths[rp->conn->slot * MROCE_MAX_PATHS + rp->index];
	base = TRACK_READ(rx->kbase);
	n = TRACK_READ(rx->highest) + 1 - base;
	if (n > MROCE_WINDOW || n < TRACK_READ(rx->nack_tolerance))
		return 0;
	n -= TRACK_READ(rx->nack_tolerance);
	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++)
		holes += (uint32_t)__builtin_popcountll(bitmap_range(w, base, n) &
							~TRACK_READ(rx->seen[w]));
	return holes;
}

static bool all_lost(const struct rxmsg *m)
{
	const struct conn *c = m->stream->conn;
	uint32_t holes = 0;

	for (uint32_t i = 0; i < c->peer_npaths; i++)
		holes += holes_of(&c->rxpaths[i]);
	return holes >= missing_chunks(m);
}

static uint64_t quiet(const struct conn *c)
{
	uint64_t srtt = 0;

	for (uint32_t i = 0; i < c->npaths; i++)
		srtt = max_u64(srtt, c->paths[i].srtt);
	return min_u64(max_u64(srtt / 4, QUIET_MIN), QUIET_MAX);
}

static uint32_t log2_of(uint64_t x)
{
	return 63 - (uint32_t)__builtin_clzll(x);
}

/*
 * When silence about the message means that no more is to be expected. If its last chunk has not come, it may have been lost
 * with all that was sent after it and could tell of it, or it has not been sent yet: then it has to be a silence
 * that is long for the message's own pace, too. UINT64_MAX: too little has come to know a pace.
 */
static uint64_t given_up_at(struct rxmsg *m)
{
	const struct tolerance *r = m->tol;
	uint64_t until = r->last_at + quiet(m->stream->conn);
	uint32_t here; /* log2 of the chunks, or up to two less */

	if (all_sent(m))
		return until;
	if (m->got < (uint64_t)m->chunk_size << (PACE_LOG + 2))
		return UINT64_MAX;
	here = log2_of(m->got) - log2_of(m->chunk_size) - 1;
	return until + ((r->last_at - r->first_at) * PACE_CHUNKS >> here);
}

/* ---- ending a message ---- */

static void fill_gaps(struct tolerance *r, const struct rxmsg *m)
{
	struct mroce_gaps *g = &r->gaps;

	g->msg_len = m->msg_len;
	g->chunk_size = m->chunk_size;
	g->first = m->chunks.base;
	for (uint32_t i = 0; i < MROCE_CHUNK_SPAN && g->first + i < m->chunks.count; i++) {
		if (!chunkset_has(&m->chunks, g->first + i))
			g->word[i / 64] |= 1ULL << (i % 64);
	}
	r->missing = m->msg_len - m->got;
}

/* 0, 1 (region_flush() is needed), -errno. */
static int zero_range(struct region *r, uint64_t addr, uint64_t len)
{
	static const uint8_t zeros[UINT16_MAX];
	int err = 0;

	while (len && err >= 0) {
		uint32_t n = (uint32_t)min_u64(len, sizeof(zeros));

		err = region_write(r, addr, zeros, n);
		addr += n;
		len -= n;
	}
	return err;
}

/* Nothing is deferred when this runs, so the flush is this message's own. */
static int zero_gaps(struct rxmsg *m)
{
	const struct mroce_gaps *g = &m->tol->gaps;
	uint64_t addr;
	struct region *r = rxmsg_region(m, &addr);
	bool flush = false;
	int err = r ? 0 : -EACCES;

	for (uint64_t c = g->first; c < m->chunks.count && err >= 0; c++) {
		uint64_t from = c * m->chunk_size;

		if (c - g->first >= MROCE_CHUNK_SPAN) { /* from here on everything is */
			err = zero_range(r, addr + from, m->msg_len - from);
			c = m->chunks.count;
		} else if (gaps_missing(g, c)) {
			err = zero_range(r, addr + from, min_u64(m->chunk_size, m->msg_len - from));
		}
		flush |= err == 1;
	}
	if (err < 0)
		return err;
	return flush ? region_flush(r) : 0;
}

static void tell(struct conn *c, struct tolerance *r, uint8_t status)
{
	struct letter *l = letter_new(c, MROCE_FORGIVE);

	if (!l) {
		conn_doom(c, DOOM_UNTOLD);
		return;
	}
	l->id = r->stream;
	l->number = r->number;
	l->code = status;
	l->missing = r->missing;
	letter_control(c, l);
}

static void add_up(struct tolerance_stats *st, const struct tolerance *r, uint8_t status)
{
	st->forgiven += status == MROCE_OK;
	st->over += status != MROCE_OK;
	st->missing += r->missing;
}

static void end(struct rxmsg *m, uint8_t status)
{
	struct conn *c = m->stream->conn;
	struct tolerance *r = m->tol;
	int err;

	fill_gaps(r, m);
	stop_watching(c, r);
	err = r->t.fill == MROCE_FILL_ZERO ? zero_gaps(m) : 0;
	if (err) {
		r->missing = 0;
		rxmsg_region_failed(m, err);
		return;
	}
	add_up(&c->tol_stats, r, status);
	add_up(&c->e->tol_stats, r, status);
	r->untold = true;
	TAILQ_INSERT_TAIL(&c->untold, r, link);
	tell(c, r, status);
	m->status = status;
	rxmsg_finish(m);
}

/* When to look again; the message may be gone. */
static uint64_t look_at(struct rxmsg *m)
{
	struct conn *c = m->stream->conn;
	struct tolerance *r = m->tol;
	bool late = c->e->now >= r->deadline, enough = within_bound(m);
	uint64_t until = enough ? given_up_at(m) : UINT64_MAX;

	if (enough && (late || all_lost(m) || c->e->now >= until)) {
		end(m, MROCE_OK);
		return UINT64_MAX;
	}
	if (late && r->t.over == MROCE_OVER_FAIL) {
		end(m, MROCE_E_LOSS);
		return UINT64_MAX;
	}
	if (late)
		return UINT64_MAX; /* the next arrival kicks */
	return min_u64(until, r->deadline);
}

void tolerance_timer(struct conn *c)
{
	uint64_t next = UINT64_MAX;
	struct tolerance *r, *after;

	if (c->state != CONN_OPEN)
		return;
	rxmsg_deferred_flush(c->e);
	for (r = TAILQ_FIRST(&c->tolerant); r; r = after) {
		after = TAILQ_NEXT(r, link);
		if (r->msg->state == RX_OPEN)
			next = min_u64(next, look_at(r->msg));
	}
	if (next != UINT64_MAX)
		timer_by(&c->e->timers, &c->tolerance, next);
}

/* ---- at the sender ---- */

enum placing tolerance_forgive_rx(struct conn *c, const struct packet *p)
{
	struct mroce_forgive w;
	uint16_t status;

	if (p->body_len < sizeof(w) || !(c->features & MROCE_F_TOLERANCE)) {
		count(c->e, MROCE_DROP_BODY);
		conn_protocol_error(c, "forgiving that is too short or was not agreed on");
		return BROKEN;
	}
	memcpy(&w, p->body, sizeof(w));
	status = ntohs(w.status);
	if (ntohl(w.stream) >= c->e->cfg.streams || (status != MROCE_OK && status != MROCE_E_LOSS)) {
		count(c->e, MROCE_DROP_BODY);
		conn_protocol_error(c, "forgiving that is out of range");
		return BROKEN;
	}
	txmsg_forgive(c, ntohl(w.stream), ntohl(w.msg), be64toh(w.missing), (uint8_t)status);
	return c->state == CONN_OPEN ? PLACED : BROKEN;
}
