/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two applications exchange everything there is, in both directions at once, and check all of it: bytes, order,
 * number, lengths, immediate values, and that nothing was touched besides.
 *
 *	exchange serve SOCKET [--service N] [--count N] [--patience MS]
 *	exchange run SOCKET HOST [--service N] [--repeat N] [--patience MS] [what to send, see usage()]
 *
 * Prints a line for each connection. Exit status: 0 all was right; 1 something was not; 3 the connection was
 * ended by somebody else and every request was completed; 2 wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "mroce.h"
#include "exchange_plan.h"

#define CONTROL_STREAM 1023
#define CONTROL_SLOT 4096
#define DRAIN_MS 4000
#define GUARD_BYTE 0xa5
#define BATCH 64

enum outcome {
	OUTCOME_RIGHT = 0,
	OUTCOME_WRONG = 1,
	OUTCOME_ENDED = 3,
};

/* What the ends tell each other about themselves, in this order. */
enum control {
	CONTROL_HELLO,	 /* parameters and addresses */
	CONTROL_FIN,	 /* all that I posted has completed */
	CONTROL_VERDICT, /* I have checked all that I got */
	CONTROLS,
};

struct hello {
	struct plan_params p;
	uint64_t pattern[2], landing[2];
	uint32_t pattern_rkey[2], landing_rkey[2];
};

/* A stream: `out` is what this end posts, `in` what the other does. */
struct stream {
	uint32_t out_posted, out_done;
	uint32_t in_offered; /* messages whose receives, where they need any, are posted */
	uint32_t in_done;
	uint32_t receives; /* posted now */
};

enum id_kind {
	ID_OUT = 1,
	ID_RECEIVE,
	ID_CONTROL_OUT,
	ID_CONTROL_IN,
};

struct end {
	struct mroce *m;
	struct mroce_conn *c;
	int me; /* 0: the connecting end */
	int patience_ms;
	struct plan plan;
	struct stream *streams;
	uint8_t *period;
	struct mroce_mr *pattern[2], *landing[2], *control; /* [0] shared, [1] in place */
	struct hello peer;
	bool planned, ready;
	bool sent[CONTROLS], came[CONTROLS], posted[CONTROLS];
	uint64_t outstanding;	  /* requests without a completion */
	uint32_t streams_busy[2]; /* out, in: streams that have something to come */
	bool blocked_is_free;
	int wrong;
	enum mroce_status ended;
	uint64_t started_ns, progress_ns;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void wrong(struct end *e, const char *fmt, ...)
{
	va_list args;

	/* The first few tell what happened; a million would hide it. */
	if (e->wrong++ < 20) {
		va_start(args, fmt);
		printf("wrong: ");
		vprintf(fmt, args);
		printf("\n");
		va_end(args);
	}
	fflush(stdout);
}

static uint64_t make_id(enum id_kind kind, uint32_t stream, uint32_t n)
{
	return (uint64_t)kind << 56 | (uint64_t)stream << 32 | n;
}

/* ---- memory ---- */

static void *own_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int get_region(struct end *e, int kind, size_t size, int access, struct mroce_mr **out)
{
	void *p;

	if (kind == 0)
		return mroce_alloc(e->m, size, access, out);
	p = own_memory(size);
	return p ? mroce_reg(e->m, p, size, access, out) : -ENOMEM;
}

static void drop_region(struct mroce_mr **mr, int kind)
{
	void *p = *mr ? mroce_mr_addr(*mr) : NULL;
	size_t size = *mr ? mroce_mr_size(*mr) : 0;

	mroce_mr_free(mr);
	if (p && kind == 1)
		munmap(p, size);
}

static int get_memory(struct end *e)
{
	e->period = plan_period(e->plan.p.seed);
	for (int kind = 0; kind < 2; kind++) {
		bool used = !e->plan.p.memory || (int)e->plan.p.memory - 1 == kind;
		int err = get_region(e, kind, used ? e->plan.pattern[e->me] : 1,
				     MROCE_ACCESS_REMOTE_READ, &e->pattern[kind]);

		if (!err)
			err = get_region(e, kind, e->plan.landing[e->me][kind],
					 MROCE_ACCESS_REMOTE_WRITE, &e->landing[kind]);
		if (err)
			return err;
		plan_fill(mroce_mr_addr(e->pattern[kind]), e->period,
			  mroce_mr_size(e->pattern[kind]));
		memset(mroce_mr_addr(e->landing[kind]), GUARD_BYTE, mroce_mr_size(e->landing[kind]));
	}
	return 0;
}

/* ---- checking what came ---- */

static struct plan_flow *flow(struct end *e, int dir, uint32_t stream)
{
	return &e->plan.flows[dir][stream];
}

static void check_bytes(struct end *e, uint32_t stream, uint32_t n, const struct plan_msg *m)
{
	const uint8_t *landing = mroce_mr_addr(e->landing[plan_kind(&e->plan.p, stream)]);
	uint64_t at = plan_differs(landing + m->to, e->period, m->from, m->size);

	if (at < m->size)
		wrong(e, "stream %u message %u (op %d): byte %" PRIu64 " of %" PRIu64 " is 0x%02x",
		      stream, n, m->op, at, m->size, landing[m->to + at]);
}

static void check_guard(struct end *e, int kind, uint64_t from, uint64_t to)
{
	const uint8_t *landing = mroce_mr_addr(e->landing[kind]);

	for (uint64_t i = from; i < to; i++)
		if (landing[i] != GUARD_BYTE)
			wrong(e, "memory beside the messages: byte %" PRIu64 " of region %d", i,
			      kind);
}

/* Everything again, at the end: late packets must not have changed anything, and nothing beside. */
static void check_all(struct end *e)
{
	uint64_t guard_from[2] = { 0, 0 };

	for (int dir = 0; dir < 2; dir++) {
		for (uint32_t s = 0; s < e->plan.p.streams; s++) {
			struct plan_flow *f = flow(e, dir, s);
			int kind = plan_kind(&e->plan.p, s);

			for (uint32_t i = 0; i < f->n; i++) {
				const struct plan_msg *m = &f->msgs[i];

				if ((m->op == PLAN_READ ? dir : 1 - dir) != e->me)
					continue;
				check_guard(e, kind, guard_from[kind], m->to);
				check_bytes(e, s, i, m);
				guard_from[kind] = m->to + m->size;
			}
		}
	}
	for (int kind = 0; kind < 2; kind++)
		check_guard(e, kind, guard_from[kind], mroce_mr_size(e->landing[kind]));
}

/* ---- posting ---- */

/* True if it is posted. Of the errors, only the two of a full queue and an ended connection are no fault. */
static bool posted(struct end *e, int err, const char *what)
{
	if (err && err != -EAGAIN && err != -ENOTCONN)
		wrong(e, "%s: %s: %s", what, strerror(-err), mroce_last_error(e->m));
	if (err)
		return false;
	e->outstanding++;
	return true;
}

static bool post_out(struct end *e, uint32_t s, uint32_t n)
{
	const struct plan_msg *m = &flow(e, e->me, s)->msgs[n];
	const struct mroce_mr *from = e->pattern[plan_kind(&e->plan.p, n)];
	int to = plan_kind(&e->plan.p, s);
	uint64_t raddr = e->peer.landing[to] + m->to;
	uint32_t rkey = e->peer.landing_rkey[to];
	uint64_t id = make_id(ID_OUT, s, n);
	int err = -EINVAL;

	switch (m->op) {
	case PLAN_SEND: err = mroce_post_send(e->c, s, from, m->from, m->size, id); break;
	case PLAN_SEND_IMM:
		err = mroce_post_send_imm(e->c, s, from, m->from, m->size, m->imm, id);
		break;
	case PLAN_WRITE:
		err = mroce_post_write(e->c, s, from, m->from, m->size, raddr, rkey, id);
		break;
	case PLAN_WRITE_IMM:
		err = mroce_post_write_imm(e->c, s, from, m->from, m->size, raddr, rkey, m->imm, id);
		break;
	case PLAN_READ:
		err = mroce_post_read(e->c, s, e->landing[to], m->to, m->size,
				      e->peer.pattern[plan_kind(&e->plan.p, n)] + m->from,
				      e->peer.pattern_rkey[plan_kind(&e->plan.p, n)], id);
		break;
	case PLAN_OPS: break;
	}
	return posted(e, err, "post");
}

static bool post_receive(struct end *e, uint32_t s, uint32_t n)
{
	const struct plan_msg *m = &flow(e, 1 - e->me, s)->msgs[n];
	bool has_bytes = m->op != PLAN_WRITE_IMM;

	return posted(e,
		      mroce_post_recv(e->c, s, e->landing[plan_kind(&e->plan.p, s)], m->to,
				      has_bytes ? m->size : 0, make_id(ID_RECEIVE, s, n)),
		      "post_recv");
}

static bool is_blocked(const struct end *e, uint32_t s)
{
	return s == e->plan.p.blocked && !e->blocked_is_free;
}

static bool pump_receives(struct end *e, uint32_t s)
{
	struct stream *st = &e->streams[s];
	struct plan_flow *f = flow(e, 1 - e->me, s);

	while (st->in_offered < f->n && st->receives < e->plan.p.receives && !is_blocked(e, s)) {
		if (plan_takes_receive(f->msgs[st->in_offered].op)) {
			if (!post_receive(e, s, st->in_offered))
				return false;
			st->receives++;
		}
		st->in_offered++;
	}
	return true;
}

static bool pump_requests(struct end *e, uint32_t s)
{
	struct stream *st = &e->streams[s];

	while (st->out_posted < flow(e, e->me, s)->n &&
	       st->out_posted - st->out_done < e->plan.p.window) {
		if (!post_out(e, s, st->out_posted))
			return false;
		st->out_posted++;
	}
	return true;
}

static void pump(struct end *e)
{
	for (uint32_t s = 0; s < e->plan.p.streams; s++)
		if (!pump_receives(e, s) || !pump_requests(e, s))
			return;
}

/* ---- control ---- */

static uint8_t *control_slot(struct end *e, enum control what, bool in)
{
	return (uint8_t *)mroce_mr_addr(e->control) + (size_t)(what * 2 + in) * CONTROL_SLOT;
}

static void post_control(struct end *e, enum control what, size_t size)
{
	size_t offset = (size_t)(control_slot(e, what, false) - (uint8_t *)mroce_mr_addr(e->control));

	e->posted[what] = posted(e,
				 mroce_post_send(e->c, CONTROL_STREAM, e->control, offset, size,
						 make_id(ID_CONTROL_OUT, 0, what)),
				 "control");
}

static void expect_control(struct end *e)
{
	for (uint32_t what = 0; what < CONTROLS; what++)
		posted(e,
		       mroce_post_recv(e->c, CONTROL_STREAM, e->control,
				       (what * 2 + 1) * CONTROL_SLOT, CONTROL_SLOT,
				       make_id(ID_CONTROL_IN, 0, what)),
		       "control receive");
}

static void say_hello(struct end *e)
{
	struct hello h = { .p = e->plan.p };

	for (int kind = 0; kind < 2; kind++) {
		h.pattern[kind] = (uintptr_t)mroce_mr_addr(e->pattern[kind]);
		h.landing[kind] = (uintptr_t)mroce_mr_addr(e->landing[kind]);
		h.pattern_rkey[kind] = mroce_mr_rkey(e->pattern[kind]);
		h.landing_rkey[kind] = mroce_mr_rkey(e->landing[kind]);
	}
	memcpy(control_slot(e, CONTROL_HELLO, false), &h, sizeof(h));
	post_control(e, CONTROL_HELLO, sizeof(h));
}

static int make_plan(struct end *e, const struct plan_params *p)
{
	plan_make(&e->plan, p);
	e->planned = true;
	e->streams = calloc(p->streams, sizeof(*e->streams));
	for (uint32_t s = 0; s < p->streams; s++)
		for (int way = 0; way < 2; way++)
			e->streams_busy[way] += flow(e, way ? 1 - e->me : e->me, s)->n > 0;
	return get_memory(e);
}

static void take_hello(struct end *e)
{
	memcpy(&e->peer, control_slot(e, CONTROL_HELLO, true), sizeof(e->peer));
	if (e->me == 1) {
		int err = make_plan(e, &e->peer.p);

		if (err == -ENOTCONN) /* the daemon has gone meanwhile: look() will tell */
			return;
		if (err)
			wrong(e, "memory: %s", mroce_last_error(e->m));
		if (e->wrong)
			return;
		say_hello(e);
	}
	e->ready = true;
}

/* ---- completions ---- */

static void out_completed(struct end *e, uint32_t s, uint32_t n, const struct mroce_completion *c)
{
	static const uint8_t opcodes[PLAN_OPS] = {
		[PLAN_SEND] = MROCE_WR_SEND,   [PLAN_SEND_IMM] = MROCE_WR_SEND_IMM,
		[PLAN_WRITE] = MROCE_WR_WRITE, [PLAN_WRITE_IMM] = MROCE_WR_WRITE_IMM,
		[PLAN_READ] = MROCE_WR_READ,
	};
	struct stream *st = &e->streams[s];
	const struct plan_msg *m = &flow(e, e->me, s)->msgs[n];

	/* After the end, what was not done before has been told already. */
	if (n < st->out_done || (n > st->out_done && e->ended == MROCE_OK))
		wrong(e, "stream %u: request %u completed, %u was next", s, n, st->out_done);
	if (c->opcode != opcodes[m->op] || c->length != m->size || c->stream != s)
		wrong(e, "stream %u request %u: opcode %u length %" PRIu64 " stream %u", s, n,
		      c->opcode, c->length, c->stream);
	if (m->op == PLAN_READ)
		check_bytes(e, s, n, m);
	st->out_done = n + 1;
	if (st->out_done == flow(e, e->me, s)->n)
		e->streams_busy[0]--;
}

static void check_receive(struct end *e, uint32_t s, uint32_t n, const struct mroce_completion *c)
{
	const struct plan_msg *m = &flow(e, 1 - e->me, s)->msgs[n];
	bool imm = m->op != PLAN_SEND;
	uint8_t opcode = m->op == PLAN_WRITE_IMM ? MROCE_WR_RECV_IMM : MROCE_WR_RECV;

	if (c->length != m->size || c->has_imm != imm || (imm && c->imm != m->imm) ||
	    c->opcode != opcode || c->stream != s)
		wrong(e,
		      "stream %u message %u (op %d): length %" PRIu64 " of %" PRIu64
		      ", immediate %d 0x%x, opcode %u",
		      s, n, m->op, c->length, m->size, c->has_imm, c->imm, c->opcode);
}

/* Messages of a stream end in order: this one tells that all before it are here, too. */
static void in_completed(struct end *e, uint32_t s, uint32_t n, const struct mroce_completion *c)
{
	struct stream *st = &e->streams[s];
	struct plan_flow *f = flow(e, 1 - e->me, s);
	uint32_t next = st->in_done;

	st->receives--;
	while (next < f->n && !plan_takes_receive(f->msgs[next].op))
		next++;
	if (n != next)
		wrong(e, "stream %u: receive %u completed, %u was next", s, n, next);
	check_receive(e, s, n, c);
	for (uint32_t i = st->in_done; i <= n; i++)
		if (f->msgs[i].op != PLAN_READ)
			check_bytes(e, s, i, &f->msgs[i]);
	st->in_done = n + 1;
}

/* A stream whose last messages take no receive is through when the peer says so (FIN). */
static bool in_is_through(struct end *e, uint32_t s)
{
	struct plan_flow *f = flow(e, 1 - e->me, s);

	for (uint32_t i = e->streams[s].in_done; i < f->n; i++)
		if (plan_takes_receive(f->msgs[i].op))
			return false;
	return true;
}

static bool all_in(struct end *e, bool but_blocked)
{
	for (uint32_t s = 0; s < e->plan.p.streams; s++)
		if (!(but_blocked && s == e->plan.p.blocked) && !in_is_through(e, s))
			return false;
	return true;
}

static void failed_request(struct end *e, const struct mroce_completion *c)
{
	/* Only these two say that the connection is over; any other status is a wrong answer to a right request. */
	if (c->status != MROCE_E_PEER_GONE && c->status != MROCE_E_DAEMON)
		wrong(e, "request %" PRIx64 ": %s", c->id, mroce_status_text(c->status));
	if (e->ended == MROCE_OK)
		e->ended = c->status;
}

static void completed(struct end *e, const struct mroce_completion *c)
{
	uint32_t s = (uint32_t)(c->id >> 32) & 0xffffff;
	uint32_t n = (uint32_t)c->id;

	e->outstanding--;
	if (c->conn != e->c || c->conn_data != e)
		wrong(e, "completion of another connection");
	if (c->status != MROCE_OK) {
		failed_request(e, c);
		return;
	}
	switch ((enum id_kind)(c->id >> 56)) {
	case ID_OUT: out_completed(e, s, n, c); break;
	case ID_RECEIVE: in_completed(e, s, n, c); break;
	case ID_CONTROL_OUT: e->sent[n] = true; break;
	case ID_CONTROL_IN:
		e->came[n] = true;
		if (n == CONTROL_HELLO)
			take_hello(e);
		break;
	}
}

/* What is due next between the two ends. */
static void proceed(struct end *e)
{
	if (!e->ready)
		return;
	if (!e->blocked_is_free && all_in(e, true))
		e->blocked_is_free = true;
	pump(e);
	if (!e->posted[CONTROL_FIN] && e->streams_busy[0] == 0)
		post_control(e, CONTROL_FIN, 0);
	if (!e->posted[CONTROL_VERDICT] && e->sent[CONTROL_FIN] && e->came[CONTROL_FIN] &&
	    all_in(e, false)) {
		check_all(e);
		post_control(e, CONTROL_VERDICT, 0);
	}
}

/* ---- a connection from begin to end ---- */

static bool is_over(const struct end *e)
{
	return e->came[CONTROL_VERDICT] && (e->sent[CONTROL_VERDICT] || e->ended != MROCE_OK);
}

static int look(struct end *e, int timeout_ms)
{
	struct mroce_completion done[BATCH];
	int n = mroce_wait(e->m, done, BATCH, timeout_ms);

	for (int i = 0; i < n; i++)
		completed(e, &done[i]);
	if (n > 0)
		e->progress_ns = now_ns();
	return n;
}

/* After the end: whatever was posted must still be answered. */
static void drain(struct end *e)
{
	uint64_t deadline = now_ns() + DRAIN_MS * 1000000ull;

	while ((e->outstanding || mroce_conn_error(e->c) == MROCE_OK) && now_ns() < deadline) {
		int n = look(e, 100);

		if (n < 0 && n != -ETIMEDOUT)
			break;
	}
	if (e->outstanding)
		wrong(e, "%" PRIu64 " requests never completed after the end", e->outstanding);
	if (mroce_conn_error(e->c) == MROCE_OK)
		wrong(e, "requests ended, but the connection did not");
}

static void tell_hang(struct end *e)
{
	wrong(e, "hangs: %" PRIu64 " requests outstanding", e->outstanding);
	for (uint32_t s = 0; e->planned && s < e->plan.p.streams; s++) {
		const struct stream *st = &e->streams[s];

		if (st->out_done < flow(e, e->me, s)->n || !in_is_through(e, s))
			wrong(e, "stream %u: out %u/%u/%u in %u/%u/%u, receives %u", s,
			      st->out_done, st->out_posted, flow(e, e->me, s)->n, st->in_done,
			      st->in_offered, flow(e, 1 - e->me, s)->n, st->receives);
	}
}

static void exchange(struct end *e)
{
	e->started_ns = e->progress_ns = now_ns();
	while (!is_over(e) && e->ended == MROCE_OK) {
		int n = look(e, 1000);

		if (n == -ENOTCONN || mroce_conn_error(e->c) != MROCE_OK)
			e->ended = mroce_conn_error(e->c);
		else if (n < 0 && n != -ETIMEDOUT && n != -EINTR)
			wrong(e, "wait: %s", mroce_last_error(e->m));
		if (now_ns() - e->progress_ns > (uint64_t)e->patience_ms * 1000000u) {
			tell_hang(e);
			return;
		}
		if (e->me == 1 && e->ready && e->plan.p.slow_us)
			usleep(e->plan.p.slow_us);
		proceed(e);
	}
	if (e->ended != MROCE_OK)
		drain(e);
}

static enum outcome report(struct end *e)
{
	uint64_t ms = (now_ns() - e->started_ns) / 1000000;

	if (!e->wrong && !is_over(e)) {
		printf("ended: %s\n", mroce_status_text(e->ended));
	} else if (!e->wrong) {
		printf("right: %u streams, %u messages each, %" PRIu64 " + %" PRIu64
		       " bytes, %" PRIu64 " ms, connection %u to %s\n",
		       e->plan.p.streams, e->plan.p.messages,
		       e->plan.landing[0][0] + e->plan.landing[0][1],
		       e->plan.landing[1][0] + e->plan.landing[1][1], ms, mroce_conn_id(e->c),
		       mroce_conn_peer(e->c));
	} else {
		printf("wrong: %d things in all\n", e->wrong);
	}
	fflush(stdout);
	if (e->wrong)
		return OUTCOME_WRONG;
	return is_over(e) ? OUTCOME_RIGHT : OUTCOME_ENDED;
}

static void end_clean(struct end *e)
{
	mroce_conn_close(&e->c);
	for (int kind = 0; kind < 2; kind++) {
		drop_region(&e->pattern[kind], kind);
		drop_region(&e->landing[kind], kind);
	}
	drop_region(&e->control, 0);
	free(e->period);
	free(e->streams);
	plan_free(&e->plan);
}

static enum outcome converse(struct end *e)
{
	enum outcome outcome;

	mroce_conn_set_data(e->c, e);
	if (mroce_alloc(e->m, 2 * CONTROLS * CONTROL_SLOT, MROCE_ACCESS_LOCAL, &e->control)) {
		printf("ended: memory: %s\n", mroce_last_error(e->m));
		return OUTCOME_ENDED;
	}
	expect_control(e);
	if (e->me == 0)
		say_hello(e);
	exchange(e);
	outcome = report(e);
	return outcome;
}

/* ---- the two programs ---- */

struct options {
	const char *socket, *host;
	uint32_t service;
	uint32_t times;
	int patience_ms;
	struct plan_params p;
};

static enum outcome cannot(struct mroce **m, const char *what)
{
	printf("ended: %s: %s\n", what, mroce_last_error(*m));
	fflush(stdout);
	mroce_close(m);
	return OUTCOME_ENDED;
}

/* An application with an event loop of its own would do it so. */
static int sleep_for_accept(struct mroce *m)
{
	struct pollfd fd = { .fd = mroce_fd(m), .events = POLLIN };

	return mroce_arm(m) ? 1 : poll(&fd, 1, 1000);
}

static int wait_for_guest(struct mroce *m, struct mroce_listener *l, struct mroce_conn **c)
{
	for (;;) {
		int err = mroce_accept(l, 0, c);

		if (err != -EAGAIN)
			return err;
		if (sleep_for_accept(m) < 0 && errno != EINTR)
			return -errno;
	}
}

static enum outcome serve(const struct options *o)
{
	struct mroce *m = NULL;
	struct mroce_listener *l;
	enum outcome worst = OUTCOME_RIGHT;

	if (mroce_open(o->socket, &m))
		return cannot(&m, "open");
	if (mroce_listen(m, o->service, 16, &l))
		return cannot(&m, "listen");
	printf("ready\n");
	fflush(stdout);
	for (uint32_t i = 0; o->times == 0 || i < o->times; i++) {
		struct end e = { .m = m, .me = 1, .patience_ms = o->patience_ms };
		enum outcome outcome;

		if (wait_for_guest(m, l, &e.c))
			return cannot(&m, "accept");
		outcome = converse(&e);
		end_clean(&e);
		if (worst == OUTCOME_RIGHT || outcome == OUTCOME_WRONG)
			worst = outcome;
	}
	mroce_listener_free(&l);
	mroce_close(&m);
	return worst;
}

static enum outcome run_once(const struct options *o)
{
	struct mroce *m = NULL;
	struct end e = { .patience_ms = o->patience_ms };
	enum outcome outcome;

	if (mroce_open(o->socket, &m))
		return cannot(&m, "open");
	e.m = m;
	if (make_plan(&e, &o->p) || mroce_connect(m, o->host, o->service, 10000, &e.c)) {
		printf("ended: connect: %s\n", mroce_last_error(m));
		end_clean(&e);
		mroce_close(&m);
		return OUTCOME_ENDED;
	}
	outcome = converse(&e);
	end_clean(&e);
	mroce_close(&m);
	return outcome;
}

static enum outcome run(const struct options *o)
{
	enum outcome outcome = OUTCOME_RIGHT;

	for (uint32_t i = 0; outcome == OUTCOME_RIGHT && (o->times == 0 || i < o->times); i++)
		outcome = run_once(o);
	return outcome;
}

/* ---- options ---- */

static int usage(void)
{
	fprintf(stderr,
		"Usage: exchange serve SOCKET [--service N] [--count N, 0 without end]\n"
		"       exchange run SOCKET HOST [--service N] [--repeat N, 0 without end]\n"
		"  --patience MS     no completion for so long is a hang (60000)\n"
		"  --seed N --streams N --messages N (of each stream and direction)\n"
		"  --ops LETTERS     of s send, S send with immediate, w write, W write with "
		"immediate, r read\n"
		"  --sizes N,N,..    of messages; --chunk N adds the sizes around a chunk of N "
		"bytes\n"
		"  --random MAX      besides, sizes at random\n"
		"  --memory KIND     mixed, shared or inplace\n"
		"  --window N --receives N  requests in flight, receives posted, per stream\n"
		"  --blocked STREAM  gets no receives until all others are done\n"
		"  --slow US         the accepting end is slow\n"
		"  --one-way         only the connecting end sends\n");
	return 2;
}

static uint32_t parse_ops(const char *letters)
{
	static const char all[] = "sSwWr"; /* as enum plan_op */
	uint32_t ops = 0;

	for (; *letters; letters++) {
		const char *at = strchr(all, *letters);

		if (at)
			ops |= 1u << (at - all);
	}
	return ops;
}

static void add_size(struct plan_params *p, uint64_t size)
{
	if (p->nsizes < PLAN_SIZES)
		p->sizes[p->nsizes++] = size;
}

static void parse_sizes(struct plan_params *p, const char *list)
{
	char *end;

	p->nsizes = 0;
	for (; *list; list = *end ? end + 1 : end) {
		add_size(p, strtoull(list, &end, 0));
		if (end == list)
			return;
	}
}

static void sizes_around(struct plan_params *p, uint64_t chunk)
{
	add_size(p, chunk - 1);
	add_size(p, chunk);
	add_size(p, chunk + 1);
	add_size(p, 2 * chunk);
	add_size(p, 16 * chunk + 1);
}

static uint32_t parse_memory(const char *kind)
{
	if (strcmp(kind, "shared") == 0)
		return 1;
	return strcmp(kind, "inplace") == 0 ? 2 : 0;
}

static const struct option long_options[] = {
	{ "service", 1, NULL, 'S' },  { "count", 1, NULL, 'c' },    { "repeat", 1, NULL, 'c' },
	{ "patience", 1, NULL, 'p' }, { "seed", 1, NULL, 'd' },	    { "streams", 1, NULL, 's' },
	{ "messages", 1, NULL, 'm' }, { "ops", 1, NULL, 'o' },	    { "sizes", 1, NULL, 'z' },
	{ "chunk", 1, NULL, 'k' },    { "random", 1, NULL, 'r' },   { "memory", 1, NULL, 'M' },
	{ "window", 1, NULL, 'w' },   { "receives", 1, NULL, 'R' }, { "blocked", 1, NULL, 'b' },
	{ "slow", 1, NULL, 'l' },     { "one-way", 0, NULL, '1' },  { NULL, 0, NULL, 0 },
};

static int parse(int argc, char **argv, struct options *o)
{
	struct plan_params *p = &o->p;
	int opt;

	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		uint32_t n = optarg ? (uint32_t)strtoul(optarg, NULL, 0) : 0;

		switch (opt) {
		case 'S': o->service = n; break;
		case 'c': o->times = n; break;
		case 'p': o->patience_ms = (int)n; break;
		case 'd': p->seed = strtoull(optarg, NULL, 0); break;
		case 's': p->streams = n; break;
		case 'm': p->messages = n; break;
		case 'o': p->ops = parse_ops(optarg); break;
		case 'z': parse_sizes(p, optarg); break;
		case 'k': sizes_around(p, n); break;
		case 'r': p->random_max = n; break;
		case 'M': p->memory = parse_memory(optarg); break;
		case 'w': p->window = n; break;
		case 'R': p->receives = n; break;
		case 'b': p->blocked = n; break;
		case 'l': p->slow_us = n; break;
		case '1': p->one_way = 1; break;
		default: return -EINVAL;
		}
	}
	return p->ops && p->nsizes && p->streams <= CONTROL_STREAM && p->window && p->receives
		       ? 0
		       : -EINVAL;
}

int main(int argc, char **argv)
{
	struct options o = {
		.service = 4901,
		.times = 1,
		.patience_ms = 60000,
		.p = { .seed = 1,
		       .sizes = { 0, 1 },
		       .nsizes = 2,
		       .streams = 8,
		       .messages = 20,
		       .ops = (1u << PLAN_OPS) - 1,
		       .window = 8,
		       .receives = 16,
		       .blocked = UINT32_MAX },
	};

	if (parse(argc, argv, &o) || argc - optind < 2)
		return usage();
	o.socket = argv[optind + 1];
	if (strcmp(argv[optind], "serve") == 0 && argc - optind == 2)
		return (int)serve(&o);
	if (strcmp(argv[optind], "run") != 0 || argc - optind != 3)
		return usage();
	o.host = argv[optind + 2];
	return (int)run(&o);
}
