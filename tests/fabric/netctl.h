/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fabricctl needs to know about Linux networking: entering a namespace, switching offloads,
 * and reading queue statistics. Static functions, since every C file here is a program of its own.
 * All return 0 or -errno, and print what was wrong.
 */
#ifndef MROCE_TESTS_FABRIC_NETCTL_H
#define MROCE_TESTS_FABRIC_NETCTL_H

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int net_fail(int err, const char *what, const char *name)
{
	fprintf(stderr, "fabric: %s %s: %s\n", what, name, strerror(err));
	return -err;
}

static int net_enter(const char *netns)
{
	char path[128];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return net_fail(errno, "cannot open network namespace (is the fabric up?)", path);
	if (setns(fd, CLONE_NEWNET))
		err = net_fail(errno, "cannot enter network namespace (are you root?)", path);
	close(fd);
	return err;
}

static int net_sysctl(const char *name, const char *value)
{
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return net_fail(errno, "cannot open", path);
	n = write(fd, value, strlen(value));
	close(fd);
	return n < 0 ? net_fail(EINVAL, "cannot write", path) : 0;
}

static int net_ifreq(int sock, const char *ifname, unsigned long request, struct ifreq *ifr)
{
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", ifname);
	return ioctl(sock, request, ifr) ? -errno : 0;
}

static bool net_is_up(const char *ifname)
{
	struct ifreq ifr = {};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (sock < 0)
		return false;
	err = net_ifreq(sock, ifname, SIOCGIFFLAGS, &ifr);
	close(sock);
	return !err && (ifr.ifr_flags & IFF_UP);
}

static int net_ethtool(int sock, const char *ifname, __u32 cmd, __u32 value)
{
	struct ethtool_value ev = { .cmd = cmd, .data = value };
	struct ifreq ifr = { .ifr_data = (void *)&ev };

	return net_ifreq(sock, ifname, SIOCETHTOOL, &ifr);
}

static int net_vlan_offload_off(int sock, const char *ifname)
{
	struct ethtool_value ev = { .cmd = ETHTOOL_GFLAGS };
	struct ifreq ifr = { .ifr_data = (void *)&ev };
	int err = net_ifreq(sock, ifname, SIOCETHTOOL, &ifr);

	if (err)
		return err;
	return net_ethtool(sock, ifname, ETHTOOL_SFLAGS,
			   ev.data & ~(__u32)(ETH_FLAG_TXVLAN | ETH_FLAG_RXVLAN));
}

/*
 * Off: every packet on the wire is one packet, with real checksums and with its VLAN tag in it.
 * On: as the kernel wants it, giant segments included.
 */
static int net_offloads(const char *ifname, bool on)
{
	static const __u32 commands[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM };
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (sock < 0)
		return net_fail(errno, "cannot open a socket for", ifname);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]) && !err && !on; i++)
		err = net_ethtool(sock, ifname, commands[i], 0);
	if (!err && !on)
		err = net_vlan_offload_off(sock, ifname);
	if (!err && on)
		err = net_ethtool(sock, ifname, ETHTOOL_SGRO, 1);
	close(sock);
	return err ? net_fail(-err, "cannot set offloads of", ifname) : 0;
}

struct net_queue {
	__u64 drops;
	__u32 backlog;	/* bytes waiting */
	__u32 waiting;	/* packets waiting */
};

static void net_queue_parse(const struct rtattr *stats, struct net_queue *out)
{
	const struct rtattr *at = RTA_DATA(stats);
	int len = RTA_PAYLOAD(stats);
	struct gnet_stats_queue queue;

	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if ((at->rta_type & NLA_TYPE_MASK) != TCA_STATS_QUEUE)
			continue;
		memcpy(&queue, RTA_DATA(at), sizeof(queue));
		*out = (struct net_queue){ queue.drops, queue.backlog, queue.qlen };
	}
}

static void net_queue_message(struct nlmsghdr *msg, struct net_queue *by_ifindex, int n)
{
	struct tcmsg *tc = NLMSG_DATA(msg);
	struct rtattr *at = TCA_RTA(tc), *stats = NULL;
	int len = TCA_PAYLOAD(msg);
	bool is_tbf = false;

	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if (at->rta_type == TCA_KIND)
			is_tbf = !strcmp(RTA_DATA(at), "tbf");
		else if ((at->rta_type & NLA_TYPE_MASK) == TCA_STATS2)
			stats = at;
	}
	if (is_tbf && stats && tc->tcm_ifindex < n)
		net_queue_parse(stats, &by_ifindex[tc->tcm_ifindex]);
}

/* Reads the TBF queues of this namespace into by_ifindex[0 .. n - 1]. */
static int net_queues(struct net_queue *by_ifindex, int n)
{
	struct {
		struct nlmsghdr hdr;
		struct tcmsg tc;
	} req = {
		.hdr = { sizeof(req), RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 },
		.tc = { .tcm_family = AF_UNSPEC },
	};
	static char buf[1 << 16];
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct nlmsghdr *msg;
	bool done = false;
	ssize_t len;

	memset(by_ifindex, 0, n * sizeof(*by_ifindex));
	if (sock < 0)
		return net_fail(errno, "cannot open", "netlink");
	if (send(sock, &req, sizeof(req), 0) < 0)
		done = true;
	while (!done && (len = recv(sock, buf, sizeof(buf), 0)) > 0) {
		for (msg = (void *)buf; NLMSG_OK(msg, len); msg = NLMSG_NEXT(msg, len)) {
			if (msg->nlmsg_type == NLMSG_DONE || msg->nlmsg_type == NLMSG_ERROR)
				done = true;
			else
				net_queue_message(msg, by_ifindex, n);
		}
	}
	close(sock);
	return 0;
}

#endif
