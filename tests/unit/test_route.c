// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include <linux/if.h>
#include <linux/neighbour.h>
#include <string.h>
#include "daemon/net/ip.h"
#include "daemon/port/route.h"

static struct mirror m;
static struct watch w;
static struct route_table t;

static struct ip ip_of(const char *text)
{
	struct ip ip;

	ck_assert_int_eq(ip_parse(text, &ip), 0);
	return ip;
}

static void add_neighbour(const char *text, uint8_t last_byte)
{
	struct mirror_neigh *n = calloc(1, sizeof(*n));

	n->ip = ip_of(text);
	n->mac[5] = last_byte;
	n->state = NUD_REACHABLE;
	HASH_ADD(hh, m.ifs[0].neighs, ip, sizeof(n->ip), n);
}

/* One interface with 10.0.0.1/24, filled in by hand: netlink is test_mirror's matter. */
static void setup(void)
{
	struct mirror_if *mif = &m.ifs[0];

	mirror_init(&m);
	ck_assert_int_eq(mirror_add_interface(&m, "eth5", 5), 0);
	mif->exists = true;
	mif->flags = IFF_UP | IFF_RUNNING;
	mif->routes = calloc(1, sizeof(*mif->routes));
	mif->routes[0].dst = ip_of("10.0.0.0");
	mif->routes[0].prefix_len = 96 + 24;
	mif->routes[0].v4 = true;
	mif->nroutes = mif->routes_size = 1;
	w.mirror = &m;
	t.watch = &w;
	t.mif = mif;
	t.addr = ip_of("10.0.0.1");
	t.udp_port = 4797;
	add_neighbour("10.0.0.2", 2);
	add_neighbour("10.0.0.3", 3);
}

static void teardown(void)
{
	route_table_free(&t);
	mirror_free(&m);
}

START_TEST(route_of_flow__is_remembered_in_the_flow)
{
	struct flow flow = { .remote = ip_of("10.0.0.2") };
	struct route *r = route_of_flow(&t, &flow, 1);

	ck_assert_ptr_nonnull(r);
	ck_assert_uint_ne(flow.route, 0);
	ck_assert_uint_eq(r->headers.bytes[5], 2);
	ck_assert_ptr_eq(route_of_flow(&t, &flow, 1), r);
}
END_TEST

START_TEST(route_of_flow__a_flow_that_changes_its_remote)
{
	struct flow flow = { .remote = ip_of("10.0.0.2") };

	ck_assert_ptr_nonnull(route_of_flow(&t, &flow, 1));
	flow.remote = ip_of("10.0.0.3");
	ck_assert_uint_eq(route_of_flow(&t, &flow, 1)->headers.bytes[5], 3);
}
END_TEST

START_TEST(route_of_flow__follows_the_mirror)
{
	struct flow flow = { .remote = ip_of("10.0.0.2") };
	struct ip ip = ip_of("10.0.0.2");

	ck_assert_ptr_nonnull(route_of_flow(&t, &flow, 1));
	mirror_neigh(&m.ifs[0], &ip)->mac[5] = 9;
	m.version++;
	ck_assert_uint_eq(route_of_flow(&t, &flow, 1)->headers.bytes[5], 9);
}
END_TEST

START_TEST(route_of_flow__no_route)
{
	struct flow flow = { .remote = ip_of("192.0.2.1") };

	ck_assert_ptr_null(route_of_flow(&t, &flow, 1));
	ck_assert(!route_find(&t, &flow.remote)->reachable);
}
END_TEST

START_TEST(route_find__many)
{
	struct ip ip = ip_of("10.0.0.2");

	for (uint32_t i = 0; i < 3000; i++) {
		memcpy(ip.a + 12, &i, 4);
		ck_assert_uint_eq(route_find(&t, &ip)->number, i + 1);
	}
	for (uint32_t i = 0; i < 3000; i++) {
		memcpy(ip.a + 12, &i, 4);
		ck_assert_uint_eq(route_find(&t, &ip)->number, i + 1);
	}
}
END_TEST

static Suite *route_suite(void)
{
	Suite *suite = suite_create("route");
	TCase *tc = tcase_create("route");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, route_of_flow__is_remembered_in_the_flow);
	tcase_add_test(tc, route_of_flow__a_flow_that_changes_its_remote);
	tcase_add_test(tc, route_of_flow__follows_the_mirror);
	tcase_add_test(tc, route_of_flow__no_route);
	tcase_add_test(tc, route_find__many);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(route_suite)
