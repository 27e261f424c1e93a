/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c: completions: taking them, sleeping until they come, making up those a dead daemon owes. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "client/client.h"
#include "common/ring.h"

/* A daemon that dies rings no bell: look at the socket once in so many polls that find nothing. */
#define IDLE_POLLS_PER_LOOK 256
/* While spinning, let others run: the daemon may share our CPU. */
#define SPINS_PER_YIELD 16

static void fill_in(struct mroce_completion *out, const struct request *r)
{
	memset(out, 0, sizeof(*out));
	out->id = r->id;
	out->conn = r->conn;
	out->conn_data = r->conn->data;
	out->stream = r->stream;
	out->opcode = r->opcode;
}

static void recycle(struct mroce *m, struct request *r)
{
	if (r->conn)
		TAILQ_REMOVE(&r->conn->requests, r, link);
	r->conn = NULL;
	/* Taken again first, while it is warm. */
	TAILQ_INSERT_HEAD(&m->free_requests, r, link);
}

static int take_completions(struct mroce *m, struct mroce_completion *out, int n)
{
	uint32_t head = m->cq_head;
	uint32_t tail = ring_load(&m->rings->cq_tail);
	int got = 0;

	for (; head != tail && got < n; head++) {
		const struct abi_cqe *e = &m->rings->cq[head & (ABI_CQ_ENTRIES - 1)];
		struct request *r = &m->requests[e->id % CLIENT_REQUESTS];

		if (r->conn) {
			fill_in(&out[got], r);
			out[got].opcode = e->opcode;
			out[got].status = e->status;
			out[got].length = e->length;
			out[got].has_imm = e->has_imm;
			out[got].imm = e->imm;
			out[got].missing = e->missing;
			if (e->has_gaps)
				client_gaps_keep(m, &m->rings->gaps[head & (ABI_CQ_ENTRIES - 1)],
						 &out[got]);
			got++;
		}
		recycle(m, r);
	}
	if (head == m->cq_head)
		return 0;
	m->cq_head = head;
	ring_store(&m->rings->cq_head, head);
	/* The daemon may have stopped taking requests because we had not made room. */
	if (m->sq_tail != ring_load(&m->rings->sq_head) && ring_must_wake(&m->rings->daemon_asleep))
		eventfd_write(m->doorbell, 1);
	return got;
}

/* The daemon is gone and all it had to say was taken: what it owes ends here. */
static int take_orphans(struct mroce *m, struct mroce_completion *out, int n)
{
	struct mroce_conn *c;
	int got = 0;

	TAILQ_FOREACH(c, &m->conns, link) {
		struct request *r;

		while (got < n && (r = TAILQ_FIRST(&c->requests))) {
			fill_in(&out[got], r);
			out[got++].status = MROCE_E_DAEMON;
			recycle(m, r);
		}
	}
	return got;
}

static bool events_pending(const struct mroce *m)
{
	return ring_load(&m->rings->events) != m->events_seen;
}

int mroce_poll(struct mroce *m, struct mroce_completion *out, int n)
{
	int got;

	if (n <= 0)
		return client_fail(m, -EINVAL, "poll: room for %d completions", n);
	client_gaps_forget(m);
	got = take_completions(m, out, n);
	if (got)
		return got;
	if (events_pending(m) || ++m->idle_polls % IDLE_POLLS_PER_LOOK == 0)
		client_events(m);
	if (!m->gone)
		return 0;
	got = take_completions(m, out, n);
	if (!got)
		got = take_orphans(m, out, n);
	return got ? got : client_fail(m, -ENOTCONN, "mroced is gone");
}

/* ---- sleeping ---- */

static void drain_wake(struct mroce *m)
{
	char bytes[64];

	if (m->wake_due && read(m->wake, bytes, sizeof(bytes)) > 0)
		m->wake_due = false;
}

bool client_arm(struct mroce *m)
{
	drain_wake(m);
	m->armed = true;
	ring_sleep(&m->rings->app_asleep);
	if (ring_load(&m->rings->cq_tail) == m->cq_head && !events_pending(m) && !m->gone)
		return false;
	client_disarm(m);
	return true;
}

void client_disarm(struct mroce *m)
{
	if (m->armed && !ring_awake(&m->rings->app_asleep))
		m->wake_due = true;
	m->armed = false;
}

static bool connections_wait(const struct mroce *m)
{
	const struct mroce_listener *l;

	TAILQ_FOREACH(l, &m->listeners, link)
		if (!TAILQ_EMPTY(&l->waiting))
			return true;
	return false;
}

int mroce_arm(struct mroce *m)
{
	client_disarm(m);
	return connections_wait(m) || client_arm(m);
}

static int sleep_until(struct mroce *m, uint64_t deadline)
{
	struct pollfd fds[2] = { { .fd = m->sock, .events = POLLIN },
				 { .fd = m->wake, .events = POLLIN } };
	int n;
	int err;

	if (client_arm(m))
		return 0;
	n = poll(fds, 2, client_ms_left(deadline));
	err = n < 0 ? -errno : 0;
	client_disarm(m);
	if (fds[0].revents)
		client_events(m);
	return n ? err : -ETIMEDOUT;
}

/* True: something has come. */
static bool spin(struct mroce *m, uint64_t until)
{
	for (uint32_t i = 1;; i++) {
		if (ring_load(&m->rings->cq_tail) != m->cq_head || events_pending(m))
			return true;
		if (i % SPINS_PER_YIELD == 0)
			sched_yield();
		else
			ring_relax();
		if (client_now_ns() >= until)
			return false;
	}
}

/* Spinning pays if what we sleep for comes about as soon; else it takes the CPU from those who make it come. */
static void adapt_spin(struct mroce *m, uint64_t slept_ns)
{
	if (slept_ns > m->spin_ns) {
		m->spin_now /= 2;
		return;
	}
	m->spin_now = m->spin_now * 2 + m->spin_ns / 8;
	if (m->spin_now > m->spin_ns)
		m->spin_now = m->spin_ns;
}

int mroce_wait(struct mroce *m, struct mroce_completion *out, int n, int timeout_ms)
{
	uint64_t deadline = client_deadline(timeout_ms);
	int err = 0;

	for (;;) {
		int got = mroce_poll(m, out, n);
		uint64_t spin_end, before;

		if (got)
			return got;
		if (err || client_ms_left(deadline) == 0)
			return client_fail(m, err ? err : -ETIMEDOUT, "waiting for a completion: %s",
					   strerror(err ? -err : ETIMEDOUT));
		spin_end = client_now_ns() + m->spin_now;
		if (spin(m, spin_end < deadline ? spin_end : deadline))
			continue;
		before = client_now_ns();
		err = sleep_until(m, deadline);
		adapt_spin(m, client_now_ns() - before);
	}
}
