// SPDX-License-Identifier: BSD-2-Clause
#include "afxdp.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ifstate.h"
#include "mroce/wire.h"

/* Where a payload begins in a frame to be sent: a cache line that leaves room for the headers. */
#define TX_PAYLOAD_OFFSET 128
/* A frame lent to the kernel has this in front, and the rings carry no more than the rest. */
#define RX_ROOM (UMEM_FRAME_SIZE - 256)
/* The UDP socket costs a system call, the rings do not: look into it so often. */
#define DOOR_BUSY_NS 50000
#define DOOR_IDLE_NS 5000
/* Between two tries to open an interface that has come back, if the first fails; doubles. */
#define MEND_WAIT 1000000000ull
#define MEND_WAIT_MAX (64 * MEND_WAIT)

_Static_assert(TX_PAYLOAD_OFFSET >= FRAME_HEADERS_MAX, "headers fit");
_Static_assert(FRAME_IP_MAX + FRAME_ETH_LEN + 8 <= RX_ROOM, "received frames fit");
_Static_assert(FRAME_IP_MAX + TX_PAYLOAD_OFFSET <= UMEM_FRAME_SIZE, "sent frames fit");

static struct afxdp *of_port(struct port *port)
{
	return port->priv;
}

/* ---- what the engine calls ---- */

static void *tx_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct afxdp *a = of_port(port);
	struct route *route;
	int64_t addr;

	a->tx_full = false;
	if (!port->up)
		return NULL;
	route = route_of_flow(&a->routes, flow, a->now);
	if (!route || route->headers.len - FRAME_ETH_LEN + len > a->ip_max)
		return NULL;
	a->tx_xsk = &a->xsks[flow->queue % a->tx_queues];
	addr = xsk_tx_take(a->tx_xsk);
	a->tx_full = addr < 0;
	if (a->tx_full)
		return NULL;
	a->tx_addr = (uint64_t)addr + TX_PAYLOAD_OFFSET;
	a->tx_headers = &route->headers;
	a->tx_sport = flow->sport;
	return a->tx_xsk->um.area + a->tx_addr;
}

static void tx_end(struct port *port, uint32_t len)
{
	struct afxdp *a = of_port(port);
	const struct frame_template *t = a->tx_headers;
	uint64_t start = a->tx_addr - t->len;

	frame_fill(t, a->tx_xsk->um.area + start, a->tx_sport, len);
	xsk_tx_put(a->tx_xsk, start, t->len + len);
}

static bool full(struct port *port)
{
	return of_port(port)->tx_full;
}

static bool reachable(struct port *port, const struct ip *remote)
{
	struct afxdp *a = of_port(port);
	struct route *r = route_find(&a->routes, remote);

	if (!r)
		return false;
	/* The neighbour will be wanted soon: let the kernel look for it already. */
	route_refresh(&a->routes, r, a->now);
	return r->reachable;
}

static bool owns(struct port *port, const struct ip *ip)
{
	return mirror_has_address(of_port(port)->mif, ip);
}

static int ctl_send(struct port *port, const struct ip *remote, const void *payload, uint32_t len)
{
	struct afxdp *a = of_port(port);
	struct mirror_target target;
	int err = a->opened_on ? mirror_resolve(a->mif, remote, &a->port.addr, &target) : -ENETDOWN;

	if (err == -EHOSTUNREACH || err == -ENETDOWN)
		return err;
	return door_send(&a->door, &target.src, remote, payload, len);
}

static const struct port_ops ops = {
	.tx_begin = tx_begin,
	.tx_end = tx_end,
	.ctl_send = ctl_send,
	.full = full,
	.reachable = reachable,
	.owns = owns,
};

/* ---- receiving ---- */

static void rx_frame(struct afxdp *a, const struct xsk *x, const struct xdp_desc *desc, uint64_t now)
{
	struct rx_info info = { .queue = (uint16_t)x->queue, .tracked = true };
	struct frame_payload payload;

	if (frame_parse(x->um.area + desc->addr, desc->len, a->routes.udp_port, &payload)) {
		a->rx_strange++;
		return;
	}
	info.remote = payload.remote;
	info.sport = payload.sport;
	engine_rx(a->engine, &a->port, payload.data, payload.len, &info, now);
}

static void prefetch_frame(const struct xsk *x, const struct xdp_desc *desc)
{
	const uint8_t *at = x->um.area + desc->addr;

	__builtin_prefetch(at);
	__builtin_prefetch(at + 64);
	__builtin_prefetch(at + 128);
}

#define PREFETCH_AHEAD 4

static uint32_t rx_batch(struct afxdp *a, struct xsk *x, uint64_t now, uint32_t max)
{
	struct xdp_desc descs[XSK_BATCH];
	uint32_t n = xsk_rx(x, descs, max < XSK_BATCH ? max : XSK_BATCH);

	if (!n)
		return 0;
	for (uint32_t i = 0; i < n && i < PREFETCH_AHEAD; i++)
		prefetch_frame(x, &descs[i]);
	for (uint32_t i = 0; i < n; i++) {
		if (i + PREFETCH_AHEAD < n)
			prefetch_frame(x, &descs[i + PREFETCH_AHEAD]);
		rx_frame(a, x, &descs[i], now);
	}
	engine_rx_flush(a->engine, now);
	xsk_rx_done(x, descs, n);
	return n;
}

/* Set-up packets were not sequenced by XDP; everything else that comes through the door was. */
static bool was_tracked(const struct door_packet *p)
{
	const struct mroce_hdr *h = p->data;

	return p->len >= sizeof(*h) && h->type != MROCE_HELLO && h->type != MROCE_ACCEPT &&
	       h->type != MROCE_READY;
}

static uint32_t rx_door(struct afxdp *a, uint64_t now, bool *empty)
{
	struct door_packet packets[DOOR_BATCH];
	uint32_t n = door_rx(&a->door, packets, DOOR_BATCH);

	for (uint32_t i = 0; i < n; i++) {
		struct rx_info info = {
			.remote = packets[i].remote,
			.sport = packets[i].sport,
			.tracked = was_tracked(&packets[i]),
		};

		engine_rx(a->engine, &a->port, packets[i].data, packets[i].len, &info, now);
	}
	if (n)
		engine_rx_flush(a->engine, now);
	*empty = n < DOOR_BATCH;
	return n;
}

uint32_t afxdp_rx(struct afxdp *a, uint64_t now, uint32_t budget)
{
	uint32_t total = 0, n;
	bool empty = true, door_empty = false;

	a->now = now;
	if (!a->opened_on)
		return 0;
	for (uint32_t i = 0; i < a->queues; i++) {
		struct xsk *x = &a->xsks[(a->next_queue + i) % a->queues];
		uint32_t max = budget - total < XSK_BATCH ? budget - total : XSK_BATCH;

		n = max ? rx_batch(a, x, now, max) : 0;
		total += n;
		if (n == max)
			empty = false;
	}
	a->next_queue++;
	if (now - a->door_checked < (total ? DOOR_BUSY_NS : DOOR_IDLE_NS))
		return total;
	a->door_checked = now;
	total += rx_door(a, now, &door_empty);
	if (empty && door_empty)
		a->port.drained++;
	return total;
}

bool afxdp_tx(struct afxdp *a)
{
	bool left = false;

	for (uint32_t i = 0; i < a->tx_queues; i++)
		left |= xsk_tx_flush(&a->xsks[i]);
	return left;
}

/* ---- state of the interface ---- */

static uint16_t payload_of_mtu(const struct afxdp *a)
{
	/* Of the family of the port's address. A peer that has only the other family knows its own
	 * limit, and the smaller of both counts. */
	return a->ip_max - FRAME_UDP_LEN -
	       (ip_is_v4(&a->port.addr) ? FRAME_IPV4_LEN : FRAME_IPV6_LEN);
}

/* Takes the mirror's state over; true if something changed. */
static bool take_state(struct afxdp *a)
{
	struct port before = a->port;
	struct ip addr = a->port.addr;
	bool has_address = ifstate_address(a->mif, a->address_wanted ? &a->wanted : NULL, &addr,
					   &addr);

	a->port.addr = addr;
	a->port.mtu = a->mif->mtu > UINT16_MAX ? UINT16_MAX : a->mif->mtu;
	a->ip_max = a->mif->mtu < FRAME_IP_MAX ? a->mif->mtu : FRAME_IP_MAX;
	a->port.payload_max = payload_of_mtu(a);
	a->port.up = a->opened_on == a->mif->ifindex && mirror_link_up(a->mif) && has_address &&
		     a->mif->mtu >= PORT_MTU_MIN;
	if (!ip_equal(&addr, &before.addr)) {
		a->routes.addr = addr;
		route_table_forget(&a->routes);
	}
	return a->port.up != before.up || a->port.mtu != before.mtu ||
	       !ip_equal(&addr, &before.addr);
}

/* What is bound to the interface stays bound to it. */
static void take_name(struct afxdp *a)
{
	if (strcmp(a->port.name, a->mif->called) == 0)
		return;
	a->log(LOG_NOTICE, "%s: the interface is called %s now", a->port.name, a->mif->called);
	snprintf(a->port.name, sizeof(a->port.name), "%s", a->mif->called);
}

void afxdp_follow(struct afxdp *a, uint64_t now)
{
	bool was_up = a->port.up;

	a->now = now;
	if (!a->mif->changed)
		return;
	a->mif->changed = false;
	if (!a->mif->exists)
		pin_close(&a->pins, "the interface is gone");
	take_name(a);
	if (!take_state(a))
		return;
	ifstate_tell(a->mif, &a->port, was_up, a->log);
	if (a->opened_on)
		tables_local(a->attach.tables, a->port.index, &a->port.addr);
	engine_port_changed(a->engine, &a->port, now);
}

/* ---- opening and closing ---- */

static void count_queues(struct afxdp *a)
{
	ethtool_read(a->mif->called, &a->facts);
	a->queues = a->facts.rx_queues ? a->facts.rx_queues : a->mif->rx_queues;
	if (!a->queues)
		a->queues = 1;
	a->tx_queues = a->facts.tx_queues ? a->facts.tx_queues : a->queues;
	if (a->tx_queues > a->queues)
		a->tx_queues = a->queues;
}

static int check_queues(struct afxdp *a)
{
	if (a->queues > MROCE_MAX_QUEUES) {
		a->log(LOG_ERR, "%s: %u receive queues, at most %u can be served: `ethtool -L %s combined %u`",
		       a->port.name, a->queues, MROCE_MAX_QUEUES, a->port.name, MROCE_MAX_QUEUES);
		return -E2BIG;
	}
	if (a->facts.lro)
		a->log(LOG_WARNING,
		       "%s: large receive offload is on and merges packets before XDP sees them: "
		       "`ethtool -K %s lro off`",
		       a->port.name, a->port.name);
	if (a->queues > 1 && a->facts.hash_known && !a->facts.hash_ports)
		a->log(LOG_WARNING,
		       "%s: UDP is not spread over the %u receive queues by ports, so all paths of "
		       "a peer share "
		       "one: `ethtool -N %s rx-flow-hash udp4 sdfn`",
		       a->port.name, a->queues, a->port.name);
	return 0;
}

static int open_programs(struct afxdp *a, const struct afxdp_params *p)
{
	struct attach_params params = {
		.interface = p->name,
		.ifindex = a->mif->ifindex,
		.object_dir = p->cfg->object_dir,
		.allow_generic = p->cfg->allow_generic,
		.adopt = p->cfg->adopt,
		.share = p->cfg->share,
		.again = p->again,
	};
	int err = attach_open(&a->attach, &params, p->shared, a->log);

	if (!err && a->attach.adopted)
		err = guardian_watch_tables(p->guardian, a->attach.tables, a->log);
	else if (!err && a->attach.shared_on)
		err = guardian_watch_shared(p->guardian, a->mif->ifindex, a->log);
	if (err || !p->cfg->nack)
		return err;
	err = tc_open(&a->tc, p->cfg->object_dir, p->name, a->mif->ifindex, a->attach.tables,
		      p->guardian, a->log);
	a->tc_open = !err;
	return err;
}

static void open_pins(struct afxdp *a, const struct afxdp_params *p)
{
	pin_open(&a->pins, a->mif->name, p->again, p->guardian);
	if (a->attach.adopted)
		pin_program(&a->pins, a->attach.prog_id);
	else
		pin_object(&a->pins, a->attach.object);
	if (a->tc_open)
		pin_object(&a->pins, a->tc.object);
}

static int open_socket(struct afxdp *a, const struct afxdp_params *p, uint32_t queue)
{
	struct xsk_params params = {
		.interface = p->name,
		.queue = queue,
		.ring_size = p->ring_size,
		.hw_ring = a->facts.rx_ring,
		.transmit = queue < a->tx_queues,
		.generic = a->attach.generic,
		.again = p->again,
	};
	struct xsk *x = &a->xsks[queue];
	int err = xsk_open(x, &params, a->log);

	if (err)
		return err;
	if (bpf_map_update_elem(a->attach.xsks, &queue, &x->fd, BPF_ANY)) {
		err = -errno;
		a->log(LOG_ERR, "%s queue %u: socket cannot be put into the XSKMAP: %s", p->name,
		       queue, strerror(-err));
		xsk_close(x);
	}
	return err;
}

static int open_sockets(struct afxdp *a, const struct afxdp_params *p)
{
	uint32_t wanted = a->queues;
	int err = 0;

	a->xsks = calloc(wanted, sizeof(*a->xsks));
	if (!a->xsks)
		return -ENOMEM;
	/* The array counts what is open, for afxdp_close(). */
	for (a->queues = 0; a->queues < wanted && !err; a->queues++) {
		err = open_socket(a, p, a->queues);
		if (err)
			break;
	}
	return err;
}

static void tell(const struct afxdp *a)
{
	char text[IPTEXT_MAX];

	a->log(LOG_INFO, "%s: address %s, MTU %u, payload %u, %s XDP%s (program id %u), %u queue%s, %s, NACKs by %s",
	       a->port.name, ip_text(&a->port.addr, text), a->port.mtu, a->port.payload_max,
	       a->attach.generic ? "generic" : "native",
	       a->attach.adopted     ? " adopted"
	       : a->attach.shared_on ? " shared"
				     : "",
	       a->attach.prog_id, a->queues, a->queues > 1 ? "s" : "",
	       a->xsks[0].zero_copy ? "zero copy" : "copy mode",
	       !a->tc_open     ? "nobody (switched off)"
	       : a->tc.netlink ? "TC filters"
			       : "TCX links");
}

static int open_all(struct afxdp *a, const struct afxdp_params *p)
{
	int err = ifstate_check(a->mif, p->wanted, a->log);

	if (err)
		return err;
	a->opened_on = a->mif->ifindex;
	a->mif->lost = false;
	take_state(a);
	count_queues(a);
	a->port.speed = ifstate_speed(a->port.name, p->cfg->link_mbps, &a->facts, p->cfg->mark,
				      a->log);
	err = check_queues(a);
	/* The UDP port first: if it is taken, another daemon serves this interface. */
	if (!err)
		err = door_open(&a->door, p->name, a->mif->ifindex, p->cfg->udp_port, a->log);
	if (!err)
		err = open_programs(a, p);
	if (!err)
		err = open_sockets(a, p);
	if (!err && a->pins.wanted)
		open_pins(a, p);
	return err;
}

int afxdp_open(struct afxdp *a, const struct afxdp_params *p)
{
	int err;

	memset(a, 0, sizeof(*a));
	a->door.fd = -1;
	a->attach.link = a->attach.xsks = -1;
	tables_init(&a->attach.own);
	pin_init(&a->pins, p->cfg->pin ? "the interface is not in use" : NULL, p->cfg->log);
	a->engine = p->engine;
	a->log = p->cfg->log;
	a->mif = p->mif;
	a->address_wanted = p->wanted != NULL;
	if (p->wanted)
		a->wanted = *p->wanted;
	a->port.ops = &ops;
	a->port.priv = a;
	strncpy(a->port.name, p->name, sizeof(a->port.name) - 1);
	a->routes.watch = p->watch;
	a->routes.mif = p->mif;
	a->routes.udp_port = p->cfg->udp_port;
	err = open_all(a, p);
	if (err) {
		afxdp_close(a);
		return err;
	}
	a->port.paths = a->attach.tables->paths;
	a->port.conns = a->attach.tables->conns;
	a->mif->changed = false;
	tell(a);
	return 0;
}

void afxdp_activate(struct afxdp *a, const struct portset_config *cfg)
{
	if (cfg->mark && a->port.speed)
		tables_mark(a->attach.tables, a->port.index, a->mif->ifindex, a->port.speed);
	tables_local(a->attach.tables, a->port.index, &a->port.addr);
	tables_activate(a->attach.tables, cfg->udp_port, a->tc_open);
}

/* ---- interfaces that go and come back ---- */

static void shut(struct afxdp *a)
{
	pin_close(&a->pins, "the interface is not in use");
	if (a->tc_open)
		tc_close(&a->tc);
	attach_close(&a->attach);
	for (uint32_t i = 0; a->xsks && i < a->queues; i++)
		xsk_close(&a->xsks[i]);
	free(a->xsks);
	door_close(&a->door);
	a->xsks = NULL;
	a->queues = a->tx_queues = 0;
	a->tc_open = a->port.up = false;
	a->opened_on = 0;
}

void afxdp_close(struct afxdp *a)
{
	shut(a);
	route_table_free(&a->routes);
}

static bool other_queues(const struct afxdp *a)
{
	struct ethtool_facts now = { 0 };

	ethtool_read(a->mif->called, &now);
	return now.rx_queues && a->facts.rx_queues && now.rx_queues != a->facts.rx_queues;
}

/* Could it be opened? Nothing is said of what is missing: that was told when it went. */
static bool ready(const struct afxdp *a)
{
	struct ip addr;

	return mirror_link_enabled(a->mif) && a->mif->mtu >= PORT_MTU_MIN &&
	       ifstate_address(a->mif, a->address_wanted ? &a->wanted : NULL, &a->port.addr, &addr);
}

bool afxdp_needs_mending(const struct afxdp *a)
{
	if (!a->opened_on)
		return a->now >= a->mend_at && ready(a);
	return !a->mif->exists || a->mif->lost || a->mif->ifindex != a->opened_on || other_queues(a);
}

void afxdp_mend(struct afxdp *a, const struct afxdp_params *p, uint64_t now)
{
	log_fn log = a->log;
	int err;

	if (a->mif->exists && a->opened_on == a->mif->ifindex && a->mif->lost)
		log(LOG_NOTICE, "%s: the interface went and came back, and is opened anew",
		    a->port.name);
	else if (a->mif->exists && a->opened_on == a->mif->ifindex)
		log(LOG_NOTICE, "%s: has another number of queues now and is opened anew",
		    a->port.name);
	shut(a);
	engine_port_changed(a->engine, &a->port, now);
	if (!ready(a))
		return;
	if (a->mend_wait)
		a->log = log_nothing;
	err = open_all(a, p);
	a->log = log;
	if (err) {
		shut(a);
		a->mend_wait = a->mend_wait ? 2 * a->mend_wait : MEND_WAIT;
		if (a->mend_wait > MEND_WAIT_MAX)
			a->mend_wait = MEND_WAIT_MAX;
		a->mend_at = now + a->mend_wait;
		return;
	}
	a->mend_wait = a->mend_at = 0;
	route_table_forget(&a->routes);
	tell(a);
	afxdp_activate(a, p->cfg);
	engine_port_changed(a->engine, &a->port, now);
}
