// SPDX-License-Identifier: BSD-2-Clause
/*
 * How large packets may be. The interfaces at both ends set the target; what passes in between is asked by a
 * PROBE of that size, which the peer's kernel answers. Until it has, a path carries what every IPv6 network
 * must carry. Large packets that vanish while small ones pass are looked into in the same way.
 */
#include <arpa/inet.h>
#include <syslog.h>
#include "core/internal.h"

#define DATA_HEAD (MROCE_HDR_LEN + (uint32_t)sizeof(struct mroce_data))
#define CHUNK_LEAST 24
/* Questions of a size that stay unanswered, while others are answered, before it is given up. */
#define TRIES 6
#define TRY_FIRST (1 * MSEC)
#define TRY_MAX (200 * MSEC)
/* New messages wait at most so long for the first answer. */
#define HOLD (5 * MSEC)
/* A connection's first question waits until its POLLs are back: large packets in front of them would lengthen the RTT. */
#define FIRST_AFTER (300 * USEC)
/* Large letters lost on a path in a row, that make it suspect. */
#define SUSPICIOUS 16
/* A path that carries less than its target is asked again. */
#define RAISE_AFTER (30 * SEC)
/* What was proven between two hosts holds for new connections so long. */
#define PROOF_LIFE (600 * SEC)

/* Usual sizes of IP packets between the largest and the smallest. */
static const uint16_t ladder[] = { 3000, 2000, 1500, 1420, 1380 };

#define RUNGS (sizeof(ladder) / sizeof(ladder[0]))

uint32_t mtu_headers(const struct path *p)
{
	return ip_is_mapped(&p->flow.remote) ? 28 : 48;
}

/* The largest payload that the two interfaces take, as far as this connection needs it. */
static uint32_t target(const struct path *p)
{
	const struct conn *c = p->conn;
	uint32_t most = p->port->payload_max, peer;

	if (!ip_is_mapped(&p->flow.remote) && ip_is_mapped(&p->port->addr))
		most -= most < 20 ? most : 20;
	if (p->remote_port < c->peer_nports) {
		peer = ntohs(c->peer_ports[p->remote_port].mtu);
		peer = peer > MTU_SAFE + mtu_headers(p) ? peer - mtu_headers(p) : MTU_SAFE;
		most = peer < most ? peer : most;
	}
	return most < DATA_HEAD + c->chunk_max ? most : DATA_HEAD + c->chunk_max;
}

/* ---- what is known of the way between two hosts ---- */

static struct proof *proof_of(const struct path *p)
{
	struct engine *e = p->conn->e;
	uint64_t words[2];

	memcpy(words, p->flow.remote.a, sizeof(words));
	return &e->proofs[auth_hash(e, words[0] ^ words[1] ^ p->port->index) % PROOFS];
}

static void remember(const struct path *p)
{
	*proof_of(p) = (struct proof){ .remote = p->flow.remote,
				       .at = p->conn->e->now,
				       .size = p->limit,
				       .port = p->port->index };
}

static uint32_t proven(const struct path *p)
{
	const struct proof *proof = proof_of(p);

	if (!proof->size || proof->port != p->port->index ||
	    !ip_equal(&proof->remote, &p->flow.remote) || p->conn->e->now - proof->at > PROOF_LIFE)
		return 0;
	return proof->size;
}

/* ---- the size of new messages' chunks ---- */

/* A multiple of 24, so that a message can be cut anew into halves, thirds, quarters ... of its chunks. */
uint32_t mtu_chunk(uint32_t payload)
{
	uint32_t chunk = payload > DATA_HEAD ? payload - DATA_HEAD : 0;

	return chunk < 24 ? chunk & ~7u : chunk - chunk % 24;
}

static void release_streams(struct conn *c)
{
	struct stream *s;

	c->chunk_known = true;
	for (s = TAILQ_FIRST(&c->streams); s; s = TAILQ_NEXT(s, all))
		stream_wake(s);
}

/* What every path can carry that has been asked; any chunk may then take any of them. */
static void update(struct conn *c)
{
	uint32_t least = UINT32_MAX, chunk;

	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if (p->dead || (p->probe_size && p->limit <= MTU_SAFE))
			continue;
		least = p->limit < least ? p->limit : least;
	}
	chunk = mtu_chunk(least == UINT32_MAX ? MTU_SAFE : least);
	c->chunk = chunk < c->chunk_max ? chunk : c->chunk_max;
	if (c->chunk <
	    CHUNK_LEAST) /* an interface that takes nothing: its paths cannot be used anyway */
		c->chunk = CHUNK_LEAST;
	if (least != UINT32_MAX && !c->chunk_known)
		release_streams(c);
	if (letter_waiting(c))
		conn_ready(c);
}

/* ---- asking ---- */

static uint64_t due(const struct path *p)
{
	uint32_t turns = p->probe_tries + p->probe_mute;

	return p->probe_sent ? p->probe_sent + min_u64(TRY_FIRST << (turns > 8 ? 8 : turns), TRY_MAX)
			     : p->conn->mtu_first;
}

static void ask(struct path *p)
{
	struct conn *c = p->conn;
	struct packet pk = {
		.type = MROCE_PROBE,
		.path = p->index,
		.epoch = p->epoch,
		.body_len = (uint16_t)(p->probe_size - MROCE_HDR_LEN),
		.cid = c->peer_id,
		.token = c->peer_token,
		.psn = p->probe_size, /* comes back in the answer */
		.una = p->probe_size,
		.ts = packet_clock(c->e->now),
	};
	uint8_t *buf = NULL;

	if (p->port->up && p->probe_size <= p->port->payload_max)
		buf = p->port->ops->tx_begin(p->port, &p->flow, p->probe_size);
	if (buf) {
		memset(buf + MROCE_HDR_LEN, 0, p->probe_size - MROCE_HDR_LEN);
		packet_seal(buf, &pk);
		p->port->ops->tx_end(p->port, p->probe_size);
		c->e->sent++;
	}
	p->probe_sent = c->e->now;
	timer_by(&c->e->timers, &c->mtu, due(p));
	/* A small one behind it: if that is answered and the large one is not, size is the matter. */
	if (p->probe_tries || p->probe_mute) {
		path_poll(p);
		path_arm(p);
	}
}

static void start_at(struct path *p, uint32_t size)
{
	p->probe_size = (uint16_t)size;
	p->probe_tries = p->probe_mute = 0;
	ask(p);
}

static void start_later(struct path *p, uint32_t size)
{
	p->probe_size = (uint16_t)size;
	p->probe_tries = p->probe_mute = 0;
	p->probe_sent = 0;
	timer_by(&p->conn->e->timers, &p->conn->mtu, p->conn->mtu_first);
}

/*
 * Of the paths between the same two ports one asks first, and what it learns holds for all: the questions of many
 * connections at once would be a queue. Should one route differ, its losses tell.
 */
static bool waits(const struct path *p)
{
	return !p->dead && !p->probe_size && !p->mtu_at && p->limit < target(p);
}

static bool is_asked_for(const struct path *p)
{
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		const struct path *o = &p->conn->paths[i];

		if (o != p && path_siblings(o, p) && !o->dead && o->probe_size)
			return true;
	}
	return false;
}

/* It does not answer, and may itself be what is wrong. */
static void others_ask(const struct path *p)
{
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		struct path *o = &p->conn->paths[i];

		if (o != p && path_siblings(o, p) && waits(o))
			start_at(o, target(o));
	}
}

static void tell_others(const struct path *p)
{
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		struct path *o = &p->conn->paths[i];

		if (o == p || !path_siblings(o, p) || !waits(o))
			continue;
		if (p->limit > o->limit)
			o->limit = p->limit;
		o->mtu_at = p->mtu_at;
	}
}

/* The next smaller size to be tried; 0: what is known to pass is all that is left. */
static uint32_t next_rung(const struct path *p)
{
	for (uint32_t i = 0; i < RUNGS; i++) {
		uint32_t size = ladder[i] - mtu_headers(p);

		if (size < p->probe_size)
			return size > p->limit ? size : 0;
	}
	return 0;
}

static void settled(struct path *p)
{
	struct conn *c = p->conn;
	char peer[IPTEXT_MAX];

	p->probe_size = 0;
	p->big_lost = 0;
	p->mtu_at = c->e->now;
	if (p->limit < target(p) && p->limit != p->mtu_told) {
		engine_log(
			c->e, LOG_WARNING,
			"conn 0x%08x: path %u to %s through %s carries IP packets of %u bytes, the "
			"interfaces take %u: larger ones vanish on the way; smaller chunks are "
			"sent, check the MTU of the network between",
			c->id, p->index, ip_text(&p->flow.remote, peer), p->port->name,
			p->limit + mtu_headers(p), target(p) + mtu_headers(p));
		p->mtu_told = p->limit;
	}
	remember(p);
	tell_others(p);
	update(c);
}

static void step_down(struct path *p)
{
	uint32_t next;

	/* It has carried this before: not now. */
	if (p->limit >= p->probe_size)
		p->limit = MTU_SAFE;
	next = next_rung(p);
	if (next) {
		start_at(p, next);
		update(p->conn);
	} else {
		settled(p);
	}
}

static void again(struct path *p)
{
	bool heard = p->last_heard > p->probe_sent;

	if (!p->probe_sent) {
		ask(p);
		return;
	}
	if (heard)
		p->probe_tries++;
	else if (p->probe_mute < UINT8_MAX)
		p->probe_mute++;
	if (p->probe_tries >= TRIES)
		step_down(p);
	else
		ask(p);
	if (!heard)
		others_ask(p);
}

/* ---- what happens ---- */

void mtu_begin(struct path *p)
{
	uint32_t want = target(p);

	p->big_lost = 0;
	p->probe_size = 0;
	p->mtu_at = 0;
	p->limit = want < MTU_SAFE ? (uint16_t)want : MTU_SAFE;
	if (want <= MTU_SAFE || proven(p) >= want) {
		p->limit = (uint16_t)want;
		update(p->conn);
		return;
	}
	if (proven(p) > p->limit)
		p->limit = (uint16_t)proven(p);
	if (is_asked_for(p))
		return;
	if (p->conn->chunk_known)
		start_at(p, want);
	else
		start_later(p, want);
}

void mtu_begin_all(struct conn *c)
{
	c->mtu_hold = c->e->now + HOLD;
	c->mtu_first = c->e->now + FIRST_AFTER;
	timer_by(&c->e->timers, &c->mtu, c->mtu_hold);
	for (uint32_t i = 0; i < c->npaths; i++)
		c->paths[i].limit = MTU_SAFE;
	for (uint32_t i = 0; i < c->npaths; i++)
		mtu_begin(&c->paths[i]);
	if (c->chunk_max + DATA_HEAD <= MTU_SAFE)
		update(c);
}

/* The interface, here or there, has another MTU: or the peer's address is another. */
void mtu_changed(struct path *p)
{
	uint32_t want = target(p);

	if (p->limit > want)
		p->limit = (uint16_t)want;
	if (p->probe_size > want)
		p->probe_size = 0;
	if (p->limit < want && !p->dead)
		start_at(p, want);
	update(p->conn);
}

void mtu_reply(struct conn *c, const struct packet *pk)
{
	struct path *p;

	if (pk->path >= c->npaths) {
		count(c->e, MROCE_DROP_PATH);
		return;
	}
	p = &c->paths[pk->path];
	if (!p->probe_size || pk->psn != p->probe_size)
		return;
	if (p->probe_size > p->limit)
		p->limit = p->probe_size;
	settled(p);
}

void mtu_lost(struct path *p, uint32_t len)
{
	if (len + MROCE_HDR_LEN <= MTU_SAFE || p->dead)
		return;
	if (++p->big_lost >= SUSPICIOUS && !p->probe_size)
		start_at(p, p->limit);
}

/* Something to be asked on a path that carries less than it might. */
void mtu_look_again(struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (p->dead || p->probe_size || p->limit >= target(p) ||
		    c->e->now - p->mtu_at < RAISE_AFTER)
			continue;
		start_at(p, target(p));
	}
}

void mtu_timer(struct conn *c)
{
	uint64_t next = TIMER_NEVER, now = c->e->now;

	if (c->state != CONN_OPEN && c->state != CONN_CLOSING)
		return;
	if (!c->chunk_known && now >= c->mtu_hold)
		release_streams(c);
	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (p->probe_size && p->dead) {
			p->probe_size = 0;
			others_ask(p);
		}
		if (!p->probe_size)
			continue;
		if (due(p) > now)
			next = min_u64(next, due(p));
		else
			again(p);
	}
	if (!c->chunk_known)
		next = min_u64(next, c->mtu_hold);
	if (next != TIMER_NEVER)
		timer_by(&c->e->timers, &c->mtu, next);
}

/*
 * Is the letter too large for each path that can be used? Then its message has to be cut anew: into how many
 * pieces each chunk; 0: some path takes it as it is.
 */
uint32_t mtu_pieces(const struct conn *c, const struct letter *l)
{
	static const uint8_t divisors[] = { 2, 3, 4, 6, 8, 12, 24 };
	uint32_t least = UINT32_MAX, most = 0, len = MROCE_HDR_LEN + letter_len(l);

	if (l->type != MROCE_DATA)
		return 0;
	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if (!path_usable(p))
			continue;
		least = p->limit < least ? p->limit : least;
		most = p->limit > most ? p->limit : most;
	}
	if (!most || most >= len)
		return 0;
	for (uint32_t i = 0; i < sizeof(divisors); i++) {
		if (l->msg->chunk_size % divisors[i] == 0 &&
		    l->msg->chunk_size / divisors[i] + MROCE_HDR_LEN + letter_head(l) <= least)
			return divisors[i];
	}
	return 0;
}
