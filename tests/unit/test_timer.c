// SPDX-License-Identifier: BSD-2-Clause
#include "core/timer.h"
#include "unit.h"

#define N 500

START_TEST(timer__order)
{
	struct timer_heap h = { 0 };
	struct timer t[N] = { 0 };
	uint64_t last = 0, limit;
	uint32_t x = 88172645, armed = 0;
	struct timer *due;

	ck_assert_int_eq(timer_heap_reserve(&h, N), 0);
	ck_assert(timer_next(&h) == TIMER_NEVER);
	for (int round = 0; round < 20 * N; round++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		if (x % 5 == 0)
			timer_clear(&h, &t[x / 5 % N]);
		else if (x % 5 == 1)
			timer_by(&h, &t[x / 5 % N], x / 7 % 1000);
		else
			timer_set(&h, &t[x / 5 % N], x / 7 % 1000);
	}
	for (int i = 0; i < N; i++)
		armed += t[i].place != 0;
	ck_assert_uint_eq(armed, h.used);
	for (limit = 0; limit < 1000; limit += 10) {
		while ((due = timer_due(&h, limit))) {
			ck_assert_uint_eq(due->place, 0);
			ck_assert_uint_le(due->at, limit);
			ck_assert_uint_ge(due->at, last);
			last = due->at;
			armed--;
		}
		ck_assert_uint_gt(timer_next(&h), limit);
	}
	ck_assert_uint_eq(armed, h.used);
	timer_heap_free(&h);
}
END_TEST

START_TEST(timer__by_never_puts_off)
{
	struct timer_heap h = { 0 };
	struct timer t = { 0 };

	ck_assert_int_eq(timer_heap_reserve(&h, 1), 0);
	timer_by(&h, &t, 50);
	timer_by(&h, &t, 70);
	ck_assert_uint_eq(timer_next(&h), 50);
	timer_by(&h, &t, 30);
	ck_assert_uint_eq(timer_next(&h), 30);
	timer_set(&h, &t, 90);
	ck_assert_uint_eq(timer_next(&h), 90);
	timer_set(&h, &t, TIMER_NEVER);
	ck_assert_uint_eq(t.place, 0);
	timer_clear(&h, &t);
	timer_heap_free(&h);
}
END_TEST

static Suite *timer_suite(void)
{
	Suite *s = suite_create("timer");
	TCase *t = tcase_create("timer");

	tcase_add_test(t, timer__order);
	tcase_add_test(t, timer__by_never_puts_off);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(timer_suite)
