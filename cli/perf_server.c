// SPDX-License-Identifier: BSD-2-Clause
/* perf_server.c: the passive side of `mroce perf` and `mroce ping`: serves any number of clients. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "cmd.h"
#include "perf.h"
#include "units.h"

#define COMPLETIONS 64
#define BACKLOG 1024
#define IDLE_MS 250
#define BUSY_MS 20
#define ACCEPT_EVERY_NS 10000000
/* Posted receives and sends of all clients together: the completion ring must hold them. */
#define POSTED_MAX 6000

/* Data ids: bit 62 marks an answer that was sent, below it the slot. */
#define ANSWER_ID (1ull << 62)

struct client {
	LIST_ENTRY(client) entry;
	struct server *server;
	struct mroce_conn *conn;
	struct channel channel;
	struct perf_memory memory;
	struct perf_msg request;
	uint64_t number[PERF_STREAMS_MAX]; /* messages seen on each stream */
	uint64_t posted[PERF_STREAMS_MAX]; /* receives posted */
	uint32_t receives;		   /* counted in server->posted */
	uint64_t messages, bytes, errors;
	bool requested, over;
};

struct server {
	const struct perf_server_options *o;
	struct mroce *m;
	struct mroce_listener *listener;
	LIST_HEAD(, client) clients;
	uint32_t posted;
	bool done; /* with --once */
	uint64_t next_accept;
};

static bool answers(const struct client *c)
{
	return c->request.op == PERF_ECHO_SEND || c->request.op == PERF_ECHO_WRITE;
}

static bool needs_receives(const struct client *c)
{
	switch (c->request.op) {
	case PERF_SEND:
	case PERF_ECHO_SEND:
	case PERF_ECHO_WRITE: return true;
	case PERF_WRITE: return c->request.flags & PERF_CHECK;
	case PERF_READ:
	case PERF_BOTH: return false;
	}
	return false;
}

/* ---- slots ---- */

static size_t slot_offset(const struct client *c, uint32_t slot)
{
	return (size_t)slot * c->request.size;
}

/* The slot of the j-th message of a stream (from 0). */
static uint32_t slot_of(const struct client *c, uint32_t stream, uint64_t j)
{
	uint32_t each = c->request.slots / c->request.streams;

	return stream * each + j % each;
}

static int post_receive(struct client *c, uint32_t stream)
{
	bool write = c->request.op == PERF_WRITE || c->request.op == PERF_ECHO_WRITE;
	uint32_t slot = slot_of(c, stream, c->posted[stream]);
	unsigned int tries = 0;
	int err;

	do {
		err = mroce_post_recv(c->conn, 1 + stream, write ? NULL : c->memory.mr,
				      write ? 0 : slot_offset(c, slot), write ? 0 : c->request.size,
				      slot);
	} while (link_queue_full(err, &tries));
	if (!err)
		c->posted[stream]++;
	return err;
}

static void fill_for_reading(struct client *c)
{
	uint8_t *base = mroce_mr_addr(c->memory.mr);

	for (uint32_t slot = 0; slot < c->request.slots; slot++)
		pattern_fill(base + slot_offset(c, slot), c->request.size, pattern_seed(0, slot));
}

/* ---- a request ---- */

static int post_receives(struct client *c)
{
	uint32_t streams = c->request.streams;
	uint32_t each = c->request.flags & PERF_CHECK ? c->request.slots / streams
						      : (c->request.depth + streams - 1) / streams;

	if (!needs_receives(c))
		return 0;
	if (c->server->posted + each * streams > POSTED_MAX)
		return -EBUSY;
	c->receives = each * streams;
	c->server->posted += c->receives;
	for (uint32_t i = 0; i < each * streams; i++) {
		int err = post_receive(c, i % streams);

		if (err)
			return err;
	}
	return 0;
}

static int prepare(struct client *c)
{
	int err = perf_memory_get(&c->memory, c->server->m, perf_region(&c->request),
				  MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ,
				  c->server->o->inplace);

	if (err)
		return err;
	if (c->request.op == PERF_READ || c->request.op == PERF_BOTH)
		fill_for_reading(c);
	return post_receives(c);
}

static int tell(struct client *c, const struct perf_msg *msg)
{
	uint8_t buf[PERF_MSG_LEN];

	perf_pack(msg, buf);
	return channel_send(&c->channel, buf, sizeof(buf));
}

static int take_request(struct client *c, const struct perf_msg *msg)
{
	struct perf_msg answer = { .type = PERF_READY };
	int err;

	if (c->requested)
		return -EPROTO;
	c->requested = true;
	c->request = *msg;
	err = prepare(c);
	if (err)
		warn_user("client %s refused: %s", mroce_conn_peer(c->conn), strerror(-err));
	answer.error = -err;
	answer.addr = err ? 0 : (uintptr_t)mroce_mr_addr(c->memory.mr);
	answer.rkey = err ? 0 : mroce_mr_rkey(c->memory.mr);
	return tell(c, &answer);
}

static int take_stop(struct client *c)
{
	struct perf_msg report = {
		.type = PERF_REPORT, .messages = c->messages, .bytes = c->bytes, .errors = c->errors
	};

	return tell(c, &report);
}

static int take_channel(struct client *c, const struct mroce_completion *done)
{
	struct perf_msg msg;
	const void *buf;
	size_t len;
	int err = channel_take(&c->channel, done, &buf, &len);

	if (err || !buf)
		return err;
	err = perf_unpack(&msg, buf, len);
	if (!err)
		err = msg.type == PERF_REQUEST ? take_request(c, &msg)
		      : msg.type == PERF_STOP  ? take_stop(c)
					       : -EPROTO;
	return err ? err : channel_done(&c->channel, done);
}

/* ---- traffic ---- */

static void check(struct client *c, uint32_t stream, uint64_t j, uint64_t length)
{
	const uint8_t *at = (uint8_t *)mroce_mr_addr(c->memory.mr) +
			    slot_offset(c, slot_of(c, stream, j));

	if (length == c->request.size && pattern_holds(at, length, pattern_seed(1 + stream, j)))
		return;
	c->errors++;
}

static int answer(struct client *c, uint32_t stream, uint32_t slot, uint64_t length)
{
	uint64_t offset = slot_offset(c, slot);

	if (c->request.op == PERF_ECHO_SEND)
		return mroce_post_send(c->conn, 1 + stream, c->memory.mr, offset, length,
				       ANSWER_ID | slot);
	return mroce_post_write_imm(c->conn, 1 + stream, c->memory.mr, offset, length,
				    c->request.addr + offset, c->request.rkey, slot,
				    ANSWER_ID | slot);
}

static int take_data(struct client *c, const struct mroce_completion *done)
{
	uint32_t stream = done->stream - 1;
	unsigned int tries = 0;
	uint64_t j;
	int err;

	if (done->status != MROCE_OK)
		return -ENOTCONN;
	if (done->id & ANSWER_ID)
		return 0;
	if (!c->requested || stream >= c->request.streams || done->length > c->request.size)
		return -EPROTO;
	j = c->number[stream]++;
	c->messages++;
	c->bytes += done->length;
	if (c->request.flags & PERF_CHECK)
		check(c, stream, j, done->length);
	/* The next receive first, so that the client's next message finds it. */
	err = post_receive(c, stream);
	if (err || !answers(c))
		return err;
	do {
		err = answer(c, stream, slot_of(c, stream, j), done->length);
	} while (link_queue_full(err, &tries));
	return err;
}

static void take_completion(const struct mroce_completion *done)
{
	struct client *c = done->conn_data;
	int err;

	if (!c || c->over)
		return;
	err = channel_owns(done) ? take_channel(c, done) : take_data(c, done);
	if (err == -EPROTO)
		warn_user("client %s dropped: it does not speak the perf protocol",
			  mroce_conn_peer(c->conn));
	if (err)
		c->over = true;
}

/* ---- clients ---- */

static int client_new(struct server *s, struct mroce_conn *conn)
{
	struct client *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	err = channel_open(&c->channel, s->m, conn, PERF_CHANNEL_BUFFERS, PERF_MSG_MAX);
	if (err) {
		free(c);
		return err;
	}
	c->server = s;
	c->conn = conn;
	mroce_conn_set_data(conn, c);
	LIST_INSERT_HEAD(&s->clients, c, entry);
	return 0;
}

static void client_free(struct client *c)
{
	struct server *s = c->server;
	bool last = c->requested && !(c->request.flags & PERF_MORE);

	mroce_conn_close(&c->conn);
	channel_free(&c->channel);
	perf_memory_put(&c->memory);
	s->posted -= c->receives;
	LIST_REMOVE(c, entry);
	free(c);
	if (s->o->once && last && LIST_EMPTY(&s->clients))
		s->done = true;
}

static void sweep(struct server *s)
{
	struct client *c = LIST_FIRST(&s->clients);

	while (c) {
		struct client *next = LIST_NEXT(c, entry);

		if (c->over || mroce_conn_error(c->conn) != MROCE_OK)
			client_free(c);
		c = next;
	}
}

static void accept_all(struct server *s)
{
	struct mroce_conn *conn;

	while (mroce_accept(s->listener, 0, &conn) == 0) {
		int err = client_new(s, conn);

		if (!err)
			continue;
		warn_user("client %s dropped: %s", mroce_conn_peer(conn), strerror(-err));
		mroce_conn_close(&conn);
	}
}

/* ---- the loop ---- */

/* With clients, mroce_wait() spins a little, which latency tests need; without, only sleep. */
static int next_completions(struct server *s, struct mroce_completion *done)
{
	struct pollfd fd = { .fd = mroce_fd(s->m), .events = POLLIN };

	if (!LIST_EMPTY(&s->clients))
		return mroce_wait(s->m, done, COMPLETIONS, BUSY_MS);
	if (mroce_arm(s->m) == 0)
		poll(&fd, 1, IDLE_MS);
	return mroce_poll(s->m, done, COMPLETIONS);
}

static int serve(struct server *s)
{
	struct mroce_completion done[COMPLETIONS];

	while (!cli_stop && !s->done) {
		int n = next_completions(s, done);

		if (n < 0 && n != -ETIMEDOUT && n != -EINTR)
			return fail("%s", link_status(MROCE_E_DAEMON));
		for (int i = 0; i < n; i++)
			take_completion(&done[i]);
		if (n > 0 && clock_ns() < s->next_accept)
			continue;
		s->next_accept = clock_ns() + ACCEPT_EVERY_NS;
		sweep(s);
		accept_all(s);
	}
	return EXIT_SUCCESS;
}

static int listen_to(struct server *s)
{
	unsigned long long service = s->o->service;
	int err = mroce_listen(s->m, service, BACKLOG, &s->listener);

	if (!err)
		return EXIT_SUCCESS;
	if (err == -EADDRINUSE)
		return fail(
			"service %llu is taken on this host: is another 'mroce perf -s' running? "
			"Choose another with --service on both sides",
			service);
	return fail("cannot listen on service %llu: %s (%s)", service, strerror(-err),
		    mroce_last_error(s->m));
}

int perf_serve(const struct perf_server_options *o)
{
	struct server s = { .o = o };
	int status;

	signals_catch();
	if (link_open(&s.m))
		return EXIT_FAILURE;
	status = listen_to(&s);
	if (!status && !o->quiet)
		fprintf(stderr, "answering on service %llu; stop with Ctrl-C\n",
			(unsigned long long)o->service);
	if (!status)
		status = serve(&s);
	while (!LIST_EMPTY(&s.clients))
		client_free(LIST_FIRST(&s.clients));
	mroce_listener_free(&s.listener);
	mroce_close(&s.m);
	return status;
}
