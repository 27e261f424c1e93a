// SPDX-License-Identifier: BSD-2-Clause
/*
 * Somebody else's traffic: one flow as TCP Reno would send it, to share a bottleneck with. It never runs out of data;
 * a packet lost or, if it has negotiated ECN, marked halves its window once per round trip. Its packets are not ours:
 * hosts take them off the wire before their tracker sees them, and count them as others' in the virtual queue.
 */
#include <stdlib.h>
#include <string.h>
#include "core/twin.h"
#include "sim.h"

#define CROSS_TYPE 0xff
#define CROSS_PORT 5001
#define WINDOW_MIN 2.0
#define RTO (200 * MS)

struct cross {
	struct sim *s;
	uint32_t from, to;
	bool ecn;
	double window; /* packets */
	bool steady;   /* slow start is over */
	uint32_t next, expected, in_flight, recover;
	uint64_t acked, acked_at;
};

/* What a packet says, behind the place of our version and type. */
struct cross_packet {
	uint8_t version, type;
	uint16_t pad;
	uint32_t seq;
};

static void push(struct cross *c)
{
	while (c->in_flight < (uint32_t)c->window) {
		struct frame *p = frame_new(c->s, c->s->cfg.mtu - 28);
		struct cross_packet head = { .type = CROSS_TYPE, .seq = c->next++ };

		p->src = net_address(c->s, c->from, 0);
		p->dst = net_address(c->s, c->to, 0);
		p->sport = CROSS_PORT;
		p->from_host = (uint8_t)c->from;
		p->len = c->s->cfg.mtu - 28;
		memcpy(p->data, &head, sizeof(head));
		c->in_flight++;
		net_inject(c->s, p);
	}
}

static void back_off(struct cross *c)
{
	if ((int32_t)(c->expected - c->recover) < 0)
		return;
	c->recover = c->next;
	c->steady = true;
	c->window = c->window / 2 > WINDOW_MIN ? c->window / 2 : WINDOW_MIN;
}

/* The ACK of a packet is back; b: its number, and above it whether it was marked. */
static void on_ack(struct sim *s, void *a, uint64_t b)
{
	struct cross *c = a;
	uint32_t seq = (uint32_t)b, lost = seq - c->expected;
	bool marked = b >> 32;

	if ((int32_t)lost < 0)
		return; /* given up as lost */
	c->expected = seq + 1;
	c->in_flight -= lost + 1;
	c->acked++;
	c->acked_at = s->now;
	if (lost || (marked && c->ecn))
		back_off(c);
	else
		c->window += c->steady ? 1 / c->window : 1;
	push(c);
}

static void on_timer(struct sim *s, void *a, uint64_t b)
{
	struct cross *c = a;

	(void)b;
	if (s->now - c->acked_at >= RTO) {
		c->expected = c->next;
		c->in_flight = 0;
		c->window = WINDOW_MIN;
		c->acked_at = s->now;
		push(c);
	}
	sim_after(s, RTO / 4, on_timer, c, 0);
}

/* At the receiving host. True: the packet was one of these. */
static bool take(struct sim *s, struct host *h, struct sim_port *sp, struct frame *p)
{
	struct cross *c = s->cross;
	struct cross_packet head;

	if (frame_type(p) != CROSS_TYPE || !c || h->index != c->to)
		return false;
	memcpy(&head, p->data, sizeof(head));
	twin_mark(&sp->port, p->len, s->now);
	sim_after(s, 2 * s->cfg.delay_ns, on_ack, c, (uint64_t)p->ce << 32 | head.seq);
	frame_free(s, p);
	return true;
}

struct cross *cross_start(struct sim *s, uint32_t from, uint32_t to, bool ecn)
{
	struct cross *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->s = s;
	c->from = from;
	c->to = to;
	c->ecn = ecn;
	c->window = 10;
	c->acked_at = s->now;
	s->cross = c;
	s->rx_tap = take;
	push(c);
	sim_after(s, RTO / 4, on_timer, c, 0);
	return c;
}

uint64_t cross_bytes(const struct cross *c)
{
	return c->acked * (c->s->cfg.mtu - 28);
}

/* Says no more; its last packets are still taken. */
void cross_stop(struct cross *c)
{
	c->window = 0;
}
