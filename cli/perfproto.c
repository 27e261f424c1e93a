// SPDX-License-Identifier: BSD-2-Clause
/* perfproto.c: encoding, decoding and test patterns. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "perfproto.h"

/* On the wire, big-endian. */
struct perf_wire {
	uint32_t magic;
	uint16_t version, type;
	uint32_t op, flags, error;
	uint32_t streams, depth, slots, rkey;
	uint32_t reserved;
	uint64_t size, addr, messages, bytes, errors;
	uint64_t reserved2;
} __attribute__((packed));

_Static_assert(sizeof(struct perf_wire) == PERF_MSG_LEN, "perf wire format");

void perf_pack(const struct perf_msg *msg, uint8_t buf[PERF_MSG_LEN])
{
	struct perf_wire w = {
		.magic = htobe32(PERF_MAGIC),
		.version = htobe16(PERF_VERSION),
		.type = htobe16(msg->type),
		.op = htobe32(msg->op),
		.flags = htobe32(msg->flags),
		.error = htobe32((uint32_t)msg->error),
		.streams = htobe32(msg->streams),
		.depth = htobe32(msg->depth),
		.slots = htobe32(msg->slots),
		.rkey = htobe32(msg->rkey),
		.size = htobe64(msg->size),
		.addr = htobe64(msg->addr),
		.messages = htobe64(msg->messages),
		.bytes = htobe64(msg->bytes),
		.errors = htobe64(msg->errors),
	};

	memcpy(buf, &w, sizeof(w));
}

uint64_t perf_region(const struct perf_msg *request)
{
	uint64_t size = request->size ? request->size : 1;

	return request->slots * size;
}

static bool request_is_sane(const struct perf_msg *m)
{
	if (m->op < PERF_WRITE || m->op > PERF_BOTH || m->flags & ~(PERF_CHECK | PERF_MORE))
		return false;
	if (!m->streams || m->streams > PERF_STREAMS_MAX || !m->depth || m->depth > PERF_DEPTH_MAX)
		return false;
	if (!m->slots || m->slots > PERF_DEPTH_MAX + PERF_STREAMS_MAX || m->slots % m->streams)
		return false;
	return m->size <= PERF_SIZE_MAX && perf_region(m) <= PERF_REGION_MAX;
}

int perf_unpack(struct perf_msg *msg, const void *buf, size_t len)
{
	struct perf_wire w;

	if (len != sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (be32toh(w.magic) != PERF_MAGIC)
		return -EPROTO;
	if (be16toh(w.version) != PERF_VERSION)
		return -EPROTONOSUPPORT;
	*msg = (struct perf_msg){
		.type = be16toh(w.type),
		.op = be32toh(w.op),
		.flags = be32toh(w.flags),
		.error = (int32_t)be32toh(w.error),
		.streams = be32toh(w.streams),
		.depth = be32toh(w.depth),
		.slots = be32toh(w.slots),
		.rkey = be32toh(w.rkey),
		.size = be64toh(w.size),
		.addr = be64toh(w.addr),
		.messages = be64toh(w.messages),
		.bytes = be64toh(w.bytes),
		.errors = be64toh(w.errors),
	};
	if (msg->type < PERF_REQUEST || msg->type > PERF_REPORT)
		return -EPROTO;
	return msg->type != PERF_REQUEST || request_is_sane(msg) ? 0 : -EPROTO;
}

/* ---- patterns: every word tells whose it is and where it belongs ---- */

uint64_t pattern_seed(uint32_t stream, uint64_t number)
{
	return ((uint64_t)stream << 48) ^ number ^ 0x5bd1e995c6a4a793ull;
}

static uint64_t pattern_word(uint64_t seed, uint64_t i)
{
	uint64_t x = (seed + i) * 0x9e3779b97f4a7c15ull;

	return x ^ (x >> 29);
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *at = buf;
	uint64_t i;

	for (i = 0; len >= 8; i++, at += 8, len -= 8) {
		uint64_t word = pattern_word(seed, i);

		memcpy(at, &word, 8);
	}
	if (len) {
		uint64_t word = pattern_word(seed, i);

		memcpy(at, &word, len);
	}
}

bool pattern_holds(const void *buf, size_t len, uint64_t seed)
{
	const uint8_t *at = buf;
	uint64_t word;
	uint64_t i;

	for (i = 0; len >= 8; i++, at += 8, len -= 8) {
		word = pattern_word(seed, i);
		if (memcmp(at, &word, 8))
			return false;
	}
	word = pattern_word(seed, i);
	return !len || !memcmp(at, &word, len);
}
