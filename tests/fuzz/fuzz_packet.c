/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packet parser and all behind it: an engine that is connected to itself, with requests under way, gets packets
 * made from the input. Connection, token and CRCs are put right on demand, or nothing would be reached.
 */
#include <stdlib.h>
#include <string.h>
#include "../unit/loop_port.h"
#include "core/internal.h"
#include "core/packet.h"
#include "core/port.h"
#include "core/twin.h"

#define SERVICE 1
#define MEMORY 65536
#define PACKET_MAX 3400
#define PACKETS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The loop's port is the engine's first; it tells itself by its first call. */
static struct engine *e;
static struct loop_port *loop;
static struct conn *conns[2];
static uint64_t now;
static uint8_t memory[MEMORY];
static uint32_t key;
static uint32_t accepted;

static void on_complete(void *ctx, struct conn *conn, const struct engine_completion *c)
{
	(void)ctx;
	(void)conn;
	(void)c;
}

static void on_event(void *ctx, struct conn *conn, enum conn_event ev, int code)
{
	(void)ctx;
	(void)code;
	if (ev == CONN_EVENT_ACCEPTED && accepted++ == 0)
		conns[1] = conn;
}

static void on_log(void *ctx, int level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

static const struct engine_ops ops = { .complete = on_complete, .event = on_event, .log = on_log };

static void run(int turns)
{
	for (int i = 0; i < turns; i++) {
		now += 100000;
		loop_port_rx(loop, now, 64);
		engine_run(e, now, 64);
	}
}

static const struct mroce_tolerance tolerance = {
	.max_missing = 100000,
	.deadline_us = 3000,
	.over = MROCE_OVER_FAIL,
	.ncritical = 1,
	.critical = { { 0, 64 } },
};

static void post_as(struct conn *c, uint8_t opcode, uint32_t stream,
		    const struct mroce_tolerance *tol)
{
	struct work_request wr = { .opcode = opcode,
				   .stream = stream,
				   .key = key,
				   .addr = (uintptr_t)memory,
				   .len = 20000,
				   .raddr = (uintptr_t)memory + 30000,
				   .rkey = key,
				   .tolerance = tol };

	engine_post(c, &wr, now);
}

static void post(struct conn *c, uint8_t opcode, uint32_t stream)
{
	post_as(c, opcode, stream, NULL);
}

static void start(bool authenticated)
{
	static const struct ip self = { { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	struct region_params p = { .owner = &e,
				   .iova = (uintptr_t)memory,
				   .len = MEMORY,
				   .access = MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ,
				   .base = memory };
	struct engine_config cfg;

	engine_config_default(&cfg);
	cfg.max_conns = 16;
	cfg.letters = cfg.messages = 1024;
	cfg.seed = 1;
	cfg.cookies_above = 2;
	cfg.authenticated = authenticated;
	now = 1000000000;
	accepted = 0;
	e = engine_new(&cfg, &ops, NULL);
	loop = loop_port_new(e);
	if (engine_region_add(e, &p, &key) || engine_listen(e, SERVICE, &e, 4) ||
	    engine_connect(e, &self, SERVICE, &e, NULL, now, &conns[0]))
		abort();
	run(20);
	if (!conns[1])
		abort();
	for (uint32_t i = 0; i < 4; i++)
		post(conns[1], MROCE_WR_RECV, 0);
	run(4);
	post(conns[0], MROCE_WR_SEND, 0);
	post(conns[0], MROCE_WR_WRITE, 1);
	post(conns[0], MROCE_WR_READ, 2);
	post_as(conns[0], MROCE_WR_WRITE, 3, &tolerance);
	post_as(conns[1], MROCE_WR_WRITE, 3, &tolerance);
	post_as(conns[0], MROCE_WR_SEND, 0, &tolerance);
	engine_run(e, now, 4);
}

static void stop(void)
{
	engine_free(&e);
	loop_port_free(&loop);
	conns[0] = conns[1] = NULL;
}

/* Cookie and signature, which nobody would find by chance. */
static void mend_setup(uint8_t type, uint8_t *body, uint32_t len, uint8_t how)
{
	struct ip self = { { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	struct mroce_hello h;

	if (len < MROCE_HELLO_SHORT || len > sizeof(h))
		return;
	memcpy(&h, body, len);
	memcpy(h.to, self.a, sizeof(h.to));
	if (how & 32)
		auth_cookie(e, &self, &h, h.cookie);
	if (how & 64)
		auth_sign(e, type, &h, len);
	memcpy(body, &h, len);
}

/* Puts right what a receiver checks first, as `how` asks. */
static void mend(uint8_t *bytes, uint32_t len, uint8_t how)
{
	struct mroce_hdr h;
	struct packet p;
	const struct mroce_conn_entry *entry;

	if (len < MROCE_HDR_LEN || !(how & 1))
		return;
	memcpy(&h, bytes, sizeof(h));
	entry = loop_port_conn(loop, engine_conn_id(conns[(how >> 1) & 1]));
	p = (struct packet){ .type = how & 4 ? (uint8_t)(h.type % MROCE_TYPE_MAX) : h.type,
			     .flags = h.flags,
			     .path = how & 8 ? h.path % 8 : h.path,
			     .epoch = how & 16 ? 0 : h.epoch,
			     .body_len = (uint16_t)(len - MROCE_HDR_LEN),
			     .cid = entry->cid,
			     .token = entry->token,
			     .psn = how & 32 ? h.psn % 64 : h.psn,
			     .una = how & 64 ? 0 : h.una,
			     .ts = h.ts,
			     .body = bytes + MROCE_HDR_LEN };
	if (p.type >= MROCE_HELLO && p.type <= MROCE_READY) {
		p.cid = p.token = 0;
		mend_setup(p.type, bytes + MROCE_HDR_LEN, p.body_len, how);
	}
	packet_seal(bytes, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[PACKET_MAX] __attribute__((aligned(64)));

	start(size && data[0] & 1 && data[size - 1] & 1);
	for (int i = 0; size >= 3 && i < PACKETS_MAX; i++) {
		uint8_t how = data[0];
		uint32_t len = data[1] | (uint32_t)(data[2] & 7) << 8;

		data += 3;
		size -= 3;
		if (len > size)
			len = (uint32_t)size;
		memcpy(bytes, data, len);
		data += len;
		size -= len;
		mend(bytes, len, how);
		now += 1000;
		loop_port_inject(loop, bytes, len, how & 128, now);
		if (i % 4 == 3)
			run(1);
	}
	/* Past every timer that the packets may have started. */
	run(8);
	stop();
	return 0;
}
