/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sender.h: the network half of `mroce send`: a sequence of records goes in, blocks of them go to the
 * receiver's ring. Reading ahead is limited by the ring: while the daemon moves posted blocks, the
 * caller fills the next ones.
 */
#ifndef CLI_SENDER_H
#define CLI_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include "channel.h"
#include "fileproto.h"
#include "mroce.h"
#include "progress.h"

struct sender {
	struct mroce *m;
	struct mroce_conn *conn;
	struct channel channel;
	const char *host;
	double patience; /* seconds without any progress until it is given up */
	double news;	 /* when there last was any */

	/* the receiver's ring, and ours of the same shape */
	uint32_t streams, slots, block, rkey;
	uint64_t raddr;
	struct mroce_mr *mr;
	bool in_flight[FP_SLOTS_MAX];
	uint64_t file_bytes_at[FP_SLOTS_MAX]; /* bytes of files up to the end of the slot's block */
	uint64_t posted, consumed;	      /* blocks */

	bool filling; /* writer points into the slot of block `posted` */
	struct fp_writer writer;
	uint64_t file_bytes; /* read so far */

	bool welcomed, ended;
	int refused;	   /* errno in the WELCOME */
	uint64_t reported; /* files the receiver named as failed */
	uint64_t result_files, result_bytes, result_failed;
	struct progress progress;
};

/* All return 0 or -errno; what went wrong was said, except -EINTR. */
int sender_open(struct sender *s, struct mroce *m, struct mroce_conn *conn, const char *host,
		const struct fp_msg *hello, double patience);
int sender_put(struct sender *s, const struct fp_rec *rec);
/* Room for file data: at least one byte at *at. Follow with sender_data(). */
int sender_room(struct sender *s, uint8_t **at, size_t *room);
void sender_data(struct sender *s, size_t len);
/* Sends what is left and waits for the receiver's result. */
int sender_finish(struct sender *s);
/* The connection must have been closed. */
void sender_free(struct sender *s);

#endif
