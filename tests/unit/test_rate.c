// SPDX-License-Identifier: BSD-2-Clause
#include <stddef.h>
#include "mroce/rate.h"
#include "unit.h"

START_TEST(rate__small_values_are_exact)
{
	for (uint64_t kbps = 0; kbps < 2048; kbps++)
		ck_assert_uint_eq(rate_decode(rate_encode(kbps)), kbps);
}
END_TEST

START_TEST(rate__is_within_a_thousandth_and_never_above)
{
	for (uint64_t kbps = 1; kbps < 1ull << 40; kbps += 1 + kbps / 777) {
		uint64_t back = rate_decode(rate_encode(kbps));

		ck_assert_uint_le(back, kbps);
		ck_assert_uint_ge(back + back / 1000 + 1, kbps);
		ck_assert_uint_gt(back, 0);
	}
}
END_TEST

START_TEST(rate__grows_with_its_code)
{
	for (uint32_t e = 1; e < 32; e++) {
		for (uint32_t m = 1025; m < 2048; m++) {
			uint16_t code = (uint16_t)(e << MROCE_RATE_MANTISSA | m);

			ck_assert_uint_lt(rate_decode(code - 1), rate_decode(code));
			ck_assert_uint_eq(rate_encode(rate_decode(code)), code);
		}
	}
}
END_TEST

START_TEST(rate__ends)
{
	ck_assert_uint_eq(rate_encode(0), 0);
	ck_assert_uint_eq(rate_encode(UINT64_MAX), 0xffff);
	ck_assert_uint_eq(rate_decode(0xffff), 2047ull << 31);
	for (uint32_t e = 0; e < 32; e++) /* no mantissa, no hint, whatever the exponent */
		ck_assert_uint_eq(rate_decode((uint16_t)(e << MROCE_RATE_MANTISSA)), 0);
}
END_TEST

static Suite *rate_suite(void)
{
	Suite *s = suite_create("rate");
	TCase *t = tcase_create("rate");

	tcase_add_test(t, rate__small_values_are_exact);
	tcase_add_test(t, rate__is_within_a_thousandth_and_never_above);
	tcase_add_test(t, rate__grows_with_its_code);
	tcase_add_test(t, rate__ends);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(rate_suite)
