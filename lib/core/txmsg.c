// SPDX-License-Identifier: BSD-2-Clause
/* Messages on the sending side: requests from posting to completion, and responses to the peer's reads. */
#include "core/internal.h"

static uint8_t op_of(uint8_t opcode)
{
	switch (opcode) {
	case MROCE_WR_SEND: return MROCE_OP_SEND;
	case MROCE_WR_SEND_IMM: return MROCE_OP_SEND_IMM;
	case MROCE_WR_WRITE: return MROCE_OP_WRITE;
	case MROCE_WR_WRITE_IMM: return MROCE_OP_WRITE_IMM;
	}
	return 0;
}

static uint64_t chunks_of(uint64_t len, uint32_t chunk_size)
{
	return len ? (len + chunk_size - 1) / chunk_size : 1;
}

static uint64_t *get_words(struct engine *e)
{
	return pool_get_dirty(&e->words_pool);
}

/* Longer than the span: needs to know which chunk is the lowest unacknowledged one. */
static int track_chunks(struct engine *e, struct txmsg *m)
{
	uint64_t *words;

	if (m->nchunks <= MROCE_CHUNK_SPAN)
		return 0;
	words = get_words(e);
	if (!words)
		return -EAGAIN;
	chunkset_init(&m->done, m->nchunks, words);
	return 0;
}

static bool take_words(struct txmsg *m)
{
	if (m->nchunks > MROCE_CHUNK_SPAN && !m->done.words)
		m->done.words = get_words(m->stream->conn->e);
	if (m->nchunks > MROCE_CHUNK_SPAN && !m->done.words)
		return false;
	chunkset_init(&m->done, m->nchunks, m->done.words);
	return true;
}

static void append(struct stream *s, struct txmsg *m)
{
	TAILQ_INSERT_TAIL(&s->tx, m, link);
	s->queued++;
	if (!s->tx_unsent && !m->finished)
		s->tx_unsent = m;
}

static struct region *local_region(struct stream *s, const struct work_request *wr)
{
	struct region *r = region_get(s->conn->e, s->conn->owner, wr->key);

	if (r && !region_allows(r, wr->addr, wr->len, 0))
		region_put(&r);
	if (r && r->p.ops && r->p.ops->fresh)
		r->p.ops->fresh(r->p.priv);
	return r;
}

/* Chunks smaller than that are not worth their headers. */
#define CHUNK_LEAST 48

/* The tolerance that is to be said; NULL: the message is fully reliable. */
static const struct mroce_tolerance *stated(const struct conn *c, const struct work_request *wr)
{
	const struct mroce_tolerance *t = wr->tolerance;

	if (!t || wr->opcode == MROCE_WR_READ || !(c->features & MROCE_F_TOLERANCE))
		return NULL;
	return tolerance_matters(t) ? t : NULL;
}

/* Of a new message: beside what it has to state; a multiple of 24, as mtu_chunk() has it. */
static uint32_t chunk_of(const struct conn *c, const struct mroce_tolerance *t)
{
	uint32_t ext = t ? tolerance_ext_len(t) : 0;
	uint32_t chunk = c->chunk > ext + CHUNK_LEAST ? c->chunk - ext : CHUNK_LEAST;

	return t ? chunk - chunk % 24 : c->chunk;
}

int txmsg_post(struct stream *s, const struct work_request *wr)
{
	struct conn *c = s->conn;
	struct engine *e = c->e;
	const struct mroce_tolerance *tol = stated(c, wr);
	uint32_t chunk = chunk_of(c, tol);
	uint64_t nchunks = chunks_of(wr->len, chunk);
	struct txmsg *m;

	if (tol &&
	    (!tolerance_fits(tol, wr->len) || c->chunk_max < tolerance_ext_len(tol) + CHUNK_LEAST))
		return -EINVAL;
	if (nchunks > UINT32_MAX)
		return -EINVAL;
	/* The last records are for answers to the peer's reads: they always make progress. */
	if (!pool_reserve(&e->txmsg_pool, 1 + e->cfg.messages / 8) ||
	    !pool_reserve(&e->words_pool, 1) || (tol && !pool_reserve(&e->tx_tol_pool, 1)))
		return -EAGAIN;
	m = pool_get(&e->txmsg_pool);
	m->stream = s;
	m->id = wr->id;
	m->opcode = wr->opcode;
	m->op = op_of(wr->opcode);
	m->addr = wr->addr;
	m->len = wr->len;
	m->raddr = wr->raddr;
	m->rkey = wr->rkey;
	m->imm = wr->imm;
	m->chunk_size = chunk;
	m->nchunks = wr->opcode == MROCE_WR_READ ? 1 : (uint32_t)nchunks;
	m->progress_at = m->posted_at = e->now;
	track_chunks(e, m);
	if (tol) {
		m->tol = pool_get_dirty(&e->tx_tol_pool);
		*m->tol = *tol;
	}
	if (wr->len) {
		m->region = local_region(s, wr);
		m->finished = !m->region;
	}
	append(s, m);
	if (m->finished)
		txmsg_finish(m, MROCE_E_LOCAL_ACCESS);
	else
		stream_wake(s);
	return 0;
}

/* ---- responses ---- */

/* The peer's read request `req` has its turn: its bytes are sent. */
void txmsg_respond(struct stream *s, struct rxmsg *req)
{
	struct txmsg *m = req->response;

	req->response = NULL;
	m->stream = s;
	m->response = m->started = true;
	m->opcode = MROCE_WR_READ;
	m->op = MROCE_OP_READ_RESP;
	m->msg = req->msg;
	m->addr = req->addr;
	m->len = req->msg_len;
	m->raddr = req->reply_addr;
	m->rkey = req->reply_rkey;
	m->chunk_size = s->conn->chunk;
	m->nchunks = (uint32_t)chunks_of(m->len, m->chunk_size);
	m->region = req->region;
	req->region = NULL;
	if (m->region && m->region->p.ops && m->region->p.ops->fresh)
		m->region->p.ops->fresh(m->region->p.priv);
	m->progress_at = s->conn->e->now;
	take_words(m); /* put aside already */
	TAILQ_INSERT_TAIL(&s->responses, m, link);
	if (!s->resp_unsent)
		s->resp_unsent = m;
	stream_wake(s);
}

/* ---- letters of a message ---- */

static void forget_queued(struct conn *c, struct letter_queue *q, const struct txmsg *m)
{
	struct letter_queue keep = STAILQ_HEAD_INITIALIZER(keep);
	struct letter *l;

	while ((l = STAILQ_FIRST(q))) {
		STAILQ_REMOVE_HEAD(q, link);
		if (l->msg == m)
			letter_free(c->e, l);
		else
			STAILQ_INSERT_TAIL(&keep, l, link);
	}
	STAILQ_CONCAT(q, &keep);
}

static void forget_letters(struct txmsg *m)
{
	struct conn *c = m->stream->conn;

	if (c->cut && c->cut->msg == m) {
		letter_free(c->e, c->cut);
		c->cut = NULL;
	}
	if (!m->letters)
		return;
	forget_queued(c, &c->control, m);
	forget_queued(c, &c->repairs, m);
	for (uint32_t i = 0; m->letters && i < c->npaths; i++)
		path_forget_msg(&c->paths[i], m);
}

/* Requests that failed when they were posted lie in the list until their turn to complete. */
struct txmsg *txmsg_next_unsent(const struct txmsg *m)
{
	struct txmsg *next = TAILQ_NEXT(m, link);

	while (next && (next->finished || next->next_chunk >= next->nchunks))
		next = TAILQ_NEXT(next, link);
	return next;
}

static void skip_unsent(struct txmsg *m)
{
	struct stream *s = m->stream;

	m->next_chunk = m->nchunks;
	if (s->tx_unsent == m)
		s->tx_unsent = txmsg_next_unsent(m);
	if (s->resp_unsent == m)
		s->resp_unsent = txmsg_next_unsent(m);
}

/* ---- cutting ---- */

bool txmsg_cut(struct txmsg *m)
{
	if (m->opcode == MROCE_WR_READ)
		return true;
	m->chunk_size = chunk_of(m->stream->conn, m->tol);
	m->nchunks = (uint32_t)chunks_of(m->len, m->chunk_size);
	return take_words(m);
}

/* Is `m` before `other` in their list? */
static bool is_before(const struct txmsg *m, const struct txmsg *other)
{
	while (m && m != other)
		m = TAILQ_NEXT(m, link);
	return m;
}

static void unsent_again(struct txmsg *m)
{
	struct stream *s = m->stream;
	struct txmsg **first = m->response ? &s->resp_unsent : &s->tx_unsent;

	if (!*first || is_before(m, *first))
		*first = m;
	stream_wake(s);
}

bool txmsg_recut(struct txmsg *m, uint32_t pieces)
{
	uint32_t size = m->chunk_size / pieces, base = m->done.words ? m->done.base * pieces : 0;
	uint64_t n = chunks_of(m->len, size);

	if (n > UINT32_MAX || (n > MROCE_CHUNK_SPAN && !m->done.words &&
			       !pool_reserve(&m->stream->conn->e->words_pool, 1)))
		return false;
	forget_letters(m);
	m->chunk_size = size;
	m->nchunks = (uint32_t)n;
	take_words(m);
	m->done.base = m->next_chunk = m->acked = base;
	unsent_again(m);
	return true;
}

/* ---- the end of a message ---- */

/* All that it holds. Its letters are gone already or go with it. */
void txmsg_free(struct txmsg *m)
{
	struct stream *s = m->stream;
	struct engine *e = s->conn->e;

	forget_letters(m);
	skip_unsent(m);
	if (m->reply) {
		m->reply->read = NULL;
		rxmsg_free(m->reply);
		s->reads--;
	}
	if (m->done.words)
		pool_put(&e->words_pool, m->done.words);
	if (m->tol)
		pool_put(&e->tx_tol_pool, m->tol);
	region_put(&m->region);
	if (m->response) {
		TAILQ_REMOVE(&s->responses, m, link);
	} else {
		TAILQ_REMOVE(&s->tx, m, link);
		s->queued--;
	}
	pool_put(&e->txmsg_pool, m);
}

uint64_t txmsg_delivered(const struct txmsg *m)
{
	bool ended = m->status == MROCE_OK || m->status == MROCE_E_LOSS;

	return ended ? m->len - m->missing : 0;
}

static void complete(struct txmsg *m)
{
	struct stream *s = m->stream;
	struct conn *c = s->conn;
	struct engine_completion done = {
		.id = m->id,
		.length = txmsg_delivered(m),
		.stream = s->id,
		.opcode = m->opcode,
		.status = m->status,
		.missing = m->missing,
	};

	if (m->status == MROCE_OK && m->opcode != MROCE_WR_READ) {
		s->tx_bytes += done.length;
		c->tx_bytes += done.length;
	}
	if (m->status == MROCE_OK)
		histogram_add(&c->e->times.completion, c->e->now - m->posted_at);
	c->tx_msgs++;
	txmsg_free(m);
	conn_complete(c, &done);
}

static void complete_in_order(struct stream *s)
{
	struct txmsg *m;

	while ((m = TAILQ_FIRST(&s->tx)) && m->finished)
		complete(m);
	stream_wake(s);
}

void txmsg_finish(struct txmsg *m, uint8_t status)
{
	struct stream *s = m->stream;

	m->finished = true;
	m->status = status;
	skip_unsent(m);
	if (m->letters)
		forget_letters(m);
	if (m->response) {
		txmsg_free(m);
		stream_wake(s);
	} else {
		complete_in_order(s);
	}
}

void txmsg_acked(struct txmsg *m, uint32_t chunk)
{
	m->acked++;
	m->progress_at = m->stream->conn->e->now;
	if (m->acked == m->nchunks) {
		txmsg_finish(m, MROCE_OK);
		return;
	}
	if (m->done.words) {
		chunkset_add(&m->done, chunk);
		stream_wake(m->stream);
	}
}

static struct txmsg *find(const struct txmsg_list *list, uint32_t msg)
{
	struct txmsg *m;

	for (m = TAILQ_FIRST(list); m; m = TAILQ_NEXT(m, link)) {
		if (m->started && m->msg == msg)
			return m;
	}
	return NULL;
}

void txmsg_error_rx(struct conn *c, uint32_t stream, uint32_t msg, uint8_t code)
{
	struct stream *s = stream_find(c, stream);
	struct txmsg *m = s ? find(&s->tx, msg) : NULL;

	if (m && !m->finished)
		txmsg_finish(m, code);
}

/* Is that what was stated? A peer that takes more is one that breaks the protocol. */
static bool may_be_forgiven(const struct txmsg *m, uint64_t missing, uint8_t status)
{
	if (!m->tol || !missing || missing > m->len)
		return false;
	if (status == MROCE_OK)
		return missing <= tolerance_bound(m->tol, m->len);
	return m->tol->deadline_us && m->tol->over == MROCE_OVER_FAIL;
}

/* The receiver does without what is missing. */
void txmsg_forgive(struct conn *c, uint32_t stream, uint32_t msg, uint64_t missing, uint8_t status)
{
	struct stream *s = stream_find(c, stream);
	struct txmsg *m = s ? find(&s->tx, msg) : NULL;

	if (s && !psn_before(msg, s->tx_next)) {
		conn_protocol_error(c, "it forgives what was never sent");
		return;
	}
	if (!m || m->finished || m->aborting)
		return;
	if (!may_be_forgiven(m, missing, status)) {
		conn_protocol_error(c, "it forgives what was not to be forgiven");
		return;
	}
	m->missing = missing;
	txmsg_finish(m, status);
}

/* The peer's read request failed on its own side, or it gave it up: nothing more to send. */
void txmsg_cancel_response(struct stream *s, uint32_t msg)
{
	struct txmsg *m = find(&s->responses, msg);

	if (m)
		txmsg_finish(m, MROCE_E_FLUSHED);
}

static void abort_response(struct txmsg *m)
{
	struct conn *c = m->stream->conn;
	uint32_t stream = m->stream->id, msg = m->msg;

	txmsg_finish(m, MROCE_E_LOCAL_ACCESS);
	letter_error(c, stream, msg, MROCE_E_REMOTE_ACCESS);
}

void txmsg_abort(struct txmsg *m)
{
	struct conn *c = m->stream->conn;
	struct letter *l;

	if (m->finished || m->aborting)
		return;
	if (m->response) {
		abort_response(m);
		return;
	}
	/* Of a dead application nothing but its death is told. */
	if (!m->started || c->doomed == DOOM_APP_DIED) {
		txmsg_finish(m, MROCE_E_LOCAL_ACCESS);
		return;
	}
	forget_letters(m);
	skip_unsent(m);
	m->aborting = true;
	m->status = MROCE_E_LOCAL_ACCESS;
	l = letter_new(c, MROCE_ERROR);
	if (!l) {
		conn_doom(c, DOOM_UNTOLD);
		return;
	}
	l->id = m->stream->id;
	l->number = m->msg;
	l->code = MROCE_E_LOCAL_ACCESS;
	l->msg = m;
	l->stream = m->stream;
	m->letters++;
	letter_control(c, l);
}
