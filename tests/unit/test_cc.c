// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>
#include "core/cc.h"
#include "unit.h"
#include "mroce/wire.h"

#define MIN_RTT 100000ull

static struct cc cc;
static uint64_t now;

static void setup(void)
{
	now = 1000000;
	cc_delay.init(&cc, now);
}

/* A round trip in which the whole window was acknowledged. */
static void round_trip(uint64_t rtt, uint32_t lost, uint32_t ce_percent)
{
	struct cc_ack a = {
		.acked = cc.cwnd - lost,
		.lost = lost,
		.in_flight = cc.cwnd,
		.rx_bytes = 100000,
		.ce_bytes = 1000 * ce_percent,
		.rtt = rtt,
		.srtt = rtt,
		.min_rtt = MIN_RTT,
	};

	now += rtt + 50000;
	a.now = now;
	cc_delay.ack(&cc, &a);
}

START_TEST(cc_delay__starts_fast)
{
	uint32_t before = cc.cwnd;

	round_trip(MIN_RTT, 0, 0);
	ck_assert_uint_eq(cc.cwnd, 2 * before);
	for (int i = 0; i < 10; i++)
		round_trip(MIN_RTT, 0, 0);
	ck_assert_uint_eq(cc.cwnd, MROCE_WINDOW);
}
END_TEST

START_TEST(cc_delay__loss_alone_is_not_congestion)
{
	uint32_t before;

	for (int i = 0; i < 10; i++)
		round_trip(MIN_RTT, 0, 0);
	before = cc.cwnd;
	for (int i = 0; i < 100; i++)
		round_trip(MIN_RTT, cc.cwnd / 3, 0);
	ck_assert_uint_ge(cc.cwnd, before);
}
END_TEST

START_TEST(cc_delay__queue_shrinks_the_window)
{
	uint32_t before;

	for (int i = 0; i < 10; i++)
		round_trip(MIN_RTT, 0, 0);
	before = cc.cwnd;
	for (int i = 0; i < 3; i++)
		round_trip(50 * MIN_RTT, 0, 0);
	ck_assert_uint_lt(cc.cwnd, before * 2 / 3);
	for (int i = 0; i < 100; i++)
		round_trip(50 * MIN_RTT, 0, 0);
	ck_assert_uint_ge(cc.cwnd, 1);
	before = cc.cwnd;
	for (int i = 0; i < 10; i++)
		round_trip(MIN_RTT, 0, 0);
	ck_assert_uint_gt(cc.cwnd, before); /* and grows again, slowly now */
	ck_assert_uint_le(cc.cwnd, before + 20);
}
END_TEST

START_TEST(cc_delay__timeout)
{
	for (int i = 0; i < 20; i++)
		cc_delay.timeout(&cc, now);
	ck_assert_uint_ge(cc.cwnd, 1);
	ck_assert_uint_le(cc.cwnd, 4);
}
END_TEST

START_TEST(cc_delay__an_idle_window_does_not_grow)
{
	struct cc_ack a = {
		.acked = 1, .in_flight = 1, .rtt = MIN_RTT, .srtt = MIN_RTT, .min_rtt = MIN_RTT
	};
	uint32_t before = cc.cwnd;

	for (int i = 0; i < 1000; i++) {
		a.now = now += MIN_RTT;
		cc_delay.ack(&cc, &a);
	}
	ck_assert_uint_eq(cc.cwnd, before);
}
END_TEST

START_TEST(cc_find__by_name)
{
	ck_assert_ptr_eq(cc_find("delay"), &cc_delay);
	ck_assert_ptr_eq(cc_find("fixed"), &cc_fixed);
	ck_assert_ptr_null(cc_find("reno"));
}
END_TEST

static Suite *cc_suite(void)
{
	Suite *s = suite_create("cc");
	TCase *t = tcase_create("cc");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, cc_delay__starts_fast);
	tcase_add_test(t, cc_delay__loss_alone_is_not_congestion);
	tcase_add_test(t, cc_delay__queue_shrinks_the_window);
	tcase_add_test(t, cc_delay__timeout);
	tcase_add_test(t, cc_delay__an_idle_window_does_not_grow);
	tcase_add_test(t, cc_find__by_name);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(cc_suite)
