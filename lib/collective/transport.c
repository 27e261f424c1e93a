/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * transport.c: messages between ranks. A message is a send that meets a posted receive: which rank's it is and
 * where it belongs is known from its place in the order of the stream, and it is placed in its final memory as its
 * packets arrive. All operations end before the next one begins, so nothing else need be told.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "collective/internal.h"

#define COMPLETIONS 64
/* So often connections are looked at that have nothing to say. */
#define SLICE_MS 50

uint64_t coll_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- errors ---- */

int comm_fail(struct mroce_comm *c, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, args);
	va_end(args);
	return err;
}

int comm_break(struct mroce_comm *c, int err, const char *fmt, ...)
{
	va_list args;

	if (c->broken)
		return c->broken;
	va_start(args, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, args);
	va_end(args);
	c->broken = err;
	for (uint32_t r = 0; r < c->size; r++)
		if (c->peers[r].conn)
			mroce_conn_close(&c->peers[r].conn);
	return err;
}

static int peer_lost(struct mroce_comm *c, uint32_t rank, enum mroce_status status)
{
	if (status == MROCE_E_DAEMON)
		return comm_break(c, -ECONNRESET, "%s", mroce_status_text(status));
	return comm_break(c, -ECONNRESET, "rank %u (%s) is lost: %s", rank, c->hosts[rank],
			  mroce_status_text(status));
}

/* ---- completions ---- */

struct message *comm_messages(struct mroce_comm *c, size_t n)
{
	struct message *more;

	if (n > c->messages_room) {
		more = realloc(c->messages, n * sizeof(*more));
		if (!more) {
			comm_fail(c, -ENOMEM, "no memory for %zu messages", n);
			return NULL;
		}
		c->messages = more;
		c->messages_room = n;
	}
	if (n)
		memset(c->messages, 0, n * sizeof(*c->messages));
	return c->messages;
}

/* Room for n more gaps. */
static int gaps_room(struct mroce_comm *c, size_t n)
{
	size_t room = c->gaps_room ? c->gaps_room : 64;
	struct mroce_range *more;

	while (room < c->ngaps + n)
		room *= 2;
	if (room == c->gaps_room)
		return 0;
	more = realloc(c->gaps, room * sizeof(*more));
	if (!more)
		return comm_break(c, -ENOMEM, "no memory for %zu gaps", room);
	c->gaps = more;
	c->gaps_room = room;
	return 0;
}

static int take_gaps(struct mroce_comm *c, struct message *m, const struct mroce_completion *done)
{
	int err = gaps_room(c, done->missing_ranges);
	int n;

	if (err)
		return err;
	n = mroce_missing(c->m, done, c->gaps + c->ngaps, (int)done->missing_ranges);
	if (n < 0 || (uint32_t)n != done->missing_ranges)
		return comm_break(c, n < 0 ? n : -EPROTO,
				  "rank %u (%s): no list of what is missing: %s", m->rank,
				  c->hosts[m->rank], mroce_last_error(c->m));
	m->missing = done->missing;
	m->first_gap = (uint32_t)c->ngaps;
	m->ngaps = (uint32_t)n;
	c->ngaps += (size_t)n;
	return 0;
}

static int take_receive(struct mroce_comm *c, struct message *m, const struct mroce_completion *done)
{
	if (done->length + done->missing != m->length)
		return comm_break(
			c, -EPROTO,
			"rank %u (%s) sent %llu bytes where %zu were expected: do all ranks "
			"call the same operations?",
			m->rank, c->hosts[m->rank],
			(unsigned long long)(done->length + done->missing), m->length);
	return done->missing ? take_gaps(c, m, done) : 0;
}

static int take(struct mroce_comm *c, const struct mroce_completion *done)
{
	struct message *m = (struct message *)(uintptr_t)done->id;
	uint32_t rank = (uint32_t)(uintptr_t)done->conn_data;

	if (m && m->cannot_fail) {
		m->done = true;
		return 0;
	}
	if (done->status == MROCE_E_LENGTH)
		return comm_break(c, -EPROTO,
				  "rank %u (%s) and rank %u do not agree about the length of a "
				  "message: do all ranks call the same operations?",
				  rank, c->hosts[rank], c->rank);
	if (done->status != MROCE_OK)
		return peer_lost(c, rank, done->status);
	if (!m) {
		c->sends_out--;
		return 0;
	}
	m->done = true;
	return m->receive ? take_receive(c, m, done) : 0;
}

static int look_at_connections(struct mroce_comm *c)
{
	for (uint32_t r = 0; r < c->size; r++) {
		const struct peer *p = &c->peers[r];

		if (p->conn && !p->bye.cannot_fail && mroce_conn_error(p->conn) != MROCE_OK)
			return peer_lost(c, r, mroce_conn_error(p->conn));
	}
	return 0;
}

int comm_progress(struct mroce_comm *c, int timeout_ms)
{
	struct mroce_completion done[COMPLETIONS];
	int err = 0;
	int n;

	if (c->broken)
		return c->broken;
	n = timeout_ms ? mroce_wait(c->m, done, COMPLETIONS, timeout_ms)
		       : mroce_poll(c->m, done, COMPLETIONS);
	if (n == -ETIMEDOUT || n == -EINTR)
		n = 0;
	if (n < 0)
		return comm_break(c, -ECONNRESET, "%s", mroce_last_error(c->m));
	for (int i = 0; i < n && !err; i++)
		err = take(c, &done[i]);
	if (!err && !n)
		err = look_at_connections(c);
	return err ? err : n;
}

/* A step of waiting for `what`; *since is when something came last, 0 at first. */
static int wait_step(struct mroce_comm *c, uint64_t *since, const char *what, uint32_t rank)
{
	int n = comm_progress(c, SLICE_MS);
	uint64_t now;

	if (n < 0)
		return n;
	now = coll_now_ms();
	if (n || !*since)
		*since = now;
	if (now - *since < c->timeout_ms)
		return 0;
	return comm_break(c, -ETIMEDOUT, "nothing has come for %u ms while waiting %s rank %u (%s)",
			  c->timeout_ms, what, rank, c->hosts[rank]);
}

int comm_await(struct mroce_comm *c, const struct message *m)
{
	uint64_t since = 0;
	int err = c->broken;

	while (!err && !m->done)
		err = wait_step(c, &since, "for a message of", m->rank);
	return err;
}

int comm_drain(struct mroce_comm *c)
{
	uint64_t since = 0;
	int err = c->broken;

	while (!err && c->sends_out)
		err = wait_step(c, &since, "for the others to take what was sent by", c->rank);
	return err;
}

/* ---- posting ---- */

/* Makes room in the queues after -EAGAIN; anything else is an error. */
static int again(struct mroce_comm *c, uint32_t rank, int err, uint64_t *since)
{
	if (err == -EAGAIN)
		return wait_step(c, since, "for room in the queues; to", rank);
	if (mroce_conn_error(c->peers[rank].conn) != MROCE_OK)
		return peer_lost(c, rank, mroce_conn_error(c->peers[rank].conn));
	return comm_break(c, err, "rank %u (%s): %s", rank, c->hosts[rank], mroce_last_error(c->m));
}

static int post_receive(struct mroce_comm *c, struct message *m, const struct memory *mem,
			size_t offset, size_t length)
{
	uint64_t since = 0;
	int err = c->broken;

	while (!err) {
		err = mroce_post_recv(c->peers[m->rank].conn, STREAM_DATA, mem ? mem->mr : NULL,
				      offset, length, (uintptr_t)m);
		if (!err)
			return 0;
		err = again(c, m->rank, err, &since);
	}
	return err;
}

int comm_receive(struct mroce_comm *c, uint32_t from, void *at, size_t length, struct message *m)
{
	const struct memory *mem = memory_find(c, at, length);

	*m = (struct message){
		.comm = c, .rank = from, .receive = true, .done = !length, .length = length
	};
	if (!length)
		return c->broken;
	if (!mem)
		return comm_break(c, -EFAULT, "%zu bytes to receive are in no registered memory",
				  length);
	c->account.bytes += length;
	return post_receive(c, m, mem, (size_t)((uint8_t *)at - mem->addr), length);
}

int comm_receive_signal(struct mroce_comm *c, uint32_t from, struct message *m)
{
	*m = (struct message){ .comm = c, .rank = from, .receive = true };
	return post_receive(c, m, NULL, 0, 0);
}

static int post_send(struct mroce_comm *c, uint32_t to, const struct memory *mem, size_t offset,
		     size_t length, const struct mroce_tolerance *tolerance)
{
	uint64_t since = 0;
	int err = c->broken;

	while (!err) {
		err = mroce_post_send_tolerant(c->peers[to].conn, STREAM_DATA, mem ? mem->mr : NULL,
					       offset, length, tolerance, 0);
		if (!err) {
			c->sends_out++;
			return 0;
		}
		err = again(c, to, err, &since);
	}
	return err;
}

int comm_send(struct mroce_comm *c, uint32_t to, const void *at, size_t length,
	      const struct mroce_tolerance *tolerance)
{
	const struct memory *mem = memory_find(c, at, length);

	if (!length)
		return c->broken;
	if (!mem)
		return comm_break(c, -EFAULT, "%zu bytes to send are in no registered memory",
				  length);
	return post_send(c, to, mem, (size_t)((const uint8_t *)at - mem->addr), length, tolerance);
}

int comm_send_signal(struct mroce_comm *c, uint32_t to)
{
	return post_send(c, to, NULL, 0, 0, NULL);
}
