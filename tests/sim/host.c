// SPDX-License-Identifier: BSD-2-Clause
/*
 * A host. The tracker sees a packet the moment it arrives, whatever the daemon does, and answers POLLs
 * itself, as the XDP program would. What it passes waits in receive rings of finite size; what shows
 * a gap, and set-up packets, come through the UDP socket, which is slower. The daemon takes them
 * when it is scheduled: later if it slept, not at all while it is paused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/cc.h"
#include "core/twin.h"
#include "sim.h"

/* What a step, and each packet in it, costs the daemon. */
#define STEP_NS 500
#define RX_NS 250
#define TX_NS 250
#define RUN_BUDGET 64

/* ---- rings ---- */

static void ring_init(struct ring *r, uint32_t size)
{
	memset(r, 0, sizeof(*r));
	r->last = &r->first;
	r->size = size;
}

static bool ring_push(struct ring *r, struct frame *p)
{
	if (r->starved || r->used >= r->size) {
		r->dropped++;
		return false;
	}
	p->next = NULL;
	*r->last = p;
	r->last = &p->next;
	r->used++;
	return true;
}

static struct frame *ring_pop(struct ring *r)
{
	struct frame *p = r->first;

	if (!p)
		return NULL;
	r->first = p->next;
	if (!r->first)
		r->last = &r->first;
	r->used--;
	return p;
}

/* ---- the simulated port ---- */

static uint32_t own_index(const struct sim_port *sp)
{
	return (uint32_t)(sp - sp->host->ports);
}

static bool tx_full(const struct sim_port *sp)
{
	return sp->tx_queued >= sp->host->s->cfg.tx_ring;
}

static void tx_left(struct sim *s, void *a, uint64_t b)
{
	struct sim_port *sp = a;

	(void)b;
	sp->tx_queued--;
	if (sp->host->tx_blocked) {
		sp->host->tx_blocked = false;
		host_wake(sp->host, s->now);
	}
}

static struct frame *port_packet(struct sim_port *sp, const struct ip *remote, uint16_t sport,
				 uint32_t len)
{
	struct frame *p = frame_new(sp->host->s, len);

	p->src = sp->port.addr;
	p->dst = *remote;
	p->sport = sport;
	p->from_host = (uint8_t)sp->host->index;
	p->from_port = (uint8_t)own_index(sp);
	p->len = len;
	return p;
}

/* The neighbour does not answer, as when a host has died: there is a route, and no way. */
static bool is_unresolved(const struct sim_port *sp, const struct ip *remote)
{
	return sp->unresolved && ip_equal(&sp->unresolved->addr, remote);
}

static void *sim_tx_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct sim_port *sp = port->priv;
	struct sim *s = sp->host->s;

	CHECK(s, !sp->tx, "h%u.%u: tx_begin() again before tx_end()", sp->host->index, port->index);
	CHECK(s, len <= port->payload_max, "h%u.%u: tx_begin(%u), payload_max is %u",
	      sp->host->index, port->index, len, port->payload_max);
	if (s->failed || sp->no_route || is_unresolved(sp, &flow->remote))
		return NULL;
	if (tx_full(sp)) {
		sp->tx_refused++;
		sp->host->tx_blocked = true;
		return NULL;
	}
	sp->tx = port_packet(sp, &flow->remote, flow->sport, len);
	return sp->tx->data;
}

static void sim_tx_end(struct port *port, uint32_t len)
{
	struct sim_port *sp = port->priv;
	struct sim *s = sp->host->s;
	struct frame *p = sp->tx;

	CHECK(s, p && len <= p->len, "h%u.%u: tx_end(%u) without tx_begin() of so much",
	      sp->host->index, port->index, len);
	if (!p)
		return;
	sp->tx = NULL;
	p->len = len;
	sp->tx_packets++;
	trace_frame(s, TR_TX, (int)sp->host->index, (int)own_index(sp), p, NULL);
	net_send(s, p);
	if (sp->up.rate && sp->up.busy_until > s->now) {
		sp->tx_queued++;
		sim_at(s, sp->up.busy_until, tx_left, sp, 0);
	}
}

/* ---- letters handed over ---- */

/* Of so many one is lost on its way to where it would get its envelope. */
#define POST_LOSES 200

static uint16_t sim_post_sport(struct port *port, struct flow *flow)
{
	(void)port;
	return flow->sport;
}

static void *sim_post_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct sim_port *sp = port->priv;

	if (sp->tx)
		frame_free(sp->host->s, sp->tx);
	sp->tx = NULL;
	return sim_tx_begin(port, flow, len);
}

/* The kernel's part is done within the daemon's system call. */
static void sim_post_end(struct port *port, uint32_t len)
{
	struct sim_port *sp = port->priv;
	struct host *h = sp->host;

	if (!sp->tx)
		return;
	if (rng_below(&h->rng, POST_LOSES) &&
	    !twin_post(&h->tables, sp->tx->data, len, h->s->now, &sp->tx->sport)) {
		sim_tx_end(port, len);
		return;
	}
	frame_free(h->s, sp->tx);
	sp->tx = NULL;
}

static bool sim_post_flush(struct port *port)
{
	struct sim_port *sp = port->priv;

	if (sp->tx)
		frame_free(sp->host->s, sp->tx);
	sp->tx = NULL;
	return true;
}

static int sim_ctl_send(struct port *port, const struct ip *remote, const void *payload,
			uint32_t len)
{
	struct sim_port *sp = port->priv;
	struct sim *s = sp->host->s;
	struct frame *p;

	CHECK(s, len <= port->payload_max, "h%u.%u: ctl_send(%u), payload_max is %u",
	      sp->host->index, port->index, len, port->payload_max);
	if (s->failed)
		return -EMSGSIZE;
	p = port_packet(sp, remote, MROCE_UDP_PORT, len);
	p->ctl = true;
	memcpy(p->data, payload, len);
	trace_frame(s, TR_TX, (int)sp->host->index, (int)own_index(sp), p, "ctl");
	net_send(s, p);
	return 0;
}

static bool sim_reachable(struct port *port, const struct ip *remote)
{
	struct sim_port *sp = port->priv;
	const struct sim *s = sp->host->s;
	uint32_t plane = remote->a[s->cfg.ipv6 ? 7 : 13];

	return !sp->no_route && (s->cfg.routed || plane == sp->plane);
}

static bool sim_full(struct port *port)
{
	return tx_full(port->priv);
}

static const struct port_ops sim_port_ops = {
	.tx_begin = sim_tx_begin,
	.tx_end = sim_tx_end,
	.ctl_send = sim_ctl_send,
	.full = sim_full,
	.reachable = sim_reachable,
	.post_sport = sim_post_sport,
	.post_begin = sim_post_begin,
	.post_end = sim_post_end,
	.post_flush = sim_post_flush,
};

/* ---- receiving ---- */

static void take(struct host *h, struct sim_port *sp, struct frame *p, uint32_t ring)
{
	struct sim *s = h->s;

	if (!h->engine || !ring_push(&sp->ring[ring], p)) {
		trace_frame(s, TR_RING_FULL, (int)h->index, (int)own_index(sp), p, NULL);
		frame_free(s, p);
		return;
	}
	host_wake(h, s->now + s->cfg.wake_ns + rng_below(&h->rng, s->cfg.jitter_ns + 1));
}

/* A packet has come up through the stack; its host may have died and started again meanwhile. */
static void socket_door(struct sim *s, void *a, uint64_t b)
{
	struct frame *p = a;
	struct host *h = s->hosts[p->to_host];

	if (h->life != b) {
		frame_free(s, p);
		return;
	}
	take(h, &h->ports[p->to_port], p, SOCKET_RING);
}

bool host_owns_frame(event_fn fn)
{
	return fn == socket_door;
}

static void answer(struct host *h, struct sim_port *sp, const struct frame *to, const void *reply,
		   uint32_t len)
{
	struct frame *p = port_packet(sp, &to->src, to->sport, len);

	memcpy(p->data, reply, len);
	trace_frame(h->s, TR_REPLY, (int)h->index, (int)own_index(sp), p, NULL);
	net_send(h->s, p);
}

/* The hash of the receiving NIC; one that is configured badly gives a path's packets to any queue. */
static uint32_t queue_of(const struct sim *s, const struct frame *p)
{
	if (s->cfg.queues_wander)
		return (uint32_t)(mix64((uint64_t)p->len << 32 ^ s->now) % s->cfg.queues);
	return (uint32_t)(mix64(p->sport ^ (uint64_t)p->src.a[15] << 32) % s->cfg.queues);
}

void host_rx(struct host *h, struct sim_port *sp, struct frame *p)
{
	struct sim *s = h->s;
	uint8_t reply[TWIN_REPLY_MAX];
	uint32_t reply_len = 0, queue = queue_of(s, p);
	int verdict;

	if (!h->engine || !sp->port.up) {
		trace_frame(s, TR_DROP, (int)h->index, (int)own_index(sp), p, "nobody there");
		frame_free(s, p);
		return;
	}
	if (s->rx_tap && s->rx_tap(s, h, sp, p))
		return;
	p->queue = (uint8_t)queue;
	p->ce |= twin_mark(&sp->port, p->len, s->now);
	verdict = twin_rx(&sp->port, p->data, p->len, p->ce, queue, reply, &reply_len);
	trace_frame(s, TR_RX, (int)h->index, (int)own_index(sp), p, p->ce ? "CE" : NULL);
	if (reply_len)
		answer(h, sp, p, reply, reply_len);
	if (verdict < 0 || verdict == TWIN_DONE) {
		frame_free(s, p);
		return;
	}
	p->ctl = verdict == TWIN_SETUP;
	if (verdict == TWIN_DELIVER && !reply_len)
		take(h, sp, p, queue);
	else
		sim_after(s, s->cfg.socket_ns, socket_door, p, h->life);
}

/* ---- the daemon ---- */

static void give(struct host *h, struct sim_port *sp, struct frame *p)
{
	struct rx_info info = {
		.remote = p->src,
		.sport = p->sport,
		.queue = p->queue,
		.tracked = !p->ctl,
	};

	h->rx_packets++;
	engine_rx(h->engine, &sp->port, p->data, p->len, &info, host_now(h));
}

static uint32_t drain_ring(struct host *h, struct sim_port *sp, struct ring *r, struct frame **batch)
{
	uint32_t n = 0;
	struct frame *p;

	while (n < h->s->cfg.batch && (p = ring_pop(r))) {
		give(h, sp, p);
		p->next = *batch;
		*batch = p;
		n++;
	}
	return n;
}

static uint32_t drain_port(struct host *h, struct sim_port *sp, struct frame **batch)
{
	bool empty = true;
	uint32_t n = 0;

	for (uint32_t i = 0; i < MAX_RINGS; i++) {
		n += drain_ring(h, sp, &sp->ring[i], batch);
		empty &= !sp->ring[i].first;
	}
	if (empty)
		sp->port.drained++;
	return n;
}

static uint32_t receive(struct host *h)
{
	struct frame *batch = NULL, *next;
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->nports; i++)
		n += drain_port(h, &h->ports[i], &batch);
	engine_rx_flush(h->engine, host_now(h));
	for (; batch; batch = next) {
		next = batch->next;
		frame_free(h->s, batch);
	}
	return n;
}

static bool rings_empty(const struct host *h)
{
	for (uint32_t i = 0; i < h->nports; i++) {
		for (uint32_t j = 0; j < MAX_RINGS; j++) {
			if (h->ports[i].ring[j].first)
				return false;
		}
	}
	return true;
}

uint64_t host_now(const struct host *h)
{
	return h->s->now < h->stopped_until ? h->stopped_at : h->s->now + h->ahead;
}

/* When its clock will say so. */
static uint64_t virtual_time(const struct host *h, uint64_t at)
{
	if (at == NEVER)
		return NEVER;
	return at <= host_now(h) ? h->s->now : at - h->ahead;
}

void host_clock_jump(struct host *h, uint64_t ns)
{
	trace_text(h->s, TR_EVENT, (int)h->index, "clock jumps by %llu ns", (unsigned long long)ns);
	h->ahead += ns;
	host_wake(h, h->s->now);
}

void host_clock_stop(struct host *h, uint64_t ns)
{
	trace_text(h->s, TR_EVENT, (int)h->index, "clock stands for %llu ns",
		   (unsigned long long)ns);
	h->stopped_at = host_now(h);
	h->stopped_until = h->s->now + ns;
	h->ahead -= ns;
	host_wake(h, h->stopped_until);
}

/* When the daemon looks again by itself. */
static uint64_t next_step(struct host *h)
{
	uint64_t deadline = virtual_time(h, engine_deadline(h->engine, host_now(h)));

	if (!rings_empty(h) || h->app_dirty)
		return h->busy_until;
	if (deadline <= h->s->now && h->tx_blocked)
		return NEVER; /* woken when the port has room */
	return deadline < h->busy_until ? h->busy_until : deadline;
}

static void step(struct sim *s, void *a, uint64_t gen)
{
	struct host *h = a;
	uint32_t rx, tx;

	if (gen != h->step_gen || !h->engine)
		return;
	h->step_at = NEVER;
	h->steps++;
	h->tx_blocked = false;
	rx = receive(h);
	if (h->app_dirty)
		app_step(h);
	tx = engine_run(h->engine, host_now(h), RUN_BUDGET);
	CHECK(s, tx <= 4 * RUN_BUDGET, "h%u: engine_run() sent %u packets, budget %u", h->index, tx,
	      RUN_BUDGET);
	h->busy_until = s->now + STEP_NS + rx * RX_NS + tx * TX_NS;
	host_wake(h, next_step(h));
}

void host_wake(struct host *h, uint64_t at)
{
	if (!h->engine || at == NEVER)
		return;
	if (at < h->busy_until)
		at = h->busy_until;
	if (at < h->paused_until)
		at = h->paused_until;
	if (h->step_at <= at)
		return;
	h->step_at = at;
	sim_at(h->s, at, step, h, ++h->step_gen);
}

void host_pause(struct host *h, uint64_t until)
{
	trace_text(h->s, TR_EVENT, (int)h->index, "daemon pauses until %llu ns",
		   (unsigned long long)until);
	h->paused_until = until;
	h->step_at = NEVER;
	h->step_gen++;
	host_wake(h, until);
}

/* ---- life ---- */

static void on_complete(void *ctx, struct conn *conn, const struct engine_completion *c)
{
	app_complete(ctx, conn, c);
}

static void on_event(void *ctx, struct conn *conn, enum conn_event ev, int code)
{
	app_event(ctx, conn, ev, code);
}

static void on_log(void *ctx, int level, const char *line)
{
	struct host *h = ctx;

	h->logged++;
	snprintf(h->last_log, sizeof(h->last_log), "%s", line);
	trace_text(h->s, TR_LOG, (int)h->index, "<%d> %s", level, line);
}

static const struct engine_ops host_ops = { .complete = on_complete,
					    .event = on_event,
					    .log = on_log };

static void set32(uint32_t *field, uint32_t value)
{
	if (value)
		*field = value;
}

static void set64(uint64_t *field, uint64_t value)
{
	if (value)
		*field = value;
}

static void configure(const struct host *h, struct engine_config *cfg)
{
	const struct sim_config *c = &h->s->cfg;

	engine_config_default(cfg);
	set32(&cfg->paths, c->paths);
	set32(&cfg->streams, c->streams);
	set32(&cfg->chunk_max, c->chunk);
	set32(&cfg->max_conns, c->max_conns);
	set32(&cfg->letters, c->letters);
	set32(&cfg->messages, c->messages);
	set32(&cfg->tries, c->tries);
	set64(&cfg->silence_ns, c->silence_ns);
	set64(&cfg->handshake_ns, c->handshake_ns);
	set64(&cfg->keepalive_ns, c->keepalive_ns);
	set64(&cfg->stall_ns, c->stall_ns);
	cfg->no_hints = c->no_hints;
	cfg->no_tolerance = c->no_tolerance;
	cfg->authenticated = c->key != 0;
	memset(cfg->psk, c->key, sizeof(cfg->psk));
	if (c->cookies)
		cfg->cookies_above = 0;
	cfg->first_psn = c->first_psn;
	cfg->first_msg = c->first_msg;
	cfg->seed = mix64(h->s->seed ^ (uint64_t)h->index << 32 ^ h->life);
	if (c->cc)
		cfg->cc = cc_find(c->cc);
}

static void forget_frames(struct host *h)
{
	for (uint32_t i = 0; i < h->nports; i++) {
		struct sim_port *sp = &h->ports[i];
		struct frame *p;

		for (uint32_t j = 0; j < MAX_RINGS; j++) {
			while ((p = ring_pop(&sp->ring[j])))
				frame_free(h->s, p);
		}
		frame_free(h->s, sp->tx);
		sp->tx = NULL;
	}
}

static void maps_free(struct host *h)
{
	for (uint32_t i = 0; i < h->nports; i++) {
		struct port *port = &h->ports[i].port;

		if (!i || !h->s->cfg.share_maps) {
			free(port->paths);
			free(port->conns);
		}
		port->paths = NULL;
		port->conns = NULL;
		port->post = NULL;
	}
	free(h->tables.conns);
	free(h->tables.posted);
	memset(&h->tables, 0, sizeof(h->tables));
}

static void offices_new(struct host *h)
{
	h->tables.conns = calloc(MROCE_MAX_CONNS, sizeof(*h->tables.conns));
	h->tables.posted = calloc(MROCE_POSTED, sizeof(*h->tables.posted));
	h->tables.cookie = 1;
	if (!h->tables.conns || !h->tables.posted)
		abort();
	for (uint32_t i = 0; i < h->nports; i++) {
		h->ports[i].office = (struct post_office){ .tables = &h->tables };
		h->ports[i].port.post = &h->ports[i].office;
	}
}

static void maps_new(struct host *h)
{
	for (uint32_t i = 0; i < h->nports; i++) {
		struct port *port = &h->ports[i].port;

		if (i && h->s->cfg.share_maps) {
			port->paths = h->ports[0].port.paths;
			port->conns = h->ports[0].port.conns;
			continue;
		}
		port->paths = calloc(MROCE_MAX_CONNS * MROCE_MAX_PATHS, sizeof(*port->paths));
		port->conns = calloc(MROCE_MAX_CONNS, sizeof(*port->conns));
		if (!port->paths || !port->conns)
			abort();
	}
	if (h->s->cfg.posts)
		offices_new(h);
}

int host_start(struct host *h)
{
	struct engine_config cfg;

	h->life++;
	configure(h, &cfg);
	maps_new(h);
	h->engine = engine_new(&cfg, &host_ops, h);
	if (!h->engine)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->nports; i++) {
		int err = engine_port_add(h->engine, &h->ports[i].port);

		if (err)
			return err;
	}
	h->step_at = NEVER;
	h->busy_until = h->paused_until = 0;
	h->tx_blocked = false;
	trace_text(h->s, TR_EVENT, (int)h->index, "started");
	host_wake(h, h->s->now);
	return 0;
}

/* kill -9: nobody is told anything. */
void host_kill(struct host *h)
{
	if (!h->engine)
		return;
	trace_text(h->s, TR_EVENT, (int)h->index, "killed");
	app_host_died(h);
	engine_free(&h->engine);
	forget_frames(h);
	maps_free(h);
	h->step_gen++;
	h->step_at = NEVER;
}

static void port_init(struct host *h, uint32_t i)
{
	const struct sim_config *c = &h->s->cfg;
	struct sim_port *sp = &h->ports[i];
	uint32_t headers = c->ipv6 ? 48 : 28;

	sp->host = h;
	sp->plane = i;
	sp->port.ops = &sim_port_ops;
	sp->port.priv = sp;
	sp->port.up = true;
	sp->port.addr = net_address(h->s, h->index, i);
	sp->port.mtu = (uint16_t)c->mtu;
	sp->port.payload_max = (uint16_t)(c->mtu - headers);
	sp->port.speed = c->rate_mbps;
	vqueue_set(&sp->port.vq, i + 1, c->mark ? c->rate_mbps : 0);
	snprintf(sp->port.name, sizeof(sp->port.name), "h%up%u", h->index & 255, i);
	sp->up.rate = c->uplink_mbps * 1000000ull;
	sp->down.rate = c->rate_mbps * 1000000ull;
	sp->up.delay = c->delay_ns / 2;
	sp->down.delay = c->delay_ns - c->delay_ns / 2;
	sp->down.queue_bytes = c->queue_bytes;
	sp->down.ce_bytes = c->ce_bytes;
	sp->down.imp = c->imp;
	for (uint32_t j = 0; j < MAX_RINGS; j++)
		ring_init(&sp->ring[j], j == SOCKET_RING ? 512 : c->ring);
}

void host_init(struct sim *s, uint32_t index, uint32_t nports)
{
	struct host *h = calloc(1, sizeof(*h));

	if (!h)
		abort();
	s->hosts[index] = h;
	h->s = s;
	h->index = index;
	h->nports = nports;
	h->rng.state = mix64(s->seed ^ 0x686f7374 ^ index);
	h->ports = calloc(nports, sizeof(*h->ports));
	h->pairs = calloc(MAX_PAIRS, sizeof(*h->pairs));
	if (!h->ports || !h->pairs)
		abort();
	for (uint32_t i = 0; i < nports; i++)
		port_init(h, i);
}

void host_free(struct host *h)
{
	if (!h)
		return;
	if (h->engine)
		engine_free(&h->engine);
	forget_frames(h);
	maps_free(h);
	free(h->ports);
	free(h->pairs);
	free(h);
}

void host_link(struct host *h, uint32_t port, bool up)
{
	trace_text(h->s, TR_EVENT, (int)h->index, "port %u link %s", port, up ? "up" : "down");
	h->ports[port].port.up = up;
	h->ports[port].down.down = !up;
	if (!h->engine)
		return;
	engine_port_changed(h->engine, &h->ports[port].port, host_now(h));
	host_wake(h, h->s->now);
}

static void port_changed(struct host *h, struct sim_port *sp)
{
	if (!h->engine)
		return;
	engine_port_changed(h->engine, &sp->port, host_now(h));
	host_wake(h, h->s->now);
}

void host_mtu(struct host *h, uint32_t port, uint16_t mtu)
{
	struct sim_port *sp = &h->ports[port];

	trace_text(h->s, TR_EVENT, (int)h->index, "port %u MTU %u", port, mtu);
	sp->port.mtu = mtu;
	sp->port.payload_max = (uint16_t)(mtu - (h->s->cfg.ipv6 ? 48 : 28));
	port_changed(h, sp);
}

void host_move(struct host *h, uint32_t port)
{
	struct sim_port *sp = &h->ports[port];

	sp->generation++;
	sp->port.addr = net_address(h->s, h->index, port);
	trace_text(h->s, TR_EVENT, (int)h->index, "port %u has another address", port);
	port_changed(h, sp);
}

uint64_t host_ring_drops(const struct host *h)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < h->nports; i++) {
		for (uint32_t j = 0; j < MAX_RINGS; j++)
			sum += h->ports[i].ring[j].dropped;
	}
	return sum;
}

uint64_t host_reason(const struct host *h, enum mroce_reason reason)
{
	struct engine_stats st;

	engine_stats(h->engine, &st);
	return st.reasons[reason];
}
