// SPDX-License-Identifier: BSD-2-Clause
/*
 * When a connection may send: its window is the sum of its paths' windows, its rate the smaller of the
 * receiver's hint and, once the window is so small that ACKs cannot clock it, of window per round trip.
 *
 * No timer per packet: pace_at is when the link that the rate describes would be free again. Packets may
 * leave while it is not in the future; it may lag behind by about as much as we have been woken late, so that
 * a late wake-up costs nothing, and no more, since all senders of an incast have bursts.
 */
#include <arpa/inet.h>
#include "core/internal.h"
#include "mroce/rate.h"

#define BURST_MIN (100 * USEC)
#define BURST_MAX (1 * MSEC)
#define SLACK (20 * USEC)
/* A rate below this would hold up even what ends the connection. */
#define RATE_MIN_KBPS 1000
#define HINT_ROUNDS 4
/* A path has a packet less often than this; the connection asks by POLL so often, for the RTT and CE. */
#define SPARSE (50 * USEC)
#define POLL_TIME (2 * MSEC)
#define POLL_PACKETS 8
#define HINT_LIFE_MIN (5 * MSEC)
#define HINT_PACKETS 2
/* Windows of so many packets per path are clocked by their ACKs. */
#define CLOCKED (2 * CC_UNIT)
/* Above window per round trip, so that the window remains what limits. */
#define WINDOW_GAIN 2

/* What a link without a known speed is taken for. */
#define SPEED_UNKNOWN_MBPS 10000
/* A port is busy that carries such a part of its speed. */
#define BUSY_SHARE 4
/* Nobody waits that long for a turn. */
#define TURN_MAX (10 * SEC)

static uint64_t wire_bits(uint32_t len)
{
	return (len + MROCE_WIRE_OVERHEAD) * 8ull;
}

static uint64_t wire_time(uint32_t len, uint64_t kbps)
{
	return wire_bits(len) * 1000000 / kbps;
}

static uint32_t packet_len(const struct conn *c)
{
	return c->chunk + MROCE_HDR_LEN + (uint32_t)sizeof(struct mroce_data);
}

static uint64_t window_rate(const struct conn *c, uint64_t window, uint32_t usable, uint64_t srtt)
{
	if (!srtt || window >= (uint64_t)usable * CLOCKED)
		return 0;
	return max_u64(WINDOW_GAIN * wire_bits(packet_len(c)) * window * 1000000 / CC_UNIT / srtt,
		       RATE_MIN_KBPS);
}

static void set_rate(struct conn *c, uint64_t kbps)
{
	uint64_t now = c->e->now;

	/* What is still owed was counted at the old rate. */
	if (c->pace_at > now)
		c->pace_at = kbps ? now + (c->pace_at - now) * c->pace_kbps / kbps : now;
	c->pace_kbps = kbps;
}

static uint64_t hint_life(uint64_t srtt)
{
	return max_u64(HINT_ROUNDS * srtt, HINT_LIFE_MIN);
}

/* Mbit/s */
static uint32_t speed_of(const struct path *p)
{
	uint32_t local = p->port->speed, remote = ntohl(p->conn->peer_ports[p->remote_port].speed);
	uint32_t mbps = local && remote ? (uint32_t)min_u64(local, remote) : local + remote;

	return mbps ? mbps : SPEED_UNKNOWN_MBPS;
}

uint32_t pace_start_window(const struct path *p, uint64_t rtt, uint32_t siblings)
{
	uint64_t bytes = speed_of(p) * min_u64(rtt, SEC) / 8000;

	return (uint32_t)min_u64(bytes * CC_UNIT / packet_len(p->conn) / (siblings ? siblings : 1),
				 MROCE_WINDOW * CC_UNIT);
}

/* It was others' turn at our own port, which carried a quarter of what it can in that time (ns). */
static bool was_our_turn_taking(const struct path *p, uint64_t idle)
{
	uint64_t bits = 8 * (p->port->letter_bytes - p->port_bytes);

	return idle <= TURN_MAX && bits * BUSY_SHARE * 1000 >= speed_of(p) * idle;
}

/*
 * A path that has carried nothing since before its last hint ran out starts anew (RFC 7661): others may have come since,
 * and without a hint the whole old window would leave at once. In an exchange of many hosts, step after step, it did
 * so everywhere at the same moment, and overran the queues. One of thousands that take turns at a busy
 * port has not rested: it would begin anew at each turn.
 */
static void rest(struct path *p)
{
	const struct cc_ops *cc = p->conn->e->cfg.cc;
	uint64_t rtt, idle = p->conn->e->now - p->last_progress;
	uint32_t siblings;

	if (p->una != p->next || !p->begun || !p->srtt || !cc->rest || idle <= hint_life(p->srtt) ||
	    was_our_turn_taking(p, idle))
		return;
	siblings = path_family(p, &rtt);
	cc->rest(&p->cc, pace_start_window(p, rtt, siblings));
	path_progress(p); /* once for each rest */
}

void pace_update(struct conn *c)
{
	uint64_t window = 0, srtt = 0, rate;
	uint32_t usable = 0, flying = 0;

	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (!path_usable(p))
			continue;
		rest(p);
		usable++;
		window += p->cc.window;
		flying += p->in_flight;
		if (p->srtt && (!srtt || p->srtt < srtt))
			srtt = p->srtt;
	}
	c->window = max_u64(window, CC_UNIT);
	c->flying = flying;
	rate = window_rate(c, c->window, usable, srtt);
	if (c->hint_kbps && c->e->now < c->hint_until)
		rate = rate ? min_u64(rate, c->hint_kbps) : c->hint_kbps;
	if (rate != c->pace_kbps)
		set_rate(c, rate);
}

bool pace_open(const struct conn *c)
{
	return (uint64_t)c->flying * CC_UNIT < c->window &&
	       (!c->pace_kbps || c->pace_at <= c->e->now);
}

bool pace_is_sparse(const struct conn *c)
{
	uint64_t packet;

	if (!c->pace_kbps)
		return false;
	packet = wire_time(c->chunk, c->pace_kbps);
	return packet * c->npaths > SPARSE &&
	       c->e->now - c->last_poll < max_u64(POLL_PACKETS * packet, POLL_TIME);
}

void pace_charge(struct conn *c, uint32_t len)
{
	uint64_t now = c->e->now, from;

	if (!c->pace_kbps)
		return;
	from = now - min_u64(now, min_u64(BURST_MIN + 2 * c->pace_late, BURST_MAX));
	c->pace_at = max_u64(c->pace_at, from) + wire_time(len, c->pace_kbps);
}

/* Nothing may be sent: look again once it may. If it is the window that is full, an ACK tells. */
void pace_wait(struct conn *c)
{
	uint64_t at = c->pace_at + SLACK;

	if (!c->pace_kbps || c->pace_at <= c->e->now)
		return;
	if (c->hint_kbps && c->hint_until > c->e->now)
		at = min_u64(at, c->hint_until);
	timer_set(&c->e->timers, &c->pace, at);
}

void pace_timer(struct conn *c)
{
	uint64_t late = c->e->now - c->pace.at;

	c->pace_late = max_u64(late, c->pace_late - c->pace_late / 16);
	if (letter_waiting(c))
		conn_ready(c);
}

/* The rate that the newest ACK of a path grants us; 0: the receiver does not say. */
void pace_hint(struct conn *c, uint16_t hint, uint64_t srtt)
{
	uint64_t kbps = rate_decode(hint), life;

	if (!(c->features & MROCE_F_HINT))
		return;
	c->hint_kbps = kbps ? max_u64(kbps, RATE_MIN_KBPS) : 0;
	life = hint_life(srtt);
	if (c->hint_kbps) /* at a low rate even the next packet is further away */
		life = max_u64(life, HINT_PACKETS * wire_time(c->chunk, c->hint_kbps));
	c->hint_until = c->e->now + life;
}
