// SPDX-License-Identifier: BSD-2-Clause
#include "mirror.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "ip.h"

#define NUD_USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE)

void mirror_init(struct mirror *m)
{
	memset(m, 0, sizeof(*m));
	m->version = 1;
}

static void changed(struct mirror *m)
{
	if (++m->version == 0)
		m->version = 1;
}

static void forget_interface(struct mirror_if *mif)
{
	struct mirror_neigh *n, *next;

	HASH_ITER(hh, mif->neighs, n, next) {
		HASH_DEL(mif->neighs, n);
		free(n);
	}
	free(mif->addrs);
	free(mif->routes);
	mif->addrs = NULL;
	mif->routes = NULL;
	mif->naddrs = mif->nroutes = mif->routes_size = 0;
}

void mirror_forget(struct mirror *m)
{
	for (uint32_t i = 0; i < m->nifs; i++) {
		forget_interface(&m->ifs[i]);
		m->ifs[i].listed = false;
	}
	m->stale = false;
	changed(m);
}

void mirror_links_listed(struct mirror *m)
{
	for (uint32_t i = 0; i < m->nifs; i++) {
		struct mirror_if *mif = &m->ifs[i];

		if (mif->listed || !mif->exists)
			continue;
		mif->exists = false;
		mif->lost = true;
		mif->flags = 0;
		mif->changed = true;
		changed(m);
	}
}

void mirror_free(struct mirror *m)
{
	mirror_forget(m);
	m->nifs = 0;
}

int mirror_add_interface(struct mirror *m, const char *name, uint32_t ifindex)
{
	struct mirror_if *mif = &m->ifs[m->nifs];

	if (m->nifs == MIRROR_INTERFACES)
		return -ENOSPC;
	memset(mif, 0, sizeof(*mif));
	strncpy(mif->name, name, sizeof(mif->name) - 1);
	memcpy(mif->called, mif->name, sizeof(mif->called));
	mif->ifindex = ifindex;
	return (int)m->nifs++;
}

void mirror_rebind(struct mirror_if *mif, uint32_t ifindex)
{
	mif->ifindex = ifindex;
	mif->exists = false;
	mif->flags = 0;
	mif->changed = true;
	memcpy(mif->called, mif->name, sizeof(mif->called));
}

static struct mirror_if *find(struct mirror *m, uint32_t ifindex)
{
	for (uint32_t i = 0; i < m->nifs; i++) {
		if (m->ifs[i].ifindex == ifindex)
			return &m->ifs[i];
	}
	return NULL;
}

/* ---- attributes ---- */

#define ATTRS_MAX 64

struct attrs {
	const struct nlattr *at[ATTRS_MAX];
};

static int keep_attr(const struct nlattr *attr, void *data)
{
	struct attrs *attrs = data;
	uint16_t type = mnl_attr_get_type(attr);

	if (type < ATTRS_MAX)
		attrs->at[type] = attr;
	return MNL_CB_OK;
}

/* False if the message is too short for its fixed part. */
static bool parse_attrs(const struct nlmsghdr *nlh, size_t fixed, struct attrs *out)
{
	memset(out, 0, sizeof(*out));
	if (mnl_nlmsg_get_payload_len(nlh) < fixed)
		return false;
	return mnl_attr_parse(nlh, fixed, keep_attr, out) >= 0;
}

static bool get_ip(const struct nlattr *attr, uint8_t family, struct ip *out)
{
	if (!attr)
		return false;
	if (family == AF_INET && mnl_attr_get_payload_len(attr) == 4)
		*out = ip_from_v4(mnl_attr_get_payload(attr));
	else if (family == AF_INET6 && mnl_attr_get_payload_len(attr) == 16)
		*out = ip_from_v6(mnl_attr_get_payload(attr));
	else
		return false;
	return true;
}

static bool get_u32(const struct nlattr *attr, uint32_t *out)
{
	if (!attr || mnl_attr_get_payload_len(attr) != 4)
		return false;
	*out = mnl_attr_get_u32(attr);
	return true;
}

static bool get_mac(const struct nlattr *attr, uint8_t mac[6])
{
	if (!attr || mnl_attr_get_payload_len(attr) != 6)
		return false;
	memcpy(mac, mnl_attr_get_payload(attr), 6);
	return true;
}

/* ---- links ---- */

static void apply_link(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct mirror_if *mif, before;
	struct attrs a;

	if (!parse_attrs(nlh, sizeof(*info), &a))
		return;
	mif = find(m, (uint32_t)info->ifi_index);
	if (!mif || info->ifi_family != AF_UNSPEC) /* bridges report their ports as links, too */
		return;
	before = *mif;
	mif->exists = nlh->nlmsg_type == RTM_NEWLINK;
	mif->lost |= !mif->exists;
	mif->listed = mif->exists;
	mif->flags = mif->exists ? info->ifi_flags : 0;
	get_u32(a.at[IFLA_MTU], &mif->mtu);
	get_u32(a.at[IFLA_NUM_RX_QUEUES], &mif->rx_queues);
	get_mac(a.at[IFLA_ADDRESS], mif->mac);
	if (mif->exists && a.at[IFLA_IFNAME])
		snprintf(mif->called, sizeof(mif->called), "%s",
			 mnl_attr_get_str(a.at[IFLA_IFNAME]));
	if (before.exists == mif->exists && before.flags == mif->flags && before.mtu == mif->mtu &&
	    memcmp(before.mac, mif->mac, 6) == 0 && strcmp(before.called, mif->called) == 0)
		return;
	mif->changed = true;
	/* The kernel drops the routes of a link that goes down without a word about each. */
	if (before.exists)
		m->stale = true;
	changed(m);
}

bool mirror_link_enabled(const struct mirror_if *mif)
{
	return mif->exists && (mif->flags & IFF_UP);
}

bool mirror_link_up(const struct mirror_if *mif)
{
	return mif->exists && (mif->flags & IFF_UP) && (mif->flags & IFF_RUNNING);
}

/* ---- addresses ---- */

static void remove_addr(struct mirror_if *mif, const struct ip *ip)
{
	for (uint32_t i = 0; i < mif->naddrs; i++) {
		if (!ip_equal(&mif->addrs[i].ip, ip))
			continue;
		memmove(&mif->addrs[i], &mif->addrs[i + 1],
			(mif->naddrs - i - 1) * sizeof(*mif->addrs));
		mif->naddrs--;
		return;
	}
}

static void put_addr(struct mirror_if *mif, const struct mirror_addr *addr)
{
	struct mirror_addr *bigger;

	for (uint32_t i = 0; i < mif->naddrs; i++) {
		if (ip_equal(&mif->addrs[i].ip, &addr->ip)) {
			mif->addrs[i] = *addr;
			return;
		}
	}
	bigger = realloc(mif->addrs, (mif->naddrs + 1) * sizeof(*bigger));
	if (!bigger)
		return;
	mif->addrs = bigger;
	mif->addrs[mif->naddrs++] = *addr;
}

static void apply_addr(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(nlh);
	struct mirror_addr addr = { 0 };
	struct mirror_if *mif;
	uint32_t flags;
	struct attrs a;

	if (!parse_attrs(nlh, sizeof(*info), &a))
		return;
	mif = find(m, info->ifa_index);
	/* On point-to-point links IFA_ADDRESS is the peer and IFA_LOCAL is ours. */
	if (!mif || (!get_ip(a.at[IFA_LOCAL], info->ifa_family, &addr.ip) &&
		     !get_ip(a.at[IFA_ADDRESS], info->ifa_family, &addr.ip)))
		return;
	flags = info->ifa_flags;
	get_u32(a.at[IFA_FLAGS], &flags);
	addr.scope = info->ifa_scope;
	addr.usable = !(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED));
	if (nlh->nlmsg_type == RTM_NEWADDR) {
		put_addr(mif, &addr);
	} else {
		remove_addr(mif, &addr.ip);
		m->stale = true; /* its routes are gone */
	}
	mif->changed = true;
	changed(m);
}

const struct mirror_addr *mirror_first_address(const struct mirror_if *mif)
{
	const struct mirror_addr *first = NULL;

	for (uint32_t i = 0; i < mif->naddrs; i++) {
		const struct mirror_addr *addr = &mif->addrs[i];

		if (addr->scope != RT_SCOPE_UNIVERSE || !addr->usable)
			continue;
		if (ip_is_v4(&addr->ip))
			return addr;
		if (!first)
			first = addr;
	}
	return first;
}

bool mirror_has_address(const struct mirror_if *mif, const struct ip *ip)
{
	for (uint32_t i = 0; i < mif->naddrs; i++) {
		if (ip_equal(&mif->addrs[i].ip, ip))
			return mif->addrs[i].usable;
	}
	return false;
}

/* ---- routes ---- */

static bool same_route(const struct mirror_route *x, const struct mirror_route *y)
{
	return x->v4 == y->v4 && x->prefix_len == y->prefix_len && x->metric == y->metric &&
	       x->table == y->table && ip_equal(&x->dst, &y->dst) && ip_equal(&x->via, &y->via);
}

static void remove_route(struct mirror_if *mif, const struct mirror_route *route)
{
	for (uint32_t i = 0; i < mif->nroutes; i++) {
		if (!same_route(&mif->routes[i], route))
			continue;
		mif->routes[i] = mif->routes[--mif->nroutes];
		return;
	}
}

static void put_route(struct mirror_if *mif, const struct mirror_route *route)
{
	remove_route(mif, route);
	if (mif->nroutes == mif->routes_size) {
		uint32_t size = mif->routes_size ? mif->routes_size * 2 : 16;
		struct mirror_route *bigger = realloc(mif->routes, size * sizeof(*bigger));

		if (!bigger)
			return;
		mif->routes = bigger;
		mif->routes_size = size;
	}
	mif->routes[mif->nroutes++] = *route;
}

/* One way of a route: interface and gateway. */
static void apply_hop(struct mirror *m, const struct nlmsghdr *nlh, struct mirror_route *route,
		      uint32_t ifindex, const struct nlattr *gateway, const struct nlattr *via)
{
	struct mirror_if *mif = find(m, ifindex);
	uint8_t family = route->v4 ? AF_INET : AF_INET6;

	if (!mif)
		return;
	memset(&route->via, 0, sizeof(route->via));
	if (via && mnl_attr_get_payload_len(via) == sizeof(struct rtvia) + 16) {
		const struct rtvia *v = mnl_attr_get_payload(via);

		if (v->rtvia_family == AF_INET6)
			route->via = ip_from_v6(v->rtvia_addr);
	} else {
		get_ip(gateway, family, &route->via);
	}
	if (nlh->nlmsg_type == RTM_NEWROUTE)
		put_route(mif, route);
	else
		remove_route(mif, route);
	changed(m);
}

static void apply_multipath(struct mirror *m, const struct nlmsghdr *nlh,
			    struct mirror_route *route, const struct nlattr *multipath)
{
	const struct rtnexthop *hop = mnl_attr_get_payload(multipath);
	int len = mnl_attr_get_payload_len(multipath);

	while (len >= (int)sizeof(*hop) && hop->rtnh_len >= sizeof(*hop) && hop->rtnh_len <= len) {
		const struct nlattr *attr = (const struct nlattr *)RTNH_DATA(hop);
		int left = hop->rtnh_len - (int)sizeof(*hop);
		struct attrs a = { 0 };

		while (left > 0 && mnl_attr_ok(attr, left)) {
			keep_attr(attr, &a);
			left -= (int)NLMSG_ALIGN(attr->nla_len);
			attr = mnl_attr_next(attr);
		}
		apply_hop(m, nlh, route, (uint32_t)hop->rtnh_ifindex, a.at[RTA_GATEWAY],
			  a.at[RTA_VIA]);
		len -= (int)RTNH_ALIGN(hop->rtnh_len);
		hop = RTNH_NEXT(hop);
	}
}

static void apply_route(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct rtmsg *info = mnl_nlmsg_get_payload(nlh);
	struct mirror_route route = { 0 };
	uint32_t ifindex;
	struct attrs a;

	if (!parse_attrs(nlh, sizeof(*info), &a) || info->rtm_type != RTN_UNICAST ||
	    info->rtm_flags & RTM_F_CLONED)
		return;
	route.v4 = info->rtm_family == AF_INET;
	if (!route.v4 && info->rtm_family != AF_INET6)
		return;
	route.prefix_len = info->rtm_dst_len + (route.v4 ? 96 : 0);
	route.table = info->rtm_table;
	get_u32(a.at[RTA_TABLE], &route.table);
	get_u32(a.at[RTA_PRIORITY], &route.metric);
	if (route.v4)
		route.dst = ip_from_v4((uint8_t[4]){ 0 });
	get_ip(a.at[RTA_DST], info->rtm_family, &route.dst);
	if (a.at[RTA_MULTIPATH])
		apply_multipath(m, nlh, &route, a.at[RTA_MULTIPATH]);
	else if (get_u32(a.at[RTA_OIF], &ifindex))
		apply_hop(m, nlh, &route, ifindex, a.at[RTA_GATEWAY], a.at[RTA_VIA]);
	/* `ip route replace` reports the new one only. */
	if (nlh->nlmsg_type == RTM_NEWROUTE && nlh->nlmsg_flags & NLM_F_REPLACE)
		m->stale = true;
}

static bool prefix_matches(const struct mirror_route *route, const struct ip *ip)
{
	uint32_t whole = route->prefix_len / 8, rest = route->prefix_len % 8;

	if (route->v4 != ip_is_v4(ip) || memcmp(route->dst.a, ip->a, whole))
		return false;
	return !rest || (route->dst.a[whole] ^ ip->a[whole]) >> (8 - rest) == 0;
}

static const struct mirror_route *best_route(const struct mirror_if *mif, const struct ip *remote)
{
	const struct mirror_route *best = NULL;

	for (uint32_t i = 0; i < mif->nroutes; i++) {
		const struct mirror_route *route = &mif->routes[i];

		if (!prefix_matches(route, remote))
			continue;
		if (!best || route->prefix_len > best->prefix_len ||
		    (route->prefix_len == best->prefix_len && route->metric < best->metric))
			best = route;
	}
	return best;
}

/* ---- neighbours ---- */

struct mirror_neigh *mirror_neigh(const struct mirror_if *mif, const struct ip *ip)
{
	struct mirror_neigh *n;

	HASH_FIND(hh, mif->neighs, ip, sizeof(*ip), n);
	return n;
}

bool mirror_neigh_valid(const struct mirror_neigh *n)
{
	return n && n->state & NUD_USABLE;
}

const char *mirror_neigh_state(uint16_t nud_state)
{
	static const struct {
		uint16_t state;
		const char *name;
	} names[] = {
		{ NUD_REACHABLE, "reachable" }, { NUD_STALE, "stale" },
		{ NUD_DELAY, "delay" },		{ NUD_PROBE, "probe" },
		{ NUD_FAILED, "failed" },	{ NUD_INCOMPLETE, "incomplete" },
		{ NUD_PERMANENT, "permanent" }, { NUD_NOARP, "noarp" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (nud_state & names[i].state)
			return names[i].name;
	}
	return "none";
}

static void apply_neigh(struct mirror *m, const struct nlmsghdr *nlh)
{
	const struct ndmsg *info = mnl_nlmsg_get_payload(nlh);
	uint8_t mac[6] = { 0 };
	struct mirror_neigh *n;
	struct mirror_if *mif;
	struct ip ip = { { 0 } };
	uint16_t state;
	bool valid;
	struct attrs a;

	if (!parse_attrs(nlh, sizeof(*info), &a))
		return;
	mif = find(m, (uint32_t)info->ndm_ifindex);
	if (!mif || info->ndm_flags & NTF_PROXY || !get_ip(a.at[NDA_DST], info->ndm_family, &ip))
		return;
	state = nlh->nlmsg_type == RTM_DELNEIGH ? NUD_NONE : info->ndm_state;
	if (!get_mac(a.at[NDA_LLADDR], mac))
		state &= ~NUD_USABLE;
	n = mirror_neigh(mif, &ip);
	if (!n) {
		n = calloc(1, sizeof(*n));
		if (!n)
			return;
		n->ip = ip;
		HASH_ADD(hh, mif->neighs, ip, sizeof(n->ip), n);
	}
	valid = mirror_neigh_valid(n);
	n->state = state;
	if (mirror_neigh_valid(n) != valid || (valid && memcmp(n->mac, mac, 6)))
		changed(m);
	if (state & NUD_USABLE)
		memcpy(n->mac, mac, 6);
	if (nlh->nlmsg_type == RTM_DELNEIGH) {
		HASH_DEL(mif->neighs, n);
		free(n);
	}
}

/* ---- together ---- */

void mirror_apply(struct mirror *m, const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK: apply_link(m, nlh); break;
	case RTM_NEWADDR:
	case RTM_DELADDR: apply_addr(m, nlh); break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE: apply_route(m, nlh); break;
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH: apply_neigh(m, nlh); break;
	}
}

static bool link_local(const struct ip *ip)
{
	return ip->a[0] == 0xfe && (ip->a[1] & 0xc0) == 0x80;
}

static int source_for(const struct mirror_if *mif, const struct ip *remote, const struct ip *prefer,
		      struct ip *out)
{
	bool v4 = ip_is_v4(remote);

	if (prefer && ip_is_v4(prefer) == v4) {
		*out = *prefer;
		return 0;
	}
	for (uint32_t i = 0; i < mif->naddrs; i++) {
		const struct mirror_addr *addr = &mif->addrs[i];

		if (!addr->usable || ip_is_v4(&addr->ip) != v4)
			continue;
		if (!v4 && link_local(&addr->ip) != link_local(remote))
			continue;
		*out = addr->ip;
		return 0;
	}
	return -EHOSTUNREACH;
}

int mirror_resolve(const struct mirror_if *mif, const struct ip *remote, const struct ip *prefer,
		   struct mirror_target *out)
{
	static const struct ip none;
	const struct mirror_route *route = best_route(mif, remote);
	const struct mirror_neigh *neigh;

	if (!mif->exists || !route || source_for(mif, remote, prefer, &out->src))
		return -EHOSTUNREACH;
	out->next_hop = ip_equal(&route->via, &none) ? *remote : route->via;
	memcpy(out->src_mac, mif->mac, 6);
	memset(out->dst_mac, 0, 6);
	if (mif->flags & IFF_NOARP)
		return 0;
	neigh = mirror_neigh(mif, &out->next_hop);
	if (!mirror_neigh_valid(neigh))
		return -EAGAIN;
	memcpy(out->dst_mac, neigh->mac, 6);
	return 0;
}
