/* SPDX-License-Identifier: BSD-2-Clause */
/* flow_watch.h: bytes sent by an interface, and the queue before it, read by netlink as often as one likes. */
#ifndef MROCE_TESTS_FABRIC_FLOW_WATCH_H
#define MROCE_TESTS_FABRIC_FLOW_WATCH_H

#include <linux/if_link.h>
#include "netctl.h"

struct watch {
	char name[64]; /* NETNS:INTERFACE */
	int sock;
	int ifindex;
	uint64_t tx_bytes, backlog, drops;
};

/* NETNS:INTERFACE, inside the namespace. Leaves the process in it. */
static int watch_open(struct watch *w, const char *name)
{
	struct timeval patience = { .tv_sec = 1 };
	char netns[64];
	const char *colon = strchr(name, ':');

	if (!colon || strlen(name) >= sizeof(w->name))
		return -EINVAL;
	snprintf(w->name, sizeof(w->name), "%s", name);
	snprintf(netns, sizeof(netns), "%.*s", (int)(colon - name), name);
	if (net_enter(netns))
		return -ENOENT;
	w->ifindex = (int)if_nametoindex(colon + 1);
	w->sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (!w->ifindex || w->sock < 0)
		return -ENOENT;
	setsockopt(w->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return 0;
}

static int watch_ask(const struct watch *w, void *req, uint32_t len, char *buf, uint32_t room)
{
	struct nlmsghdr *answer = (void *)buf;
	ssize_t n;

	if (send(w->sock, req, len, 0) < 0)
		return -errno;
	n = recv(w->sock, buf, room, 0);
	if (n < (ssize_t)sizeof(*answer) || answer->nlmsg_type == NLMSG_ERROR)
		return -EIO;
	return (int)n;
}

static int watch_link(struct watch *w)
{
	struct {
		struct nlmsghdr hdr;
		struct if_stats_msg msg;
	} req = { .hdr = { sizeof(req), RTM_GETSTATS, NLM_F_REQUEST, 1, 0 },
		  .msg = { .ifindex = (uint32_t)w->ifindex,
			   .filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64) } };
	char buf[2048];
	int len = watch_ask(w, &req, sizeof(req), buf, sizeof(buf));
	struct nlmsghdr *answer = (void *)buf;
	struct rtattr *at = (void *)((char *)NLMSG_DATA(answer) + sizeof(struct if_stats_msg));
	struct rtnl_link_stats64 stats;

	if (len < 0)
		return len;
	len = (int)answer->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct if_stats_msg));
	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if (at->rta_type != IFLA_STATS_LINK_64)
			continue;
		memcpy(&stats, RTA_DATA(at), sizeof(stats));
		w->tx_bytes = stats.tx_bytes;
	}
	return 0;
}

static int watch_queue(struct watch *w)
{
	struct {
		struct nlmsghdr hdr;
		struct tcmsg tc;
	} req = { .hdr = { sizeof(req), RTM_GETQDISC, NLM_F_REQUEST | NLM_F_ECHO, 2, 0 },
		  .tc = { .tcm_ifindex = w->ifindex, .tcm_parent = TC_H_ROOT } };
	char buf[4096];
	int len = watch_ask(w, &req, sizeof(req), buf, sizeof(buf));
	struct net_stats stats = { 0 };
	struct nlmsghdr *answer = (void *)buf;
	struct rtattr *at = TCA_RTA(NLMSG_DATA(answer));

	if (len < 0)
		return len;
	len = (int)TCA_PAYLOAD(answer);
	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if ((at->rta_type & NLA_TYPE_MASK) == TCA_STATS2)
			net_queue_parse(at, &stats);
	}
	w->backlog = stats.queue_bytes;
	w->drops = stats.queue_drops;
	return 0;
}

/* What cannot be read keeps its last value: a link that is down has no queue. */
static void watch_read(struct watch *w)
{
	watch_link(w);
	if (watch_queue(w))
		w->backlog = 0;
}

#endif
