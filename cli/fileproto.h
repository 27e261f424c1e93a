/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fileproto.h: what `mroce send` and `mroce recv` say to each other. Integers are big-endian.
 *
 * Stream 0 carries small control messages (SEND) both ways: HELLO from the sender, WELCOME from the
 * receiver with a ring of `slots` blocks of `block` bytes in its memory, CONSUMED as it works
 * through them, FAILED for a file it could not keep, RESULT at the end.
 *
 * The files themselves are one sequence of records, cut into blocks at record borders. Block n (from
 * 0) is written with immediate n (its low 32 bits) to slot n % slots, on stream 1 + n % streams. The
 * sender may write block n once CONSUMED says that n - slots + 1 blocks are done with. Blocks of
 * different streams may arrive in any order; the receiver takes them in theirs. So a thousand small
 * files fit into one block, and a large one runs through all the streams.
 *
 * Records: DIR before what is in it and DIR_DONE behind it; FILE, DATA..., END; LINK; FINISH last.
 *
 * The peer may be hostile and may change the slots while they are read: decoding reads every byte of
 * a header once and copies names before they are looked at.
 */
#ifndef CLI_FILEPROTO_H
#define CLI_FILEPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "safepath.h"

#define FP_MAGIC 0x6d726670u /* "mrfp" */
#define FP_VERSION 1
#define FP_CONTROL_STREAM 0
#define FP_MSG_MAX 8192 /* longest control message */

#define FP_STREAMS_MAX 64
#define FP_SLOTS_MAX 256
#define FP_BLOCK_MIN (64 * 1024)
#define FP_BLOCK_MAX (16 * 1024 * 1024)

enum fp_digest_kind {
	FP_CRC64 = 1, /* ECMA-182: not the polynomial that protects the packets */
	FP_SHA256 = 2,
};
#define FP_DIGEST_MAX 32

enum fp_msg_type {
	FP_HELLO = 1,
	FP_WELCOME,
	FP_CONSUMED,
	FP_FAILED,
	FP_RESULT,
};

struct fp_msg {
	enum fp_msg_type type;
	union {
		struct {
			uint32_t streams;      /* wanted; the receiver decides */
			uint32_t digest;       /* enum fp_digest_kind */
			uint64_t files, bytes; /* as counted beforehand: for people only */
		} hello;
		struct {
			int32_t error; /* 0, or errno why the receiver does not want it */
			uint32_t streams, slots, block;
			uint64_t addr;
			uint32_t rkey;
		} welcome;
		struct {
			uint64_t blocks; /* so many have been worked through */
		} consumed;
		struct {
			int32_t error;
			char path[SAFEPATH_MAX + 1];
			char text[256];
		} failed;
		struct {
			uint64_t files, bytes, failed;
		} result;
	};
};

/* Returns the length, 0 if `size` is too small. FP_MSG_MAX is always enough. */
size_t fp_msg_pack(const struct fp_msg *msg, void *buf, size_t size);
/* 0; -EPROTO: not a message; -EPROTONOSUPPORT: of another version. *msg is garbage on failure. */
int fp_msg_unpack(struct fp_msg *msg, const void *buf, size_t len);

enum fp_rec_type {
	FP_DIR = 1,
	FP_DIR_DONE,
	FP_FILE,
	FP_DATA,
	FP_END,
	FP_LINK,
	FP_FINISH,
};

struct fp_rec {
	enum fp_rec_type type;
	uint32_t mode;	     /* FILE, DIR_DONE: permission bits */
	int64_t mtime;	     /* FILE, DIR_DONE */
	uint32_t mtime_ns;   /* < 10^9 */
	uint64_t size;	     /* FILE: expected; END: bytes sent; FINISH: bytes of all files */
	uint64_t files;	     /* FINISH */
	int32_t error;	     /* END: 0, or errno that kept the sender from reading it all */
	uint32_t data_len;   /* DATA */
	const uint8_t *data; /* DATA: in the block */
	uint8_t digest[FP_DIGEST_MAX]; /* END; a CRC64 takes the first 8 bytes */
	char path[SAFEPATH_MAX + 1];   /* DIR, DIR_DONE, FILE, LINK; any bytes but 0 */
	char target[SAFEPATH_MAX + 1]; /* LINK */
};

#define FP_DATA_HEAD 5 /* bytes of a DATA record before its data */
/* The longest record that is not DATA. */
#define FP_REC_MAX (2 * (SAFEPATH_MAX + 2) + 32)

struct fp_writer {
	uint8_t *buf;
	size_t size, used;
};

/* Appends a record other than DATA. False: no room, nothing was written. */
bool fp_put(struct fp_writer *w, const struct fp_rec *rec);
/* Room for the data of a DATA record, 0: none. The caller fills fp_data_at() and then calls
 * fp_data_put() with how much it was. */
size_t fp_data_room(const struct fp_writer *w);
uint8_t *fp_data_at(const struct fp_writer *w);
void fp_data_put(struct fp_writer *w, size_t len);

struct fp_reader {
	const uint8_t *at, *end;
};

/* 1: *rec is the next record; 0: the block is at its end; -EPROTO: it is not made of records. */
int fp_next(struct fp_reader *r, struct fp_rec *rec);

#endif
