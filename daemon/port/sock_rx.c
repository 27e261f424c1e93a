// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets into a socket port: sockets ("doors") on the service's port of each own address, the tracker's twin,
 * and its answers, which leave with the source port of the packet they answer, like those of XDP.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "core/twin.h"
#include "mroce/wire.h"
#include "sock.h"

#define READY_MAX 16
/* Packets of one door before the next has its turn. */
#define DOOR_BUDGET (4 * SOCK_RX_BATCH)
#define ECN_MASK 3
#define ECN_CE 3

/* ---- doors ---- */

static int option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static int explain(const struct sock *s, const struct ip *addr, int err)
{
	char text[IPTEXT_MAX];

	s->log(LOG_ERR, "%s: UDP port %u of %s cannot be had: %s%s", s->port.name, s->udp_port,
	       ip_text(addr, text), strerror(-err),
	       err == -EADDRINUSE ? ": another program (an mroced already running here?) has it; "
				    "stop it or choose another udp_port"
	       : err == -EACCES	  ? ": ordinary users get ports from 1024 on"
				  : "");
	return err;
}

/* Those of a group let each other in, and so would hide that somebody else has the port. */
static int check_port_free(const struct sock *s, const struct ip *addr)
{
	int fd = sock_make(!ip_is_v4(addr), s->port.name, 0);
	int err;

	if (fd < 0)
		return fd;
	err = sock_bind(fd, addr, s->udp_port, s->mif->ifindex);
	close(fd);
	return err;
}

static int receive_options(int fd, bool v6, uint32_t room)
{
	int err = option(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (!err)
		err = option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	if (!err)
		err = v6 ? option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1)
			 : option(fd, IPPROTO_IP, IP_RECVTOS, 1);
	/* FORCE goes beyond net.core.rmem_max and needs CAP_NET_ADMIN. */
	if (option(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)room))
		option(fd, SOL_SOCKET, SO_RCVBUF, (int)room);
	return err;
}

/* As the kernel counts: twice what was asked for. */
static uint32_t room_of(int fd)
{
	int room = 0;
	socklen_t len = sizeof(room);

	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &len);
	return room > 0 ? (uint32_t)room : 1;
}

/* Not bound to the interface: what is sent to its address is for it, whichever way it came. */
static int open_door(const struct sock *s, struct sock_addr_in *a)
{
	struct sock_door *d = &a->doors[a->ndoors];
	bool v6 = !ip_is_v4(&a->addr);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = d };
	int err;

	d->overflow = 0;
	d->fd = sock_make(v6, s->port.name, 0);
	if (d->fd < 0)
		return d->fd;
	err = receive_options(d->fd, v6, s->receive_room);
	if (!err)
		err = sock_bind(d->fd, &a->addr, s->udp_port, s->mif->ifindex);
	if (!err)
		err = epoll_ctl(s->epoll, EPOLL_CTL_ADD, d->fd, &event) ? -errno : 0;
	if (err)
		close(d->fd);
	else
		a->ndoors++;
	return err;
}

/* Where the kernel grants only small buffers, several sockets share the port: each path stays with one. */
int sock_doors_open(struct sock *s, struct sock_addr_in *a)
{
	int err = check_port_free(s, &a->addr);
	uint32_t room = 0;

	while (!err && a->ndoors < SOCK_DOORS && room < SOCK_ROOM_ENOUGH) {
		err = open_door(s, a);
		if (!err)
			room += room_of(a->doors[a->ndoors - 1].fd);
	}
	if (!err)
		return 0;
	sock_doors_close(a);
	return explain(s, &a->addr, err);
}

void sock_doors_close(struct sock_addr_in *a)
{
	while (a->ndoors)
		close(a->doors[--a->ndoors].fd);
}

/* ---- packets ---- */

int sock_rx_prepare(struct sock_shared *shared)
{
	shared->slots = calloc(SOCK_RX_BATCH, sizeof(*shared->slots));
	if (!shared->slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < SOCK_RX_BATCH; i++) {
		struct sock_rx_slot *slot = &shared->slots[i];

		slot->iov = (struct iovec){ slot->data, sizeof(slot->data) };
		shared->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &slot->from.any,
			.msg_iov = &slot->iov,
			.msg_iovlen = 1,
			.msg_control = slot->control,
		};
	}
	return 0;
}

static void take_overflow(struct sock *s, struct sock_door *d, const void *data)
{
	uint32_t total;

	memcpy(&total, data, sizeof(total));
	s->rx_dropped += (uint32_t)(total - d->overflow);
	d->overflow = total;
}

/* What the kernel says beside the packet. True: it came with CE. */
static bool read_control(struct sock *s, struct sock_door *d, struct msghdr *msg)
{
	struct cmsghdr *c;
	bool ce = false;

	/* The traffic class is an int, TOS a byte: the ECN field is in the int's low byte. */
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			take_overflow(s, d, CMSG_DATA(c));
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			ce = (*CMSG_DATA(c) & ECN_MASK) == ECN_CE;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			int tclass;

			memcpy(&tclass, CMSG_DATA(c), sizeof(tclass));
			ce = (tclass & ECN_MASK) == ECN_CE;
		}
	}
	return ce;
}

static void answer(struct sock *s, const struct rx_info *info, const void *reply, uint32_t len)
{
	struct flow flow = { .remote = info->remote, .sport = info->sport };
	uint8_t type = ((const struct mroce_hdr *)reply)->type;
	void *at;

	if (type == MROCE_NACK && !s->nack)
		return;
	at = sock_tx_begin(&s->port, &flow, len);
	if (!at) {
		s->shared->counters[MROCE_COUNT_NACK_FAILED] += type == MROCE_NACK;
		return;
	}
	memcpy(at, reply, len);
	sock_tx_end(&s->port, len);
	s->shared->counters[type == MROCE_NACK	? MROCE_COUNT_TX_NACK
			    : type == MROCE_ACK ? MROCE_COUNT_TX_ACK
						: MROCE_COUNT_TX_PROBE_REPLY]++;
}

static void rx_packet(struct sock *s, const struct sock_rx_slot *slot, uint32_t len, bool ce,
		      uint32_t queue, uint64_t now)
{
	struct rx_info info = { .remote = sock_addr_ip(&slot->from.any),
				.sport = sock_addr_port(&slot->from.any),
				.queue = (uint16_t)queue };
	uint8_t reply[TWIN_REPLY_MAX];
	uint32_t reply_len = 0;
	bool marked = twin_mark(&s->port, len, now);
	int verdict = twin_rx(&s->port, slot->data, len, ce || marked, queue, reply, &reply_len);

	s->shared->counters[MROCE_COUNT_RX_CE] += ce;
	s->shared->counters[MROCE_COUNT_MARKED] += marked && !ce;
	if (reply_len)
		answer(s, &info, reply, reply_len);
	if (verdict == TWIN_DONE)
		return;
	if (verdict < 0) {
		s->shared->counters[-verdict]++;
		return;
	}
	s->shared->counters[MROCE_COUNT_RX_PASS_CTL] += verdict == TWIN_SETUP;
	info.tracked = verdict == TWIN_DELIVER;
	engine_rx(s->engine, &s->port, slot->data, len, &info, now);
}

static uint32_t rx_batch(struct sock *s, struct sock_door *d, uint64_t now, uint32_t max)
{
	struct sock_shared *shared = s->shared;
	int n;

	for (uint32_t i = 0; i < max; i++) {
		shared->msgs[i].msg_hdr.msg_namelen = sizeof(shared->slots[i].from.v6);
		shared->msgs[i].msg_hdr.msg_controllen = sizeof(shared->slots[i].control);
	}
	n = recvmmsg(d->fd, shared->msgs, max, MSG_DONTWAIT, NULL);
	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++) {
		struct msghdr *msg = &shared->msgs[i].msg_hdr;
		bool ce = read_control(s, d, msg);

		if (msg->msg_flags & MSG_TRUNC)
			s->rx_strange++;
		else
			rx_packet(s, &shared->slots[i], shared->msgs[i].msg_len, ce,
				  (uint32_t)d->fd, now);
	}
	s->rx_packets += (uint32_t)n;
	engine_rx_flush(s->engine, now);
	sock_tx_flush(s); /* the answers are part of the sender's round trip */
	return (uint32_t)n;
}

/* Some batches; *empty becomes false if there may be more. */
static uint32_t rx_door(struct sock *s, struct sock_door *d, uint64_t now, uint32_t budget,
			bool *empty)
{
	uint32_t total = 0, max, got;

	do {
		max = budget - total < SOCK_RX_BATCH ? budget - total : SOCK_RX_BATCH;
		got = max ? rx_batch(s, d, now, max) : 0;
		total += got;
	} while (max && got == max && total < DOOR_BUDGET);
	if (got == max)
		*empty = false;
	return total;
}

uint32_t sock_rx(struct sock *s, uint64_t now, uint32_t budget)
{
	struct epoll_event ready[READY_MAX];
	int n = epoll_wait(s->epoll, ready, READY_MAX, 0);
	bool empty = n < READY_MAX;
	uint32_t total = 0;

	s->now = now;
	for (int i = 0; i < n; i++)
		total += rx_door(s, ready[i].data.ptr, now, budget - total, &empty);
	if (empty)
		s->port.drained++;
	return total;
}
