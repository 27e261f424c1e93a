// SPDX-License-Identifier: BSD-2-Clause
/* Streams: their records, their turns at sending, the receives posted to them. */
#include "core/internal.h"
#include "mroce/track.h"

/* Bytes that a stream may send in its turn. */
#define QUANTUM (16u << 10)
/* Reads of one stream that may be outstanding. */
#define READS_MAX 16

static uint32_t stream_hash(const struct conn *c, uint32_t id)
{
	return hash_mix(c->id, id, 1);
}

struct stream *stream_find(struct conn *c, uint32_t id)
{
	struct hash *t = &c->e->streams;

	if (c->last_stream && c->last_stream->id == id)
		return c->last_stream;
	for (struct hnode *n = t->heads[stream_hash(c, id) & t->mask]; n; n = n->next) {
		struct stream *s = container_of(n, struct stream, link);

		if (s->conn == c && s->id == id) {
			c->last_stream = s;
			return s;
		}
	}
	return NULL;
}

struct stream *stream_get(struct conn *c, uint32_t id)
{
	struct stream *s = stream_find(c, id);

	if (s)
		return s;
	s = pool_get(&c->e->stream_pool);
	if (!s)
		return NULL;
	s->conn = c;
	s->id = id;
	s->tx_next = s->rx_next = c->e->cfg.first_msg;
	TAILQ_INIT(&s->tx);
	TAILQ_INIT(&s->responses);
	TAILQ_INIT(&s->recvs);
	TAILQ_INSERT_TAIL(&c->streams, s, all);
	hash_add(&c->e->streams, stream_hash(c, id), &s->link);
	c->nstreams++;
	return s;
}

void stream_free(struct stream *s)
{
	struct conn *c = s->conn;

	stream_sleep(s);
	hash_del(&c->e->streams, stream_hash(c, s->id), &s->link);
	TAILQ_REMOVE(&c->streams, s, all);
	c->nstreams--;
	if (c->last_stream == s)
		c->last_stream = NULL;
	pool_put(&c->e->stream_pool, s);
}

/* ---- taking turns ---- */

static bool may_start(const struct stream *s, const struct txmsg *m)
{
	const struct txmsg *oldest = TAILQ_FIRST(&s->tx);

	if (oldest->started && s->tx_next - oldest->msg >= MROCE_MSG_SPAN)
		return false;
	/* Its chunks have one size for life: a large one waits a round trip to know it. */
	if (!s->conn->chunk_known && m->len > MTU_SAFE / 2 && m->opcode != MROCE_WR_READ)
		return false;
	switch (m->opcode) {
	case MROCE_WR_SEND:
	case MROCE_WR_SEND_IMM:
	case MROCE_WR_WRITE_IMM: return psn_before(s->rseq_next, s->credit);
	case MROCE_WR_READ: return s->reads < READS_MAX;
	}
	return true;
}

static bool may_cut(const struct txmsg *m)
{
	if (m->nchunks <= MROCE_CHUNK_SPAN)
		return true;
	return m->next_chunk - m->done.base < MROCE_CHUNK_SPAN;
}

static bool request_ready(const struct stream *s)
{
	const struct txmsg *m = s->tx_unsent;

	return m && (m->started ? may_cut(m) : may_start(s, m));
}

static bool response_ready(const struct stream *s)
{
	return s->resp_unsent && may_cut(s->resp_unsent);
}

static bool stream_has_turn(const struct stream *s)
{
	return request_ready(s) || response_ready(s);
}

void stream_sleep(struct stream *s)
{
	if (!s->is_active)
		return;
	TAILQ_REMOVE(&s->conn->active, s, active);
	s->is_active = false;
	s->deficit = 0;
}

void stream_wake(struct stream *s)
{
	if (s->is_active || !stream_has_turn(s))
		return;
	s->is_active = true;
	s->deficit = QUANTUM;
	TAILQ_INSERT_TAIL(&s->conn->active, s, active);
	conn_ready(s->conn);
}

/* ---- cutting letters ---- */

/* Gives the message its numbers. False: its own memory is gone, or no record is free. */
static bool start(struct stream *s, struct txmsg *m)
{
	if (!txmsg_cut(m))
		return false;
	if (m->opcode == MROCE_WR_READ) {
		m->msg = s->tx_next;
		m->reply = rxmsg_new_read(m);
		if (!m->reply)
			return false;
		s->reads++;
	}
	m->msg = s->tx_next++;
	m->started = true;
	if (m->op == MROCE_OP_SEND || m->op == MROCE_OP_SEND_IMM || m->op == MROCE_OP_WRITE_IMM)
		m->rseq = s->rseq_next++;
	m->progress_at = s->conn->e->now;
	return true;
}

static struct letter *cut(struct stream *s, struct txmsg *m)
{
	uint8_t type = m->opcode == MROCE_WR_READ && !m->response ? MROCE_READ_REQ : MROCE_DATA;
	struct letter *l = letter_new(s->conn, MROCE_DATA);

	if (!l)
		return NULL;
	if (!m->started && !start(s, m)) {
		letter_free(s->conn->e, l);
		return NULL;
	}
	l->type = type;
	l->msg = m;
	l->stream = s;
	l->chunk = m->next_chunk++;
	m->letters++;
	return l;
}

static struct letter *cut_request(struct stream *s)
{
	struct txmsg *m = s->tx_unsent;
	struct letter *l = cut(s, m);

	if (l && m->next_chunk == m->nchunks)
		s->tx_unsent = txmsg_next_unsent(m);
	return l;
}

static struct letter *cut_response(struct stream *s)
{
	struct txmsg *m = s->resp_unsent;
	struct letter *l = cut(s, m);

	if (l && m->next_chunk == m->nchunks)
		s->resp_unsent = txmsg_next_unsent(m);
	return l;
}

static struct letter *cut_either(struct stream *s)
{
	bool response = response_ready(s);

	if (response && request_ready(s)) {
		response = s->responses_turn;
		s->responses_turn = !response;
	}
	return response ? cut_response(s) : cut_request(s);
}

/* Requests whose memory went away before they began end here, having cost nothing. */
static void drop_dead_requests(struct stream *s)
{
	struct txmsg *m;

	while ((m = s->tx_unsent) && !m->started && m->region && m->region->removed) {
		s->tx_unsent = txmsg_next_unsent(m);
		txmsg_finish(m, MROCE_E_LOCAL_ACCESS);
	}
}

static void next_turn(struct stream *s)
{
	s->deficit = QUANTUM;
	TAILQ_REMOVE(&s->conn->active, s, active);
	TAILQ_INSERT_TAIL(&s->conn->active, s, active);
}

struct letter *stream_cut(struct conn *c)
{
	struct stream *s, *stuck = NULL;

	while ((s = TAILQ_FIRST(&c->active)) && s != stuck) {
		struct letter *l;
		uint32_t len;

		drop_dead_requests(s);
		if (!stream_has_turn(s)) {
			stream_sleep(s);
			continue;
		}
		l = cut_either(s);
		if (!l) { /* no record free for it, but perhaps for another; again soon */
			conn_starves(c);
			stuck = stuck ? stuck : s;
			next_turn(s);
			continue;
		}
		len = letter_len(l);
		if (!stream_has_turn(s)) {
			stream_sleep(s);
		} else if (s->deficit <= len) {
			next_turn(s);
		} else {
			s->deficit -= len;
		}
		return l;
	}
	return NULL;
}

/* ---- receives ---- */

/* Tells the peer of new receives: at once when it runs short, else when half of what it has is new. */
void stream_offer_credit(struct stream *s)
{
	uint32_t has = s->credit_told - s->recv_taken;
	uint32_t fresh = s->recv_posted - s->credit_told;
	struct letter *l;

	if (s->credit_queued || !fresh || fresh * 2 < has)
		return;
	l = letter_new(s->conn, MROCE_CREDIT);
	if (!l)
		return;
	l->stream = s;
	s->credit_queued = true;
	letter_control(s->conn, l);
}

static void complete_recv(struct stream *s, uint64_t id, uint8_t status)
{
	struct engine_completion done = {
		.id = id, .stream = s->id, .opcode = MROCE_WR_RECV, .status = status
	};

	conn_complete(s->conn, &done);
}

int stream_post_recv(struct stream *s, const struct work_request *wr)
{
	struct engine *e = s->conn->e;
	struct region *region = NULL;
	struct recv *r;

	if (!pool_reserve(&e->recv_pool, 1))
		return -EAGAIN;
	if (wr->len) {
		region = region_get(e, s->conn->owner, wr->key);
		if (!region || !region_allows(region, wr->addr, wr->len, 0)) {
			region_put(&region);
			complete_recv(s, wr->id, MROCE_E_LOCAL_ACCESS);
			return 0;
		}
	}
	r = pool_get_dirty(&e->recv_pool);
	*r = (struct recv){
		.region = region,
		.id = wr->id,
		.addr = wr->addr,
		.len = wr->len,
		.rseq = s->recv_posted++,
	};
	TAILQ_INSERT_TAIL(&s->recvs, r, link);
	stream_offer_credit(s);
	return 0;
}

struct recv *stream_take_recv(struct stream *s, uint32_t rseq)
{
	struct recv *r;

	for (r = TAILQ_FIRST(&s->recvs); r; r = TAILQ_NEXT(r, link)) {
		if (r->rseq == rseq) {
			TAILQ_REMOVE(&s->recvs, r, link);
			s->recv_taken++;
			stream_offer_credit(s);
			return r;
		}
		if (psn_before(rseq, r->rseq))
			break;
	}
	return NULL;
}

enum placing stream_credit_rx(struct conn *c, uint32_t id, uint32_t posted)
{
	struct stream *s = stream_get(c, id);

	if (!s)
		return MISSED;
	if (psn_before(s->credit, posted)) {
		s->credit = posted;
		stream_wake(s);
	}
	return PLACED;
}

static struct txmsg *first_using(const struct txmsg_list *list, const struct region *r)
{
	struct txmsg *m;

	for (m = TAILQ_FIRST(list); m; m = TAILQ_NEXT(m, link)) {
		if (m->region == r && !m->finished && !m->aborting)
			break;
	}
	return m;
}

/*
 * Receives complete in order: one whose region is gone as soon as all before it have. It stays in its
 * place, since the peer counts on it.
 */
static void end_recvs(struct stream *s)
{
	struct recv *r;

	for (r = TAILQ_FIRST(&s->recvs); r; r = TAILQ_NEXT(r, link)) {
		if (r->ended)
			continue;
		if (r->rseq != s->recv_done || !r->region || !r->region->removed)
			return;
		r->ended = true;
		s->recv_done++;
		complete_recv(s, r->id, MROCE_E_LOCAL_ACCESS);
	}
}

void stream_recv_done(struct stream *s, uint32_t rseq)
{
	s->recv_done = rseq + 1;
	end_recvs(s);
}

void stream_region_gone(struct stream *s, const struct region *r)
{
	struct txmsg *m;

	while ((m = first_using(&s->tx, r)) || (m = first_using(&s->responses, r)))
		txmsg_abort(m);
	end_recvs(s);
}

/* ---- the end ---- */

static void flush_first_recv(struct stream *s, uint8_t status)
{
	struct recv *r = TAILQ_FIRST(&s->recvs);
	uint64_t id = r->id;
	bool ended = r->ended;

	TAILQ_REMOVE(&s->recvs, r, link);
	region_put(&r->region);
	pool_put(&s->conn->e->recv_pool, r);
	if (status != UINT8_MAX && !ended)
		complete_recv(s, id, status);
}

void stream_flush_recvs(struct stream *s, uint32_t before, uint8_t status)
{
	struct recv *r;

	while ((r = TAILQ_FIRST(&s->recvs)) && psn_before(r->rseq, before))
		flush_first_recv(s, status);
}

/* Everything posted completes with `status`; UINT8_MAX: is forgotten without a word. */
void stream_flush(struct stream *s, uint8_t status)
{
	bool tell = status != UINT8_MAX;
	struct txmsg *m;

	stream_sleep(s);
	s->tx_unsent = s->resp_unsent = NULL;
	while ((m = TAILQ_FIRST(&s->responses)))
		txmsg_free(m);
	while ((m = TAILQ_FIRST(&s->tx))) {
		struct engine_completion done = {
			.id = m->id,
			.stream = s->id,
			.opcode = m->opcode,
			.status = m->finished ? m->status : status,
			.length = m->finished ? txmsg_delivered(m) : 0,
			.missing = m->finished ? m->missing : 0,
		};

		txmsg_free(m);
		if (tell)
			conn_complete(s->conn, &done);
	}
	rxmsg_flush_all(s, status);
	while (!TAILQ_EMPTY(&s->recvs))
		flush_first_recv(s, status);
}
