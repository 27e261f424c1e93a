// SPDX-License-Identifier: BSD-2-Clause
/*
 * Delay and ECN. The window doubles each round trip until the first sign of a queue, then grows by one
 * packet per round trip; above the target delay, or with CE together with delay, it shrinks once per
 * round trip in proportion. A lone loss says nothing about congestion and changes nothing.
 *
 * RTT samples contain the scheduling noise of both hosts, which only ever adds: so the smallest sample
 * of a round decides.
 */
#include <string.h>
#include "core/cc.h"

#define INITIAL_WINDOW 16
#define MIN_WINDOW 4
#define QUEUE_MIN_NS 1000000ull /* queueing delay that is always allowed */
#define ROUND_MIN_NS 50000ull
#define ALPHA_ONE 1024u /* fixed point of the CE share */

struct delay_state {
	uint64_t round_end;
	uint64_t round_rtt; /* smallest sample, 0 = none */
	uint32_t round_acked, round_lost;
	uint32_t round_bytes, round_ce;
	uint32_t alpha;	   /* smoothed share of bytes with CE, of ALPHA_ONE */
	uint32_t loss_avg; /* smoothed share of packets lost, of ALPHA_ONE */
	uint32_t steady;   /* slow start is over */
	uint32_t fraction; /* acked packets towards the next step of the window */
};

_Static_assert(sizeof(struct delay_state) <= sizeof(((struct cc *)0)->state), "cc state");

static struct delay_state *state_of(struct cc *cc)
{
	return (struct delay_state *)cc->state;
}

static void set_window(struct cc *cc, uint64_t packets)
{
	cc_set_window(cc, packets * CC_UNIT, MIN_WINDOW * CC_UNIT);
}

static void delay_init(struct cc *cc, uint64_t now)
{
	memset(cc, 0, sizeof(*cc));
	set_window(cc, INITIAL_WINDOW);
	state_of(cc)->round_end = now;
}

static void delay_rest(struct cc *cc, uint32_t window)
{
	(void)window;
	if (cc->cwnd <= INITIAL_WINDOW)
		return;
	set_window(cc, INITIAL_WINDOW);
	state_of(cc)->steady = 0;
}

static uint64_t target(uint64_t min_rtt)
{
	return min_rtt + (min_rtt > QUEUE_MIN_NS ? min_rtt : QUEUE_MIN_NS);
}

/* Grows only if the window was what held the sender back. */
static void grow(struct cc *cc, const struct cc_ack *a)
{
	struct delay_state *s = state_of(cc);

	if (a->in_flight * 2 < cc->cwnd)
		return;
	if (!s->steady) {
		set_window(cc, (uint64_t)cc->cwnd + a->acked);
		return;
	}
	s->fraction += a->acked;
	if (s->fraction < cc->cwnd)
		return;
	s->fraction -= cc->cwnd;
	set_window(cc, (uint64_t)cc->cwnd + 1);
}

/* Far more loss than usual and a queue: the path is overrun. */
static int overrun(struct delay_state *s, uint32_t loss, int queue)
{
	int yes = queue && loss > ALPHA_ONE / 4 && loss > 2 * s->loss_avg;

	s->loss_avg += ((int32_t)loss - (int32_t)s->loss_avg) / 8;
	return yes;
}

static void end_round(struct cc *cc, const struct cc_ack *a)
{
	struct delay_state *s = state_of(cc);
	uint64_t rtt = s->round_rtt, limit = target(a->min_rtt);
	int queue = rtt > limit;
	uint32_t ce, total = s->round_acked + s->round_lost;
	uint64_t shrink = 0;

	ce = s->round_bytes ? (uint32_t)((uint64_t)s->round_ce * ALPHA_ONE / s->round_bytes) : 0;
	s->alpha = s->alpha - s->alpha / 16 + ce / 16;
	if (queue)
		shrink = 410 * (rtt - limit) / rtt; /* 0.4 of the excess */
	if (ce && rtt > limit - (limit - a->min_rtt) / 2 && shrink < s->alpha / 2)
		shrink = s->alpha / 2;
	if (total && overrun(s, s->round_lost * ALPHA_ONE / total, queue))
		shrink = ALPHA_ONE / 2;
	if (shrink > ALPHA_ONE / 2)
		shrink = ALPHA_ONE / 2;
	if (queue || ce)
		s->steady = 1;
	if (shrink)
		set_window(cc, cc->cwnd - cc->cwnd * shrink / ALPHA_ONE);
	s->round_end = a->now + (a->srtt > ROUND_MIN_NS ? a->srtt : ROUND_MIN_NS);
	s->round_rtt = 0;
	s->round_acked = s->round_lost = s->round_bytes = s->round_ce = 0;
}

static void delay_ack(struct cc *cc, const struct cc_ack *a)
{
	struct delay_state *s = state_of(cc);

	s->round_acked += a->acked;
	s->round_lost += a->lost;
	s->round_bytes += a->rx_bytes;
	s->round_ce += a->ce_bytes;
	if (a->rtt && (!s->round_rtt || a->rtt < s->round_rtt))
		s->round_rtt = a->rtt;
	if (a->acked && (!a->rtt || a->rtt <= target(a->min_rtt)))
		grow(cc, a);
	if (a->now >= s->round_end && s->round_rtt)
		end_round(cc, a);
}

static void delay_timeout(struct cc *cc, uint64_t now)
{
	(void)now;
	state_of(cc)->steady = 1;
	set_window(cc, cc->cwnd / 2);
}

const struct cc_ops cc_delay = {
	.name = "delay",
	.init = delay_init,
	.ack = delay_ack,
	.rest = delay_rest,
	.timeout = delay_timeout,
};
