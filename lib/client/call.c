/* SPDX-License-Identifier: BSD-2-Clause */
/* call.c: questions to the daemon, its answers, and what it says unasked. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "client/client.h"
#include "common/ring.h"

struct abi_msg client_msg(enum abi_type type)
{
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = (uint16_t)type };

	return msg;
}

/* An answer that nobody waits for any more. A connection in it would stay open unknown to us. */
static void late_answer(struct mroce *m, const struct abi_msg *msg)
{
	struct abi_msg closing = client_msg(ABI_CLOSE);

	if (msg->type != ABI_CONNECT || msg->status != 0)
		return;
	closing.conn.handle = msg->conn.handle;
	client_tell(m, &closing);
}

static void handle_message(struct mroce *m, const struct abi_msg *msg, int fds[CTL_MAX_FDS])
{
	struct pending *p = m->pending;

	if (msg->answer && p && !p->done && p->id == msg->id) {
		p->msg = *msg;
		memcpy(p->fds, fds, sizeof(p->fds));
		p->done = true;
		return;
	}
	ctl_close_fds(fds);
	if (msg->answer)
		late_answer(m, msg);
	else if (msg->type == ABI_EV_ACCEPTED)
		client_conn_accepted(m, msg);
	else if (msg->type == ABI_EV_ENDED)
		client_conn_ended(m, msg);
}

/* Takes in one message. 0, -EAGAIN, -ENOTCONN. */
static int receive(struct mroce *m)
{
	struct abi_msg msg;
	int fds[CTL_MAX_FDS];
	int err;

	if (m->gone)
		return -ENOTCONN;
	err = ctl_recv(m->sock, &msg, fds);
	if (err == -EAGAIN)
		return err;
	if (err) {
		client_daemon_gone(m);
		return -ENOTCONN;
	}
	handle_message(m, &msg, fds);
	return 0;
}

void client_events(struct mroce *m)
{
	if (m->rings)
		m->events_seen = ring_load(&m->rings->events);
	while (receive(m) == 0)
		;
}

/* Sends, and goes on receiving meanwhile: the daemon reads nothing from who does not read. */
static int send_msg(struct mroce *m, const struct abi_msg *msg, int send_fd, uint64_t deadline)
{
	for (;;) {
		int err;

		client_events(m);
		if (m->gone)
			return -ENOTCONN;
		err = ctl_send(m->sock, msg, &send_fd, send_fd >= 0);
		if (!err)
			return 0;
		if (err == -EPIPE) {
			client_daemon_gone(m);
			return -ENOTCONN;
		}
		if (err != -EAGAIN)
			return err;
		err = ctl_wait(m->sock, POLLIN | POLLOUT, client_ms_left(deadline));
		if (err == -ETIMEDOUT)
			return err;
	}
}

static int wait_answer(struct mroce *m, uint64_t deadline)
{
	while (!m->pending->done) {
		int err = receive(m);

		if (err == -ENOTCONN)
			return err;
		if (err == -EAGAIN &&
		    ctl_wait(m->sock, POLLIN, client_ms_left(deadline)) == -ETIMEDOUT)
			return -ETIMEDOUT;
	}
	return 0;
}

static int explain(struct mroce *m, int err)
{
	if (err == -ENOTCONN)
		return client_fail(m, err,
				   "the connection to mroced has broken: it stopped or died");
	if (err == -ETIMEDOUT)
		return client_fail(m, err, "mroced does not answer");
	return client_fail(m, err, "sending to mroced: %s", strerror(-err));
}

int client_call(struct mroce *m, struct abi_msg *msg, int send_fd, int *fds, uint64_t deadline)
{
	struct pending p = { .id = ++m->next_id };
	int err;

	msg->id = p.id;
	m->pending = &p;
	err = send_msg(m, msg, send_fd, deadline);
	if (!err)
		err = wait_answer(m, deadline);
	m->pending = NULL;
	if (err)
		return explain(m, err);
	*msg = p.msg;
	if (fds && msg->status == 0)
		memcpy(fds, p.fds, sizeof(p.fds));
	else
		ctl_close_fds(p.fds);
	if (msg->status == 0)
		return 0;
	msg->text[sizeof(msg->text) - 1] = '\0';
	return client_fail(m, msg->status, "%s", msg->text[0] ? msg->text : strerror(-msg->status));
}

void client_tell(struct mroce *m, struct abi_msg *msg)
{
	msg->id = 0;
	if (send_msg(m, msg, -1, client_deadline(CLIENT_ANSWER_MS)) == -ETIMEDOUT)
		client_daemon_gone(m);
}
