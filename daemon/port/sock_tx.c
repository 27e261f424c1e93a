// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets out of a socket port. The engine writes a payload into a slot; slots queue up at the socket of
 * their flow's source port and leave by one sendmmsg() per socket.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "frame.h"
#include "sock.h"

static struct sock *of_port(struct port *port)
{
	return port->priv;
}

int sock_tx_open(struct sock *s)
{
	struct sock_tx *t = &s->tx;

	t->slots = mmap(NULL, SOCK_TX_SLOTS * sizeof(*t->slots), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->slots == MAP_FAILED) {
		t->slots = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < SOCK_TX_SLOTS; i++)
		t->free[i] = (uint16_t)i;
	t->nfree = SOCK_TX_SLOTS;
	return 0;
}

void sock_tx_close(struct sock *s)
{
	if (s->tx.slots)
		munmap(s->tx.slots, SOCK_TX_SLOTS * sizeof(*s->tx.slots));
	s->tx.slots = NULL;
	HASH_CLEAR(hh, s->dests.hash);
	for (uint32_t i = 0; i < s->dests.n; i++)
		free(s->dests.at[i]);
	free(s->dests.at);
	memset(&s->dests, 0, sizeof(s->dests));
}

/* ---- destinations ---- */

static struct sock_dest *dest_add(struct sock_dests *t, const struct ip *remote)
{
	struct sock_dest *d;

	if (t->n == t->size) {
		uint32_t size = t->size ? t->size * 2 : 64;
		struct sock_dest **bigger = realloc(t->at, size * sizeof(*bigger));

		if (!bigger)
			return NULL;
		t->at = bigger;
		t->size = size;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->remote = *remote;
	t->at[t->n++] = d;
	d->number = t->n;
	HASH_ADD(hh, t->hash, remote, sizeof(d->remote), d);
	return d;
}

static struct sock_dest *dest_find(struct sock_dests *t, const struct ip *remote)
{
	struct sock_dest *d;

	HASH_FIND(hh, t->hash, remote, sizeof(*remote), d);
	return d ? d : dest_add(t, remote);
}

/* Source address by which we reach it. The kernel itself sees to neighbours. 0, -EHOSTUNREACH. */
static int source_of(const struct sock *s, const struct ip *remote, struct ip *src)
{
	struct mirror_target target;
	int err = mirror_resolve(s->mif, remote, &s->port.addr, &target);

	if (err && err != -EAGAIN)
		return err;
	*src = target.src;
	return 0;
}

static void dest_refresh(struct sock *s, struct sock_dest *d)
{
	struct ip src;

	d->version = s->watch->mirror->version;
	d->pool = source_of(s, &d->remote, &src) ? NULL : sock_pool_of(s, &src);
	d->headers = FRAME_UDP_LEN + (ip_is_v4(&d->remote) ? FRAME_IPV4_LEN : FRAME_IPV6_LEN);
	sock_addr_set(&d->to, &d->remote, s->udp_port, s->mif->ifindex);
}

static struct sock_dest *dest_of_flow(struct sock *s, struct flow *flow)
{
	struct sock_dests *t = &s->dests;
	struct sock_dest *d;

	if (flow->route && flow->route <= t->n &&
	    ip_equal(&t->at[flow->route - 1]->remote, &flow->remote))
		d = t->at[flow->route - 1];
	else
		d = dest_find(t, &flow->remote);
	if (!d)
		return NULL;
	flow->route = d->number;
	if (d->version != s->watch->mirror->version)
		dest_refresh(s, d);
	flow->route_version = d->version;
	return d->pool ? d : NULL;
}

bool sock_reachable(struct port *port, const struct ip *remote)
{
	struct ip src;

	return source_of(of_port(port), remote, &src) == 0;
}

bool sock_owns(struct port *port, const struct ip *ip)
{
	return mirror_has_address(of_port(port)->mif, ip);
}

/* ---- the engine's packets ---- */

static bool find_dest(struct sock *s, struct flow *flow, uint32_t len)
{
	s->tx.dest = s->port.up ? dest_of_flow(s, flow) : NULL;
	return s->tx.dest && s->tx.dest->headers + len <= s->ip_max;
}

/* A place for a packet at the socket chosen; NULL: there is no socket, or no place. */
static void *take_slot(struct sock *s)
{
	struct sock_tx *t = &s->tx;

	if (!t->out)
		return NULL;
	if (!t->nfree)
		sock_tx_flush(s);
	if (!t->nfree) {
		t->full++;
		return NULL;
	}
	t->slot = t->free[t->nfree - 1];
	return t->slots[t->slot].data;
}

bool sock_full(struct port *port)
{
	return !of_port(port)->tx.nfree;
}

void *sock_tx_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct sock *s = of_port(port);

	if (!find_dest(s, flow, len))
		return NULL;
	s->tx.out = sock_pool_get(s->tx.dest->pool, flow->sport);
	return take_slot(s);
}

void *sock_post_begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct sock *s = of_port(port);

	if (!find_dest(s, flow, len))
		return NULL;
	s->tx.out = sock_pool_letters(s->tx.dest->pool);
	return take_slot(s);
}

/* Where packets of the path leave from, and questions about it too. */
uint16_t sock_post_sport(struct port *port, struct flow *flow)
{
	struct sock_dest *d = port->up ? dest_of_flow(of_port(port), flow) : NULL;
	struct sock_out *o = d ? sock_pool_get(d->pool, flow->sport) : NULL;

	return o ? o->real : 0;
}

void sock_tx_end(struct port *port, uint32_t len)
{
	struct sock_tx *t = &of_port(port)->tx;
	struct sock_tx_slot *slot = &t->slots[t->slot];
	struct sock_out *o = t->out;

	t->nfree--;
	slot->iov = (struct iovec){ slot->data, len };
	slot->to = &t->dest->to;
	if (o->waiting++) {
		t->slots[o->last].next = t->slot;
	} else {
		o->first = t->slot;
		t->busy[t->nbusy++] = o;
	}
	o->last = t->slot;
}

/* ---- to the kernel ---- */

static void release(struct sock_tx *t, struct sock_out *o, uint32_t n)
{
	while (n--) {
		t->free[t->nfree++] = o->first;
		o->first = t->slots[o->first].next;
		o->waiting--;
	}
}

static uint32_t gather(const struct sock_tx *t, const struct sock_out *o, struct mmsghdr *msgs)
{
	uint32_t n = o->waiting < SOCK_TX_BATCH ? o->waiting : SOCK_TX_BATCH;
	uint16_t at = o->first;

	for (uint32_t i = 0; i < n; i++, at = t->slots[at].next) {
		struct sock_tx_slot *slot = &t->slots[at];

		msgs[i].msg_hdr = (struct msghdr){
			.msg_name = (void *)&slot->to->any,
			.msg_namelen = slot->to->len,
			.msg_iov = &slot->iov,
			.msg_iovlen = 1,
		};
	}
	return n;
}

/* The first packet was refused for a reason that trying again does not mend: the network lost it, so to say. */
static void give_up_first(struct sock *s, struct sock_out *o, int err)
{
	struct sock_tx *t = &s->tx;
	struct ip to = sock_addr_ip(&t->slots[o->first].to->any);
	char text[IPTEXT_MAX];

	if (err == ENOBUFS) {
		t->lost++;
	} else {
		t->errors++;
		if (err != t->last_error)
			s->log(LOG_WARNING, "%s: a packet to %s could not be sent: %s",
			       s->port.name, ip_text(&to, text), strerror(err));
		t->last_error = err;
	}
	release(t, o, 1);
}

/* False: the socket's buffer is full. */
static bool send_out(struct sock *s, struct sock_out *o)
{
	struct mmsghdr msgs[SOCK_TX_BATCH];

	while (o->waiting) {
		uint32_t n = gather(&s->tx, o, msgs);
		int sent = sendmmsg(o->fd, msgs, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent > 0) {
			s->tx.packets += (uint32_t)sent;
			release(&s->tx, o, (uint32_t)sent);
		} else if (errno == EAGAIN) {
			return false;
		} else if (errno != EINTR) {
			give_up_first(s, o, errno);
		}
	}
	return true;
}

bool sock_tx_flush(struct sock *s)
{
	struct sock_tx *t = &s->tx;
	uint32_t left = 0;

	for (uint32_t i = 0; i < t->nbusy; i++) {
		if (!send_out(s, t->busy[i]))
			t->busy[left++] = t->busy[i];
	}
	t->nbusy = left;
	return left != 0;
}

static void forget(struct sock_tx *t, struct sock_out *o)
{
	uint32_t left = 0;

	release(t, o, o->waiting);
	for (uint32_t i = 0; i < t->nbusy; i++) {
		if (t->busy[i] != o)
			t->busy[left++] = t->busy[i];
	}
	t->nbusy = left;
}

/* What the kernel does not take now it does not get: letters are not left lying about. */
bool sock_post_flush(struct port *port)
{
	struct sock *s = of_port(port);
	struct sock_out *o = s->tx.dest ? sock_pool_letters(s->tx.dest->pool) : NULL;

	sock_tx_flush(s);
	if (!o || !o->waiting)
		return true;
	forget(&s->tx, o);
	return false;
}

void sock_tx_drop(struct sock *s)
{
	struct sock_tx *t = &s->tx;

	for (uint32_t i = 0; i < t->nbusy; i++)
		release(t, t->busy[i], t->busy[i]->waiting);
	t->nbusy = 0;
	for (uint32_t i = 0; i < s->dests.n; i++) {
		s->dests.at[i]->version = 0;
		s->dests.at[i]->pool = NULL;
	}
}

/* ---- set-up packets ---- */

/* From the service's own port, at once. */
int sock_ctl_send(struct port *port, const struct ip *remote, const void *payload, uint32_t len)
{
	struct sock *s = of_port(port);
	struct sock_addr_in *a;
	struct sock_addr to;
	struct ip src;

	if (source_of(s, remote, &src))
		return -EHOSTUNREACH;
	a = sock_addr_find(s, &src);
	if (!a)
		return -EADDRNOTAVAIL;
	sock_addr_set(&to, remote, s->udp_port, s->mif->ifindex);
	if (sendto(a->doors[0].fd, payload, len, MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, to.len) < 0)
		return -errno;
	s->ctl_packets++;
	return 0;
}
