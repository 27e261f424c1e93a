// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdarg.h>
#include <string.h>
#include "daemon/net/ip.h"
#include "daemon/net/mirror.h"

#define IFINDEX 5
#define OTHER_IFINDEX 6

static struct mirror m;
static struct mirror_if *mif;
static char buf[4096];

static struct ip ip_of(const char *text)
{
	struct ip ip;

	ck_assert_int_eq(ip_parse(text, &ip), 0);
	return ip;
}

static void put_ip(struct nlmsghdr *nlh, uint16_t type, const char *text)
{
	struct ip ip = ip_of(text);

	if (ip_is_v4(&ip))
		mnl_attr_put(nlh, type, 4, ip.a + 12);
	else
		mnl_attr_put(nlh, type, 16, ip.a);
}

static uint8_t family_of(const char *text)
{
	struct ip ip = ip_of(text);

	return ip_is_v4(&ip) ? AF_INET : AF_INET6;
}

static struct nlmsghdr *start(uint16_t type)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	return nlh;
}

static void link_event(uint32_t ifindex, uint32_t flags, uint32_t mtu)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	struct nlmsghdr *nlh = start(RTM_NEWLINK);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));

	info->ifi_index = (int)ifindex;
	info->ifi_flags = flags;
	mnl_attr_put_u32(nlh, IFLA_MTU, mtu);
	mnl_attr_put(nlh, IFLA_ADDRESS, 6, mac);
	mirror_apply(&m, nlh);
}

static void addr_event(uint16_t type, const char *addr, uint8_t scope)
{
	struct nlmsghdr *nlh = start(type);
	struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));

	info->ifa_family = family_of(addr);
	info->ifa_index = IFINDEX;
	info->ifa_scope = scope;
	put_ip(nlh, IFA_ADDRESS, addr);
	mirror_apply(&m, nlh);
}

static struct nlmsghdr *route_start(uint16_t type, const char *dst, uint8_t len)
{
	struct nlmsghdr *nlh = start(type);
	struct rtmsg *info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));

	info->rtm_family = family_of(dst);
	info->rtm_dst_len = len;
	info->rtm_type = RTN_UNICAST;
	info->rtm_table = RT_TABLE_MAIN;
	if (len)
		put_ip(nlh, RTA_DST, dst);
	return nlh;
}

static void route_event(uint16_t type, const char *dst, uint8_t len, const char *via,
			uint32_t metric, uint32_t ifindex)
{
	struct nlmsghdr *nlh = route_start(type, dst, len);

	if (via)
		put_ip(nlh, RTA_GATEWAY, via);
	mnl_attr_put_u32(nlh, RTA_PRIORITY, metric);
	mnl_attr_put_u32(nlh, RTA_OIF, ifindex);
	mirror_apply(&m, nlh);
}

static void neigh_event(uint16_t type, const char *ip, uint16_t state, uint8_t last_byte)
{
	uint8_t mac[6] = { 2, 0, 0, 0, 0, last_byte };
	struct nlmsghdr *nlh = start(type);
	struct ndmsg *info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));

	info->ndm_family = family_of(ip);
	info->ndm_ifindex = IFINDEX;
	info->ndm_state = state;
	put_ip(nlh, NDA_DST, ip);
	if (last_byte)
		mnl_attr_put(nlh, NDA_LLADDR, 6, mac);
	mirror_apply(&m, nlh);
}

static int resolve(const char *remote, struct mirror_target *out)
{
	struct ip ip = ip_of(remote);

	return mirror_resolve(mif, &ip, NULL, out);
}

static void setup(void)
{
	mirror_init(&m);
	ck_assert_int_eq(mirror_add_interface(&m, "eth5", IFINDEX), 0);
	mif = &m.ifs[0];
	link_event(IFINDEX, IFF_UP | IFF_RUNNING, 1500);
	addr_event(RTM_NEWADDR, "10.0.0.1", RT_SCOPE_UNIVERSE);
	route_event(RTM_NEWROUTE, "10.0.0.0", 24, NULL, 0, IFINDEX);
	m.stale = false;
}

static void teardown(void)
{
	mirror_free(&m);
}

START_TEST(apply_link__state_mtu_mac)
{
	ck_assert(mirror_link_up(mif));
	ck_assert_uint_eq(mif->mtu, 1500);
	ck_assert_uint_eq(mif->mac[5], 1);
	mif->changed = false;
	link_event(IFINDEX, IFF_UP, 1500);
	ck_assert(!mirror_link_up(mif));
	ck_assert(mif->changed);
	ck_assert(m.stale); /* its routes may have gone silently */
}
END_TEST

START_TEST(apply_link__same_again_changes_nothing)
{
	uint32_t version = m.version;

	mif->changed = false;
	link_event(IFINDEX, IFF_UP | IFF_RUNNING, 1500);
	link_event(OTHER_IFINDEX, 0, 9000);
	ck_assert(!mif->changed);
	ck_assert_uint_eq(m.version, version);
}
END_TEST

START_TEST(resolve__on_link)
{
	struct mirror_target target;
	struct ip peer = ip_of("10.0.0.2"), own = ip_of("10.0.0.1");

	ck_assert_int_eq(resolve("10.0.0.2", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &peer));
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_REACHABLE, 2);
	ck_assert_int_eq(resolve("10.0.0.2", &target), 0);
	ck_assert(ip_equal(&target.src, &own));
	ck_assert_uint_eq(target.dst_mac[5], 2);
	ck_assert_uint_eq(target.src_mac[5], 1);
}
END_TEST

START_TEST(resolve__no_route)
{
	struct mirror_target target;

	ck_assert_int_eq(resolve("10.0.1.2", &target), -EHOSTUNREACH);
	ck_assert_int_eq(resolve("fd00::2", &target), -EHOSTUNREACH);
}
END_TEST

START_TEST(resolve__longest_prefix_then_lowest_metric)
{
	struct mirror_target target;
	struct ip near = ip_of("10.0.0.7"), far = ip_of("10.0.0.8"), better = ip_of("10.0.0.9");

	route_event(RTM_NEWROUTE, "0.0.0.0", 0, "10.0.0.7", 0, IFINDEX);
	ck_assert_int_eq(resolve("172.16.1.1", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &near));
	route_event(RTM_NEWROUTE, "172.16.0.0", 12, "10.0.0.8", 100, IFINDEX);
	ck_assert_int_eq(resolve("172.16.1.1", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &far));
	route_event(RTM_NEWROUTE, "172.16.0.0", 12, "10.0.0.9", 50, IFINDEX);
	ck_assert_int_eq(resolve("172.31.1.1", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &better));
	ck_assert_int_eq(resolve("172.32.1.1", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &near));
}
END_TEST

START_TEST(resolve__ipv6_default_route_is_not_for_ipv4)
{
	struct mirror_target target;

	addr_event(RTM_NEWADDR, "fd00::1", RT_SCOPE_UNIVERSE);
	route_event(RTM_NEWROUTE, "::", 0, "fd00::7", 0, IFINDEX);
	ck_assert_int_eq(resolve("fd99::1", &target), -EAGAIN);
	ck_assert_int_eq(resolve("192.0.2.1", &target), -EHOSTUNREACH);
}
END_TEST

START_TEST(resolve__route_of_another_interface)
{
	struct mirror_target target;

	route_event(RTM_NEWROUTE, "10.9.0.0", 16, NULL, 0, OTHER_IFINDEX);
	ck_assert_int_eq(resolve("10.9.0.1", &target), -EHOSTUNREACH);
}
END_TEST

START_TEST(resolve__deleted_route)
{
	struct mirror_target target;

	route_event(RTM_DELROUTE, "10.0.0.0", 24, NULL, 0, IFINDEX);
	ck_assert_int_eq(resolve("10.0.0.2", &target), -EHOSTUNREACH);
}
END_TEST

START_TEST(resolve__multipath_takes_our_interface)
{
	struct nlmsghdr *nlh = route_start(RTM_NEWROUTE, "10.8.0.0", 16);
	struct nlattr *nest = mnl_attr_nest_start(nlh, RTA_MULTIPATH);
	struct ip hop = ip_of("10.0.0.33");
	struct mirror_target target;

	for (uint32_t i = 0; i < 2; i++) {
		struct rtnexthop *nh = mnl_nlmsg_get_payload_tail(nlh);
		uint32_t before = nlh->nlmsg_len;

		memset(nh, 0, sizeof(*nh));
		nh->rtnh_ifindex = i ? IFINDEX : OTHER_IFINDEX;
		nlh->nlmsg_len += sizeof(*nh);
		put_ip(nlh, RTA_GATEWAY, i ? "10.0.0.33" : "10.0.0.44");
		nh->rtnh_len = (uint16_t)(nlh->nlmsg_len - before);
	}
	mnl_attr_nest_end(nlh, nest);
	mirror_apply(&m, nlh);
	ck_assert_int_eq(resolve("10.8.1.1", &target), -EAGAIN);
	ck_assert(ip_equal(&target.next_hop, &hop));
}
END_TEST

START_TEST(neigh__states)
{
	struct mirror_target target;
	uint32_t version;

	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_INCOMPLETE, 0);
	ck_assert_int_eq(resolve("10.0.0.2", &target), -EAGAIN);
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_REACHABLE, 2);
	ck_assert_int_eq(resolve("10.0.0.2", &target), 0);
	version = m.version;
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_STALE, 2);
	ck_assert_int_eq(resolve("10.0.0.2", &target), 0);
	ck_assert_uint_eq(m.version, version); /* nothing to look up again */
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_REACHABLE, 3);
	ck_assert_uint_ne(m.version, version);
	ck_assert_int_eq(resolve("10.0.0.2", &target), 0);
	ck_assert_uint_eq(target.dst_mac[5], 3);
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_FAILED, 0);
	ck_assert_int_eq(resolve("10.0.0.2", &target), -EAGAIN);
	neigh_event(RTM_NEWNEIGH, "10.0.0.2", NUD_REACHABLE, 2);
	neigh_event(RTM_DELNEIGH, "10.0.0.2", NUD_STALE, 2);
	ck_assert_int_eq(resolve("10.0.0.2", &target), -EAGAIN);
	ck_assert_ptr_null(mif->neighs);
}
END_TEST

START_TEST(first_address__ipv4_before_ipv6_global_only)
{
	struct ip want;

	addr_event(RTM_DELADDR, "10.0.0.1", RT_SCOPE_UNIVERSE);
	ck_assert_ptr_null(mirror_first_address(mif));
	addr_event(RTM_NEWADDR, "fe80::1", RT_SCOPE_LINK);
	ck_assert_ptr_null(mirror_first_address(mif));
	addr_event(RTM_NEWADDR, "fd00::1", RT_SCOPE_UNIVERSE);
	want = ip_of("fd00::1");
	ck_assert(ip_equal(&mirror_first_address(mif)->ip, &want));
	addr_event(RTM_NEWADDR, "10.0.0.9", RT_SCOPE_UNIVERSE);
	want = ip_of("10.0.0.9");
	ck_assert(ip_equal(&mirror_first_address(mif)->ip, &want));
}
END_TEST

START_TEST(resolve__link_local_peer_wants_link_local_source)
{
	struct ip want = ip_of("fe80::1");
	struct mirror_target target;

	addr_event(RTM_NEWADDR, "fd00::1", RT_SCOPE_UNIVERSE);
	addr_event(RTM_NEWADDR, "fe80::1", RT_SCOPE_LINK);
	route_event(RTM_NEWROUTE, "fe80::", 64, NULL, 256, IFINDEX);
	ck_assert_int_eq(resolve("fe80::2", &target), -EAGAIN);
	ck_assert(ip_equal(&target.src, &want));
}
END_TEST

START_TEST(apply__short_and_odd_messages)
{
	static const uint16_t types[] = { RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH,
					  4711 };
	uint32_t rnd = 7;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (uint32_t len = 0; len < 64; len++) {
			struct nlmsghdr *nlh = start(types[i]);
			uint8_t *payload = mnl_nlmsg_get_payload(nlh);

			for (uint32_t b = 0; b < len; b++) {
				rnd = rnd * 1664525 + 1013904223;
				payload[b] = (uint8_t)(rnd >> 24);
			}
			if (len >= 8)
				memcpy(payload + 4, &(uint32_t){ IFINDEX }, 4);
			nlh->nlmsg_len += len;
			mirror_apply(&m, nlh);
		}
	}
	ck_assert(mif->exists);
}
END_TEST

static Suite *mirror_suite(void)
{
	Suite *suite = suite_create("mirror");
	TCase *tc = tcase_create("mirror");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, apply_link__state_mtu_mac);
	tcase_add_test(tc, apply_link__same_again_changes_nothing);
	tcase_add_test(tc, resolve__on_link);
	tcase_add_test(tc, resolve__no_route);
	tcase_add_test(tc, resolve__longest_prefix_then_lowest_metric);
	tcase_add_test(tc, resolve__ipv6_default_route_is_not_for_ipv4);
	tcase_add_test(tc, resolve__route_of_another_interface);
	tcase_add_test(tc, resolve__deleted_route);
	tcase_add_test(tc, resolve__multipath_takes_our_interface);
	tcase_add_test(tc, neigh__states);
	tcase_add_test(tc, first_address__ipv4_before_ipv6_global_only);
	tcase_add_test(tc, resolve__link_local_peer_wants_link_local_source);
	tcase_add_test(tc, apply__short_and_odd_messages);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(mirror_suite)
