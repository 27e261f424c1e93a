// SPDX-License-Identifier: BSD-2-Clause
/*
 * Letters handed over: where a port's kernel half picks path and PSN itself (mroce/post.h), the engine gives it a
 * batch of letters and the paths between two ports that may be taken, and learns at once which envelope each
 * got. Between two calls of the engine no letter is under way: one that got no envelope is void and waits in
 * its queue again, whatever became of it.
 *
 * All letters go this way: DATA, and the control letters CREDIT, READ_REQ, FORGIVE, ERROR, CLOSE, PORT_STATUS. Not so
 * what is about one path and would make no sense on another (POLL and its kin in path.c, PROBE in mtu.c), what has no PSN
 * (ACKs in receive.c) and what belongs to no path yet (set-up, by ctl_send()): the engine fills in all of these itself.
 */
#include <arpa/inet.h>
#include <syslog.h>
#include "core/internal.h"

/* As many as are asked about by one POLL if they all take one path. */
#define BATCH 16
/*
 * A connection's batch could not be handed in, or nothing was heard of it (a neighbour is not yet known, say): the engine
 * picks for it for so long.
 */
#define PAUSE (1 * MSEC)
/* So long no letter of any batch got an envelope: the engine picks for all, for a while. */
#define SILENCE (100 * MSEC)
#define OFF_TIME (10 * SEC)
#define OFF_DOUBLINGS 9

struct batch {
	struct conn *c;
	struct port *port;
	struct mroce_post_conn *post;
	uint32_t mask;	/* paths that may be taken */
	uint32_t limit; /* bytes that each of them carries */
	uint32_t first, n;
	struct letter *letters[BATCH];
	uint32_t len[BATCH];
	uint8_t flags[BATCH];
};

bool handover_possible(const struct conn *c, const struct port *port)
{
	uint64_t now = c->e->now;

	return port->post && now >= port->post->off_until && now >= c->post_off;
}

/* ---- what the kernel has to know ---- */

static struct mroce_post_conn *office_of(struct conn *c, const struct port *port)
{
	struct mroce_post_conn *pc = &port->post->tables->conns[c->slot];

	if (pc->cid == c->id)
		return pc;
	__atomic_store_n(&pc->cid, 0, __ATOMIC_RELEASE);
	memset(pc, 0, sizeof(*pc));
	for (uint32_t i = 0; i < c->npaths; i++)
		pc->path[i].next = c->paths[i].next;
	pc->first = port->post->tables->cookie;
	__atomic_store_n(&pc->cid, c->id, __ATOMIC_RELEASE);
	return pc;
}

/* PSNs that the kernel gave to a letter after we had stopped waiting for it. */
static void skip_to(struct path *p, uint32_t psn)
{
	while (p->next != psn) {
		uint64_t bit = bitmap_bit(p->next);
		uint32_t w = bitmap_word(p->next);

		if (p->slots) {
			p->slots->out[w] &= ~bit;
			p->slots->seen[w] &= ~bit;
		}
		p->lost[w] &= ~bit;
		p->next++;
	}
}

/* One of the two may be ahead: we, after packets that we numbered ourselves. */
static bool agree_on_next(struct path *p, struct mroce_post_path *pp)
{
	uint32_t theirs = __atomic_load_n(&pp->next, __ATOMIC_ACQUIRE);
	uint32_t ahead = theirs - p->next;

	if (ahead && ahead <= MROCE_WINDOW)
		skip_to(p, theirs);
	else if (ahead && !__atomic_compare_exchange_n(&pp->next, &theirs, p->next, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	return p->next - p->una < MROCE_WINDOW;
}

static bool tell_path(struct batch *b, struct path *p)
{
	struct mroce_post_path *pp = &b->post->path[p->index];
	uint16_t sport = b->port->ops->post_sport(b->port, &p->flow);

	if (!sport || !path_open_slots(p) || !agree_on_next(p, pp))
		return false;
	pp->sport = sport;
	pp->epoch = p->epoch;
	pp->una = p->una;
	pp->flown = p->next - p->in_flight;
	pp->cwnd = p->cc.cwnd;
	pp->window = p->cc.window;
	return true;
}

static void tell_paths(struct batch *b, uint32_t mask)
{
	for (uint32_t i = 0; i < b->c->npaths; i++) {
		struct path *p = &b->c->paths[i];

		if (!(mask & 1u << i) || !tell_path(b, p))
			continue;
		b->mask |= 1u << i;
		b->limit = (uint32_t)min_u64(b->limit, p->limit);
	}
}

/* ---- handing over ---- */

static void seal(const struct batch *b, void *buf, const struct letter *l, uint8_t flags,
		 uint32_t body_len)
{
	uint32_t letter_seal;
	struct packet pk = {
		.type = l->type,
		.flags = flags,
		.path = l->losses > 1 ? l->lost_on : MROCE_POST_ANY,
		.epoch = (uint16_t)b->mask,
		.body_len = (uint16_t)body_len,
		.cid = b->c->peer_id,
		.token = b->c->peer_token,
		.psn = b->first + b->n,
		.una = b->c->id,
	};

	packet_seal(buf, &pk);
	letter_seal = htonl(post_seal(pk.una, pk.psn));
	memcpy((char *)buf + offsetof(struct mroce_hdr, hdr_crc), &letter_seal, sizeof(letter_seal));
}

/* 0; -ENOBUFS: no room at the port; -EAGAIN: letters cannot go this way; -errno: the letter cannot be built. */
static int hand_in(struct batch *b, struct flow *flow, struct letter *l)
{
	uint8_t flags = letter_flags(b->c, l);
	uint32_t len = letter_len(l);
	uint8_t *buf = b->port->ops->post_begin(b->port, flow, MROCE_HDR_LEN + len);
	int err;

	if (!buf)
		return b->port->ops->full(b->port) ? -ENOBUFS : -EAGAIN;
	err = letter_build(b->c, l, buf + MROCE_HDR_LEN);
	if (err)
		return err;
	seal(b, buf, l, flags, len);
	b->port->ops->post_end(b->port, MROCE_HDR_LEN + len);
	b->letters[b->n] = l;
	b->len[b->n] = MROCE_HDR_LEN + len;
	b->flags[b->n] = flags;
	b->n++;
	pace_charge(b->c, MROCE_HDR_LEN + len);
	b->c->flying++;
	return 0;
}

/* ---- what became of it ---- */

/* The letter's envelope: true, and it waits there. */
static bool put_in_envelope(struct batch *b, uint32_t i, const struct mroce_posted *r)
{
	struct path *p;

	if (r->path >= b->c->npaths || !(b->mask & 1u << r->path))
		return false;
	p = &b->c->paths[r->path];
	if (r->epoch != p->epoch || r->psn - p->next >= MROCE_WINDOW)
		return false;
	skip_to(p, r->psn);
	path_posted(p, b->letters[i], r->ts, b->len[i], b->flags[i]);
	return true;
}

/* Counts letters without an envelope; *reason is what the kernel said of the last. */
static uint32_t collect(struct batch *b, uint32_t *reason)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct mroce_posted *r =
			&b->port->post->tables->posted[(b->first + i) & (MROCE_POSTED - 1)];
		bool told = __atomic_load_n(&r->cookie, __ATOMIC_ACQUIRE) == b->first + i;

		if (told && r->reason)
			*reason = r->reason;
		if (told && !r->reason && put_in_envelope(b, i, r))
			continue;
		b->letters[left++] = b->letters[i];
	}
	return left;
}

static void return_letters(struct batch *b, uint32_t n)
{
	b->c->flying -= n;
	while (n--)
		letter_put_back(b->c, b->letters[n]);
}

static void note_result(struct batch *b, uint32_t left, uint32_t reason)
{
	struct post_office *office = b->port->post;
	struct engine *e = b->c->e;
	uint64_t off_time;

	office->returned += left;
	office->sent += b->n - left;
	if (left < b->n) {
		office->silent_since = 0;
		office->refusals = 0;
		return;
	}
	if (!office->silent_since)
		office->silent_since = e->now;
	if (e->now - office->silent_since < SILENCE)
		return;
	office->silent_since = 0;
	off_time = OFF_TIME << min_u64(office->refusals, OFF_DOUBLINGS);
	office->off_until = e->now + off_time;
	office->refusals++;
	engine_log(e, LOG_WARNING,
		   "%s: letters handed over to the TC program got no envelope for %llu ms (%s): "
		   "paths are picked by the daemon for %llu s",
		   b->port->name, (unsigned long long)(SILENCE / MSEC),
		   reason ? "no path with room"
			  : "no word from it: is it still attached, do neighbours answer?",
		   (unsigned long long)(off_time / SEC));
}

/* Nobody else has to wait for what held up this batch: only a port without room is closed to all. */
static void hold_back(struct batch *b, uint32_t left, uint32_t reason, bool port_full)
{
	struct conn *c = b->c;

	if (port_full) {
		c->e->blocked |= 1u << b->port->index;
	} else if (left < b->n) {
		return;
	} else if (reason) {
		c->barred |= (uint16_t)b->mask;
		c->e->barred = true;
	} else {
		c->post_off = c->e->now + PAUSE;
	}
}

/* Every letter of the batch has an envelope after this, or is in its queue again. */
static uint32_t finish(struct batch *b)
{
	uint32_t reason = 0, left;
	bool taken;

	if (!b->n)
		return 0;
	taken = b->port->ops->post_flush(b->port);
	b->port->post->tables->cookie += b->n;
	/* Whatever of it leaves from now on is void. */
	__atomic_store_n(&b->post->first, b->port->post->tables->cookie, __ATOMIC_SEQ_CST);
	left = collect(b, &reason);
	note_result(b, left, reason);
	return_letters(b, left);
	if (left)
		hold_back(b, left, reason, !taken);
	return b->n - left;
}

static void look_after_paths(struct batch *b)
{
	for (uint32_t i = 0; i < b->c->npaths; i++) {
		if (b->mask & 1u << i)
			path_after_post(&b->c->paths[i]);
	}
}

/* NULL: the batch is full, or the next letter should not take any of its paths. */
static struct letter *next_letter(struct batch *b, uint32_t max)
{
	struct letter *l;

	if (b->n == max || (!pace_open(b->c) && STAILQ_EMPTY(&b->c->control)))
		return NULL;
	l = letter_next(b->c);
	if (!l || (MROCE_HDR_LEN + letter_len(l) <= b->limit &&
		   (l->losses <= 1 || b->mask & ~(1u << l->lost_on))))
		return l;
	letter_put_back(b->c, l);
	return NULL;
}

uint32_t handover_send(struct conn *c, struct path *leader, struct letter *l, uint32_t max)
{
	struct spray_group g = spray_group(leader);
	struct post_office *office = leader->port->post;
	struct batch b = {
		.c = c,
		.port = leader->port,
		.post = office_of(c, leader->port),
		.limit = UINT32_MAX,
		.first = office->tables->cookie,
	};
	uint32_t sent;
	int err = 0;

	if (max > BATCH)
		max = BATCH;
	if (max > g.room)
		max = g.room;
	b.post->first = b.first;
	tell_paths(&b, g.mask);
	if (!b.mask)
		err = -EAGAIN;
	while (!err && l) {
		err = hand_in(&b, &leader->flow, l);
		if (!err)
			l = next_letter(&b, max);
	}
	sent = finish(&b);
	if (err == -ENOBUFS) {
		letter_put_back(c, l);
		path_refused(leader, true);
	} else if (err == -EAGAIN) {
		/* The engine tries the same itself, at once: then it knows whether the way is closed to all packets. */
		letter_put_back(c, l);
		c->post_off = c->e->now + PAUSE;
	} else if (err) {
		letter_failed(c, l, err);
	}
	look_after_paths(&b);
	spray_served(leader, sent);
	return sent;
}

void handover_forget(struct conn *c, const struct port *port)
{
	struct mroce_post_conn *pc = port->post ? &port->post->tables->conns[c->slot] : NULL;

	if (pc && pc->cid == c->id)
		__atomic_store_n(&pc->cid, 0, __ATOMIC_RELEASE);
}
