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

START_TEST(cc_delay__after_a_rest_begins_anew)
{
	uint32_t start = cc.cwnd;

	for (int i = 0; i < 10; i++)
		round_trip(MIN_RTT, 0, 0);
	round_trip(50 * MIN_RTT, 0, 0); /* the doubling is over */
	cc_delay.rest(&cc, 0);
	ck_assert_uint_eq(cc.cwnd, start);
	round_trip(MIN_RTT, 0, 0);
	ck_assert_uint_eq(cc.cwnd, 2 * start); /* and is on again */
	for (int i = 0; i < 100; i++)
		round_trip(50 * MIN_RTT, 0, 0);
	start = cc.cwnd;
	cc_delay.rest(&cc, 0);
	ck_assert_uint_eq(cc.cwnd, start); /* nothing grows by resting */
}
END_TEST

/* ---- ecn ---- */

static struct cc_ack ecn_ack(uint64_t rtt, uint32_t lost, uint32_t ce_percent)
{
	return (struct cc_ack){
		.acked = cc.cwnd - lost,
		.lost = lost,
		.in_flight = cc.cwnd,
		.rx_bytes = 100000,
		.ce_bytes = 1000 * ce_percent,
		.rtt = rtt,
		.srtt = rtt,
		.min_rtt = MIN_RTT,
		.siblings = 1,
	};
}

static void ecn_round(struct cc_ack a)
{
	a.now = now += a.rtt + 50000;
	cc_ecn.ack(&cc, &a);
}

static void ecn_fresh(void)
{
	now = 1000000;
	cc_ecn.init(&cc, now);
}

/* A window of `packets`, past the doubling. */
static void ecn_steady(uint32_t packets)
{
	ecn_fresh();
	ecn_round(ecn_ack(20 * MIN_RTT, 0, 0));
	now += 20 * MIN_RTT;
	cc_set_window(&cc, packets * CC_UNIT, 1);
}

START_TEST(cc_set_window__rounds_up_and_keeps_bounds)
{
	cc_set_window(&cc, 1, 16);
	ck_assert_uint_eq(cc.window, 16);
	ck_assert_uint_eq(cc.cwnd, 1);
	cc_set_window(&cc, 2 * CC_UNIT + 1, 16);
	ck_assert_uint_eq(cc.cwnd, 3);
	cc_set_window(&cc, UINT64_MAX, 16);
	ck_assert_uint_eq(cc.cwnd, MROCE_WINDOW);
}
END_TEST

START_TEST(cc_ecn__doubles_until_the_first_mark)
{
	uint32_t before;

	ecn_fresh();
	before = cc.cwnd;
	ecn_round(ecn_ack(MIN_RTT, 0, 0));
	ck_assert_uint_eq(cc.cwnd, 2 * before);
	for (int i = 0; i < 4; i++)
		ecn_round(ecn_ack(MIN_RTT, 0, 0));
	before = cc.cwnd;
	ecn_round(ecn_ack(3 * MIN_RTT, 0, 100)); /* all of it marked: half of it goes */
	ck_assert_uint_eq(cc.cwnd, before / 2);
	ecn_round(ecn_ack(MIN_RTT, 0, 0));
	ck_assert_uint_eq(cc.cwnd, before / 2 + 1);
}
END_TEST

/* alpha comes to 0.1: one byte in ten is marked, in every round trip. Returns what is left of 100 packets. */
static uint32_t window_after_marks(uint64_t rtt)
{
	ecn_steady(100);
	for (int i = 0; i < 201; i++) {
		cc_set_window(&cc, 100 * CC_UNIT, 1);
		ecn_round(ecn_ack(rtt, 0, 10));
	}
	return cc.window;
}

START_TEST(cc_ecn__shrinks_by_half_of_alpha)
{
	uint32_t window = window_after_marks(2 * MIN_RTT + MIN_RTT / 10); /* a short queue */

	ck_assert_uint_ge(window, 94 * CC_UNIT);
	ck_assert_uint_le(window, 97 * CC_UNIT);
}
END_TEST

START_TEST(cc_ecn__half_of_a_long_queue_goes)
{
	/* One base RTT is always allowed: of ten, eight are queue. */
	ck_assert_uint_eq(window_after_marks(10 * MIN_RTT) / CC_UNIT, 60);
	ck_assert_uint_eq(window_after_marks(4 * MIN_RTT) / CC_UNIT, 75);
}
END_TEST

/* Where half of the queue may not be had, alpha's half is taken all the same. */
START_TEST(cc_ecn__never_less_than_half_of_alpha)
{
	struct cc_ack a = ecn_ack(10 * MIN_RTT, 0, 100);

	ecn_steady(100);
	for (int i = 0; i < 100; i++) { /* alpha comes to 0.78: below twice the 0.4 of the queue */
		cc_set_window(&cc, 100 * CC_UNIT, 1);
		ecn_round(ecn_ack(10 * MIN_RTT, 0, 78));
	}
	a.siblings = 8;
	cc_set_window(&cc, CC_UNIT * 9 / 10, 1);
	ecn_round(a);
	ck_assert_uint_lt(cc.window, CC_UNIT * 9 / 10 * 64 / 100);
}
END_TEST

START_TEST(cc_ecn__small_windows_shrink_by_alpha)
{
	struct cc_ack a;

	window_after_marks(10 * MIN_RTT);
	a = ecn_ack(10 * MIN_RTT, 0, 10);
	a.siblings = 8; /* with three quarters of a packet each: six together */
	cc_set_window(&cc, CC_UNIT * 9 / 10, 1);
	ecn_round(a);
	ck_assert_uint_eq(cc.window, CC_UNIT * 3 / 4);
	ecn_round(a);
	ck_assert_uint_ge(cc.window, CC_UNIT * 3 / 4 * 94 / 100);
	ck_assert_uint_lt(cc.window, CC_UNIT * 3 / 4);
}
END_TEST

START_TEST(cc_ecn__marks_without_a_queue_only_steer)
{
	struct cc_ack a;

	ecn_steady(100);
	for (int i = 0; i < 50; i++)
		ecn_round(ecn_ack(MIN_RTT, 0, 100));
	ck_assert_uint_ge(cc.window, 100 * CC_UNIT);
	for (int i = 0; i < 200; i++) { /* unless there is nowhere to steer to */
		a = ecn_ack(MIN_RTT, 0, 100);
		a.ce_everywhere = true;
		ecn_round(a);
	}
	ck_assert_uint_eq(cc.window, CC_UNIT);
}
END_TEST

START_TEST(cc_ecn__below_one_packet)
{
	ecn_steady(2);
	for (int i = 0; i < 100; i++)
		ecn_round(ecn_ack(10 * MIN_RTT, 0, 100));
	ck_assert_uint_lt(cc.window, CC_UNIT / 8);
	ck_assert_uint_ge(cc.window, 1);
	ck_assert_uint_eq(cc.cwnd, 1);
	for (int i = 0; i < 200; i++)
		ecn_round(ecn_ack(MIN_RTT, 0, 0));
	ck_assert_uint_gt(cc.window, 2 * CC_UNIT); /* and up again */
}
END_TEST

START_TEST(cc_ecn__loss_alone_is_not_congestion)
{
	uint32_t before;

	ecn_steady(50);
	before = cc.window;
	for (int i = 0; i < 100; i++)
		ecn_round(ecn_ack(MIN_RTT, cc.cwnd / 2, 0));
	ck_assert_uint_ge(cc.window, before);
}
END_TEST

START_TEST(cc_ecn__far_more_loss_than_usual_with_marks)
{
	ecn_steady(100);
	ecn_round(ecn_ack(MIN_RTT, 50, 1));
	ck_assert_uint_le(cc.window, 51 * CC_UNIT);
}
END_TEST

START_TEST(cc_ecn__siblings_grow_together)
{
	struct cc_ack a;

	ecn_steady(10);
	for (int i = 0; i < 8; i++) {
		a = ecn_ack(MIN_RTT, 0, 0);
		a.siblings = 8;
		ecn_round(a);
	}
	ck_assert_uint_ge(cc.window, 10 * CC_UNIT + CC_UNIT * 3 / 4);
	ck_assert_uint_le(cc.window, 11 * CC_UNIT + CC_UNIT / 4);
}
END_TEST

START_TEST(cc_ecn__an_idle_window_does_not_grow)
{
	struct cc_ack a = ecn_ack(MIN_RTT, 0, 0);
	uint32_t before;

	ecn_steady(100);
	before = cc.window;
	a.acked = a.in_flight = 1;
	for (int i = 0; i < 1000; i++)
		ecn_round(a);
	ck_assert_uint_eq(cc.window, before);
}
END_TEST

START_TEST(cc_ecn__timeouts_stop_at_one_packet)
{
	ecn_steady(100);
	for (int i = 0; i < 20; i++)
		cc_ecn.timeout(&cc, now);
	ck_assert_uint_eq(cc.window, CC_UNIT);
	ecn_steady(100); /* nor do they grow what is smaller */
	cc_set_window(&cc, CC_UNIT / 8, 1);
	cc_ecn.timeout(&cc, now);
	ck_assert_uint_eq(cc.window, CC_UNIT / 8);
}
END_TEST

START_TEST(cc_ecn__after_a_rest_begins_anew)
{
	ecn_steady(100);
	cc_ecn.rest(&cc, 10 * CC_UNIT);
	ck_assert_uint_eq(cc.window, 10 * CC_UNIT);
	ecn_round(ecn_ack(MIN_RTT, 0, 0));
	ck_assert_uint_eq(cc.window, 20 * CC_UNIT); /* the doubling is on again */

	ecn_steady(100);
	cc_ecn.rest(&cc,
		    MROCE_WINDOW * CC_UNIT); /* a long way: no more than a connection starts with */
	ck_assert_uint_eq(cc.window, 16 * CC_UNIT);
	ecn_steady(100);
	cc_ecn.rest(&cc, 0);
	ck_assert_uint_ge(cc.window, 1);
}
END_TEST

/* What was learnt of a path that is narrower than its start stays, and does not double. */
START_TEST(cc_ecn__a_rest_widens_nothing)
{
	ecn_steady(4);
	cc_ecn.rest(&cc, 10 * CC_UNIT);
	ck_assert_uint_eq(cc.window, 4 * CC_UNIT);
	ecn_round(ecn_ack(MIN_RTT, 0, 0));
	ck_assert_uint_le(cc.window, 5 * CC_UNIT);
}
END_TEST

START_TEST(cc_find__by_name)
{
	ck_assert_ptr_eq(cc_find("ecn"), &cc_ecn);
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
	tcase_add_test(t, cc_delay__after_a_rest_begins_anew);
	tcase_add_test(t, cc_set_window__rounds_up_and_keeps_bounds);
	tcase_add_test(t, cc_ecn__doubles_until_the_first_mark);
	tcase_add_test(t, cc_ecn__shrinks_by_half_of_alpha);
	tcase_add_test(t, cc_ecn__half_of_a_long_queue_goes);
	tcase_add_test(t, cc_ecn__never_less_than_half_of_alpha);
	tcase_add_test(t, cc_ecn__small_windows_shrink_by_alpha);
	tcase_add_test(t, cc_ecn__marks_without_a_queue_only_steer);
	tcase_add_test(t, cc_ecn__below_one_packet);
	tcase_add_test(t, cc_ecn__loss_alone_is_not_congestion);
	tcase_add_test(t, cc_ecn__far_more_loss_than_usual_with_marks);
	tcase_add_test(t, cc_ecn__siblings_grow_together);
	tcase_add_test(t, cc_ecn__an_idle_window_does_not_grow);
	tcase_add_test(t, cc_ecn__timeouts_stop_at_one_packet);
	tcase_add_test(t, cc_ecn__after_a_rest_begins_anew);
	tcase_add_test(t, cc_ecn__a_rest_widens_nothing);
	tcase_add_test(t, cc_find__by_name);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(cc_suite)
