// SPDX-License-Identifier: BSD-2-Clause
#include "sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "daemon/net/ethtool.h"
#include "frame.h"
#include "ifstate.h"

#define CONNS_BYTES (MROCE_MAX_CONNS * sizeof(struct mroce_conn_entry))
#define PATHS_BYTES (MROCE_MAX_CONNS * MROCE_MAX_PATHS * sizeof(struct mroce_path_rx))
/* Descriptors of which we may take so large a part; the rest is for applications. */
#define FILES_PART 4
#define POOL_MIN 16

static struct sock *of_port(const struct port *port)
{
	return port->priv;
}

/* ---- what all ports share ---- */

/* Pages that are zero and cost nothing until they are used. */
static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint32_t pool_limit(uint32_t ports)
{
	struct rlimit files;
	rlim_t n = SOCK_POOL_SIZE;

	if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur != RLIM_INFINITY &&
	    files.rlim_cur / FILES_PART / ports < n)
		n = files.rlim_cur / FILES_PART / ports;
	return n < POOL_MIN ? POOL_MIN : (uint32_t)n;
}

static void dispose(void *shared)
{
	struct sock_shared *s = shared;

	sock_post_dispose(&s->post);
	if (s->conns)
		munmap(s->conns, CONNS_BYTES);
	if (s->paths)
		munmap(s->paths, PATHS_BYTES);
	free(s->slots);
	free(s);
}

static int prepare(const struct portset_config *cfg, uint32_t ports, void **out)
{
	struct sock_shared *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->conns = pages(CONNS_BYTES);
	s->paths = pages(PATHS_BYTES);
	s->pool_limit = pool_limit(ports);
	sock_post_prepare(&s->post, cfg);
	if (!s->conns || !s->paths || sock_rx_prepare(s)) {
		dispose(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

static void silence(void *shared)
{
	struct sock_shared *s = shared;

	sock_post_silence(&s->post);
	memset(s->conns, 0, CONNS_BYTES);
}

/* ---- own addresses ---- */

struct sock_addr_in *sock_addr_find(struct sock *s, const struct ip *addr)
{
	for (uint32_t i = 0; i < SOCK_ADDRS; i++) {
		if (s->addrs[i].ndoors && ip_equal(&s->addrs[i].addr, addr))
			return &s->addrs[i];
	}
	return NULL;
}

struct sock_pool *sock_pool_of(struct sock *s, const struct ip *src)
{
	struct sock_addr_in *a = sock_addr_find(s, src);
	struct sock_pool_params params = {
		.addr = *src,
		.interface = s->port.name,
		.ifindex = s->mif->ifindex,
		.limit = s->shared->pool_limit,
		.log = s->log,
	};

	if (!a)
		return NULL;
	if (!a->pool.outs && sock_pool_open(&a->pool, &params))
		return NULL;
	return &a->pool;
}

static void close_addr(struct sock_addr_in *a)
{
	if (a->pool.outs)
		sock_pool_close(&a->pool);
	sock_doors_close(a);
}

static int open_addr(struct sock *s, const struct ip *addr)
{
	if (sock_addr_find(s, addr))
		return 0;
	for (uint32_t i = 0; i < SOCK_ADDRS; i++) {
		struct sock_addr_in *a = &s->addrs[i];

		if (a->ndoors)
			continue;
		a->addr = *addr;
		return sock_doors_open(s, a);
	}
	return -ENOSPC;
}

static void close_gone(struct sock *s)
{
	for (uint32_t i = 0; i < SOCK_ADDRS; i++) {
		struct sock_addr_in *a = &s->addrs[i];

		if (!a->ndoors || mirror_has_address(s->mif, &a->addr))
			continue;
		sock_tx_drop(s);
		close_addr(a);
	}
}

/* One door at least for each usable address, that of the port first. Its error counts. */
static int serve_addresses(struct sock *s)
{
	int err;

	close_gone(s);
	if (!mirror_has_address(s->mif, &s->port.addr))
		return 0;
	err = open_addr(s, &s->port.addr);
	for (uint32_t i = 0; i < s->mif->naddrs && !err; i++) {
		if (s->mif->addrs[i].usable)
			open_addr(s, &s->mif->addrs[i].ip);
	}
	return err;
}

/* ---- state of the interface ---- */

/* Takes the mirror's state over; true if something changed. */
static bool take_state(struct sock *s)
{
	struct port before = s->port;
	struct ip addr = s->port.addr;
	bool has_address = ifstate_address(s->mif, s->address_wanted ? &s->wanted : NULL, &addr,
					   &addr);

	s->port.addr = addr;
	s->port.mtu = s->mif->mtu > UINT16_MAX ? UINT16_MAX : s->mif->mtu;
	s->ip_max = s->mif->mtu < SOCK_IP_MAX ? s->mif->mtu : SOCK_IP_MAX;
	s->port.payload_max = s->ip_max - FRAME_UDP_LEN -
			      (ip_is_v4(&addr) ? FRAME_IPV4_LEN : FRAME_IPV6_LEN);
	s->port.up = mirror_link_up(s->mif) && has_address && s->mif->mtu >= PORT_MTU_MIN;
	return s->port.up != before.up || s->port.mtu != before.mtu ||
	       !ip_equal(&addr, &before.addr);
}

static void follow(struct port *port, uint64_t now)
{
	struct sock *s = of_port(port);
	bool was_up = port->up, changed;

	s->now = now;
	if (!s->mif->changed)
		return;
	s->mif->changed = false;
	if (!s->mif->exists)
		pin_close(&s->post.pins, "the interface is gone");
	changed = take_state(s);
	if (serve_addresses(s) && port->up) {
		port->up = false;
		changed = true;
	}
	if (!changed)
		return;
	ifstate_tell(s->mif, port, was_up, s->log);
	engine_port_changed(s->engine, port, now);
}

static void every_second(struct port *port, uint64_t now)
{
	struct sock *s = of_port(port);

	(void)now;
	for (uint32_t i = 0; i < SOCK_ADDRS; i++) {
		if (s->addrs[i].pool.outs)
			sock_pool_age(&s->addrs[i].pool);
	}
}

/* ---- life ---- */

static void close_port(struct port *port)
{
	struct sock *s = of_port(port);

	sock_post_close(s);
	for (uint32_t i = 0; i < SOCK_ADDRS; i++)
		close_addr(&s->addrs[i]);
	sock_tx_close(s);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s);
}

static void tell(const struct sock *s)
{
	char text[IPTEXT_MAX];
	const struct sock_addr_in *a = sock_addr_find((struct sock *)s, &s->port.addr);

	s->log(LOG_INFO, "%s: address %s, MTU %u, payload %u, UDP sockets (%u to receive, at most %u to send)",
	       s->port.name, ip_text(&s->port.addr, text), s->port.mtu, s->port.payload_max,
	       a->ndoors, s->shared->pool_limit);
}

static const struct port_ops ops = {
	.tx_begin = sock_tx_begin,
	.tx_end = sock_tx_end,
	.ctl_send = sock_ctl_send,
	.full = sock_full,
	.reachable = sock_reachable,
	.owns = sock_owns,
	.post_sport = sock_post_sport,
	.post_begin = sock_post_begin,
	.post_end = sock_tx_end,
	.post_flush = sock_post_flush,
};

static struct sock *new_port(struct sock_shared *shared, const struct port_params *p)
{
	struct sock *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->engine = p->engine;
	s->shared = shared;
	s->log = p->cfg->log;
	s->nack = p->cfg->nack;
	s->udp_port = p->cfg->udp_port;
	s->mif = p->mif;
	s->watch = p->watch;
	s->epoll = -1;
	pin_init(&s->post.pins, p->cfg->pin ? "there is no TC program" : NULL, s->log);
	s->receive_room = SOCK_ROOM;
	s->address_wanted = p->wanted != NULL;
	if (p->wanted)
		s->wanted = *p->wanted;
	s->port.ops = &ops;
	s->port.priv = s;
	s->port.paths = shared->paths;
	s->port.conns = shared->conns;
	strncpy(s->port.name, p->name, sizeof(s->port.name) - 1);
	return s;
}

static int open_port(void *shared, const struct port_params *p, struct port **out)
{
	struct sock *s = new_port(shared, p);
	struct ethtool_facts facts;
	int err;

	if (!s)
		return -ENOMEM;
	err = ifstate_check(s->mif, p->wanted, s->log);
	if (!err)
		take_state(s);
	ethtool_read(p->name, &facts);
	s->port.speed = ifstate_speed(p->name, p->cfg->link_mbps, &facts, p->cfg->mark, s->log);
	vqueue_set(&s->port.vq, s->mif->ifindex, p->cfg->mark ? s->port.speed : 0);
	if (!err)
		err = sock_tx_open(s);
	if (!err) {
		s->epoll = epoll_create1(EPOLL_CLOEXEC);
		err = s->epoll < 0 ? -errno : serve_addresses(s);
	}
	if (err) {
		close_port(&s->port);
		return err;
	}
	s->mif->changed = false;
	tell(s);
	sock_post_open(s);
	*out = &s->port;
	return 0;
}

static void activate(struct port *port, const struct portset_config *cfg)
{
	sock_post_activate(of_port(port), cfg);
}

static int descriptor(const struct port *port, uint32_t i)
{
	return i == 0 ? of_port(port)->epoll : -1;
}

static uint32_t rx(struct port *port, uint64_t now, uint32_t budget)
{
	return sock_rx(of_port(port), now, budget);
}

static bool tx(struct port *port)
{
	return sock_tx_flush(of_port(port));
}

static void shared_counters(const void *shared, uint64_t out[MROCE_COUNTERS])
{
	const struct sock_shared *s = shared;

	for (uint32_t i = 0; i < MROCE_COUNTERS; i++)
		out[i] += s->counters[i];
	sock_post_counters(&s->post, out);
}

static void counters(const struct port *port, uint64_t out[MROCE_COUNTERS])
{
	(void)port;
	(void)out;
}

const struct port_kind port_kind_socket = {
	.name = "socket",
	.prepare = prepare,
	.dispose = dispose,
	.silence = silence,
	.open = open_port,
	.activate = activate,
	.close = close_port,
	.descriptor = descriptor,
	.rx = rx,
	.tx = tx,
	.follow = follow,
	.every_second = every_second,
	.shared_counters = shared_counters,
	.counters = counters,
	.show = sock_show,
};
