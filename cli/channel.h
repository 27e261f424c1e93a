/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * channel.h: small messages between two `mroce` commands on stream 0 of a connection, beside the
 * bulk of it. Nothing waits: the owner polls the context and hands every completion here first.
 */
#ifndef CLI_CHANNEL_H
#define CLI_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mroce.h"

#define CHANNEL_STREAM 0
#define CHANNEL_BUFFERS_MAX 32 /* each direction */

/* Ids from here on are the channel's. */
#define CHANNEL_ID 0x8000000000000000ull

struct channel {
	struct mroce_conn *conn;
	struct mroce_mr *mr;
	uint32_t buffers, size;	 /* so many each direction, of so many bytes */
	uint32_t tx_free;	 /* a bit a buffer */
	enum mroce_status ended; /* why, once a completion told that it has */
};

/* Posts the receives. buffers: 1 .. 32. On failure (-errno) nothing is left. */
int channel_open(struct channel *ch, struct mroce *m, struct mroce_conn *conn, uint32_t buffers,
		 uint32_t size);
/* After the connection was closed. */
void channel_free(struct channel *ch);
/* Copies the message. -EAGAIN: no buffer is free. */
int channel_send(struct channel *ch, const void *msg, size_t len);
unsigned int channel_room(const struct channel *ch);
bool channel_idle(const struct channel *ch); /* all that was sent has arrived */

static inline bool channel_owns(const struct mroce_completion *c)
{
	return c->id & CHANNEL_ID;
}

/*
 * Takes a completion that channel_owns(). *msg is NULL if it was no message, otherwise valid until
 * channel_done(), which posts the buffer again. -errno if the connection has ended.
 */
int channel_take(struct channel *ch, const struct mroce_completion *c, const void **msg,
		 size_t *len);
int channel_done(struct channel *ch, const struct mroce_completion *c);
/* Why the connection ended, MROCE_OK if it has not. Completions may tell before the connection does. */
enum mroce_status channel_error(const struct channel *ch);

#endif
