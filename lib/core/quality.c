// SPDX-License-Identifier: BSD-2-Clause
/*
 * Is a path worse than the others? A path that keeps losing, queueing or being marked far more than the rest of
 * its connection lies on a bad route: it is emptied and moved to another UDP source port, that is to another
 * route, long before it would count as dead. Seldom: a new route may be no better.
 */
#include <syslog.h>
#include "core/internal.h"

#define ONE 1024u
/* Packets that make a verdict, or fewer if they are all that came in so long. */
#define SPAN_PACKETS 64
#define SPAN_LEAST 16
#define SPAN_TIME (50 * MSEC)
/* Verdicts in a row until it is moved. */
#define PATIENCE 3
/* Bad: so much, and so many times what the others have. */
#define LOSS_BAD (ONE / 16)
#define CE_BAD (ONE / 2)
#define TIMES 4
#define DELAY_BAD (500 * USEC)
#define DELAY_TIMES 2
/* Between two moves of a path; doubles. */
#define MOVE_WAIT_MS 100
#define MOVE_WAIT_MAX_MS 10000
/* Good for so long: the next move need not wait. */
#define MOVE_FORGIVEN (10 * SEC)

const char *path_reason_text(uint8_t reason)
{
	switch ((enum path_reason)reason) {
	case PATH_FINE: return "";
	case PATH_NO_ANSWER: return "no answer";
	case PATH_PORT_DOWN: return "port down";
	case PATH_PEER_PORT_DOWN: return "peer's port down";
	case PATH_PEER_MOVED: return "peer's port has another address";
	case PATH_NO_ROUTE: return "no route";
	case PATH_LOSS: return "loss";
	case PATH_DELAY: return "delay";
	case PATH_CE: return "CE";
	}
	return "?";
}

struct others {
	uint32_t n, near;   /* near: between the same ports */
	uint32_t loss, ce;  /* means */
	uint64_t srtt_near; /* mean */
};

static void look_at_others(const struct path *p, struct others *o)
{
	*o = (struct others){ 0 };
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		const struct path *x = &p->conn->paths[i];

		if (x == p || !path_usable(x) || !x->quality.judged)
			continue;
		o->n++;
		o->loss += x->quality.loss;
		o->ce += x->quality.ce;
		if (!path_siblings(p, x))
			continue;
		o->near++;
		o->srtt_near += x->srtt;
	}
	if (o->n) {
		o->loss /= o->n;
		o->ce /= o->n;
	}
	if (o->near)
		o->srtt_near /= o->near;
}

static enum path_reason verdict(const struct path *p)
{
	const struct quality *q = &p->quality;
	struct others o;

	look_at_others(p, &o);
	if (!o.n)
		return PATH_FINE; /* nowhere else to learn what is usual */
	if (q->loss > LOSS_BAD && q->loss > TIMES * o.loss)
		return PATH_LOSS;
	if (q->ce > CE_BAD && q->ce > TIMES * o.ce)
		return PATH_CE;
	if (o.near && p->srtt > DELAY_TIMES * o.srtt_near + DELAY_BAD)
		return PATH_DELAY;
	return PATH_FINE;
}

static bool another_is_leaving(const struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		if (c->paths[i].leaving)
			return true;
	}
	return false;
}

static void judge(struct path *p)
{
	struct quality *q = &p->quality;
	uint64_t now = p->conn->e->now;
	uint32_t bytes = q->bytes ? q->bytes : 1, acked = q->acked, lost = q->lost;
	enum path_reason why;
	uint32_t wait;

	q->loss = (uint16_t)(lost * ONE / (acked + lost));
	q->ce = (uint16_t)min_u64((uint64_t)q->ce_bytes * ONE / bytes, ONE);
	q->judged = true;
	q->acked = q->lost = 0;
	q->bytes = q->ce_bytes = 0;
	q->since = now;
	why = verdict(p);
	if (why == PATH_FINE) {
		q->bad = 0;
		if (now - q->moved_at > MOVE_FORGIVEN)
			q->wait_ms = 0;
		return;
	}
	if (q->bad < PATIENCE)
		q->bad++;
	if (q->bad < PATIENCE || now < q->moved_at + q->wait_ms * MSEC || another_is_leaving(p->conn))
		return;
	wait = q->wait_ms ? 2u * q->wait_ms : MOVE_WAIT_MS;
	q->wait_ms = (uint16_t)(wait < MOVE_WAIT_MAX_MS ? wait : MOVE_WAIT_MAX_MS);
	path_leave(p, why);
}

void quality_note(struct path *p, const struct cc_ack *a)
{
	struct quality *q = &p->quality;
	uint32_t n;

	q->acked += a->acked;
	q->lost += a->lost;
	q->bytes += a->rx_bytes;
	q->ce_bytes += a->ce_bytes;
	n = q->acked + q->lost;
	if (n < SPAN_LEAST || p->dead || p->leaving)
		return;
	if (n >= SPAN_PACKETS || a->now - q->since >= SPAN_TIME)
		judge(p);
}

/* It is on another route: what was known of it no longer holds. */
void quality_moved(struct path *p)
{
	struct quality *q = &p->quality;

	*q = (struct quality){ .wait_ms = q->wait_ms, .moved_at = p->conn->e->now };
	q->since = q->moved_at;
}
