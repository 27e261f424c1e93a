// SPDX-License-Identifier: BSD-2-Clause
/*
 * ECN and delay. alpha follows the share of bytes with CE, as DCTCP's does (RFC 8257). One decision per round
 * trip, from all its ACKs and its smallest RTT sample: samples contain the scheduling noise of both hosts,
 * which only ever adds.
 *
 *  - CE and a queue: window x (1 - alpha / 2); half of the queue goes if that is more, but not windows below six
 *    packets between the same two ports;
 *  - CE on every path: window x (1 - alpha / 2);
 *  - CE without a queue while other paths have none: the spray avoids this path, nothing else;
 *  - a queue beyond the limit without CE (the network does not mark): in proportion to the excess;
 *  - a lone loss says nothing about congestion and changes nothing; far more loss than usual together with a
 *    queue or CE does;
 *  - else + 1 packet per round trip, shared with the other paths between the same two ports. Until the first
 *    sign of congestion the window doubles instead.
 */
#include <string.h>
#include "core/cc.h"
#include "mroce/wire.h"

#define INITIAL_WINDOW (2 * CC_UNIT)
#define START_MIN (CC_UNIT / 16)
#define START_MAX (16 * CC_UNIT)
/* Nothing marks: what looks like a queue may be a busy CPU. */
#define DELAY_WINDOW (2 * CC_UNIT)
/* Marked although no queue can be felt: it may be a switch that marks everything. */
#define MARKED_WINDOW CC_UNIT
/* All paths between two ports together; below, senders would be less alike. TCP goes down to two. */
#define YIELD_WINDOW (6 * CC_UNIT)
#define MIN_WINDOW (CC_UNIT / 16)
#define QUEUE_MIN_NS 1000000ull /* queueing delay that is always allowed, without CE */
#define QUEUE_CE_NS 100000ull	/* with CE */
#define ROUND_MIN_NS 50000ull
#define ONE 1024u /* fixed point of shares */
#define ALPHA_SHIFT 4

struct ecn_state {
	uint64_t round_end;
	uint64_t round_rtt; /* smallest sample, 0 = none */
	uint32_t round_acked, round_lost;
	uint32_t round_bytes, round_ce;
	uint32_t alpha;	    /* smoothed share of bytes with CE, of ONE */
	uint32_t loss_avg;  /* smoothed share of packets lost, of ONE */
	uint32_t fraction;  /* growth too small for the window's unit */
	uint8_t steady;	    /* the doubling is over */
	uint8_t everywhere; /* CE on all paths in this round */
};

_Static_assert(sizeof(struct ecn_state) <= sizeof(((struct cc *)0)->state), "cc state");

static struct ecn_state *state_of(struct cc *cc)
{
	return (struct ecn_state *)cc->state;
}

static void ecn_init(struct cc *cc, uint64_t now)
{
	memset(cc, 0, sizeof(*cc));
	cc_set_window(cc, INITIAL_WINDOW, MIN_WINDOW);
	state_of(cc)->round_end = now;
}

static void ecn_start(struct cc *cc, uint32_t window)
{
	cc_set_window(cc, window < START_MAX ? window : START_MAX, START_MIN);
}

static void ecn_rest(struct cc *cc, uint32_t window)
{
	window = window < START_MAX ? window : START_MAX;
	if (cc->window <= window)
		return;
	cc_set_window(cc, window, START_MIN);
	state_of(cc)->steady = 0;
}

static uint64_t limit_of(uint64_t min_rtt, uint64_t allowed)
{
	return min_rtt + (min_rtt > allowed ? min_rtt : allowed);
}

static uint32_t siblings_of(const struct cc_ack *a)
{
	return a->siblings ? a->siblings : 1;
}

/* Grows only if the window was what held the sender back. */
static void grow(struct cc *cc, const struct cc_ack *a)
{
	struct ecn_state *s = state_of(cc);
	uint32_t window = cc->window > CC_UNIT ? cc->window : CC_UNIT;
	uint64_t gain;

	if ((uint64_t)a->in_flight * 2 * CC_UNIT < cc->window)
		return;
	if (!s->steady) {
		cc_set_window(cc, cc->window + (uint64_t)a->acked * CC_UNIT, MIN_WINDOW);
		return;
	}
	gain = s->fraction + (uint64_t)a->acked * CC_UNIT * CC_UNIT / siblings_of(a);
	s->fraction = (uint32_t)(gain % window);
	cc_set_window(cc, cc->window + gain / window, MIN_WINDOW);
}

/* Far more loss than usual and a queue or CE: the path is overrun. */
static bool overrun(struct ecn_state *s, bool congested)
{
	uint32_t total = s->round_acked + s->round_lost;
	uint32_t loss = total ? (uint32_t)((uint64_t)s->round_lost * ONE / total) : 0;
	bool yes = congested && loss > ONE / 4 && loss > 2 * s->loss_avg;

	if (total)
		s->loss_avg += ((int32_t)loss - (int32_t)s->loss_avg) / 8;
	return yes;
}

static void shrink(struct cc *cc, uint32_t share, uint32_t least)
{
	uint64_t window = cc->window - (uint64_t)cc->window * share / ONE;

	if (cc->window > least)
		cc_set_window(cc, window, least);
}

static void follow_alpha(struct ecn_state *s, uint32_t ce)
{
	/* The first mark ends the doubling: what it overshot has to go at once. */
	if (ce && !s->steady && s->alpha < ce)
		s->alpha = ce;
	else
		s->alpha = s->alpha - (s->alpha >> ALPHA_SHIFT) + (ce >> ALPHA_SHIFT);
}

/*
 * CE, and a queue that can be felt: beyond `empty`, the RTT at which it cannot. The window shrinks by alpha / 2, and by
 * half of that queue if this is more: the other half keeps the link busy. TCP loses 0.3 to 0.5 of its window with each
 * mark (RFC 9438 and 3168) and would be left with its smallest beside senders that lose alpha / 2. Small windows are
 * where many share: what the queue takes, it takes from larger ones.
 */
static void make_room(struct cc *cc, const struct cc_ack *a, uint64_t rtt, uint64_t empty)
{
	uint32_t half = (uint32_t)((rtt - empty) * (ONE / 2) / rtt);
	uint32_t yielded = cc->window - (uint32_t)((uint64_t)cc->window * half / ONE);
	uint32_t least = YIELD_WINDOW / siblings_of(a);

	shrink(cc, state_of(cc)->alpha / 2, MIN_WINDOW);
	if (cc->window > yielded && cc->window > least)
		cc_set_window(cc, yielded, least);
}

static void end_round(struct cc *cc, const struct cc_ack *a)
{
	struct ecn_state *s = state_of(cc);
	uint64_t rtt = s->round_rtt, limit = limit_of(a->min_rtt, QUEUE_MIN_NS);
	uint32_t ce = s->round_bytes ? (uint32_t)((uint64_t)s->round_ce * ONE / s->round_bytes) : 0;
	uint64_t empty = limit_of(a->min_rtt, QUEUE_CE_NS);
	bool queue = rtt > limit;

	follow_alpha(s, ce);
	if (overrun(s, queue || ce))
		shrink(cc, ONE / 2, MIN_WINDOW);
	else if (ce && rtt > empty)
		make_room(cc, a, rtt, empty);
	else if (ce && s->everywhere)
		shrink(cc, s->alpha / 2, MARKED_WINDOW);
	else if (queue) /* 0.4 of the excess */
		shrink(cc, (uint32_t)(410 * (rtt - limit) / rtt), DELAY_WINDOW);
	s->steady |= queue || ce;
	s->round_end = a->now + (a->srtt > ROUND_MIN_NS ? a->srtt : ROUND_MIN_NS);
	s->round_rtt = 0;
	s->round_acked = s->round_lost = s->round_bytes = s->round_ce = 0;
	s->everywhere = 0;
}

static void ecn_ack(struct cc *cc, const struct cc_ack *a)
{
	struct ecn_state *s = state_of(cc);

	s->round_acked += a->acked;
	s->round_lost += a->lost;
	s->round_bytes += a->rx_bytes;
	s->round_ce += a->ce_bytes;
	s->everywhere |= a->ce_everywhere;
	if (a->rtt && (!s->round_rtt || a->rtt < s->round_rtt))
		s->round_rtt = a->rtt;
	if (a->acked && !s->round_ce && a->rtt <= limit_of(a->min_rtt, QUEUE_MIN_NS))
		grow(cc, a);
	if (a->now >= s->round_end && s->round_rtt)
		end_round(cc, a);
}

static void ecn_timeout(struct cc *cc, uint64_t now)
{
	(void)now;
	state_of(cc)->steady = 1;
	shrink(cc, ONE / 2, CC_UNIT);
}

const struct cc_ops cc_ecn = {
	.name = "ecn",
	.init = ecn_init,
	.start = ecn_start,
	.ack = ecn_ack,
	.rest = ecn_rest,
	.timeout = ecn_timeout,
};
