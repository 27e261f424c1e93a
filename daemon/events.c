/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events.c: completions and events of the engine, passed on to the applications. The engine may not be called
 * from here, so connections to be freed are remembered in the daemon's list of graves.
 */
#include <errno.h>
#include <string.h>
#include "daemon/client.h"
#include "daemon/events.h"
#include "daemon/journal.h"
#include "daemon/monitor.h"

static void on_complete(void *ctx, struct conn *conn, const struct engine_completion *e)
{
	struct slot *s = engine_conn_cookie(conn);

	(void)ctx;
	if (s)
		client_complete(s->client, s->handle, e);
}

static struct abi_msg conn_msg(const struct slot *s, struct conn *conn, enum abi_type type)
{
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = (uint16_t)type };

	memcpy(msg.conn.ip, engine_conn_peer(conn)->a, sizeof(msg.conn.ip));
	msg.conn.handle = s->handle;
	msg.conn.conn_id = engine_conn_id(conn);
	return msg;
}

static void on_connected(struct conn *conn)
{
	struct slot *s = engine_conn_cookie(conn);
	struct abi_msg msg;

	if (!s || s->state != SLOT_CONNECTING)
		return;
	s->state = SLOT_OPEN;
	msg = conn_msg(s, conn, ABI_CONNECT);
	msg.answer = 1;
	msg.id = s->request;
	client_send(s->client, &msg, NULL, 0);
}

static void on_refused(struct daemon *d, struct conn *conn, int code)
{
	struct slot *s = engine_conn_cookie(conn);
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = ABI_CONNECT, .answer = 1, .status = -code };

	daemon_bury(d, conn, false, MROCE_CLOSE_NORMAL);
	if (!s)
		return;
	msg.id = s->request;
	client_send(s->client, &msg, NULL, 0);
	client_slot_free(&s);
}

static struct client *find_client(struct daemon *d, const void *owner)
{
	struct client *c;

	TAILQ_FOREACH(c, &d->clients, link)
		if (c == owner && !c->broken)
			return c;
	return NULL;
}

static void on_accepted(struct daemon *d, struct conn *conn)
{
	struct client *c = find_client(d, engine_conn_owner(conn));
	struct slot *s = c ? client_slot_new(c) : NULL;
	struct conn_stats stats;
	struct abi_msg msg;

	if (!s) {
		if (c)
			journal(LOG_WARNING,
				"application %d (uid %u): its connections are used up, one "
				"from a peer is closed; see [quota] connections",
				c->pid, c->uid);
		daemon_bury(d, conn, true, MROCE_CLOSE_NORMAL);
		return;
	}
	s->conn = conn;
	s->state = SLOT_WAITING;
	engine_conn_set_cookie(conn, s);
	engine_conn_stats(conn, d->now, &stats);
	msg = conn_msg(s, conn, ABI_EV_ACCEPTED);
	msg.conn.service = stats.service;
	client_send_event(c, &msg);
}

static void on_ended(struct daemon *d, struct conn *conn, int code)
{
	struct slot *s = engine_conn_cookie(conn);
	struct abi_msg msg;

	daemon_bury(d, conn, false, MROCE_CLOSE_NORMAL);
	if (!s)
		return;
	msg = conn_msg(s, conn, ABI_EV_ENDED);
	msg.status = code;
	msg.id = s->client->cq_tail;
	s->conn = NULL;
	s->state = SLOT_ENDED;
	s->ended = (uint8_t)code;
	client_send_event(s->client, &msg);
}

static void on_event(void *ctx, struct conn *conn, enum conn_event ev, int code)
{
	switch (ev) {
	case CONN_EVENT_CONNECTED: on_connected(conn); break;
	case CONN_EVENT_REFUSED: on_refused(ctx, conn, code); break;
	case CONN_EVENT_ACCEPTED: on_accepted(ctx, conn); break;
	case CONN_EVENT_ENDED: on_ended(ctx, conn, code); break;
	}
}

static void on_log(void *ctx, int level, const char *line)
{
	(void)ctx;
	journal(level, "%s", line);
}

static void on_note(void *ctx, int level, const struct engine_note *n, const char *line)
{
	journal_note(level, n, line);
	monitor_note(ctx, level, n, line);
}

const struct engine_ops daemon_engine_ops = {
	.complete = on_complete,
	.event = on_event,
	.log = on_log,
	.note = on_note,
};
