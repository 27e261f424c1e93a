// SPDX-License-Identifier: BSD-2-Clause
/*
 * The network. A packet leaves over its port's uplink, crosses its plane over the spine that the hash
 * of addresses and source port chooses, suffers what the downlink's impairments say, and waits in the
 * queue of the downlink. Inside a spine, and so on a path, packets stay in order unless `reorder` says
 * otherwise.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "core/crc.h"
#include "sim.h"

/* More than any scenario needs. */
#define PACKETS_MAX 2000000u

/* ---- packets ---- */

struct frame *frame_new(struct sim *s, uint32_t room)
{
	struct frame *p = s->pool;

	if (room > s->frame_room)
		abort();
	if (p)
		s->pool = p->next;
	else
		p = malloc(sizeof(*p) + s->frame_room);
	if (!p)
		abort();
	memset(p, 0, sizeof(*p));
	s->frames_out++;
	return p;
}

/* Poisoned, so that nobody lives on bytes of a buffer that was given back. */
void frame_free(struct sim *s, struct frame *p)
{
	if (!p)
		return;
	memset(p->data, 0xbd, p->len);
	s->frames_out--;
	p->next = s->pool;
	s->pool = p;
}

struct frame *frame_copy(struct sim *s, const struct frame *p)
{
	struct frame *copy = frame_new(s, p->len);

	memcpy(copy, p, sizeof(*p) + p->len);
	copy->next = NULL;
	return copy;
}

void frame_seal(struct frame *p)
{
	struct mroce_hdr *h = (void *)p->data;
	uint32_t body = p->len - MROCE_HDR_LEN;

	h->body_len = htons((uint16_t)body);
	h->body_crc = body ? htonl(crc32c(p->data + MROCE_HDR_LEN, body)) : 0;
	h->hdr_crc = htonl(crc32c(p->data, MROCE_HDR_CRC_LEN));
}

/* ---- addresses ---- */

struct ip net_address(const struct sim *s, uint32_t host, uint32_t plane)
{
	struct ip ip = { { 0 } };

	if (s->cfg.ipv6) {
		ip.a[0] = 0xfd;
		ip.a[7] = (uint8_t)plane;
	} else {
		ip.a[10] = ip.a[11] = 0xff;
		ip.a[12] = 10;
		ip.a[13] = (uint8_t)plane;
	}
	if (s->hosts[host] && plane < s->hosts[host]->nports)
		ip.a[14] = s->hosts[host]->ports[plane].generation;
	ip.a[15] = (uint8_t)(host + 1);
	return ip;
}

static uint32_t address_plane(const struct sim *s, const struct ip *ip)
{
	return ip->a[s->cfg.ipv6 ? 7 : 13];
}

bool net_locate(const struct sim *s, const struct ip *ip, uint32_t *host, uint32_t *port)
{
	uint32_t plane = address_plane(s, ip);
	struct ip expect;

	*host = ip->a[15] - 1u;
	if (*host >= s->cfg.hosts || !s->hosts[*host])
		return false;
	expect = net_address(s, *host, plane);
	if (!ip_equal(ip, &expect) || plane >= s->hosts[*host]->nports)
		return false;
	*port = plane;
	return true;
}

uint32_t net_spine(const struct sim *s, const struct frame *p)
{
	uint64_t h = (uint64_t)p->src.a[15] << 40 | (uint64_t)p->dst.a[15] << 32 | p->sport;

	return (uint32_t)(mix64(h ^ address_plane(s, &p->dst) << 20) % s->cfg.spines);
}

void net_impair(struct sim *s, int plane, const struct impair *imp)
{
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		for (uint32_t j = 0; j < s->hosts[i]->nports; j++) {
			if (plane < 0 || (uint32_t)plane == j)
				s->hosts[i]->ports[j].down.imp = *imp;
		}
	}
}

void net_plane_mtu(struct sim *s, uint32_t plane, uint32_t mtu)
{
	trace_text(s, TR_EVENT, 0, "plane %u takes packets of %u bytes", plane, mtu);
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		if (plane < s->hosts[i]->nports)
			s->hosts[i]->ports[plane].down.mtu = mtu;
	}
}

void net_plane_down(struct sim *s, uint32_t plane, bool down)
{
	trace_text(s, TR_EVENT, 0, "plane %u %s", plane, down ? "down" : "up");
	for (uint32_t i = 0; i < s->cfg.hosts; i++) {
		if (plane < s->hosts[i]->nports)
			s->hosts[i]->ports[plane].down.down = down;
	}
}

/* ---- links ---- */

static void lose(struct sim *s, struct link *l, struct frame *p, const char *why)
{
	if (l)
		l->dropped++;
	if (frame_type(p) < MROCE_TYPE_MAX)
		s->lost[frame_type(p)]++;
	trace_frame(s, TR_DROP, p->to_host, p->to_port, p, why);
	frame_free(s, p);
}

/* When the last bit of p has left the link; NEVER: its queue is full. */
static uint64_t link_departure(struct sim *s, struct link *l, struct frame *p)
{
	uint64_t start = l->busy_until > s->now ? l->busy_until : s->now;
	uint64_t bits = (p->len + 66) * 8ull; /* Ethernet, IP and UDP headers, and gap */
	uint64_t backlog;

	l->packets++;
	if (!l->rate)
		return s->now;
	backlog = (uint64_t)((double)(start - s->now) * (double)l->rate / 8e9);
	if (l->queue_bytes && backlog + p->len > l->queue_bytes) {
		l->overflowed++;
		return NEVER;
	}
	if (l->ce_bytes && backlog > l->ce_bytes) {
		l->marked++;
		p->ce = true;
	}
	l->busy_until = start + bits * SEC / l->rate;
	return l->busy_until;
}

static void arrive(struct sim *s, void *a, uint64_t b)
{
	struct frame *p = a;
	struct host *h = s->hosts[p->to_host];

	(void)b;
	host_rx(h, &h->ports[p->to_port], p);
}

/*
 * Gilbert-Elliott. One step per packet, or per packet's time on a link with little traffic: a burst of
 * eight packets on a link that carries only ACKs is not to last until eight ACKs have come by.
 */
static bool burst_loses(struct sim *s, struct link *l)
{
	const struct impair *imp = &l->imp;
	uint64_t slot = l->rate ? 1500 * 8 * SEC / l->rate : US, steps;

	if (!imp->burst_start)
		return false;
	steps = (s->now - l->burst_at) / slot;
	l->burst_at = s->now;
	if (!steps)
		steps = 1;
	if (steps > 200) {
		l->in_burst = false; /* forgotten */
		steps = 200;
	}
	while (steps--) {
		if (rng_ppm(&s->net_rng, l->in_burst ? imp->burst_end : imp->burst_start))
			l->in_burst = !l->in_burst;
	}
	return l->in_burst && rng_ppm(&s->net_rng, imp->burst_loss);
}

static const char *why_lost(struct sim *s, struct link *l, const struct frame *p)
{
	const struct impair *imp = &l->imp;
	uint8_t type = frame_type(p);
	uint32_t ip_len = p->len + (s->cfg.ipv6 ? 48 : 28);

	if ((l->mtu && ip_len > l->mtu) || ip_len > s->hosts[p->to_host]->ports[p->to_port].port.mtu)
		return "too large";
	if (l->down)
		return "link down";
	if (burst_loses(s, l))
		return "burst";
	if (rng_ppm(&s->net_rng, imp->loss))
		return "loss";
	if (type < 32 && imp->types >> type & 1 && rng_ppm(&s->net_rng, imp->type_loss))
		return "loss of its type";
	return NULL;
}

static void corrupt(struct sim *s, struct frame *p)
{
	uint32_t flips = 1 + (uint32_t)rng_below(&s->net_rng, 8);

	for (uint32_t i = 0; i < flips && p->len; i++) {
		uint64_t bit = rng_below(&s->net_rng, p->len * 8ull);

		p->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

static void deliver(struct sim *s, struct link *l, struct frame *p)
{
	uint64_t at = link_departure(s, l, p);
	const char *why = at == NEVER ? "queue full" : why_lost(s, l, p);

	if (why) {
		lose(s, l, p, why);
		return;
	}
	at += l->delay;
	if (rng_ppm(&s->net_rng, l->imp.reorder))
		at += 1 + rng_below(&s->net_rng, l->imp.reorder_ns);
	sim_at(s, at, arrive, p, 0);
}

/* After the spine. What gets lost has used its share of the downlink before. */
static void downlink(struct sim *s, void *a, uint64_t b)
{
	struct frame *p = a;
	struct link *l = &s->hosts[p->to_host]->ports[p->to_port].down;

	(void)b;
	if (rng_ppm(&s->net_rng, l->imp.dup))
		deliver(s, l, frame_copy(s, p));
	if (rng_ppm(&s->net_rng, l->imp.corrupt))
		corrupt(s, p);
	if (rng_ppm(&s->net_rng, l->imp.trunc))
		p->len = (uint32_t)rng_below(&s->net_rng, p->len);
	deliver(s, l, p);
}

static bool find_way(struct sim *s, struct frame *p, uint64_t *delay)
{
	uint32_t host, port, spine;

	if (!net_locate(s, &p->dst, &host, &port))
		return false;
	p->to_host = (uint8_t)host;
	p->to_port = (uint8_t)port;
	spine = net_spine(s, p);
	*delay = spine * s->cfg.spine_step_ns;
	return !s->spine_down[port][spine];
}

void net_inject(struct sim *s, struct frame *p)
{
	struct sim_port *from = &s->hosts[p->from_host]->ports[p->from_port];
	uint8_t type = frame_type(p);
	uint64_t at, delay = 0;

	s->packets++;
	CHECK(s, s->packets < PACKETS_MAX, "a storm: %u packets and no end", PACKETS_MAX);
	if (type < MROCE_TYPE_MAX)
		s->sent[type]++;
	if (from->down.down) { /* a dead plane is dead in both directions */
		lose(s, &from->up, p, "plane down");
		return;
	}
	if (type < MROCE_TYPE_MAX && s->drop_first[type]) {
		s->drop_first[type]--;
		lose(s, &from->up, p, "one of the first of its type");
		return;
	}
	if (!find_way(s, p, &delay)) {
		lose(s, &from->up, p, "no way there");
		return;
	}
	at = link_departure(s, &from->up, p);
	if (at == NEVER) {
		lose(s, &from->up, p, "uplink queue full");
		return;
	}
	sim_at(s, at + from->up.delay + delay, downlink, p, 0);
}

void net_send(struct sim *s, struct frame *p)
{
	if (s->tap && !s->tap(s, p)) {
		lose(s, NULL, p, "taken by the tap");
		return;
	}
	net_inject(s, p);
}

bool net_owns_frame(event_fn fn)
{
	return fn == arrive || fn == downlink;
}
