// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>
#include "mroce/vqueue.h"
#include "unit.h"

static struct mroce_vqueue q;
static struct mroce_vqueue_config c;

static void setup(void)
{
	q = (struct mroce_vqueue){ 0 };
}

/* Packets of 1500 bytes at `percent` of the link's rate for 50 ms; how many of 1000 were marked. */
static uint32_t load(uint32_t mbps, uint32_t percent)
{
	double gap = 1500 * 8e5 / mbps / percent, now = 1e9;
	uint32_t n = 0, marked = 0;

	vqueue_set(&c, 1, mbps);
	for (; now < 1.05e9 || n < 1000; now += gap, n++)
		marked += (uint32_t)vqueue_pass(&q, &c, (uint64_t)now, 1500);
	return (uint32_t)((uint64_t)marked * 1000 / n);
}

START_TEST(vqueue__below_its_rate_nothing_is_marked)
{
	static const uint32_t mbps[] = { 1, 100, 1000, 10000, 25000, 400000 };

	ck_assert_uint_eq(load(mbps[_i], 95), 0);
}
END_TEST

START_TEST(vqueue__at_line_rate_most_is_marked)
{
	static const uint32_t mbps[] = { 100, 1000, 10000, 25000, 400000 };

	ck_assert_uint_gt(load(mbps[_i], 100), 500);
}
END_TEST

START_TEST(vqueue__a_pause_empties_it)
{
	ck_assert_uint_gt(load(1000, 200), 900);
	ck_assert_int_eq(vqueue_pass(&q, &c, 2000000000ull, 1500), 0);
	ck_assert_uint_eq(q.backlog >> c.shift, 1500);
	ck_assert_int_eq(vqueue_pass(&q, &c, UINT64_MAX, 1500), 0);
}
END_TEST

START_TEST(vqueue__overload_is_not_remembered_for_long)
{
	uint64_t now = 1000000000;

	vqueue_set(&c, 1, 1000);
	for (int i = 0; i < 100000; i++)
		vqueue_pass(&q, &c, now, 9000);
	ck_assert_uint_eq(q.backlog >> c.shift, (uint64_t)c.threshold << MROCE_VQUEUE_DEPTH);
	ck_assert_int_eq(vqueue_pass(&q, &c, now + 1000000, 1500), 0);
}
END_TEST

START_TEST(vqueue__a_clock_behind_drains_nothing)
{
	vqueue_set(&c, 1, 1000);
	vqueue_pass(&q, &c, 1000000, 1500);
	vqueue_pass(&q, &c, 999000, 1500);
	ck_assert_uint_eq(q.backlog >> c.shift, 3000);
	ck_assert_uint_eq(q.last, 1000000);
}
END_TEST

START_TEST(vqueue_set__no_rate_is_off)
{
	vqueue_set(&c, 7, 0);
	ck_assert_uint_eq(c.rate, 0);
	ck_assert_uint_eq(c.ifindex, 7);
}
END_TEST

static Suite *vqueue_suite(void)
{
	Suite *s = suite_create("vqueue");
	TCase *t = tcase_create("vqueue");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_loop_test(t, vqueue__below_its_rate_nothing_is_marked, 0, 6);
	tcase_add_loop_test(t, vqueue__at_line_rate_most_is_marked, 0, 5);
	tcase_add_test(t, vqueue__a_pause_empties_it);
	tcase_add_test(t, vqueue__overload_is_not_remembered_for_long);
	tcase_add_test(t, vqueue__a_clock_behind_drains_nothing);
	tcase_add_test(t, vqueue_set__no_rate_is_off);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(vqueue_suite)
