// SPDX-License-Identifier: BSD-2-Clause
/*
 * Set-up: HELLO, ACCEPT, READY. The initiator repeats HELLO until ACCEPT comes. A repeated HELLO is known by its
 * nonce and gets the same ACCEPT. Whoever has not shown that he receives at his address gets one answer
 * for one question, never a longer one; under load, or with a pre-shared key, that answer is a cookie.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <syslog.h>
#include "core/internal.h"
#include "mroce/track.h"

#define RETRY_FIRST (20 * MSEC)
#define RETRY_MAX (200 * MSEC)
#define CHUNK_MIN 48
#define HELLO_LEN (MROCE_HDR_LEN + (uint32_t)sizeof(struct mroce_hello))
/* Cookies that an initiator takes for one attempt: one per port and change of the peer's key. */
#define COOKIES_MAX 32

/* struct mroce_hello in host byte order, as far as it is used. */
struct hello {
	uint8_t version_min, version_max, paths, ports;
	uint16_t status, chunk;
	uint32_t features, service, cid, token, first_psn, streams;
	uint64_t nonce, peer_nonce;
	struct mroce_wire_port port[MROCE_MAX_PORTS];
};

void handshake_port(const struct port *port, struct mroce_wire_port *w)
{
	memcpy(w->addr, port->addr.a, sizeof(w->addr));
	w->mtu = htons(port->mtu);
	w->serial = htons(port->serial);
	w->speed = htonl(port->speed);
}

static void fill_ports(const struct engine *e, struct mroce_hello *h)
{
	h->ports = (uint8_t)e->nports;
	for (uint32_t i = 0; i < e->nports; i++)
		handshake_port(e->ports[i], &h->port[i]);
}

static uint32_t features_offered(const struct engine *e)
{
	return (e->cfg.no_hints ? 0 : MROCE_F_HINT) | (e->cfg.no_tolerance ? 0 : MROCE_F_TOLERANCE);
}

static void fill_conn(const struct conn *c, struct mroce_hello *h)
{
	const struct engine *e = c->e;
	uint64_t mine = htobe64(c->nonce), theirs = htobe64(c->peer_nonce);

	/* What we offer, or what has been agreed. */
	h->features = htonl(c->features);
	h->service = htonl(c->service);
	h->cid = htonl(c->id);
	h->token = htonl(c->token);
	h->first_psn = htonl(e->cfg.first_psn);
	h->nonce = c->is_initiator ? mine : theirs;
	h->peer_nonce = c->is_initiator ? theirs : mine;
	h->chunk = htons((uint16_t)engine_chunk(e));
	h->paths = (uint8_t)e->cfg.paths;
	h->streams = htonl(e->cfg.streams);
	fill_ports(e, h);
}

/* `port`: to be tried; NULL: all ports that reach the peer, a different one each time. */
static void send_setup(struct engine *e, struct port *port, const struct ip *remote, uint32_t turn,
		       uint8_t type, struct mroce_hello *body)
{
	uint8_t buf[HELLO_LEN];
	uint32_t body_len = body->status ? MROCE_HELLO_SHORT : (uint32_t)sizeof(*body);
	uint32_t len = MROCE_HDR_LEN + body_len;
	struct packet p = { .type = type, .body_len = (uint16_t)body_len };

	body->version_min = body->version_max = MROCE_WIRE_VERSION;
	auth_sign(e, type, body, body_len);
	memcpy(buf + MROCE_HDR_LEN, body, body_len);
	packet_seal(buf, &p);
	if (port && port->ops->ctl_send(port, remote, buf, len) == 0)
		return;
	for (uint32_t i = 0; i < e->nports; i++) {
		struct port *try = e->ports[(turn + i) % e->nports];

		if (!try->up || !try->ops->reachable(try, remote))
			continue;
		if (try->ops->ctl_send(try, remote, buf, len) == 0)
			return;
	}
}

static void send_conn_to(struct conn *c, struct port *port, const struct ip *remote, uint8_t type)
{
	struct mroce_hello h = { 0 };

	fill_conn(c, &h);
	if (type == MROCE_HELLO) {
		memcpy(h.to, c->peer.a, sizeof(h.to));
		memcpy(h.cookie, c->setup_cookie, sizeof(h.cookie));
	}
	c->setup_sent = c->e->now;
	send_setup(c->e, port, remote, c->setup_tries, type, &h);
}

static void send_conn(struct conn *c, struct port *port, uint8_t type)
{
	send_conn_to(c, port, &c->peer, type);
}

static void retry_later(struct conn *c)
{
	uint64_t at = min_u64(c->e->now + c->setup_wait, c->setup_deadline);

	c->setup_wait = min_u64(2 * c->setup_wait, RETRY_MAX);
	timer_set(&c->e->timers, &c->life, at);
}

static uint64_t initiators_nonce(const struct conn *c)
{
	return c->is_initiator ? c->nonce : c->peer_nonce;
}

static void start(struct conn *c, uint8_t state)
{
	c->state = state;
	c->ports_told = port_serials(c->e);
	c->nonce = rng_u64(&c->e->rng);
	hash_add(&c->e->setups, auth_hash(c->e, initiators_nonce(c)), &c->setup);
	c->is_listed = true;
	c->setup_wait = RETRY_FIRST;
	c->setup_deadline = c->e->now + c->e->cfg.handshake_ns;
	retry_later(c);
}

void handshake_start(struct conn *c)
{
	c->features = features_offered(c->e);
	start(c, CONN_HELLO);
	send_conn(c, NULL, MROCE_HELLO);
}

static void not_half_open(struct conn *c)
{
	c->e->half_open -= c->half_open;
	c->half_open = false;
}

void handshake_left(struct conn *c)
{
	not_half_open(c);
	if (c->is_listed)
		hash_del(&c->e->setups, auth_hash(c->e, initiators_nonce(c)), &c->setup);
	c->is_listed = false;
}

static void refused(struct conn *c, int code)
{
	c->state = CONN_ENDED;
	timer_clear(&c->e->timers, &c->life);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_REFUSED, code);
}

static void give_up(struct conn *c)
{
	if (c->state == CONN_HELLO)
		refused(c, c->key_refused ? EKEYREJECTED : ETIMEDOUT);
	else
		conn_release(c);
}

/* Letters and questions with our id and token, so far: their sender has our ACCEPT, if not we its READY. */
static uint32_t tracker_heard(const struct conn *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->e->nports; i++) {
		const struct mroce_path_rx *rx = &c->e->ports[i]->paths[c->slot * MROCE_MAX_PATHS];

		for (uint32_t p = 0; p < c->peer_npaths; p++)
			n += TRACK_READ(rx[p].rx_packets) + TRACK_READ(rx[p].acks);
	}
	return n;
}

/*
 * Whoever sends with our id and token believes that it is connected. With a key only its READY proves that
 * it is the peer, since a token can be read on the way: the ACCEPT asks for it again. It is repeated
 * for who has returned a cookie, and for signs of life; else the peer's own repeats must do.
 */
static void accept_timer(struct conn *c)
{
	uint32_t heard = tracker_heard(c);

	if (heard && !c->e->cfg.authenticated) {
		handshake_confirmed(c);
		return;
	}
	if (c->is_proven || heard != c->setup_heard)
		send_conn(c, c->setup_tries % 2 ? NULL : c->setup_port, MROCE_ACCEPT);
	c->setup_heard = heard;
	retry_later(c);
}

void handshake_timer(struct conn *c)
{
	if (c->e->now >= c->setup_deadline) {
		give_up(c);
		return;
	}
	c->setup_tries++;
	if (c->state == CONN_ACCEPT) {
		accept_timer(c);
		return;
	}
	send_conn(c, NULL, MROCE_HELLO);
	retry_later(c);
}

bool handshake_letter(struct conn *c)
{
	if (!c->e->cfg.authenticated) {
		handshake_confirmed(c);
		return true;
	}
	count(c->e, MROCE_DROP_STATE);
	if (c->e->now - c->setup_sent >= RETRY_FIRST / 4)
		send_conn(c, c->setup_port, MROCE_ACCEPT);
	return false;
}

/* ---- what comes in ---- */

/* Only an ACCEPT that refuses may be short. */
static int copy_body(const struct packet *p, struct mroce_hello *w)
{
	uint32_t full = sizeof(*w);

	memset(w, 0, sizeof(*w));
	if (p->body_len < MROCE_HELLO_SHORT)
		return -MROCE_DROP_BODY;
	memcpy(w, p->body, p->body_len < full ? p->body_len : full);
	if (p->body_len < full && (p->type != MROCE_ACCEPT || !w->status))
		return -MROCE_DROP_BODY;
	return 0;
}

static void parse(const struct mroce_hello *wire, struct hello *h)
{
	const struct mroce_hello w = *wire;

	h->version_min = w.version_min;
	h->version_max = w.version_max;
	h->paths = w.paths;
	h->ports = w.ports;
	h->status = ntohs(w.status);
	h->chunk = ntohs(w.chunk);
	h->features = ntohl(w.features);
	h->service = ntohl(w.service);
	h->cid = ntohl(w.cid);
	h->token = ntohl(w.token);
	h->first_psn = ntohl(w.first_psn);
	h->streams = ntohl(w.streams);
	h->nonce = be64toh(w.nonce);
	h->peer_nonce = be64toh(w.peer_nonce);
	memcpy(h->port, w.port, sizeof(h->port));
}

static bool sane(const struct hello *h)
{
	return h->cid && h->paths && h->paths <= MROCE_MAX_PATHS && h->ports &&
	       h->ports <= MROCE_MAX_PORTS && h->chunk >= CHUNK_MIN && h->streams;
}

static bool speaks(const struct hello *h)
{
	return h->version_min <= MROCE_WIRE_VERSION && MROCE_WIRE_VERSION <= h->version_max;
}

static int learn_peer(struct conn *c, const struct hello *h)
{
	uint32_t chunk = engine_chunk(c->e);

	c->peer_id = h->cid;
	c->peer_token = h->token;
	c->peer_first_psn = h->first_psn;
	c->peer_streams = h->streams;
	c->features = h->features & features_offered(c->e);
	c->peer_npaths = h->paths;
	c->peer_nports = h->ports;
	c->peer_ports = calloc(h->ports, sizeof(*c->peer_ports));
	if (!c->peer_ports)
		return -ENOMEM;
	memcpy(c->peer_ports, h->port, h->ports * sizeof(*c->peer_ports));
	chunk = h->chunk < chunk ? h->chunk : chunk;
	c->chunk_max = chunk - chunk % 24;
	if (c->chunk_max < CHUNK_MIN)
		return -EMSGSIZE;
	c->chunk = c->chunk_max < mtu_chunk(MTU_SAFE) ? c->chunk_max : mtu_chunk(MTU_SAFE);
	return conn_open_paths(c);
}

static void refuse(struct engine *e, struct port *port, const struct rx_info *info,
		   const struct hello *hello, uint16_t status)
{
	struct mroce_hello h = { 0 };

	h.status = htons(status);
	h.service = htonl(hello->service);
	h.nonce = htobe64(hello->nonce);
	send_setup(e, port, &info->remote, 0, MROCE_ACCEPT, &h);
}

static void ask_for_cookie(struct engine *e, struct port *port, const struct rx_info *info,
			   const struct mroce_hello *hello)
{
	struct mroce_hello h = {
		.status = htons(MROCE_ACCEPT_COOKIE),
		.service = hello->service,
		.nonce = hello->nonce,
	};

	count(e, MROCE_COUNT_TX_COOKIE);
	auth_cookie(e, &info->remote, hello, h.cookie);
	send_setup(e, port, &info->remote, 0, MROCE_ACCEPT, &h);
}

/* Answered and done with, or the peer receives where it says. */
static bool receives_there(struct engine *e, struct port *port, const struct rx_info *info,
			   const struct mroce_hello *hello)
{
	static const uint8_t none[MROCE_COOKIE_LEN];

	if (auth_cookie_ok(e, &info->remote, hello))
		return true;
	if (memcmp(hello->cookie, none, sizeof(none)))
		count(e, MROCE_DROP_COOKIE);
	ask_for_cookie(e, port, info, hello);
	return false;
}

/* Those who did not show where they receive get no more than half of a backlog. */
static bool needs_cookie(const struct engine *e, const struct listener *l)
{
	return e->cfg.authenticated || e->half_open >= e->cfg.cookies_above ||
	       2 * (l->pending + 1) > l->backlog;
}

static struct conn *find_attempt(struct engine *e, const struct hello *h)
{
	uint32_t at = auth_hash(e, h->nonce) & e->setups.mask;

	for (struct hnode *n = e->setups.heads[at]; n; n = n->next) {
		struct conn *c = container_of(n, struct conn, setup);

		if (!c->is_initiator && c->peer_nonce == h->nonce && c->peer_id == h->cid)
			return c;
	}
	return NULL;
}

static struct conn *answer(struct engine *e, struct port *port, const struct rx_info *info,
			   const struct hello *h, struct listener *l, bool is_proven)
{
	struct conn *c = conn_new(e, l->owner, h->service);

	if (!c)
		return NULL;
	c->peer = info->remote;
	c->peer_nonce = h->nonce;
	c->setup_port = port;
	c->is_proven = is_proven;
	c->half_open = true;
	e->half_open++;
	start(c, CONN_ACCEPT);
	if (learn_peer(c, h)) {
		conn_release(c);
		return NULL;
	}
	c->counts_in_backlog = true;
	l->pending++;
	return c;
}

/* A HELLO that we know; perhaps from another port of the peer, to which nothing has been sent yet. */
static void hello_again(struct conn *c, struct port *port, const struct rx_info *info,
			const struct mroce_hello *wire)
{
	if (c->state != CONN_ACCEPT && c->state != CONN_OPEN)
		return;
	if (!ip_equal(&c->peer, &info->remote) && !receives_there(c->e, port, info, wire))
		return;
	send_conn_to(c, port, &info->remote, MROCE_ACCEPT);
}

static void hello_rx(struct engine *e, struct port *port, const struct mroce_hello *wire,
		     const struct hello *h, const struct rx_info *info)
{
	struct conn *c = find_attempt(e, h);
	bool is_proven = false;
	struct listener *l;

	if (c) {
		hello_again(c, port, info, wire);
		return;
	}
	if (!speaks(h)) {
		refuse(e, port, info, h, MROCE_ACCEPT_VERSION);
		return;
	}
	if (!sane(h)) {
		count(e, MROCE_DROP_BODY);
		return;
	}
	l = listener_find(e, h->service);
	if (!l) {
		refuse(e, port, info, h, MROCE_ACCEPT_NO_SERVICE);
		return;
	}
	if (needs_cookie(e, l)) {
		is_proven = receives_there(e, port, info, wire);
		if (!is_proven)
			return;
	}
	c = l->pending < l->backlog ? answer(e, port, info, h, l, is_proven) : NULL;
	if (!c) {
		refuse(e, port, info, h, MROCE_ACCEPT_BUSY);
		return;
	}
	send_conn(c, port, MROCE_ACCEPT);
}

static int refusal(uint16_t status)
{
	switch ((enum mroce_accept_status)status) {
	case MROCE_ACCEPT_OK: return 0;
	case MROCE_ACCEPT_NO_SERVICE: return ECONNREFUSED;
	case MROCE_ACCEPT_VERSION: return EPROTONOSUPPORT;
	case MROCE_ACCEPT_BUSY: return EBUSY;
	case MROCE_ACCEPT_COOKIE: return EAGAIN;
	case MROCE_ACCEPT_KEY: return EKEYREJECTED;
	}
	return EPROTO;
}

static struct conn *find_initiated(struct engine *e, const struct hello *h)
{
	uint32_t at = auth_hash(e, h->nonce) & e->setups.mask;

	for (struct hnode *n = e->setups.heads[at]; n; n = n->next) {
		struct conn *c = container_of(n, struct conn, setup);

		if (c->is_initiator && c->nonce == h->nonce)
			return c;
	}
	return NULL;
}

/* An answer with a cookie is taken as often as it may honestly come. */
static void cookie_rx(struct conn *c, struct port *port, const struct mroce_hello *wire)
{
	if (c->cookies == COOKIES_MAX ||
	    memcmp(c->setup_cookie, wire->cookie, sizeof(wire->cookie)) == 0)
		return;
	c->cookies++;
	memcpy(c->setup_cookie, wire->cookie, sizeof(wire->cookie));
	send_conn(c, port, MROCE_HELLO);
}

/* Remembered, not believed: anybody on the way could have sent it. */
static void unsigned_answer(struct engine *e, const struct hello *h, const struct rx_info *info,
			    int reason)
{
	struct conn *c = find_initiated(e, h);

	auth_refused(e, &info->remote, reason);
	if (c && c->state == CONN_HELLO)
		c->key_refused = true;
}

static void accept_rx(struct engine *e, struct port *port, const struct mroce_hello *wire,
		      const struct hello *h)
{
	struct conn *c = find_initiated(e, h);
	int err;

	if (!c) {
		count(e, MROCE_DROP_NO_CONN);
		return;
	}
	if (c->state == CONN_OPEN && c->peer_nonce == h->peer_nonce) {
		send_conn(c, port, MROCE_READY); /* ours was lost */
		return;
	}
	if (c->state != CONN_HELLO) {
		count(e, MROCE_DROP_STATE);
		return;
	}
	if (h->status == MROCE_ACCEPT_COOKIE) {
		cookie_rx(c, port, wire);
		return;
	}
	if (h->status) {
		refused(c, refusal(h->status));
		return;
	}
	if (!sane(h)) {
		count(e, MROCE_DROP_BODY);
		return;
	}
	c->peer_nonce = h->peer_nonce;
	c->setup_port = port;
	err = learn_peer(c, h);
	if (err) {
		refused(c, -err);
		return;
	}
	send_conn(c, port, MROCE_READY);
	conn_established(c);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_CONNECTED, 0);
}

static void ready_rx(struct engine *e, const struct hello *h)
{
	struct conn *c = find_attempt(e, h);

	if (!c || c->nonce != h->peer_nonce) {
		count(e, MROCE_DROP_NO_CONN);
		return;
	}
	if (c->state == CONN_ACCEPT)
		handshake_confirmed(c);
}

/* READY came, or the first letter: both show that the peer has our ACCEPT. */
void handshake_confirmed(struct conn *c)
{
	not_half_open(c);
	c->held_by_caller = true;
	conn_established(c);
	/* Letters that came before have been seen and not placed. */
	timer_set(&c->e->timers, &c->sweep, c->e->now);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_ACCEPTED, 0);
}

/* True: it was turned away for want of a (right) key. */
static bool turned_away(struct engine *e, struct port *port, const struct packet *p,
			const struct hello *h, const struct rx_info *info)
{
	int err = auth_check(e, p);

	if (!err)
		return false;
	/* That a key is wanted can be believed by who has none: there is nothing else to do. */
	if (p->type == MROCE_ACCEPT && !e->cfg.authenticated && h->status)
		return false;
	if (p->type == MROCE_ACCEPT) {
		unsigned_answer(e, h, info, -err);
		return true;
	}
	auth_refused(e, &info->remote, -err);
	if (p->type == MROCE_HELLO)
		refuse(e, port, info, h, MROCE_ACCEPT_KEY);
	return true;
}

void handshake_rx(struct engine *e, struct port *port, const struct packet *p,
		  const struct rx_info *info)
{
	struct mroce_hello wire;
	struct hello h;
	int err;

	if (!packet_body_ok(p)) {
		count(e, MROCE_DROP_BODY_CRC);
		return;
	}
	err = copy_body(p, &wire);
	if (err) {
		count(e, -err);
		return;
	}
	parse(&wire, &h);
	if (turned_away(e, port, p, &h, info))
		return;
	if (p->type == MROCE_HELLO)
		hello_rx(e, port, &wire, &h, info);
	else if (p->type == MROCE_ACCEPT)
		accept_rx(e, port, &wire, &h);
	else
		ready_rx(e, &h);
}
