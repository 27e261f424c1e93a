// SPDX-License-Identifier: BSD-2-Clause
/*
 * The receiver's part in congestion control: what it can take is divided fairly (max-min) between those who
 * send, and each one's share goes into every ACK of its connection.
 *
 * What a port can take is the smaller of its link's rate and of what we have been seen to drain, the
 * latter only while we do not keep up: as long as the rings are found empty it is not us who limits. Of
 * that MARGIN percent if several share it, so that a queue in the network drains. A connection that uses less than its share
 * leaves the rest to the others, but may grow up to the common share at any time.
 */
#include "core/internal.h"
#include "mroce/rate.h"
#include "mroce/track.h"

#define MARGIN 95
#define TICK (1 * MSEC)
#define TICK_PER_CONN (1 * USEC)
/* At least so long between two divisions, whoever comes. */
#define SOONEST (20 * USEC)
/* A rate is measured over so many packets at least, and so long. */
#define SPAN_PACKETS 16
#define SPAN_MIN (1 * MSEC)
/* A sender of which nothing came for so many packets' time has stopped. */
#define IDLE_PACKETS 8
#define IDLE_MIN (2 * MSEC)
#define PACKET_BITS (3600 * 8ull)
#define RATE_MIN_KBPS 1000
#define DRAIN_SPAN (4 * MSEC)
#define DRAIN_FREE 8 /* spans without a full ring until a limit is forgotten */
#define FILL_ROUNDS 8
#define ANYTHING UINT64_MAX

static uint64_t rate_of(uint64_t bytes, uint64_t ns)
{
	return ns ? bytes * 8 * 1000000 / ns : 0; /* kbit/s */
}

static uint64_t packets_time(uint32_t n, uint64_t kbps)
{
	return kbps ? n * PACKET_BITS * 1000000 / kbps : 0;
}

static void write_hint(struct conn *c, uint64_t kbps)
{
	uint16_t hint = rate_encode(kbps);

	c->share_kbps = kbps;
	for (uint32_t i = 0; i < c->e->nports; i++) {
		struct mroce_conn_entry *entry = &c->e->ports[i]->conns[c->slot];

		if (entry->cid == c->id && TRACK_READ(entry->hint) != hint)
			TRACK_WRITE(entry->hint, hint);
	}
}

/* ---- who sends, how much ---- */

/* Bytes that have come by a path since the last look, as they were on the link. */
static uint64_t path_bytes(struct rxpath *rp)
{
	const struct mroce_path_rx *rx;
	uint32_t bytes, packets;
	uint64_t sum;

	if (!rp->port)
		return 0;
	rx = &rp->port->paths[rp->conn->slot * MROCE_MAX_PATHS + rp->index];
	bytes = TRACK_READ(rx->rx_bytes);
	packets = TRACK_READ(rx->rx_packets);
	sum = (uint32_t)(bytes - rp->hint_bytes) +
	      (uint64_t)(uint32_t)(packets - rp->hint_packets) * MROCE_WIRE_OVERHEAD;
	rp->hint_bytes = bytes;
	rp->hint_packets = packets;
	return sum;
}

/* Only of paths from which something has reached us: of thousands of connections most are silent at any time. */
static uint64_t conn_bytes(struct conn *c)
{
	uint64_t sum = 0;

	for (uint32_t paths = c->uncounted; paths; paths &= paths - 1) {
		struct rxpath *rp = &c->rxpaths[__builtin_ctz(paths)];
		uint64_t bytes = path_bytes(rp);

		if (bytes)
			c->e->drains[rp->port->index].bytes += bytes;
		sum += bytes;
	}
	c->uncounted = 0;
	return sum;
}

void hint_forget(struct conn *c)
{
	if (!c->taking)
		return;
	c->taking = false;
	TAILQ_REMOVE(&c->e->takers, c, taker);
	c->e->ntakers--;
}

/* Something came: the connection has its share from now on. */
void hint_arrival(struct conn *c)
{
	struct engine *e = c->e;

	if (c->taking || !(c->features & MROCE_F_HINT))
		return;
	c->taking = true;
	TAILQ_INSERT_TAIL(&e->takers, c, taker);
	e->ntakers++;
	c->uncounted = (uint16_t)((1u << c->peer_npaths) - 1);
	conn_bytes(c);
	c->taken = 0;
	c->taken_since = e->now;
	c->want_kbps = ANYTHING;
	e->hint_at = e->ntakers == 1 ? e->now : min_u64(e->hint_at, e->hinted_at + SOONEST);
}

/* What it would use, judged by what it has used of its share. */
static void judge(struct conn *c)
{
	uint64_t now = c->e->now, span = now - c->taken_since, rate;

	if (span < max_u64(SPAN_MIN, packets_time(SPAN_PACKETS, c->share_kbps)))
		return;
	rate = rate_of(c->taken, span);
	c->want_kbps = c->share_kbps && rate < c->share_kbps / 4 * 3
			       ? max_u64(2 * rate, RATE_MIN_KBPS)
			       : ANYTHING;
	c->taken = 0;
	c->taken_since = now;
}

static bool has_stopped(const struct conn *c)
{
	uint64_t limit = max_u64(IDLE_MIN, packets_time(IDLE_PACKETS, c->share_kbps));

	return c->e->now - c->rx_active_at > limit;
}

/* The peer's paths come by the ports that ours go out of. */
static void find_ports(struct conn *c)
{
	c->taker_ports = 0;
	for (uint32_t i = 0; i < c->npaths; i++) {
		if (path_usable(&c->paths[i]))
			c->taker_ports |= 1u << c->paths[i].port->index;
	}
}

static void look_at_takers(struct engine *e)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&e->takers); c; c = next) {
		next = TAILQ_NEXT(c, taker);
		c->taken += conn_bytes(c);
		if (has_stopped(c)) {
			hint_forget(c);
			write_hint(c, 0);
			continue;
		}
		judge(c);
		find_ports(c);
	}
}

/* ---- what a port can take ---- */

static void measure_drain(struct engine *e, uint32_t i)
{
	struct drain *d = &e->drains[i];
	struct port *port = e->ports[i];
	uint64_t span = e->now - d->since, rate = rate_of(d->bytes, span);

	if (span < DRAIN_SPAN)
		return;
	if (d->bytes && port->drained == d->drained && span < 4 * DRAIN_SPAN) {
		d->kbps = max_u64(max_u64(rate, d->kbps - d->kbps / 8), RATE_MIN_KBPS);
		d->free = 0;
	} else if (d->kbps) {
		d->kbps += d->kbps / 4;
		if (++d->free >= DRAIN_FREE)
			d->kbps = 0;
	}
	d->bytes = 0;
	d->since = e->now;
	d->drained = port->drained;
}

/* kbit/s; 0: unknown. */
static uint64_t capacity(const struct engine *e, uint32_t i)
{
	uint64_t link = e->ports[i]->speed * 1000ull, drain = e->drains[i].kbps;
	uint64_t least = link && drain ? min_u64(link, drain) : link + drain;

	return e->ntakers > 1 ? least * MARGIN / 100 : least;
}

/* ---- dividing it ---- */

static uint64_t want_of(const struct conn *c)
{
	if (c->want_kbps == ANYTHING)
		return ANYTHING;
	return c->want_kbps / (uint32_t)__builtin_popcount(c->taker_ports);
}

/* The rate at which the sum of min(rate, want) over all is the port's capacity. */
static uint64_t water_level(const struct engine *e, uint32_t port, uint64_t total)
{
	uint64_t level = total;
	const struct conn *c;

	for (uint32_t round = 0; round < FILL_ROUNDS; round++) {
		uint64_t left = total, full = 0, was = level;
		uint32_t open = 0;

		TAILQ_FOREACH(c, &e->takers, taker) {
			if (!(c->taker_ports & 1u << port))
				continue;
			if (round && want_of(c) < level) {
				full += want_of(c);
			} else {
				open++;
			}
		}
		left = full < total ? total - full : 0;
		level = open ? left / open : level;
		if (level == was)
			break;
	}
	return level;
}

static void divide(struct engine *e)
{
	uint64_t level[MROCE_MAX_PORTS];
	struct conn *c;

	for (uint32_t i = 0; i < e->nports; i++) {
		uint64_t total = capacity(e, i);

		level[i] = total ? max_u64(water_level(e, i, total), 1) : 0;
	}
	TAILQ_FOREACH(c, &e->takers, taker) {
		uint64_t sum = 0;
		bool known = true;

		for (uint32_t i = 0; i < e->nports; i++) {
			if (!(c->taker_ports & 1u << i))
				continue;
			known &= level[i] != 0;
			sum += level[i];
		}
		write_hint(c, known ? sum : 0);
	}
}

void hint_run(struct engine *e)
{
	if (!e->ntakers || e->now < e->hint_at)
		return;
	look_at_takers(e);
	for (uint32_t i = 0; i < e->nports; i++)
		measure_drain(e, i);
	divide(e);
	e->hinted_at = e->now;
	e->hint_at = e->now + TICK + e->ntakers * TICK_PER_CONN;
}
