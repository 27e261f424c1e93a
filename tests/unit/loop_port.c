/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "core/twin.h"
#include "loop_port.h"

#define MTU 3498
#define PAYLOAD_MAX (MTU - 48)
#define FRAMES 1024 /* power of two */
#define RX_BATCH 32

struct frame {
	uint32_t len;
	uint16_t sport;
	uint8_t bytes[PAYLOAD_MAX] __attribute__((aligned(64)));
};

struct loop_port {
	struct port port;
	struct engine *engine;
	struct frame *frames;
	uint32_t head, tail;
	uint32_t lose_ppm;
	uint64_t random;
};

static struct loop_port *loop_of(struct port *port)
{
	return port->priv;
}

static struct frame *next_frame(struct loop_port *l)
{
	return l->tail - l->head < FRAMES ? &l->frames[l->tail % FRAMES] : NULL;
}

static bool unlucky(struct loop_port *l)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return l->random % 1000000 < l->lose_ppm;
}

static void *loop_tx_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct frame *f = next_frame(loop_of(port));

	if (!f || len > PAYLOAD_MAX)
		return NULL;
	f->sport = flow->sport;
	return f->bytes;
}

static void loop_tx_end(struct port *port, uint32_t len)
{
	struct loop_port *l = loop_of(port);

	next_frame(l)->len = len;
	if (!unlucky(l))
		l->tail++;
}

static int loop_ctl_send(struct port *port, const struct ip *remote, const void *payload,
			 uint32_t len)
{
	struct loop_port *l = loop_of(port);
	struct frame *f = next_frame(l);

	(void)remote;
	if (!f)
		return -1;
	memcpy(f->bytes, payload, len);
	f->len = len;
	f->sport = MROCE_UDP_PORT;
	if (!unlucky(l))
		l->tail++;
	return 0;
}

static bool loop_full(struct port *port)
{
	return !next_frame(loop_of(port));
}

static bool loop_reachable(struct port *port, const struct ip *remote)
{
	return ip_equal(&port->addr, remote);
}

static const struct port_ops loop_ops = {
	.tx_begin = loop_tx_begin,
	.tx_end = loop_tx_end,
	.ctl_send = loop_ctl_send,
	.full = loop_full,
	.reachable = loop_reachable,
};

/* By pages, which are zero and cost nothing until they are used. */
static void *zeroed(size_t n, size_t size)
{
	void *p = mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

struct loop_port *loop_port_new(struct engine *e)
{
	static const uint8_t address[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	struct loop_port *l = zeroed(1, sizeof(*l));

	l->engine = e;
	l->random = 88172645463325252ull;
	l->frames = zeroed(FRAMES, sizeof(*l->frames));
	l->port = (struct port){ .ops = &loop_ops,
				 .priv = l,
				 .name = "loop",
				 .up = true,
				 .mtu = MTU,
				 .payload_max = PAYLOAD_MAX };
	memcpy(l->port.addr.a, address, sizeof(address));
	l->port.paths = zeroed(MROCE_MAX_CONNS * MROCE_MAX_PATHS, sizeof(*l->port.paths));
	l->port.conns = zeroed(MROCE_MAX_CONNS, sizeof(*l->port.conns));
	if (engine_port_add(e, &l->port))
		abort();
	return l;
}

void loop_port_free(struct loop_port **lp)
{
	struct loop_port *l = *lp;

	*lp = NULL;
	munmap(l->port.paths, MROCE_MAX_CONNS * MROCE_MAX_PATHS * sizeof(*l->port.paths));
	munmap(l->port.conns, MROCE_MAX_CONNS * sizeof(*l->port.conns));
	munmap(l->frames, FRAMES * sizeof(*l->frames));
	munmap(l, sizeof(*l));
}

void loop_port_lose(struct loop_port *l, uint32_t ppm)
{
	l->lose_ppm = ppm;
}

/* The answer of the tracker goes where it came from, which is here. */
static void send_reply(struct loop_port *l, const struct frame *to, const void *reply, uint32_t len)
{
	struct frame *f = next_frame(l);

	if (!f || unlucky(l))
		return;
	memcpy(f->bytes, reply, len);
	f->len = len;
	f->sport = to->sport;
	l->tail++;
}

static void receive(struct loop_port *l, const struct frame *f, uint64_t now)
{
	struct rx_info info = { .remote = l->port.addr, .sport = f->sport };
	uint8_t reply[TWIN_REPLY_MAX];
	uint32_t reply_len = 0;
	int verdict = twin_rx(&l->port, f->bytes, f->len, false, 0, reply, &reply_len);

	if (reply_len)
		send_reply(l, f, reply, reply_len);
	if (verdict != TWIN_DELIVER && verdict != TWIN_SETUP)
		return;
	info.tracked = verdict == TWIN_DELIVER;
	engine_rx(l->engine, &l->port, f->bytes, f->len, &info, now);
}

uint32_t loop_port_rx(struct loop_port *l, uint64_t now, uint32_t budget)
{
	/* The answers made meanwhile wait for the next call. */
	uint32_t end = l->tail;
	uint32_t batch = l->head;
	uint32_t n;

	/* Frames stay valid until the flush: the head is moved after it. */
	for (n = 0; n < budget && batch + n != end; n++) {
		receive(l, &l->frames[(batch + n) % FRAMES], now);
		if ((n + 1) % RX_BATCH == 0) {
			engine_rx_flush(l->engine, now);
			l->head = batch + n + 1;
		}
	}
	engine_rx_flush(l->engine, now);
	l->head = batch + n;
	if (l->head == l->tail)
		l->port.drained++;
	return n;
}

const struct mroce_conn_entry *loop_port_conn(const struct loop_port *l, uint32_t cid)
{
	return &l->port.conns[cid & (MROCE_MAX_CONNS - 1)];
}

void loop_port_inject(struct loop_port *l, const void *payload, uint32_t len, bool straight,
		      uint64_t now)
{
	static struct frame f;
	struct rx_info info = { .remote = l->port.addr, .sport = 50000, .tracked = false };

	f.len = len;
	f.sport = info.sport;
	memcpy(f.bytes, payload, len);
	if (straight)
		engine_rx(l->engine, &l->port, f.bytes, len, &info, now);
	else
		receive(l, &f, now);
	engine_rx_flush(l->engine, now);
}
