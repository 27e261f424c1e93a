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

static inline int net_fail(int err, const char *what, const char *name)
{
	fprintf(stderr, "fabric: %s %s: %s\n", what, name, strerror(err));
	return -err;
}

static inline int net_enter(const char *netns)
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

static inline int net_sysctl(const char *name, const char *value)
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

static inline int net_ifreq(int sock, const char *ifname, unsigned long request, struct ifreq *ifr)
{
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", ifname);
	return ioctl(sock, request, ifr) ? -errno : 0;
}

static inline bool net_is_up(const char *ifname)
{
	struct ifreq ifr = {};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (sock < 0)
		return false;
	err = net_ifreq(sock, ifname, SIOCGIFFLAGS, &ifr);
	close(sock);
	return !err && (ifr.ifr_flags & IFF_UP);
}

static inline int net_ethtool(int sock, const char *ifname, __u32 cmd, __u32 value)
{
	struct ethtool_value ev = { .cmd = cmd, .data = value };
	struct ifreq ifr = { .ifr_data = (void *)&ev };

	return net_ifreq(sock, ifname, SIOCETHTOOL, &ifr);
}

static inline int net_vlan_offload_off(int sock, const char *ifname)
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
static inline int net_offloads(const char *ifname, bool on)
{
	static const __u32 commands[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO,
					  ETHTOOL_STXCSUM };
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (sock < 0)
		return net_fail(errno, "cannot open a socket for", ifname);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]) && !err && !on; i++) {
		err = net_ethtool(sock, ifname, commands[i], 0);
		if (err == -EOPNOTSUPP) /* veth takes some away by itself when XDP is attached */
			err = 0;
	}
	if (!err && !on)
		err = net_vlan_offload_off(sock, ifname);
	if (!err && on)
		err = net_ethtool(sock, ifname, ETHTOOL_SGRO, 1);
	close(sock);
	return err ? net_fail(-err, "cannot set offloads of", ifname) : 0;
}

struct net_stats {
	__u64 queue_drops;
	__u32 queue_bytes;
	__u64 link_drops; /* the other end had no room: never a rule's doing */
};

struct net_table {
	struct net_stats *by_ifindex;
	int n;
};

static inline void net_queue_parse(const struct rtattr *stats, struct net_stats *out)
{
	const struct rtattr *at = RTA_DATA(stats);
	int len = RTA_PAYLOAD(stats);
	struct gnet_stats_queue queue;

	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if ((at->rta_type & NLA_TYPE_MASK) != TCA_STATS_QUEUE)
			continue;
		memcpy(&queue, RTA_DATA(at), sizeof(queue));
		out->queue_drops = queue.drops;
		out->queue_bytes = queue.backlog;
	}
}

static inline void net_qdisc_message(struct nlmsghdr *msg, struct net_table *table)
{
	struct tcmsg *tc = NLMSG_DATA(msg);
	struct rtattr *at = TCA_RTA(tc), *stats = NULL;
	int len = TCA_PAYLOAD(msg);
	bool is_queue = false;

	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if (at->rta_type == TCA_KIND)
			is_queue = !strcmp(RTA_DATA(at), "tbf") || !strcmp(RTA_DATA(at), "pfifo");
		else if ((at->rta_type & NLA_TYPE_MASK) == TCA_STATS2)
			stats = at;
	}
	if (is_queue && stats && tc->tcm_ifindex < table->n)
		net_queue_parse(stats, &table->by_ifindex[tc->tcm_ifindex]);
}

static inline void net_link_message(struct nlmsghdr *msg, struct net_table *table)
{
	struct ifinfomsg *link = NLMSG_DATA(msg);
	struct rtattr *at = IFLA_RTA(link);
	int len = IFLA_PAYLOAD(msg);
	struct rtnl_link_stats64 stats;

	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if (at->rta_type != IFLA_STATS64 || link->ifi_index >= table->n)
			continue;
		memcpy(&stats, RTA_DATA(at), sizeof(stats));
		table->by_ifindex[link->ifi_index].link_drops = stats.tx_dropped;
	}
}

static inline int net_dump_read(int sock, void (*each)(struct nlmsghdr *, struct net_table *),
				struct net_table *table)
{
	static char buf[1 << 16];
	struct nlmsghdr *msg;
	ssize_t len;

	while ((len = recv(sock, buf, sizeof(buf), 0)) > 0) {
		for (msg = (void *)buf; NLMSG_OK(msg, len); msg = NLMSG_NEXT(msg, len)) {
			if (msg->nlmsg_type == NLMSG_DONE)
				return 0;
			if (msg->nlmsg_type == NLMSG_ERROR)
				return -EIO;
			each(msg, table);
		}
	}
	return -EIO;
}

static inline int net_dump(int type, void (*each)(struct nlmsghdr *, struct net_table *),
			   struct net_table *table)
{
	struct {
		struct nlmsghdr hdr;
		union {
			struct tcmsg tc;
			struct ifinfomsg link;
		} body;
	} req = { .hdr = { sizeof(req), type, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 } };
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err;

	if (sock < 0)
		return net_fail(errno, "cannot open", "netlink");
	if (type == RTM_GETLINK)
		req.hdr.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg));
	err = send(sock, &req, req.hdr.nlmsg_len, 0) < 0 ? -errno : net_dump_read(sock, each, table);
	close(sock);
	return err ? net_fail(-err, "cannot read statistics by", "netlink") : 0;
}

/* Reads the statistics of every interface of this namespace into by_ifindex[0 .. n - 1]. */
static inline int net_stats(struct net_stats *by_ifindex, int n)
{
	struct net_table table = { by_ifindex, n };
	int err;

	memset(by_ifindex, 0, n * sizeof(*by_ifindex));
	err = net_dump(RTM_GETLINK, net_link_message, &table);
	return err ? err : net_dump(RTM_GETQDISC, net_qdisc_message, &table);
}

#endif
