/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfproto.h: what `mroce perf` and `mroce ping` say to their server. One connection carries one
 * measurement: REQUEST, READY, the traffic, STOP, REPORT. Control on stream 0, traffic on streams 1 ..
 * streams; request i of a connection goes to stream 1 + i % streams.
 *
 * Each stream has slots / streams slots of `size` bytes in the region of either side; the j-th request
 * of a stream uses its slot j % (slots / streams). With PERF_CHECK there are no more requests in flight
 * than slots, writes are announced by their immediate, and every message carries pattern_seed(stream, j).
 */
#ifndef CLI_PERFPROTO_H
#define CLI_PERFPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_MAGIC 0x6d727066u /* "mrpf" */
#define PERF_VERSION 1
#define PERF_MSG_LEN 88
#define PERF_MSG_MAX 256 /* size of the buffers */
#define PERF_CHANNEL_BUFFERS 2

#define PERF_SIZE_MAX (1ull << 30)
#define PERF_REGION_MAX (1ull << 30)
#define PERF_STREAMS_MAX 256
#define PERF_DEPTH_MAX 4096

enum perf_type {
	PERF_REQUEST = 1,
	PERF_READY,
	PERF_STOP,
	PERF_REPORT,
};

enum perf_op {
	PERF_WRITE = 1,
	PERF_SEND,
	PERF_READ,
	PERF_ECHO_SEND,	 /* ping-pong of sends */
	PERF_ECHO_WRITE, /* ping-pong of writes with immediate */
	PERF_BOTH,	 /* writes and reads in turn: traffic both ways */
};

#define PERF_CHECK 1u
#define PERF_MORE 2u /* the client will connect again: a server with --once waits for it */

struct perf_msg {
	enum perf_type type;
	enum perf_op op;
	uint32_t flags;
	int32_t error; /* READY: 0 or errno */
	uint32_t streams, depth, slots;
	uint32_t rkey; /* of the region of whoever speaks */
	uint64_t size;
	uint64_t addr;
	uint64_t messages, bytes,
		errors; /* REPORT: as the server saw them; errors: wrong contents */
};

void perf_pack(const struct perf_msg *msg, uint8_t buf[PERF_MSG_LEN]);
/* 0, -EPROTO, -EPROTONOSUPPORT (other version). A REQUEST is within all limits above. */
int perf_unpack(struct perf_msg *msg, const void *buf, size_t len);
/* Bytes of the region that a request needs on either side. */
uint64_t perf_region(const struct perf_msg *request);

uint64_t pattern_seed(uint32_t stream, uint64_t number);
void pattern_fill(void *buf, size_t len, uint64_t seed);
bool pattern_holds(const void *buf, size_t len, uint64_t seed);

#endif
