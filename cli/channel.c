// SPDX-License-Identifier: BSD-2-Clause
/* channel.c: small messages on stream 0. The first half of the buffers receives, the other sends. */
#include <errno.h>
#include <string.h>
#include "channel.h"
#include "link.h"

static uint32_t all_free(const struct channel *ch)
{
	return UINT32_MAX >> (32 - ch->buffers);
}

static int post_receive(struct channel *ch, unsigned int i)
{
	unsigned int tries = 0;
	int err;

	do {
		err = mroce_post_recv(ch->conn, CHANNEL_STREAM, ch->mr, (size_t)i * ch->size,
				      ch->size, CHANNEL_ID | i);
	} while (link_queue_full(err, &tries));
	return err;
}

int channel_open(struct channel *ch, struct mroce *m, struct mroce_conn *conn, uint32_t buffers,
		 uint32_t size)
{
	int err;

	memset(ch, 0, sizeof(*ch));
	err = mroce_alloc(m, 2 * (size_t)buffers * size, MROCE_ACCESS_LOCAL, &ch->mr);
	if (err)
		return err;
	ch->conn = conn;
	ch->buffers = buffers;
	ch->size = size;
	ch->tx_free = all_free(ch);
	for (unsigned int i = 0; i < buffers; i++) {
		err = post_receive(ch, i);
		if (!err)
			continue;
		channel_free(ch);
		return err;
	}
	return 0;
}

void channel_free(struct channel *ch)
{
	mroce_mr_free(&ch->mr);
	ch->conn = NULL;
}

int channel_send(struct channel *ch, const void *msg, size_t len)
{
	unsigned int i, tries = 0;
	size_t offset;
	int err;

	if (!ch->tx_free)
		return -EAGAIN;
	if (len > ch->size)
		return -EMSGSIZE;
	i = __builtin_ctz(ch->tx_free);
	offset = (size_t)(ch->buffers + i) * ch->size;
	memcpy((char *)mroce_mr_addr(ch->mr) + offset, msg, len);
	do {
		err = mroce_post_send(ch->conn, CHANNEL_STREAM, ch->mr, offset, len,
				      CHANNEL_ID | (ch->buffers + i));
	} while (link_queue_full(err, &tries));
	if (!err)
		ch->tx_free &= ~(1u << i);
	return err;
}

unsigned int channel_room(const struct channel *ch)
{
	return __builtin_popcount(ch->tx_free);
}

bool channel_idle(const struct channel *ch)
{
	return ch->tx_free == all_free(ch);
}

int channel_take(struct channel *ch, const struct mroce_completion *c, const void **msg, size_t *len)
{
	unsigned int i = c->id & ~CHANNEL_ID;

	*msg = NULL;
	if (i >= ch->buffers)
		ch->tx_free |= 1u << (i - ch->buffers);
	if (c->status != MROCE_OK) {
		ch->ended = c->status;
		return -ENOTCONN;
	}
	if (i >= ch->buffers)
		return 0;
	/* A peer that takes a receive with an immediate is none of ours. */
	if (c->opcode != MROCE_WR_RECV || c->length > ch->size)
		return -EPROTO;
	*msg = (const char *)mroce_mr_addr(ch->mr) + (size_t)i * ch->size;
	*len = c->length;
	return 0;
}

int channel_done(struct channel *ch, const struct mroce_completion *c)
{
	return post_receive(ch, c->id & ~CHANNEL_ID);
}

enum mroce_status channel_error(const struct channel *ch)
{
	enum mroce_status status = mroce_conn_error(ch->conn);

	return status != MROCE_OK ? status : ch->ended;
}
