// SPDX-License-Identifier: BSD-2-Clause
/* sender.c: blocks of records into the receiver's ring. */
#include <errno.h>
#include <string.h>
#include "cmd.h"
#include "link.h"
#include "sender.h"

#define COMPLETIONS 64
#define CHANNEL_BUFFERS 16
#define SLICE_MS 250 /* longest sleep, so that a signal is never missed for long */
/* Below this a new block is begun rather than data cut into crumbs. */
#define ROOM_MIN 4096
#define REPORTS_MAX 20

/* ---- what comes back ---- */

static void report_failed(struct sender *s, const struct fp_msg *msg)
{
	s->reported++;
	if (s->reported <= REPORTS_MAX)
		warn_user("%s: receiver could not keep it: %s", msg->failed.path, msg->failed.text);
	else if (s->reported == REPORTS_MAX + 1)
		warn_user("more files could not be kept; the summary counts them");
}

static int take_welcome(struct sender *s, const struct fp_msg *msg)
{
	if (s->welcomed)
		return -EPROTO;
	s->welcomed = true;
	s->refused = msg->welcome.error;
	s->streams = msg->welcome.streams;
	s->slots = msg->welcome.slots;
	s->block = msg->welcome.block;
	s->raddr = msg->welcome.addr;
	s->rkey = msg->welcome.rkey;
	return 0;
}

static int take_consumed(struct sender *s, const struct fp_msg *msg)
{
	if (msg->consumed.blocks <= s->consumed || msg->consumed.blocks > s->posted)
		return -EPROTO;
	s->consumed = msg->consumed.blocks;
	progress_update(&s->progress, s->file_bytes_at[(s->consumed - 1) % s->slots]);
	return 0;
}

static int take_message(struct sender *s, const void *buf, size_t len)
{
	/* Large, and only one thread sends. */
	static struct fp_msg msg;
	int err = fp_msg_unpack(&msg, buf, len);

	if (err)
		return err;
	switch (msg.type) {
	case FP_WELCOME: return take_welcome(s, &msg);
	case FP_CONSUMED: return take_consumed(s, &msg);
	case FP_FAILED: report_failed(s, &msg); return 0;
	case FP_RESULT:
		s->ended = true;
		s->result_files = msg.result.files;
		s->result_bytes = msg.result.bytes;
		s->result_failed = msg.result.failed;
		return 0;
	case FP_HELLO: break;
	}
	return -EPROTO;
}

static int take_channel(struct sender *s, const struct mroce_completion *c)
{
	const void *msg;
	size_t len;
	int err = channel_take(&s->channel, c, &msg, &len);

	if (err || !msg)
		return err;
	err = take_message(s, msg, len);
	return err ? err : channel_done(&s->channel, c);
}

static int take_completion(struct sender *s, const struct mroce_completion *c)
{
	if (channel_owns(c))
		return take_channel(s, c);
	if (c->status != MROCE_OK) {
		s->channel.ended = c->status;
		return -ENOTCONN;
	}
	s->in_flight[c->id] = false;
	return 0;
}

static int explain(struct sender *s, int err)
{
	enum mroce_status status = channel_error(&s->channel);

	if (err == -EPROTO || err == -EPROTONOSUPPORT)
		fail("%s: its 'mroce recv' %s", s->host,
		     err == -EPROTO ? "sent something that is not the file protocol"
				    : "is of another version; upgrade the older one");
	else if (status != MROCE_OK)
		fail("%s: the transfer broke off after %llu bytes: %s", s->host,
		     (unsigned long long)s->file_bytes, link_status(status));
	else
		fail("%s: the transfer broke off: %s", s->host,
		     err == -ENOTCONN ? link_status(MROCE_E_DAEMON) : strerror(-err));
	return err;
}

/* Takes what has come; waits up to timeout_ms for it. 0, also if nothing came. */
static int pump(struct sender *s, int timeout_ms)
{
	struct mroce_completion done[COMPLETIONS];
	int n = timeout_ms ? mroce_wait(s->m, done, COMPLETIONS, timeout_ms)
			   : mroce_poll(s->m, done, COMPLETIONS);

	if (cli_stop)
		return -EINTR;
	if (n == -ETIMEDOUT || n == -EINTR)
		n = 0;
	if (n < 0)
		return explain(s, n);
	for (int i = 0; i < n; i++) {
		int err = take_completion(s, &done[i]);

		if (err)
			return explain(s, err);
	}
	if (n)
		s->news = clock_seconds();
	/* The result is the last that is awaited: the end of the connection may follow at once. */
	if (!s->ended && mroce_conn_error(s->conn) != MROCE_OK)
		return explain(s, -ENOTCONN);
	return 0;
}

/* One round of waiting for the receiver to do `what`. */
static int wait_for(struct sender *s, const char *what)
{
	double silent;
	int err = pump(s, SLICE_MS);

	if (err)
		return err;
	silent = clock_seconds() - s->news;
	if (silent < s->patience)
		return 0;
	fail("%s: given up after %.0f s without progress, waiting for the receiver to %s. Is it "
	     "stopped, or its disk stuck? --timeout sets the limit",
	     s->host, silent, what);
	return -ETIMEDOUT;
}

/* ---- blocks ---- */

static int new_block(struct sender *s)
{
	uint32_t slot = s->posted % s->slots;
	int err = pump(s, 0);

	while (!err && (s->in_flight[slot] || s->posted - s->consumed >= s->slots))
		err = wait_for(s, "work through what it got");
	if (err)
		return err;
	s->writer = (struct fp_writer){ (uint8_t *)mroce_mr_addr(s->mr) + (size_t)slot * s->block,
					s->block, 0 };
	s->filling = true;
	return 0;
}

static int post_block(struct sender *s)
{
	uint32_t slot = s->posted % s->slots;
	uint64_t offset = (uint64_t)slot * s->block;
	int err;

	for (;;) {
		err = mroce_post_write_imm(s->conn, 1 + s->posted % s->streams, s->mr, offset,
					   s->writer.used, s->raddr + offset, s->rkey,
					   (uint32_t)s->posted, slot);
		if (err != -EAGAIN)
			break;
		err = wait_for(s, "take data");
		if (err)
			return err;
	}
	if (err)
		return explain(s, err);
	s->in_flight[slot] = true;
	s->file_bytes_at[slot] = s->file_bytes;
	s->posted++;
	s->filling = false;
	return 0;
}

int sender_put(struct sender *s, const struct fp_rec *rec)
{
	int err = s->filling ? 0 : new_block(s);

	if (err || fp_put(&s->writer, rec))
		return err;
	/* A block is larger than any record, so that an empty one always has room. */
	err = post_block(s);
	if (!err)
		err = new_block(s);
	if (!err && !fp_put(&s->writer, rec))
		err = -EMSGSIZE;
	return err;
}

int sender_room(struct sender *s, uint8_t **at, size_t *room)
{
	int err = 0;

	if (s->filling && fp_data_room(&s->writer) < ROOM_MIN)
		err = post_block(s);
	if (!err && !s->filling)
		err = new_block(s);
	if (err)
		return err;
	*at = fp_data_at(&s->writer);
	*room = fp_data_room(&s->writer);
	return 0;
}

void sender_data(struct sender *s, size_t len)
{
	fp_data_put(&s->writer, len);
	s->file_bytes += len;
}

int sender_finish(struct sender *s)
{
	int err = s->filling && s->writer.used ? post_block(s) : 0;

	while (!err && !s->ended)
		err = wait_for(s, "finish");
	return err;
}

/* ---- beginning and end ---- */

static int say_hello(struct sender *s, const struct fp_msg *hello)
{
	uint8_t buf[FP_MSG_MAX];
	int err = channel_send(&s->channel, buf, fp_msg_pack(hello, buf, sizeof(buf)));

	if (err)
		return explain(s, err);
	while (!err && !s->welcomed)
		err = wait_for(s, "answer");
	if (err)
		return err;
	if (!s->refused)
		return 0;
	fail("%s: the receiver does not take this transfer now: %s", s->host,
	     s->refused == EBUSY ? "it is serving as many senders as it can; try again later"
				 : strerror(s->refused));
	return -s->refused;
}

int sender_open(struct sender *s, struct mroce *m, struct mroce_conn *conn, const char *host,
		const struct fp_msg *hello, double patience)
{
	int err;

	memset(s, 0, sizeof(*s));
	s->m = m;
	s->conn = conn;
	s->host = host;
	s->patience = patience;
	s->news = clock_seconds();
	err = channel_open(&s->channel, m, conn, CHANNEL_BUFFERS, FP_MSG_MAX);
	if (err) {
		fail("%s: cannot set up the transfer: %s", host, strerror(-err));
		return err;
	}
	err = say_hello(s, hello);
	if (err)
		return err;
	err = mroce_alloc(m, (size_t)s->slots * s->block, MROCE_ACCESS_LOCAL, &s->mr);
	if (err)
		fail("cannot allocate %u blocks of %u bytes: %s (%s)", s->slots, s->block,
		     strerror(-err), mroce_last_error(m));
	return err;
}

void sender_free(struct sender *s)
{
	channel_free(&s->channel);
	mroce_mr_free(&s->mr);
}
