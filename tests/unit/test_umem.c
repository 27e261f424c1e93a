// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"
#include "daemon/port/umem.h"

#define FRAMES 64

static struct umem um;

static void setup(void)
{
	ck_assert_int_eq(umem_init(&um, FRAMES), 0);
}

static void teardown(void)
{
	umem_free(&um);
}

START_TEST(umem_init__all_frames_are_free)
{
	ck_assert_uint_eq(um.nfree, FRAMES);
	ck_assert_uint_eq(um.owned[UMEM_FREE], FRAMES);
	ck_assert(umem_consistent(&um));
	ck_assert_uint_eq((uintptr_t)um.area % UMEM_FRAME_SIZE, 0);
}
END_TEST

START_TEST(umem_take__every_frame_once_then_none)
{
	bool seen[FRAMES] = { false };

	for (int i = 0; i < FRAMES; i++) {
		int64_t addr = umem_take(&um, UMEM_TX);

		ck_assert_int_ge(addr, 0);
		ck_assert_int_eq(addr % UMEM_FRAME_SIZE, 0);
		ck_assert(!seen[addr / UMEM_FRAME_SIZE]);
		seen[addr / UMEM_FRAME_SIZE] = true;
	}
	ck_assert_int_eq(umem_take(&um, UMEM_TX), -1);
	ck_assert_uint_eq(um.owned[UMEM_TX], FRAMES);
	ck_assert(umem_consistent(&um));
}
END_TEST

START_TEST(umem_give__address_inside_the_frame)
{
	int64_t addr = umem_take(&um, UMEM_TX);

	umem_give(&um, (uint64_t)addr + 77, UMEM_TX);
	ck_assert_uint_eq(um.nfree, FRAMES);
	ck_assert_int_eq(umem_take(&um, UMEM_TX), addr);
	ck_assert(umem_consistent(&um));
}
END_TEST

START_TEST(umem_give__twice_is_refused)
{
	uint64_t addr = (uint64_t)umem_take(&um, UMEM_TX);

	umem_give(&um, addr, UMEM_TX);
	umem_give(&um, addr, UMEM_TX);
	ck_assert_uint_eq(um.nfree, FRAMES);
	ck_assert_uint_eq(um.wrong, 1);
	ck_assert(!umem_consistent(&um));
}
END_TEST

START_TEST(umem_move__from_the_wrong_place_is_refused)
{
	uint64_t addr = (uint64_t)umem_take(&um, UMEM_FILL);

	ck_assert(!umem_move(&um, addr, UMEM_TX, UMEM_FREE));
	ck_assert_uint_eq(um.owned[UMEM_FILL], 1);
	ck_assert(umem_move(&um, addr, UMEM_FILL, UMEM_HELD));
	ck_assert(!umem_move(&um, addr, UMEM_FILL, UMEM_HELD));
	ck_assert_uint_eq(um.wrong, 2);
}
END_TEST

START_TEST(umem_move__outside_is_refused)
{
	ck_assert(!umem_move(&um, (uint64_t)FRAMES * UMEM_FRAME_SIZE, UMEM_FREE, UMEM_TX));
	ck_assert(!umem_move(&um, UINT64_MAX, UMEM_FREE, UMEM_TX));
	ck_assert_uint_eq(um.wrong, 2);
}
END_TEST

START_TEST(umem_consistent__finds_a_lost_frame)
{
	ck_assert_int_ge(umem_take(&um, UMEM_HELD), 0);
	um.owned[UMEM_HELD]--;
	ck_assert(!umem_consistent(&um));
}
END_TEST

START_TEST(umem_consistent__holds_over_random_moves)
{
	uint64_t held[FRAMES];
	uint32_t nheld = 0, rnd = 12345;

	for (int i = 0; i < 20000; i++) {
		rnd = rnd * 1664525 + 1013904223;
		if (rnd >> 31 && nheld < FRAMES) {
			held[nheld++] = (uint64_t)umem_take(&um, UMEM_TX);
		} else if (nheld) {
			uint32_t pick = (rnd >> 8) % nheld;

			umem_give(&um, held[pick], UMEM_TX);
			held[pick] = held[--nheld];
		}
		ck_assert_uint_eq(um.owned[UMEM_TX], nheld);
		if (i % 97 == 0)
			ck_assert(umem_consistent(&um));
	}
}
END_TEST

static Suite *umem_suite(void)
{
	Suite *suite = suite_create("umem");
	TCase *tc = tcase_create("umem");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, umem_init__all_frames_are_free);
	tcase_add_test(tc, umem_take__every_frame_once_then_none);
	tcase_add_test(tc, umem_give__address_inside_the_frame);
	tcase_add_test(tc, umem_give__twice_is_refused);
	tcase_add_test(tc, umem_move__from_the_wrong_place_is_refused);
	tcase_add_test(tc, umem_move__outside_is_refused);
	tcase_add_test(tc, umem_consistent__finds_a_lost_frame);
	tcase_add_test(tc, umem_consistent__holds_over_random_moves);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(umem_suite)
