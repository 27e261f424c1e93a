/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c: listening, connecting, accepting, ending. */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "client/client.h"
#include "common/ring.h"

#define BACKLOG_MAX 1024
/* The daemon ends a connect itself when its time is over; only a stuck daemon lets us wait so much longer. */
#define CONNECT_GRACE_MS 2000
/* Without a limit of the application's, the daemon's own for a set-up holds. */
#define CONNECT_UNLIMITED_MS 600000

/* ---- events ---- */

struct mroce_conn *client_conn_new(struct mroce *m, const struct abi_msg *msg)
{
	struct mroce_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->m = m;
	c->handle = msg->conn.handle;
	c->id = msg->conn.conn_id;
	iptext(msg->conn.ip, c->peer);
	TAILQ_INIT(&c->requests);
	TAILQ_INSERT_TAIL(&m->conns, c, link);
	return c;
}

/* Its requests stay known until their completions have come, but nobody is told. */
static void forget_requests(struct mroce_conn *c)
{
	struct request *r;

	while ((r = TAILQ_FIRST(&c->requests))) {
		TAILQ_REMOVE(&c->requests, r, link);
		r->conn = NULL;
	}
}

void client_conn_free(struct mroce_conn *c)
{
	forget_requests(c);
	if (c->listener)
		TAILQ_REMOVE(&c->listener->waiting, c, queued);
	TAILQ_REMOVE(&c->m->conns, c, link);
	client_tolerance_free(c);
	free(c);
}

static void tell_close(struct mroce *m, uint32_t handle)
{
	struct abi_msg msg = client_msg(ABI_CLOSE);

	msg.conn.handle = handle;
	client_tell(m, &msg);
}

static struct mroce_listener *find_listener(struct mroce *m, uint32_t service)
{
	struct mroce_listener *l;

	TAILQ_FOREACH(l, &m->listeners, link)
		if (l->service == service)
			return l;
	return NULL;
}

void client_conn_accepted(struct mroce *m, const struct abi_msg *msg)
{
	struct mroce_listener *l = find_listener(m, msg->conn.service);
	struct mroce_conn *c = l ? client_conn_new(m, msg) : NULL;

	if (!c) {
		tell_close(m, msg->conn.handle);
		return;
	}
	c->listener = l;
	TAILQ_INSERT_TAIL(&l->waiting, c, queued);
}

void client_conn_ended(struct mroce *m, const struct abi_msg *msg)
{
	for (struct mroce_conn *c = TAILQ_FIRST(&m->conns); c; c = TAILQ_NEXT(c, link)) {
		if (c->handle != msg->conn.handle)
			continue;
		c->ended = (enum mroce_status)msg->status;
		c->end_at = msg->id;
		return;
	}
}

void client_daemon_gone(struct mroce *m)
{
	struct mroce_conn *c;

	m->gone = true;
	TAILQ_FOREACH(c, &m->conns, link)
		if (c->ended == MROCE_OK) {
			c->ended = MROCE_E_DAEMON;
			c->end_at = m->rings ? ring_load(&m->rings->cq_tail) : 0;
		}
}

/* ---- listening ---- */

int mroce_listen(struct mroce *m, uint32_t service, int backlog, struct mroce_listener **out)
{
	struct abi_msg msg = client_msg(ABI_LISTEN);
	struct mroce_listener *l;
	int err;

	if (service == 0 || backlog < 1 || backlog > BACKLOG_MAX)
		return client_fail(m, -EINVAL,
				   "listen: service %u, backlog %d: service must not be 0, "
				   "backlog is 1 to %d",
				   service, backlog, BACKLOG_MAX);
	l = calloc(1, sizeof(*l));
	if (!l)
		return client_fail(m, -ENOMEM, "no memory for a listener");
	l->m = m;
	l->service = service;
	TAILQ_INIT(&l->waiting);
	/* Before asking: the first connection may overtake the answer. */
	TAILQ_INSERT_TAIL(&m->listeners, l, link);
	msg.conn.service = service;
	msg.conn.backlog = (uint32_t)backlog;
	err = client_call(m, &msg, -1, NULL, client_deadline(CLIENT_ANSWER_MS));
	if (err) {
		TAILQ_REMOVE(&m->listeners, l, link);
		free(l);
		return err;
	}
	*out = l;
	return 0;
}

void mroce_listener_free(struct mroce_listener **lp)
{
	struct mroce_listener *l = *lp;
	struct abi_msg msg = client_msg(ABI_UNLISTEN);
	struct mroce_conn *c;

	*lp = NULL;
	if (!l)
		return;
	msg.conn.service = l->service;
	if (!l->m->gone)
		client_call(l->m, &msg, -1, NULL, client_deadline(CLIENT_ANSWER_MS));
	while ((c = TAILQ_FIRST(&l->waiting)))
		mroce_conn_close(&c);
	TAILQ_REMOVE(&l->m->listeners, l, link);
	free(l);
}

/* The next waiting connection that has not ended meanwhile. */
static struct mroce_conn *take_waiting(struct mroce_listener *l)
{
	struct mroce_conn *c;

	while ((c = TAILQ_FIRST(&l->waiting))) {
		if (c->ended != MROCE_OK) {
			mroce_conn_close(&c);
			continue;
		}
		TAILQ_REMOVE(&l->waiting, c, queued);
		c->listener = NULL;
		return c;
	}
	return NULL;
}

int mroce_accept(struct mroce_listener *l, int timeout_ms, struct mroce_conn **out)
{
	struct mroce *m = l->m;
	uint64_t deadline = client_deadline(timeout_ms);
	struct abi_msg msg = client_msg(ABI_TAKEN);
	struct mroce_conn *c;

	for (;;) {
		int err;

		client_events(m);
		c = take_waiting(l);
		if (c)
			break;
		if (m->gone)
			return client_fail(m, -ENOTCONN, "mroced is gone");
		if (timeout_ms == 0)
			return -EAGAIN;
		err = ctl_wait(m->sock, POLLIN, client_ms_left(deadline));
		if (err)
			return client_fail(m, err, "waiting for a connection to service %u: %s",
					   l->service, strerror(-err));
	}
	msg.conn.handle = c->handle;
	client_tell(m, &msg);
	*out = c;
	return 0;
}

/* ---- connecting ---- */

static int explain_refusal(struct mroce *m, int err, const char *peer, uint32_t service)
{
	switch (err) {
	case -ECONNREFUSED:
		return client_fail(m, err, "%s: nobody listens for service %u", peer, service);
	case -EBUSY:
		return client_fail(m, err, "%s: service %u takes no more connections now", peer,
				   service);
	case -EPROTONOSUPPORT:
		return client_fail(m, err, "%s: its mroced speaks no common protocol version", peer);
	case -EHOSTUNREACH:
		return client_fail(m, err, "%s: no interface of mroced has a route to it", peer);
	case -EKEYREJECTED:
		return client_fail(m, err,
				   "%s: its mroced answers, but the two hosts do not have the same "
				   "pre-shared key; see [security] psk_file on both",
				   peer);
	case -ETIMEDOUT:
		return client_fail(m, err,
				   "%s: no answer: is mroced running there, and does the network "
				   "let its UDP port pass?",
				   peer);
	}
	return err;
}

static int connect_ip(struct mroce *m, const uint8_t ip[16], uint32_t service, uint64_t deadline,
		      struct mroce_conn **out)
{
	struct abi_msg msg = client_msg(ABI_CONNECT);
	int left = client_ms_left(deadline);
	char peer[IPTEXT_MAX];
	struct mroce_conn *c;
	int err;

	memcpy(msg.conn.ip, ip, 16);
	msg.conn.service = service;
	/* 0 would mean the daemon's default. */
	msg.conn.timeout_ms = left < 0 ? 0 : (uint32_t)(left ? left : 1);
	if (left < 0)
		left = CONNECT_UNLIMITED_MS;
	else if (left > INT_MAX - CONNECT_GRACE_MS)
		left = INT_MAX - CONNECT_GRACE_MS;
	err = client_call(m, &msg, -1, NULL, client_deadline(left + CONNECT_GRACE_MS));
	if (err)
		return explain_refusal(m, err, iptext(ip, peer), service);
	c = client_conn_new(m, &msg);
	if (!c) {
		tell_close(m, msg.conn.handle);
		return client_fail(m, -ENOMEM, "no memory for a connection");
	}
	*out = c;
	return 0;
}

int mroce_connect(struct mroce *m, const char *host, uint32_t service, int timeout_ms,
		  struct mroce_conn **out)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM };
	uint64_t deadline = client_deadline(timeout_ms);
	struct addrinfo *list;
	uint8_t ip[16];
	int err;

	if (service == 0)
		return client_fail(m, -EINVAL, "connect: service must not be 0");
	err = getaddrinfo(host, NULL, &hints, &list);
	if (err)
		return client_fail(m, -EHOSTUNREACH, "%s: %s", host, gai_strerror(err));
	err = client_fail(m, -EHOSTUNREACH, "%s: no IPv4 or IPv6 address", host);
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		if (!ip_from_sockaddr(a->ai_addr, ip))
			continue;
		err = connect_ip(m, ip, service, deadline, out);
		if (!err || err == -ENOTCONN || client_ms_left(deadline) == 0)
			break;
	}
	freeaddrinfo(list);
	return err;
}

/* ---- life ---- */

void mroce_conn_close(struct mroce_conn **cp)
{
	struct mroce_conn *c = *cp;
	struct abi_msg msg = client_msg(ABI_CLOSE);

	*cp = NULL;
	if (!c)
		return;
	msg.conn.handle = c->handle;
	/* The answer says that the daemon has let go of the memory of all requests. */
	if (!c->m->gone)
		client_call(c->m, &msg, -1, NULL, client_deadline(CLIENT_ANSWER_MS));
	client_conn_free(c);
}

void mroce_conn_set_data(struct mroce_conn *conn, void *data)
{
	conn->data = data;
}

void *mroce_conn_data(const struct mroce_conn *conn)
{
	return conn->data;
}

enum mroce_status mroce_conn_error(const struct mroce_conn *conn)
{
	/* The completions that came before the end are to be seen before it. */
	if (conn->ended == MROCE_OK || (int32_t)(conn->m->cq_head - conn->end_at) < 0)
		return MROCE_OK;
	/* So are those that we make up ourselves. */
	if (conn->ended == MROCE_E_DAEMON && !TAILQ_EMPTY(&conn->requests))
		return MROCE_OK;
	return conn->ended;
}

const char *mroce_conn_peer(const struct mroce_conn *conn)
{
	return conn->peer;
}

uint32_t mroce_conn_id(const struct mroce_conn *conn)
{
	return conn->id;
}
