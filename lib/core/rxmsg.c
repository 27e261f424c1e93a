// SPDX-License-Identifier: BSD-2-Clause
/*
 * Messages on the receiving side: placing chunks, finding out that a message is complete, completions in the
 * order of the stream.
 *
 * A message that fails here (region, bounds, length) writes nothing more, its sender is told by ERROR, and
 * until the sender has confirmed that, its chunks are not acknowledged: otherwise the sender might count
 * the message as delivered before it hears of the failure.
 */
#include <arpa/inet.h>
#include <endian.h>
#include "core/internal.h"
#include "mroce/track.h"

/*
 * Records that only the oldest message of a stream may take: it is what all others wait for. Own reads
 * may not take them either, or two peers could each wait for the other's answer without a record left
 * to take its request.
 */
#define RESERVED_RECORDS 128

static uint32_t reserved(const struct engine *e)
{
	return e->cfg.messages / 4 < RESERVED_RECORDS ? e->cfg.messages / 4 : RESERVED_RECORDS;
}

static uint32_t rx_hash(const struct stream *s, uint32_t msg, bool is_read)
{
	return hash_mix(s->conn->id + is_read, s->id, msg);
}

struct rxmsg *rxmsg_find(struct stream *s, uint32_t msg, bool is_read)
{
	struct hash *t = &s->conn->e->rxmsgs;
	struct hnode *n;

	if (s->last_rx && s->last_rx->msg == msg && !is_read == !s->last_rx->read)
		return s->last_rx;
	for (n = t->heads[rx_hash(s, msg, is_read) & t->mask]; n; n = n->next) {
		struct rxmsg *m = container_of(n, struct rxmsg, link);

		if (m->stream == s && m->msg == msg && !is_read == !m->read) {
			s->last_rx = m;
			return m;
		}
	}
	return NULL;
}

static struct rxmsg *new_record(struct stream *s, uint32_t msg, struct txmsg *read)
{
	struct engine *e = s->conn->e;
	struct rxmsg *m;

	if (e->rxmsg_pool.nfree < reserved(e) && (read || msg != s->rx_next))
		return NULL;
	m = pool_get(&e->rxmsg_pool);
	if (!m)
		return NULL;
	m->stream = s;
	m->msg = msg;
	m->read = read;
	m->progress_at = e->now;
	hash_add(&e->rxmsgs, rx_hash(s, msg, read), &m->link);
	return m;
}

/* Room to remember which chunks came. */
static bool expect_chunks(struct rxmsg *m, uint64_t len, uint32_t chunk_size)
{
	uint64_t n = len ? (len + chunk_size - 1) / chunk_size : 1;
	uint64_t *words = NULL;

	if (chunkset_needs_words((uint32_t)n)) {
		words = pool_get_dirty(&m->stream->conn->e->words_pool);
		if (!words)
			return false;
	}
	m->chunk_size = chunk_size;
	chunkset_init(&m->chunks, (uint32_t)n, words);
	return true;
}

static void drop_recv(struct engine *e, struct recv **recv)
{
	struct recv *r = *recv;

	*recv = NULL;
	if (!r)
		return;
	region_put(&r->region);
	pool_put(&e->recv_pool, r);
}

static void deferred_forget(struct engine *e, const struct rxmsg *m)
{
	for (uint32_t i = 0; i < e->ndeferred; i++) {
		if (e->deferred[i].msg == m)
			e->deferred[i].msg = NULL;
	}
}

static void drop_response(struct engine *e, struct rxmsg *m)
{
	if (!m->response)
		return;
	if (m->response->done.words)
		pool_put(&e->words_pool, m->response->done.words);
	pool_put(&e->txmsg_pool, m->response);
	m->response = NULL;
}

void rxmsg_free(struct rxmsg *m)
{
	struct stream *s = m->stream;
	struct engine *e = s->conn->e;
	bool is_read = m->op == MROCE_OP_READ_RESP;

	if (m->pending)
		deferred_forget(e, m);
	hash_del(&e->rxmsgs, rx_hash(s, m->msg, is_read), &m->link);
	if (s->last_rx == m)
		s->last_rx = NULL;
	if (m->chunks.words)
		pool_put(&e->words_pool, m->chunks.words);
	drop_recv(e, &m->recv);
	drop_response(e, m);
	if (m->tol)
		tolerance_close(m);
	region_put(&m->region);
	pool_put(&e->rxmsg_pool, m);
}

/* The record in which a read's response is collected. */
struct rxmsg *rxmsg_new_read(struct txmsg *read)
{
	struct rxmsg *m = new_record(read->stream, read->msg, read);

	if (!m)
		return NULL;
	m->op = MROCE_OP_READ_RESP;
	m->msg_len = read->len;
	return m;
}

/* ---- completions ---- */

static uint64_t received(const struct rxmsg *m, uint8_t status)
{
	if (status == MROCE_E_LOSS)
		return m->got;
	if (status != MROCE_OK)
		return 0;
	return m->tol ? m->got : m->msg_len;
}

static void complete_recv(struct stream *s, const struct rxmsg *m, uint8_t status)
{
	bool imm = m->op == MROCE_OP_SEND_IMM || m->op == MROCE_OP_WRITE_IMM;
	struct engine_completion done = {
		.id = m->recv->id,
		.length = received(m, status),
		.stream = s->id,
		.imm = imm ? m->imm : 0,
		.opcode = m->op == MROCE_OP_WRITE_IMM ? MROCE_WR_RECV_IMM : MROCE_WR_RECV,
		.status = status,
		.has_imm = imm,
	};

	if (m->tol && m->tol->missing && status == m->status) {
		done.missing = m->tol->missing;
		done.gaps = &m->tol->gaps;
	}
	if (m->recv->ended)
		return;
	conn_complete(s->conn, &done);
	stream_recv_done(s, m->recv->rseq);
}

/* Does the oldest message of the stream stand in nobody's way any more? */
static bool has_ended(const struct rxmsg *m)
{
	return m->state == RX_COMPLETE || (m->state == RX_FAILED && m->told);
}

static void advance(struct stream *s)
{
	struct rxmsg *m;

	while ((m = rxmsg_find(s, s->rx_next, false)) && has_ended(m)) {
		s->rx_next++;
		s->conn->rx_msgs++;
		if (m->recv)
			complete_recv(s, m, m->status);
		if (m->response)
			txmsg_respond(s, m);
		rxmsg_free(m);
	}
}

void rxmsg_finish(struct rxmsg *m)
{
	struct stream *s = m->stream;
	struct conn *c = s->conn;

	m->state = RX_COMPLETE;
	if (m->tol)
		tolerance_ended(m);
	if (m->chunks.words) {
		pool_put(&c->e->words_pool, m->chunks.words);
		m->chunks.words = NULL;
	}
	if (m->ack_wanted)
		receive_ack_all(c);
	if (m->read) {
		txmsg_finish(m->read, MROCE_OK);
		return;
	}
	if (m->msg == s->rx_next)
		advance(s);
}

/* own: how the receive, if any, ends; code: what the sender is told. */
static void fail(struct rxmsg *m, uint8_t own, uint8_t code)
{
	struct stream *s = m->stream;

	m->state = RX_FAILED;
	m->status = own;
	letter_error(s->conn, s->id, m->msg, code);
}

void rxmsg_error_acked(struct conn *c, uint32_t stream, uint32_t msg)
{
	struct stream *s = stream_find(c, stream);
	struct rxmsg *m = s ? rxmsg_find(s, msg, false) : NULL;

	if (!m || m->state != RX_FAILED)
		return;
	m->told = true;
	advance(s);
}

/* ---- deferred writes ---- */

static void note_flush(struct engine *e, struct region *r)
{
	if (r->to_flush)
		return;
	if (e->nflush == FLUSH_MAX)
		rxmsg_deferred_flush(e);
	r->to_flush = true;
	r->refs++;
	e->to_flush[e->nflush++] = r;
}

static void defer(const struct arrival *a, struct rxmsg *m, struct region *r, uint32_t len,
		  bool counts)
{
	struct engine *e = a->c->e;

	m->pending++;
	e->deferred[e->ndeferred++] = (struct deferred){
		.conn = a->c,
		.region = r,
		.msg = m,
		.rx = a->rx,
		.rxpath = a->rxpath,
		.psn = a->p->psn,
		.len = len,
		.counts = counts,
	};
}

static void arrived(struct rxmsg *m, uint32_t len)
{
	struct stream *s = m->stream;

	m->got += len;
	s->rx_bytes += len;
	s->conn->rx_bytes += len;
	m->progress_at = s->conn->e->now;
	if (m->got == m->msg_len && !m->pending) {
		rxmsg_finish(m);
	} else if (m->tol) {
		m->tol->last_at = m->progress_at;
		tolerance_kick(s->conn);
	}
}

void rxmsg_region_failed(struct rxmsg *m, int err)
{
	if (err == -EOWNERDEAD)
		conn_doom(m->stream->conn, DOOM_APP_DIED);
	if (m->read)
		txmsg_abort(m->read);
	else
		fail(m, MROCE_E_LOCAL_ACCESS, MROCE_E_REMOTE_ACCESS);
}

static void settle(const struct deferred *d, int err)
{
	struct rxmsg *m = d->msg;

	if (!d->conn)
		return;
	if (!m) { /* ended meanwhile: its bytes are not needed */
		receive_placed(d->rxpath, d->rx, d->psn);
		return;
	}
	m->pending--;
	if (err) {
		if (m->state == RX_OPEN)
			rxmsg_region_failed(m, err);
		return;
	}
	if (m->state == RX_FAILED)
		return;
	receive_placed(d->rxpath, d->rx, d->psn);
	arrived(m, d->counts ? d->len : 0);
}

/* Writes become real; what they carried is then acknowledged. */
void rxmsg_deferred_flush(struct engine *e)
{
	uint32_t n = e->ndeferred, regions = e->nflush;
	int failed[FLUSH_MAX];

	for (uint32_t i = 0; i < regions; i++)
		failed[i] = region_flush(e->to_flush[i]);
	for (uint32_t i = 0; i < n; i++) {
		int err = 0;

		for (uint32_t r = 0; r < regions; r++)
			if (e->to_flush[r] == e->deferred[i].region)
				err = failed[r];
		settle(&e->deferred[i], err);
	}
	e->ndeferred = 0;
	e->nflush = 0;
	for (uint32_t i = 0; i < regions; i++) {
		e->to_flush[i]->to_flush = false;
		region_put(&e->to_flush[i]);
	}
}

/* ---- opening ---- */

struct data {
	uint32_t stream, msg, rseq, imm, rkey, chunk;
	uint64_t msg_len, addr;
	uint16_t chunk_size;
	uint8_t op;
	bool tolerant;
	struct mroce_tolerance tol;
	const uint8_t *bytes;
	uint32_t len;
};

static int parse_tolerance(struct data *d)
{
	int len = tolerance_parse(d->bytes, d->len, &d->tol);

	if (len < 0 || d->op == MROCE_OP_READ_RESP || !tolerance_fits(&d->tol, d->msg_len))
		return -EINVAL;
	d->bytes += len;
	d->len -= (uint32_t)len;
	return 0;
}

static int parse_data(const struct packet *p, struct data *d)
{
	struct mroce_data w;

	if (p->body_len < sizeof(w))
		return -EINVAL;
	memcpy(&w, p->body, sizeof(w));
	d->stream = ntohl(w.stream);
	d->msg = ntohl(w.msg);
	d->rseq = ntohl(w.rseq);
	d->imm = ntohl(w.imm);
	d->rkey = ntohl(w.rkey);
	d->chunk = ntohl(w.chunk);
	d->msg_len = be64toh(w.msg_len);
	d->addr = be64toh(w.addr);
	d->chunk_size = ntohs(w.chunk_size);
	d->op = w.op;
	d->bytes = p->body + sizeof(w);
	d->len = p->body_len - (uint32_t)sizeof(w);
	d->tolerant = w.ext & MROCE_EXT_TOLERANCE;
	return d->tolerant ? parse_tolerance(d) : 0;
}

/* Do the numbers of the chunk agree with each other? */
static bool coherent(const struct data *d)
{
	uint64_t offset = (uint64_t)d->chunk * d->chunk_size, left;

	if (d->op < MROCE_OP_SEND || d->op > MROCE_OP_SEND_IMM || !d->chunk_size)
		return false;
	if (d->msg_len > MROCE_MSG_MAX || offset > d->msg_len || (offset == d->msg_len && d->chunk))
		return false;
	if (d->msg_len / d->chunk_size >= UINT32_MAX)
		return false;
	left = d->msg_len - offset;
	return d->len == (left < d->chunk_size ? left : d->chunk_size);
}

static bool takes_receive(uint8_t op)
{
	return op == MROCE_OP_SEND || op == MROCE_OP_SEND_IMM || op == MROCE_OP_WRITE_IMM;
}

static enum placing broken(struct conn *c, int reason, const char *what)
{
	count(c->e, reason);
	conn_protocol_error(c, what);
	return BROKEN;
}

/* Not asked for again at once, which would be a storm: the sweep finds it missing, and by then there may
 * be room. */
static enum placing no_memory(struct conn *c)
{
	count(c->e, MROCE_DROP_NO_MEMORY);
	return WITHHELD;
}

static uint64_t base_of(const struct data *d)
{
	return d->addr - (uint64_t)d->chunk * d->chunk_size;
}

/* The first chunk of a message: PLACED and *out, or why not. */
static enum placing open_msg(struct stream *s, const struct data *d, struct rxmsg **out)
{
	struct conn *c = s->conn;
	struct rxmsg *m = new_record(s, d->msg, NULL);

	if (!m)
		return no_memory(c);
	m->op = d->op;
	if (!expect_chunks(m, d->msg_len, d->chunk_size)) {
		rxmsg_free(m);
		return no_memory(c);
	}
	m->msg_len = d->msg_len;
	if (d->tolerant && !tolerance_open(m, &d->tol, base_of(d))) {
		rxmsg_free(m);
		return no_memory(c);
	}
	m->rseq = d->rseq;
	m->imm = d->imm;
	if (takes_receive(d->op)) {
		m->recv = stream_take_recv(s, d->rseq);
		if (!m->recv) {
			rxmsg_free(m);
			return broken(c, MROCE_DROP_NO_RECEIVE, "a send without a posted receive");
		}
	}
	s->last_rx = m;
	*out = m;
	if (m->recv && m->recv->ended)
		fail(m, MROCE_E_LOCAL_ACCESS, MROCE_E_REMOTE_ACCESS);
	else if (m->recv && m->op != MROCE_OP_WRITE_IMM && m->msg_len > m->recv->len)
		fail(m, MROCE_E_LENGTH, MROCE_E_LENGTH);
	return PLACED;
}

/* ---- placing ---- */

/* Where the chunk goes: region and address; NULL if the peer may not write there. */
static struct region *target(struct rxmsg *m, const struct data *d, uint64_t *addr)
{
	struct conn *c = m->stream->conn;
	uint64_t offset = (uint64_t)d->chunk * d->chunk_size;
	struct region *r;

	switch ((enum mroce_op)m->op) {
	case MROCE_OP_SEND:
	case MROCE_OP_SEND_IMM:
		*addr = m->recv->addr + offset;
		r = m->recv->region;
		return r && !r->removed ? r : NULL;
	case MROCE_OP_READ_RESP:
		*addr = m->read->addr + offset;
		r = m->read->region;
		return r && !r->removed ? r : NULL;
	case MROCE_OP_WRITE:
	case MROCE_OP_WRITE_IMM:
		*addr = d->addr;
		if (m->region && m->rkey != d->rkey)
			region_put(&m->region);
		if (!m->region) {
			m->region = region_get(c->e, c->owner, d->rkey);
			m->rkey = d->rkey;
		}
		/* All of the message must lie in the region: else nothing of it is written. */
		r = m->region;
		return r && region_allows(r, d->addr - offset, d->msg_len, MROCE_ACCESS_REMOTE_WRITE)
			       ? r
			       : NULL;
	}
	return NULL;
}

struct region *rxmsg_region(struct rxmsg *m, uint64_t *addr)
{
	bool write = m->op == MROCE_OP_WRITE || m->op == MROCE_OP_WRITE_IMM;
	struct region *r = write ? m->region : m->recv->region;

	*addr = write ? m->tol->base : m->recv->addr;
	if (!r || r->removed)
		return NULL;
	return r;
}

static enum placing duplicate(const struct arrival *a, struct rxmsg *m)
{
	a->c->dup_letters++;
	count(a->c->e, MROCE_DROP_DUP_LETTER);
	if (m && m->pending) { /* it may be this very chunk that is not yet written */
		if (a->c->e->ndeferred == DEFERRED_MAX) {
			rxmsg_deferred_flush(a->c->e);
			return MISSED;
		}
		defer(a, m, NULL, 0, false);
		return DEFERRED;
	}
	return PLACED;
}

/*
 * Of a message that has ended. Acknowledged before the sender knows that, it could make it believe that the
 * chunk is not missing.
 */
static enum placing after_the_end(const struct arrival *a, struct rxmsg *m, const struct data *d)
{
	if (d->tolerant && tolerance_untold(a->c, d->stream, d->msg))
		return WITHHELD;
	return duplicate(a, m);
}

static enum placing place(const struct arrival *a, struct rxmsg *m, const struct data *d)
{
	struct engine *e = a->c->e;
	struct region *r = NULL;
	uint64_t addr = 0;
	int err;

	if (e->ndeferred == DEFERRED_MAX)
		return MISSED; /* never: the caller has flushed */
	err = chunkset_add(&m->chunks, d->chunk);
	if (err == -EEXIST)
		return duplicate(a, m);
	if (err) {
		count(e, MROCE_DROP_MSG_SPAN);
		return MISSED;
	}
	if (d->len) {
		r = target(m, d, &addr);
		err = r ? region_write(r, addr, d->bytes, d->len) : -EACCES;
		if (err < 0) {
			bool is_read = m->read;

			count(e, MROCE_DROP_ACCESS);
			rxmsg_region_failed(m, err);
			return is_read ? PLACED : WITHHELD;
		}
	}
	if (d->len && err == 1) {
		note_flush(e, r);
		defer(a, m, r, d->len, true);
		return DEFERRED;
	}
	arrived(m, d->len);
	return PLACED;
}

/*
 * The sender has cut the message anew, since larger packets do not pass any more. What lies without a hole at the
 * beginning counts on; the rest comes again. PLACED, or why not.
 */
static enum placing recut(struct rxmsg *m, uint32_t size)
{
	struct stream *s = m->stream;
	struct conn *c = s->conn;
	uint64_t n = (m->msg_len + size - 1) / size, kept, again;
	uint32_t base = m->chunks.base * (m->chunk_size / size);
	uint64_t *words = m->chunks.words;

	if (n > UINT32_MAX)
		return broken(c, MROCE_DROP_BODY, "a message cut into too many chunks");
	if (chunkset_needs_words((uint32_t)n) && !words)
		words = pool_get_dirty(&c->e->words_pool);
	if (chunkset_needs_words((uint32_t)n) && !words)
		return no_memory(c);
	kept = min_u64((uint64_t)base * size, m->msg_len);
	again = m->got - kept;
	m->got = kept;
	s->rx_bytes -= again;
	c->rx_bytes -= again;
	m->chunk_size = size;
	chunkset_init(&m->chunks, (uint32_t)n, words);
	m->chunks.base = base;
	return PLACED;
}

/* From before the message was cut anew: its sender has forgotten it, what it carried comes again. */
static bool of_old_cut(const struct rxmsg *m, const struct data *d)
{
	return m->chunk_size && d->chunk_size > m->chunk_size && d->chunk_size % m->chunk_size == 0;
}

/* PLACED: the chunk fits the message as it is cut now. */
static enum placing same_cut(const struct arrival *a, struct rxmsg *m, const struct data *d)
{
	uint32_t is = m->chunk_size, comes = d->chunk_size;

	if (is == comes)
		return PLACED;
	if (comes > is || is % comes)
		return broken(a->c, MROCE_DROP_BODY, "a chunk that does not fit its message");
	if (!m->pending)
		return recut(m, comes);
	/* Writes under way would be counted twice; afterwards the message may be complete and gone. */
	rxmsg_deferred_flush(a->c->e);
	return MISSED;
}

static enum placing read_response(const struct arrival *a, struct stream *s, const struct data *d)
{
	struct rxmsg *m = rxmsg_find(s, d->msg, true);
	enum placing how;

	if (!m)
		return duplicate(a, NULL);
	if (d->msg_len != m->msg_len)
		return broken(a->c, MROCE_DROP_BODY,
			      "a read response that does not fit its request");
	if (!m->chunk_size && !expect_chunks(m, d->msg_len, d->chunk_size))
		return no_memory(a->c);
	if (of_old_cut(m, d))
		return duplicate(a, NULL);
	how = same_cut(a, m, d);
	if (how != PLACED)
		return how;
	m->ack_wanted |= a->p->flags & MROCE_FLAG_ACK_REQ;
	return place(a, m, d);
}

enum placing rxmsg_data(const struct arrival *a)
{
	struct conn *c = a->c;
	enum placing how;
	struct stream *s;
	struct rxmsg *m;
	struct data d;

	if (parse_data(a->p, &d) || !coherent(&d))
		return broken(c, MROCE_DROP_BODY, "a chunk whose numbers do not agree");
	if (d.stream >= c->e->cfg.streams)
		return broken(c, MROCE_DROP_STREAM, "a stream beyond those agreed");
	if (c->e->ndeferred == DEFERRED_MAX)
		rxmsg_deferred_flush(c->e);
	s = stream_get(c, d.stream);
	if (!s)
		return no_memory(c);
	if (d.op == MROCE_OP_READ_RESP)
		return read_response(a, s, &d);
	if (d.tolerant && !(c->features & MROCE_F_TOLERANCE))
		return broken(c, MROCE_DROP_BODY, "a tolerance that was not agreed on");
	if (psn_before(d.msg, s->rx_next))
		return after_the_end(a, NULL, &d);
	if (d.msg - s->rx_next >= MROCE_MSG_SPAN) {
		count(c->e, MROCE_DROP_MSG_SPAN);
		return MISSED;
	}
	m = rxmsg_find(s, d.msg, false);
	if (!m) {
		how = open_msg(s, &d, &m);
		if (how != PLACED)
			return how;
		conn_watch(c);
		if (!TAILQ_EMPTY(&c->tolerant))
			tolerance_kick(c);
	}
	if (m->state == RX_FAILED)
		return m->told ? PLACED : WITHHELD;
	if (m->state == RX_COMPLETE)
		return after_the_end(a, m, &d);
	if (m->op != d.op || m->msg_len != d.msg_len || !m->tol == d.tolerant ||
	    (m->tol && m->tol->base != base_of(&d)))
		return broken(c, MROCE_DROP_BODY, "a chunk that does not fit its message");
	if (of_old_cut(m, &d))
		return duplicate(a, NULL);
	how = same_cut(a, m, &d);
	if (how != PLACED)
		return how;
	m->ack_wanted |= a->p->flags & MROCE_FLAG_ACK_REQ;
	return place(a, m, &d);
}

/* ---- reads asked of us ---- */

static bool readable(struct rxmsg *m)
{
	struct conn *c = m->stream->conn;

	if (!m->msg_len)
		return true;
	m->region = region_get(c->e, c->owner, m->rkey);
	return m->region && region_allows(m->region, m->addr, m->msg_len, MROCE_ACCESS_REMOTE_READ);
}

/* Put aside now what answering will need, so that an accepted request cannot fail for want of it. */
static bool prepare_response(struct rxmsg *m)
{
	struct engine *e = m->stream->conn->e;
	/* By its turn chunks may be smaller. */
	uint64_t nchunks = m->msg_len / min_u64(m->stream->conn->chunk, mtu_chunk(MTU_SAFE)) + 1;

	if (e->txmsg_pool.nfree < reserved(e) && m->msg != m->stream->rx_next)
		return false;
	m->response = pool_get(&e->txmsg_pool);
	if (!m->response)
		return false;
	if (nchunks > MROCE_CHUNK_SPAN) {
		uint64_t *words = pool_get_dirty(&e->words_pool);

		if (!words)
			return false;
		chunkset_init(&m->response->done, (uint32_t)nchunks, words);
	}
	return true;
}

enum placing rxmsg_read_req(const struct arrival *a)
{
	struct conn *c = a->c;
	struct mroce_read_req w;
	struct stream *s;
	struct rxmsg *m;
	uint32_t msg;

	if (a->p->body_len < sizeof(w))
		return broken(c, MROCE_DROP_BODY, "a short read request");
	memcpy(&w, a->p->body, sizeof(w));
	if (ntohl(w.stream) >= c->e->cfg.streams || be64toh(w.len) > MROCE_MSG_MAX ||
	    be64toh(w.len) / c->chunk >= UINT32_MAX)
		return broken(c, MROCE_DROP_BODY, "a read request out of range");
	s = stream_get(c, ntohl(w.stream));
	if (!s)
		return no_memory(c);
	msg = ntohl(w.msg);
	if (psn_before(msg, s->rx_next) || rxmsg_find(s, msg, false))
		return duplicate(a, NULL);
	if (msg - s->rx_next >= MROCE_MSG_SPAN) {
		count(c->e, MROCE_DROP_MSG_SPAN);
		return MISSED;
	}
	m = new_record(s, msg, NULL);
	if (!m)
		return no_memory(c);
	m->msg_len = be64toh(w.len);
	m->addr = be64toh(w.addr);
	m->rkey = ntohl(w.rkey);
	m->reply_addr = be64toh(w.reply_addr);
	m->reply_rkey = ntohl(w.reply_rkey);
	if (!prepare_response(m)) {
		rxmsg_free(m);
		return no_memory(c);
	}
	if (!readable(m)) {
		count(c->e, MROCE_DROP_ACCESS);
		drop_response(c->e, m);
		fail(m, MROCE_OK, MROCE_E_REMOTE_ACCESS);
		return PLACED; /* the read ends by the ERROR, whatever happens to its request */
	}
	rxmsg_finish(m);
	return PLACED;
}

/* ---- messages given up by their sender ---- */

static enum placing aborted_record(struct stream *s, const struct mroce_error *e, uint32_t msg)
{
	struct conn *c = s->conn;
	struct rxmsg *m;

	if (msg - s->rx_next >= MROCE_MSG_SPAN) {
		count(c->e, MROCE_DROP_MSG_SPAN);
		return MISSED;
	}
	m = new_record(s, msg, NULL);
	if (!m)
		return no_memory(c);
	m->op = e->op;
	if (takes_receive(e->op)) {
		m->recv = stream_take_recv(s, ntohl(e->rseq));
		if (!m->recv) {
			rxmsg_free(m);
			return broken(c, MROCE_DROP_NO_RECEIVE, "a send without a posted receive");
		}
	}
	m->status = MROCE_E_REMOTE_ACCESS;
	rxmsg_finish(m);
	return PLACED;
}

/* A read response is given up as a read, op 0. Its own records lie elsewhere in the table. */
static bool can_be_aborted(uint8_t op)
{
	return op <= MROCE_OP_SEND_IMM && op != MROCE_OP_READ_RESP;
}

enum placing rxmsg_abort_rx(struct conn *c, const struct mroce_error *e)
{
	uint32_t msg = ntohl(e->msg);
	struct stream *s;
	struct rxmsg *m;

	if (!can_be_aborted(e->op))
		return broken(c, MROCE_DROP_BODY, "an error report about an impossible operation");
	s = stream_get(c, ntohl(e->stream));
	if (!s)
		return no_memory(c);
	if (e->op == 0)
		txmsg_cancel_response(s, msg);
	if (psn_before(msg, s->rx_next))
		return PLACED;
	m = rxmsg_find(s, msg, false);
	if (!m)
		return aborted_record(s, e, msg);
	if (m->state == RX_COMPLETE) { /* a read request that waits for its turn */
		drop_response(c->e, m);
		return PLACED;
	}
	m->told = true; /* it knows: it says so itself */
	if (m->state == RX_OPEN) {
		m->status = MROCE_E_REMOTE_ACCESS;
		rxmsg_finish(m);
	} else {
		advance(s);
	}
	return PLACED;
}

/* ---- the end ---- */

/* Receives that messages have taken complete with `status`, in order; UINT8_MAX: forgotten. */
void rxmsg_flush_all(struct stream *s, uint8_t status)
{
	bool hole = false;

	for (uint32_t i = 0; i < MROCE_MSG_SPAN; i++) {
		struct rxmsg *m = rxmsg_find(s, s->rx_next + i, false);

		/* Success would say that all messages before it are here, too. */
		hole |= !m || m->state == RX_OPEN;
		if (!m)
			continue;
		if (m->recv && status != UINT8_MAX) {
			stream_flush_recvs(s, m->recv->rseq, status);
			complete_recv(s, m, hole && m->status == MROCE_OK ? status : m->status);
		}
		rxmsg_free(m);
	}
}
