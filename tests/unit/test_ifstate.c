// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <linux/rtnetlink.h>
#include <linux/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "unit.h"
#include "daemon/net/ip.h"
#include "daemon/port/ifstate.h"

static struct mirror_addr addrs[2];
static struct mirror_if mif;
static struct ip first, second, absent, out;
static char last[512];
static int last_level;

__attribute__((format(printf, 2, 3))) static void listen_to(int level, const char *fmt, ...)
{
	va_list args;

	last_level = level;
	va_start(args, fmt);
	vsnprintf(last, sizeof(last), fmt, args);
	va_end(args);
}

static void setup(void)
{
	ck_assert_int_eq(ip_parse("192.0.2.1", &first), 0);
	ck_assert_int_eq(ip_parse("192.0.2.2", &second), 0);
	ck_assert_int_eq(ip_parse("192.0.2.3", &absent), 0);
	addrs[0] = (struct mirror_addr){ .ip = first, .scope = RT_SCOPE_UNIVERSE, .usable = true };
	addrs[1] = (struct mirror_addr){ .ip = second, .scope = RT_SCOPE_UNIVERSE, .usable = true };
	mif = (struct mirror_if){ .name = "test0",
				  .exists = true,
				  .flags = IFF_UP | IFF_RUNNING | IFF_LOWER_UP,
				  .mtu = 1500,
				  .addrs = addrs,
				  .naddrs = 2 };
}

START_TEST(ifstate_address__the_first_at_first)
{
	ck_assert(ifstate_address(&mif, NULL, &absent, &out));
	ck_assert(ip_equal(&out, &first));
}
END_TEST

START_TEST(ifstate_address__stays_with_what_peers_know)
{
	ck_assert(ifstate_address(&mif, NULL, &second, &out));
	ck_assert(ip_equal(&out, &second));
}
END_TEST

START_TEST(ifstate_address__the_one_wanted)
{
	ck_assert(ifstate_address(&mif, &second, &first, &out));
	ck_assert(ip_equal(&out, &second));
	/* No other instead of it. */
	ck_assert(!ifstate_address(&mif, &absent, &first, &out));
}
END_TEST

START_TEST(ifstate_address__none)
{
	mif.naddrs = 0;
	ck_assert(!ifstate_address(&mif, NULL, &first, &out));
}
END_TEST

START_TEST(ifstate_check__all_is_well)
{
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), 0);
	ck_assert_str_eq(last, "");
}
END_TEST

START_TEST(ifstate_check__no_carrier_is_no_obstacle)
{
	mif.flags = IFF_UP;
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), 0);
	ck_assert_int_eq(last_level, LOG_WARNING);
	ck_assert(strstr(last, "no carrier"));
}
END_TEST

START_TEST(ifstate_check__obstacles)
{
	mif.flags = 0;
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), -ENETDOWN);
	setup();
	mif.exists = false;
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), -ENODEV);
	setup();
	mif.mtu = 1279;
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), -EMSGSIZE);
	setup();
	ck_assert_int_eq(ifstate_check(&mif, &absent, listen_to), -EADDRNOTAVAIL);
	ck_assert(strstr(last, "192.0.2.3"));
	mif.naddrs = 0;
	ck_assert_int_eq(ifstate_check(&mif, NULL, listen_to), -EADDRNOTAVAIL);
	ck_assert(strstr(last, "no global address"));
}
END_TEST

static Suite *ifstate_suite(void)
{
	Suite *suite = suite_create("ifstate");
	TCase *tc = tcase_create("ifstate");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, ifstate_address__the_first_at_first);
	tcase_add_test(tc, ifstate_address__stays_with_what_peers_know);
	tcase_add_test(tc, ifstate_address__the_one_wanted);
	tcase_add_test(tc, ifstate_address__none);
	tcase_add_test(tc, ifstate_check__all_is_well);
	tcase_add_test(tc, ifstate_check__no_carrier_is_no_obstacle);
	tcase_add_test(tc, ifstate_check__obstacles);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(ifstate_suite)
