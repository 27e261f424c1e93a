// SPDX-License-Identifier: BSD-2-Clause
/*
 * Set-up: HELLO, ACCEPT, READY. The initiator repeats HELLO until ACCEPT comes, the responder repeats ACCEPT
 * until READY or a letter comes. A repeated HELLO is known by its nonce and gets the same ACCEPT.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <syslog.h>
#include "core/internal.h"
#include "mroce/track.h"

#define RETRY_FIRST (20 * MSEC)
#define RETRY_MAX (500 * MSEC)
#define CHUNK_MIN 64
#define HELLO_LEN (MROCE_HDR_LEN + (uint32_t)sizeof(struct mroce_hello))

/* struct mroce_hello in host byte order, as far as it is used. */
struct hello {
	uint8_t version_min, version_max, paths, ports;
	uint16_t status, chunk;
	uint32_t features, service, cid, token, first_psn, streams;
	uint64_t nonce, peer_nonce;
	struct mroce_wire_port port[MROCE_MAX_PORTS];
};

static uint32_t features_offered(const struct engine *e)
{
	return e->cfg.no_tolerance ? 0 : MROCE_F_TOLERANCE;
}

static void fill_ports(const struct engine *e, struct mroce_hello *h)
{
	h->ports = (uint8_t)e->nports;
	for (uint32_t i = 0; i < e->nports; i++) {
		const struct port *port = e->ports[i];

		memcpy(h->port[i].addr, port->addr.a, sizeof(h->port[i].addr));
		h->port[i].mtu = htons(port->mtu);
		h->port[i].speed = htonl(port->speed);
	}
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
	struct packet p = { .type = type, .body_len = sizeof(*body) };

	body->version_min = body->version_max = MROCE_WIRE_VERSION;
	memcpy(buf + MROCE_HDR_LEN, body, sizeof(*body));
	packet_seal(buf, &p);
	if (port && port->ops->ctl_send(port, remote, buf, sizeof(buf)) == 0)
		return;
	for (uint32_t i = 0; i < e->nports; i++) {
		struct port *try = e->ports[(turn + i) % e->nports];

		if (!try->up || !try->ops->reachable(try, remote))
			continue;
		if (try->ops->ctl_send(try, remote, buf, sizeof(buf)) == 0)
			return;
	}
}

static void send_conn(struct conn *c, struct port *port, uint8_t type)
{
	struct mroce_hello h = { 0 };

	fill_conn(c, &h);
	send_setup(c->e, port, &c->peer, c->setup_tries, type, &h);
}

static void retry_later(struct conn *c)
{
	uint64_t at = min_u64(c->e->now + c->setup_wait, c->setup_deadline);

	c->setup_wait = min_u64(2 * c->setup_wait, RETRY_MAX);
	timer_set(&c->e->timers, &c->life, at);
}

static void start(struct conn *c, uint8_t state)
{
	c->state = state;
	c->nonce = rng_u64(&c->e->rng);
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

static void refused(struct conn *c, int code)
{
	c->state = CONN_ENDED;
	timer_clear(&c->e->timers, &c->life);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_REFUSED, code);
}

static void give_up(struct conn *c)
{
	if (c->state == CONN_HELLO)
		refused(c, ETIMEDOUT);
	else
		conn_release(c);
}

/* Packets with our id and token have come: the peer has our ACCEPT, if not we its READY. */
static bool tracker_heard(const struct conn *c)
{
	for (uint32_t i = 0; i < c->e->nports; i++) {
		const struct mroce_path_rx *rx = &c->e->ports[i]->paths[c->slot * MROCE_MAX_PATHS];

		for (uint32_t p = 0; p < c->peer_npaths; p++) {
			if (TRACK_READ(rx[p].rx_packets))
				return true;
		}
	}
	return false;
}

void handshake_timer(struct conn *c)
{
	if (c->state == CONN_ACCEPT && tracker_heard(c)) {
		handshake_confirmed(c);
		return;
	}
	if (c->e->now >= c->setup_deadline) {
		give_up(c);
		return;
	}
	c->setup_tries++;
	if (c->state == CONN_HELLO)
		send_conn(c, NULL, MROCE_HELLO);
	else
		send_conn(c, c->setup_tries % 2 ? NULL : c->setup_port, MROCE_ACCEPT);
	retry_later(c);
}

/* ---- what comes in ---- */

static int parse(const struct packet *p, struct hello *h)
{
	struct mroce_hello w;

	if (p->body_len < sizeof(w))
		return -MROCE_DROP_BODY;
	memcpy(&w, p->body, sizeof(w));
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
	return 0;
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
	c->peer_npaths = h->paths;
	c->peer_nports = h->ports;
	c->features = h->features & features_offered(c->e);
	memcpy(c->peer_ports, h->port, sizeof(c->peer_ports));
	c->chunk = (h->chunk < chunk ? h->chunk : chunk) & ~7u;
	if (c->chunk < CHUNK_MIN)
		return -EMSGSIZE;
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

static struct conn *find_attempt(struct engine *e, const struct hello *h)
{
	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		struct conn *c = e->conns[i];

		if (c && !c->is_initiator && c->peer_nonce == h->nonce && c->peer_id == h->cid)
			return c;
	}
	return NULL;
}

static struct listener *find_listener(struct engine *e, uint32_t service)
{
	struct listener *l;

	for (l = LIST_FIRST(&e->listeners); l; l = LIST_NEXT(l, link)) {
		if (l->service == service)
			return l;
	}
	return NULL;
}

static struct conn *answer(struct engine *e, struct port *port, const struct rx_info *info,
			   const struct hello *h, struct listener *l)
{
	struct conn *c = conn_new(e, l->owner, h->service);

	if (!c)
		return NULL;
	c->peer = info->remote;
	c->peer_nonce = h->nonce;
	c->setup_port = port;
	start(c, CONN_ACCEPT);
	if (learn_peer(c, h)) {
		conn_release(c);
		return NULL;
	}
	c->counts_in_backlog = true;
	l->pending++;
	return c;
}

static void hello_rx(struct engine *e, struct port *port, const struct hello *h,
		     const struct rx_info *info)
{
	struct conn *c = find_attempt(e, h);
	struct listener *l;

	if (c) {
		if (c->state == CONN_ACCEPT || c->state == CONN_OPEN)
			send_conn(c, port, MROCE_ACCEPT);
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
	l = find_listener(e, h->service);
	if (!l) {
		refuse(e, port, info, h, MROCE_ACCEPT_NO_SERVICE);
		return;
	}
	c = l->pending < l->backlog ? answer(e, port, info, h, l) : NULL;
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
	}
	return EPROTO;
}

static struct conn *find_initiated(struct engine *e, const struct hello *h)
{
	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		struct conn *c = e->conns[i];

		if (c && c->is_initiator && c->nonce == h->nonce)
			return c;
	}
	return NULL;
}

static void accept_rx(struct engine *e, struct port *port, const struct hello *h)
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
	c->held_by_caller = true;
	conn_established(c);
	c->e->ops->event(c->e->ctx, c, CONN_EVENT_ACCEPTED, 0);
}

void handshake_rx(struct engine *e, struct port *port, const struct packet *p,
		  const struct rx_info *info)
{
	struct hello h;
	int err;

	if (!packet_body_ok(p)) {
		count(e, MROCE_DROP_BODY_CRC);
		return;
	}
	err = parse(p, &h);
	if (err) {
		count(e, -err);
		return;
	}
	if (p->type == MROCE_HELLO)
		hello_rx(e, port, &h, info);
	else if (p->type == MROCE_ACCEPT)
		accept_rx(e, port, &h);
	else
		ready_rx(e, &h);
}
