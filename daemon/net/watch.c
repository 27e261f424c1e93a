// SPDX-License-Identifier: BSD-2-Clause
#include "watch.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "ip.h"

#define BUFFER 32768 /* the kernel's dumps come in pieces of at most this */
#define EVENT_SPACE (4 << 20)
#define EVENTS_PER_POLL 256
#define DISCARD_MAX 1000000
#define ASK_MISSING_NS 200000000ULL
#define ASK_STALE_NS 3000000000ULL

static int feed(const struct nlmsghdr *nlh, void *data)
{
	mirror_apply(data, nlh);
	return MNL_CB_OK;
}

/*
 * Reads one dump to its end. Not by mnl_cb_run(), which stops in the middle when the tables change
 * meanwhile: that is no harm, since each change is reported as an event, too.
 */
static int read_dump(struct watch *w, uint32_t seq)
{
	char buf[BUFFER];

	for (;;) {
		ssize_t n = mnl_socket_recvfrom(w->dumps, buf, sizeof(buf));
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		int left = (int)n;

		if (n < 0)
			return -errno;
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != seq)
				continue;
			if (nlh->nlmsg_type == NLMSG_DONE)
				return 0;
			if (nlh->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(nlh))->error;
			mirror_apply(w->mirror, nlh);
		}
	}
}

static int dump(struct watch *w, uint16_t type, uint8_t family)
{
	char buf[BUFFER];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtgenmsg *gen;
	uint32_t seq = ++w->seq;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	gen = mnl_nlmsg_put_extra_header(nlh, type == RTM_GETLINK    ? sizeof(struct ifinfomsg)
					      : type == RTM_GETADDR  ? sizeof(struct ifaddrmsg)
					      : type == RTM_GETROUTE ? sizeof(struct rtmsg)
								     : sizeof(struct ndmsg));
	gen->rtgen_family = family;
	if (mnl_socket_sendto(w->dumps, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	return read_dump(w, seq);
}

static int dump_all(struct watch *w)
{
	static const struct {
		uint16_t type;
		uint8_t family;
	} parts[] = {
		{ RTM_GETLINK, AF_UNSPEC }, { RTM_GETADDR, AF_UNSPEC }, { RTM_GETROUTE, AF_INET },
		{ RTM_GETROUTE, AF_INET6 }, { RTM_GETNEIGH, AF_INET },	{ RTM_GETNEIGH, AF_INET6 },
	};
	int err = 0;

	mirror_forget(w->mirror);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !err; i++) {
		err = dump(w, parts[i].type, parts[i].family);
		/* A host without IPv6 has no such tables. */
		if (err == -EOPNOTSUPP || err == -EAFNOSUPPORT)
			err = 0;
		if (!err && parts[i].type == RTM_GETLINK)
			mirror_links_listed(w->mirror);
	}
	/* Only a real removal makes the mirror stale, not our own forgetting. */
	w->mirror->stale = false;
	return err;
}

static struct mnl_socket *open_socket(unsigned int groups)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (!nl)
		return NULL;
	if (mnl_socket_bind(nl, groups, MNL_SOCKET_AUTOPID)) {
		mnl_socket_close(nl);
		return NULL;
	}
	return nl;
}

int watch_open(struct watch *w, struct mirror *m, log_fn log)
{
	int size = EVENT_SPACE, err;

	memset(w, 0, sizeof(*w));
	w->mirror = m;
	w->log = log;
	w->events = open_socket(RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR |
				RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
	w->dumps = open_socket(0);
	if (!w->events || !w->dumps) {
		err = -errno;
		log(LOG_ERR, "netlink sockets cannot be opened: %s", strerror(-err));
		watch_close(w);
		return err;
	}
	setsockopt(watch_fd(w), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	err = dump_all(w);
	if (err) {
		log(LOG_ERR, "netlink: interfaces, routes and neighbours cannot be read: %s",
		    strerror(-err));
		watch_close(w);
	}
	return err;
}

void watch_close(struct watch *w)
{
	if (w->events)
		mnl_socket_close(w->events);
	if (w->dumps)
		mnl_socket_close(w->dumps);
	w->events = w->dumps = NULL;
}

int watch_fd(const struct watch *w)
{
	return mnl_socket_get_fd(w->events);
}

static void read_anew(struct watch *w, const char *why)
{
	int err = dump_all(w);

	if (why)
		w->log(LOG_NOTICE, "netlink: %s: all tables were read anew", why);
	if (err)
		w->log(LOG_ERR, "netlink: tables cannot be read: %s", strerror(-err));
}

void watch_resync(struct watch *w)
{
	read_anew(w, NULL);
}

/*
 * Changes were dropped: newer ones than those that still wait, which would spoil what is read anew. So
 * they go first.
 */
static void discard_events(struct watch *w)
{
	char buf[BUFFER];

	for (int i = 0; i < DISCARD_MAX; i++) {
		if (recv(watch_fd(w), buf, sizeof(buf), MSG_DONTWAIT) <= 0 && errno != ENOBUFS)
			return;
	}
}

void watch_poll(struct watch *w)
{
	char buf[BUFFER];

	for (int i = 0; i < EVENTS_PER_POLL; i++) {
		ssize_t n = recv(watch_fd(w), buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0 && errno == ENOBUFS) {
			discard_events(w);
			read_anew(w, "changes came faster than they were read");
			return;
		}
		if (n <= 0) {
			if (w->mirror->stale)
				read_anew(w, NULL);
			return;
		}
		/* Answers to watch_ask() are errors only: a neighbour that cannot be asked for. */
		mnl_cb_run(buf, n, 0, 0, feed, w->mirror);
	}
}

static void ask(struct watch *w, const struct mirror_if *mif, const struct ip *next_hop)
{
	char buf[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *nd;

	nlh->nlmsg_type = RTM_NEWNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
	nlh->nlmsg_seq = ++w->seq;
	nd = mnl_nlmsg_put_extra_header(nlh, sizeof(*nd));
	nd->ndm_family = ip_is_v4(next_hop) ? AF_INET : AF_INET6;
	nd->ndm_ifindex = (int)mif->ifindex;
	nd->ndm_flags = NTF_USE;
	if (ip_is_v4(next_hop))
		mnl_attr_put(nlh, NDA_DST, 4, next_hop->a + 12);
	else
		mnl_attr_put(nlh, NDA_DST, 16, next_hop->a);
	if (sendto(watch_fd(w), nlh, nlh->nlmsg_len, MSG_DONTWAIT, NULL, 0) < 0)
		w->log(LOG_DEBUG, "%s: the kernel cannot be asked to resolve a neighbour: %s",
		       mif->name, strerror(errno));
}

static struct mirror_neigh *neigh_or_new(struct mirror_if *mif, const struct ip *ip)
{
	struct mirror_neigh *n = mirror_neigh(mif, ip);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->ip = *ip;
	HASH_ADD(hh, mif->neighs, ip, sizeof(n->ip), n);
	return n;
}

void watch_ask(struct watch *w, struct mirror_if *mif, const struct ip *next_hop, uint64_t now)
{
	struct mirror_neigh *n = neigh_or_new(mif, next_hop);

	if (!n)
		return;
	if (mirror_neigh_valid(n) && n->state != NUD_STALE)
		return;
	if (n->asked && now - n->asked < (mirror_neigh_valid(n) ? ASK_STALE_NS : ASK_MISSING_NS))
		return;
	n->asked = now ? now : 1;
	ask(w, mif, next_hop);
}
