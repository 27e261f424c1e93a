// SPDX-License-Identifier: BSD-2-Clause
/*
 * Letters: what is to be told, whatever path it takes. A letter exists from when it is cut until its
 * receiver has placed it; lost, it waits to be put into another envelope.
 */
#include <arpa/inet.h>
#include <endian.h>
#include "core/internal.h"

/* Letters that only control may use, so that a full house can still empty itself. */
#define LETTERS_CONTROL 256

struct letter *letter_new(struct conn *c, uint8_t type)
{
	struct engine *e = c->e;
	uint32_t reserve = e->letters_total / 4 < LETTERS_CONTROL ? e->letters_total / 4
								  : LETTERS_CONTROL;
	struct letter *l = STAILQ_FIRST(&e->free_letters);

	if (!l)
		return NULL;
	if (type == MROCE_DATA && e->letters_used + reserve >= e->letters_total)
		return NULL;
	STAILQ_REMOVE_HEAD(&e->free_letters, link);
	e->letters_used++;
	l->msg = NULL;
	l->stream = NULL;
	l->chunk = 0;
	l->type = type;
	l->losses = 0;
	l->lost_on = l->sent_on = 0;
	l->code = 0;
	l->number = 0;
	l->id = 0;
	return l;
}

void letter_free(struct engine *e, struct letter *l)
{
	if (l->msg)
		l->msg->letters--;
	e->letters_used--;
	STAILQ_INSERT_HEAD(&e->free_letters, l, link);
}

bool letter_waiting(const struct conn *c)
{
	return c->cut || !STAILQ_EMPTY(&c->control) || !STAILQ_EMPTY(&c->repairs) ||
	       !TAILQ_EMPTY(&c->active);
}

static bool is_control(const struct letter *l)
{
	return l->type != MROCE_DATA;
}

static struct letter *take_first(struct letter_queue *q)
{
	struct letter *l = STAILQ_FIRST(q);

	STAILQ_REMOVE_HEAD(q, link);
	if (l->type == MROCE_CREDIT)
		l->stream->credit_queued = false;
	return l;
}

/* The letter to be sent now: control first, then repairs, then new chunks of the streams in turn. */
struct letter *letter_next(struct conn *c)
{
	struct letter *l = c->cut;

	if (!STAILQ_EMPTY(&c->control))
		return take_first(&c->control);
	if (!STAILQ_EMPTY(&c->repairs))
		return take_first(&c->repairs);
	if (l) {
		c->cut = NULL;
		return l;
	}
	return TAILQ_EMPTY(&c->active) ? NULL : stream_cut(c);
}

/* It found no path: it will be the first of its kind again. */
void letter_put_back(struct conn *c, struct letter *l)
{
	if (l->type == MROCE_CREDIT)
		l->stream->credit_queued = true;
	if (l->losses)
		STAILQ_INSERT_HEAD(&c->repairs, l, link);
	else if (is_control(l) && l->type != MROCE_READ_REQ)
		STAILQ_INSERT_HEAD(&c->control, l, link);
	else if (!c->cut)
		c->cut = l;
	else /* several were taken and none could be sent: in their order before the one that is cut */
		STAILQ_INSERT_HEAD(&c->repairs, l, link);
}

/* Nothing more will follow for now: ask the peer's daemon to say when it has placed this. */
uint8_t letter_flags(const struct conn *c, const struct letter *l)
{
	uint8_t flags = l->losses ? MROCE_FLAG_REPAIR : 0;

	if (l->type == MROCE_ERROR || l->type == MROCE_CLOSE || !letter_waiting(c) ||
	    pace_is_sparse(c))
		flags |= MROCE_FLAG_ACK_REQ;
	return flags;
}

void letter_control(struct conn *c, struct letter *l)
{
	STAILQ_INSERT_TAIL(&c->control, l, link);
	conn_ready(c);
}

void letter_lost(struct conn *c, struct letter *l, uint8_t path, bool path_is_dead)
{
	if (!l->losses)
		l->lost_ts = packet_clock(c->e->now);
	/* A dead path's letters avoid it by its being dead: the count is for lossy paths. */
	if (!path_is_dead || !l->losses)
		l->losses += l->losses < UINT8_MAX;
	l->lost_on = path;
	if (!path_is_dead && l->type == MROCE_DATA)
		mtu_lost(&c->paths[path], letter_len(l));
	STAILQ_INSERT_TAIL(&c->repairs, l, link);
	conn_ready(c);
}

void letter_acked(struct conn *c, struct letter *l)
{
	struct letter was = *l;

	if (c->paths[l->sent_on].big_lost && MROCE_HDR_LEN + letter_len(l) > MTU_SAFE)
		c->paths[l->sent_on].big_lost = 0;
	letter_free(c->e, l);
	if (was.losses)
		histogram_add(&c->e->times.repair, (uint64_t)(packet_clock(c->e->now) - was.lost_ts)
							   << 10);
	c->last_placed = c->e->now;
	switch (was.type) {
	case MROCE_DATA: txmsg_acked(was.msg, was.chunk); break;
	case MROCE_READ_REQ: was.msg->progress_at = c->e->now; break;
	case MROCE_ERROR:
		if (was.msg)
			txmsg_finish(was.msg, was.msg->status);
		else
			rxmsg_error_acked(c, was.id, was.number);
		break;
	case MROCE_FORGIVE: tolerance_told(c, was.id, was.number); break;
	case MROCE_CLOSE: conn_close_acked(c); break;
	}
}

void letter_error(struct conn *c, uint32_t stream, uint32_t msg, uint8_t code)
{
	struct letter *l;

	if (c->doomed == DOOM_APP_DIED)
		return;
	l = letter_new(c, MROCE_ERROR);
	if (!l) {
		conn_doom(c, DOOM_UNTOLD);
		return;
	}
	l->id = stream;
	l->number = msg;
	l->code = code;
	letter_control(c, l);
}

/* ---- bytes ---- */

static uint32_t chunk_len(const struct txmsg *m, uint32_t chunk)
{
	uint64_t left = m->len - (uint64_t)chunk * m->chunk_size;

	return left < m->chunk_size ? (uint32_t)left : m->chunk_size;
}

/* What lies before the chunk's bytes. */
static uint32_t data_len(const struct txmsg *m)
{
	return (uint32_t)sizeof(struct mroce_data) + (m->tol ? tolerance_ext_len(m->tol) : 0);
}

uint32_t letter_head(const struct letter *l)
{
	return data_len(l->msg);
}

uint32_t letter_len(const struct letter *l)
{
	switch (l->type) {
	case MROCE_DATA: return data_len(l->msg) + chunk_len(l->msg, l->chunk);
	case MROCE_FORGIVE: return sizeof(struct mroce_forgive);
	case MROCE_READ_REQ: return sizeof(struct mroce_read_req);
	case MROCE_CREDIT: return sizeof(struct mroce_credit);
	case MROCE_ERROR: return sizeof(struct mroce_error);
	case MROCE_CLOSE: return sizeof(struct mroce_close);
	case MROCE_PORT_STATUS: return sizeof(struct mroce_port_status);
	}
	return 0;
}

static int build_data(const struct letter *l, void *body)
{
	const struct txmsg *m = l->msg;
	uint64_t offset = (uint64_t)l->chunk * m->chunk_size;
	uint32_t len = chunk_len(m, l->chunk);
	struct mroce_data w;

	w.stream = htonl(m->stream->id);
	w.msg = htonl(m->msg);
	w.rseq = htonl(m->rseq);
	w.imm = htonl(m->imm);
	w.msg_len = htobe64(m->len);
	w.addr = htobe64(m->raddr + offset);
	w.rkey = htonl(m->rkey);
	w.chunk = htonl(l->chunk);
	w.chunk_size = htons((uint16_t)m->chunk_size);
	w.op = m->op;
	w.ext = m->tol ? MROCE_EXT_TOLERANCE : 0;
	memcpy(body, &w, sizeof(w));
	if (m->tol)
		tolerance_build(m->tol, (uint8_t *)body + sizeof(w));
	if (!len)
		return 0;
	if (m->region->removed)
		return -EFAULT;
	return region_read(m->region, m->addr + offset, (uint8_t *)body + data_len(m), len);
}

static void build_read_req(const struct letter *l, void *body)
{
	const struct txmsg *m = l->msg;
	struct mroce_read_req w;

	w.stream = htonl(m->stream->id);
	w.msg = htonl(m->msg);
	w.len = htobe64(m->len);
	w.addr = htobe64(m->raddr);
	w.reply_addr = htobe64(m->addr);
	w.rkey = htonl(m->rkey);
	w.reply_rkey = htonl(m->region ? m->region->key : 0);
	memcpy(body, &w, sizeof(w));
}

static void build_credit(const struct letter *l, void *body)
{
	struct mroce_credit w = {
		.stream = htonl(l->stream->id),
		.posted = htonl(l->stream->recv_posted),
	};

	l->stream->credit_told = l->stream->recv_posted;
	memcpy(body, &w, sizeof(w));
}

static void build_error(const struct letter *l, void *body)
{
	struct mroce_error w = {
		.stream = htonl(l->id),
		.msg = htonl(l->number),
		.code = htons(l->code),
	};

	if (l->msg) {
		w.op = l->msg->op;
		w.rseq = htonl(l->msg->rseq);
	}
	memcpy(body, &w, sizeof(w));
}

static void build_forgive(const struct letter *l, void *body)
{
	struct mroce_forgive w = {
		.stream = htonl(l->id),
		.msg = htonl(l->number),
		.missing = htobe64(l->missing),
		.status = htons(l->code),
	};

	memcpy(body, &w, sizeof(w));
}

/* As the port is now: a letter that was lost must not bring old news. */
static void build_port_status(const struct conn *c, const struct letter *l, void *body)
{
	const struct port *port = c->e->ports[l->number];
	struct mroce_port_status w = { .port = port->index, .up = port->up };

	handshake_port(port, &w.now);
	memcpy(body, &w, sizeof(w));
}

int letter_build(const struct conn *c, struct letter *l, void *body)
{
	struct mroce_close end = { .code = htonl(l->code) };

	switch (l->type) {
	case MROCE_DATA: return build_data(l, body);
	case MROCE_READ_REQ: build_read_req(l, body); break;
	case MROCE_CREDIT: build_credit(l, body); break;
	case MROCE_ERROR: build_error(l, body); break;
	case MROCE_FORGIVE: build_forgive(l, body); break;
	case MROCE_CLOSE: memcpy(body, &end, sizeof(end)); break;
	case MROCE_PORT_STATUS: build_port_status(c, l, body); break;
	}
	return 0;
}
