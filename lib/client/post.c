/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c: requests into the submission ring. */
#include <errno.h>
#include <sys/eventfd.h>
#include "mroce/wire.h"
#include "client/client.h"
#include "common/ring.h"

struct post {
	uint8_t opcode;
	uint32_t stream;
	const struct mroce_mr *mr;
	size_t offset;
	size_t len;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t imm;
	uint64_t id;
	bool own; /* tolerance is meant, NULL too; else the stream's default */
	const struct mroce_tolerance *tolerance;
};

static int check(struct mroce_conn *c, const struct post *p)
{
	struct mroce *m = c->m;

	/* As long as completions from before the end are unread, the end comes as a completion too. */
	if (m->gone || mroce_conn_error(c) != MROCE_OK)
		return client_fail(m, -ENOTCONN, "connection to %s: %s", c->peer,
				   mroce_status_text(m->gone ? MROCE_E_DAEMON : c->ended));
	if (p->stream >= CLIENT_STREAMS)
		return client_fail(m, -EINVAL, "stream %u: streams are 0 to %d", p->stream,
				   CLIENT_STREAMS - 1);
	if (p->len == 0)
		return 0;
	if (!p->mr || p->mr->m != m)
		return client_fail(m, -EINVAL, "%zu bytes without a region of this context", p->len);
	if (p->offset > p->mr->size || p->len > p->mr->size - p->offset)
		return client_fail(m, -EINVAL, "%zu bytes at %zu: the region has %zu", p->len,
				   p->offset, p->mr->size);
	if (p->len > MROCE_MSG_MAX)
		return client_fail(m, -EINVAL, "%zu bytes: the longest message has %llu", p->len,
				   MROCE_MSG_MAX);
	return 0;
}

static int check_tolerance(struct mroce *m, const struct mroce_tolerance *t, size_t len)
{
	if (t->max_missing > 1000000)
		return client_fail(m, -EINVAL, "max_missing %u: parts per million, at most 1000000",
				   t->max_missing);
	if (t->fill > MROCE_FILL_KEEP || t->over > MROCE_OVER_FAIL || t->ncritical > MROCE_CRITICAL)
		return client_fail(m, -EINVAL,
				   "tolerance: fill %u, over %u or ncritical %u is out of range",
				   t->fill, t->over, t->ncritical);
	for (uint32_t i = 0; i < t->ncritical; i++) {
		const struct mroce_range *r = &t->critical[i];

		if (r->offset > len || r->length > len - r->offset)
			return client_fail(
				m, -EINVAL,
				"critical range %u: %llu bytes at %llu of a message of %zu", i,
				(unsigned long long)r->length, (unsigned long long)r->offset, len);
	}
	return 0;
}

static const struct mroce_tolerance *tolerance_of(const struct mroce_conn *c, const struct post *p)
{
	if (p->own)
		return p->tolerance;
	if (p->opcode == MROCE_WR_READ || p->opcode == MROCE_WR_RECV)
		return NULL;
	return client_tolerance(c, p->stream);
}

static int post(struct mroce_conn *c, const struct post *p)
{
	struct mroce *m = c->m;
	struct request *r = TAILQ_FIRST(&m->free_requests);
	const struct mroce_tolerance *t = tolerance_of(c, p);
	struct abi_sqe *e;
	int err = check(c, p);

	if (!err && t)
		err = check_tolerance(m, t, p->len);
	if (err)
		return err;
	if (!r || m->sq_tail - ring_load(&m->rings->sq_head) >= ABI_SQ_ENTRIES)
		return client_fail(m, -EAGAIN, "the queue is full: poll completions first");
	TAILQ_REMOVE(&m->free_requests, r, link);
	TAILQ_INSERT_TAIL(&c->requests, r, link);
	r->id = p->id;
	r->conn = c;
	r->stream = p->stream;
	r->opcode = p->opcode;

	e = &m->rings->sq[m->sq_tail & (ABI_SQ_ENTRIES - 1)];
	e->opcode = p->opcode;
	e->handle = c->handle;
	e->stream = p->stream;
	e->key = p->len ? p->mr->key : 0;
	e->id = (uint64_t)(r - m->requests);
	e->addr = p->len ? (uintptr_t)p->mr->addr + p->offset : 0;
	e->len = p->len;
	e->raddr = p->raddr;
	e->rkey = p->rkey;
	e->imm = p->imm;
	e->tolerant = t != NULL;
	if (t)
		m->rings->tolerance[m->sq_tail & (ABI_SQ_ENTRIES - 1)] = *t;
	ring_store(&m->rings->sq_tail, ++m->sq_tail);
	if (ring_must_wake(&m->rings->daemon_asleep))
		eventfd_write(m->doorbell, 1);
	return 0;
}

int mroce_post_send(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_SEND,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .id = id };

	return post(conn, &p);
}

int mroce_post_send_imm(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			size_t offset, size_t len, uint32_t imm, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_SEND_IMM,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .imm = imm,
			  .id = id };

	return post(conn, &p);
}

int mroce_post_recv(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_RECV,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .id = id };

	return post(conn, &p);
}

int mroce_post_write(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		     size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_WRITE,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .raddr = remote_addr,
			  .rkey = rkey,
			  .id = id };

	return post(conn, &p);
}

int mroce_post_write_imm(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			 size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey,
			 uint32_t imm, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_WRITE_IMM,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .raddr = remote_addr,
			  .rkey = rkey,
			  .imm = imm,
			  .id = id };

	return post(conn, &p);
}

int mroce_post_read(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey, uint64_t id)
{
	struct post p = { .opcode = MROCE_WR_READ,
			  .stream = stream,
			  .mr = mr,
			  .offset = offset,
			  .len = len,
			  .raddr = remote_addr,
			  .rkey = rkey,
			  .id = id };

	return post(conn, &p);
}

/* ---- with a tolerance ---- */

int mroce_post_send_tolerant(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			     size_t offset, size_t len, const struct mroce_tolerance *tol,
			     uint64_t id)
{
	struct post p = {
		.opcode = MROCE_WR_SEND,
		.stream = stream,
		.mr = mr,
		.offset = offset,
		.len = len,
		.id = id,
		.own = true,
		.tolerance = tol,
	};

	return post(conn, &p);
}

int mroce_post_send_imm_tolerant(struct mroce_conn *conn, uint32_t stream,
				 const struct mroce_mr *mr, size_t offset, size_t len, uint32_t imm,
				 const struct mroce_tolerance *tol, uint64_t id)
{
	struct post p = {
		.imm = imm,
		.opcode = MROCE_WR_SEND_IMM,
		.stream = stream,
		.mr = mr,
		.offset = offset,
		.len = len,
		.id = id,
		.own = true,
		.tolerance = tol,
	};

	return post(conn, &p);
}

int mroce_post_write_tolerant(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			      size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey,
			      const struct mroce_tolerance *tol, uint64_t id)
{
	struct post p = {
		.raddr = remote_addr,
		.rkey = rkey,
		.opcode = MROCE_WR_WRITE,
		.stream = stream,
		.mr = mr,
		.offset = offset,
		.len = len,
		.id = id,
		.own = true,
		.tolerance = tol,
	};

	return post(conn, &p);
}

int mroce_post_write_imm_tolerant(struct mroce_conn *conn, uint32_t stream,
				  const struct mroce_mr *mr, size_t offset, size_t len,
				  uint64_t remote_addr, uint32_t rkey, uint32_t imm,
				  const struct mroce_tolerance *tol, uint64_t id)
{
	struct post p = {
		.raddr = remote_addr,
		.rkey = rkey,
		.imm = imm,
		.opcode = MROCE_WR_WRITE_IMM,
		.stream = stream,
		.mr = mr,
		.offset = offset,
		.len = len,
		.id = id,
		.own = true,
		.tolerance = tol,
	};

	return post(conn, &p);
}
