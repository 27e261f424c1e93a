/* SPDX-License-Identifier: BSD-2-Clause */
/* 16-bit floats against the compiler's own conversions: every 16-bit value, and every float between two of them. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "collective/half.h"
#include "unit.h"

/* ck_assert() tells its parent each time; there are millions. */
#define must(condition, ...)                       \
	do {                                       \
		if (!(condition))                  \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

static float from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint32_t to_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static float half_reference(uint16_t h)
{
	_Float16 x;

	memcpy(&x, &h, sizeof(x));
	return (float)x;
}

static uint16_t narrow_reference(float f)
{
	_Float16 x = (_Float16)f;
	uint16_t h;

	memcpy(&h, &x, sizeof(h));
	return h;
}

static void check_narrow(float f)
{
	uint16_t got;

	half_narrow(&got, &f, 1);
	if (isnan(f))
		must((got & 0x7c00) == 0x7c00 && got & 0x3ff, "NaN became %04x", got);
	else
		must(got == narrow_reference(f), "%a: %04x instead of %04x", f, got,
		     narrow_reference(f));
}

START_TEST(half_widen__all_values)
{
	static uint16_t in[65536];
	static float out[65536];

	for (uint32_t h = 0; h < 65536; h++)
		in[h] = (uint16_t)h;
	half_widen(out, in, 65536);
	for (uint32_t h = 0; h < 65536; h++) {
		if (isnan(half_reference(in[h])))
			must(isnan(out[h]), "%04x is no NaN", h);
		else
			must(to_bits(out[h]) == to_bits(half_reference(in[h])), "%04x: %a", h,
			     out[h]);
	}
}
END_TEST

START_TEST(half_narrow__around_all_values_and_ties)
{
	for (uint32_t h = 0; h < 65536; h++) {
		float x = half_reference((uint16_t)h);
		float tie = (x + half_reference((uint16_t)(h + 1))) / 2;

		check_narrow(x);
		check_narrow(nextafterf(x, INFINITY));
		check_narrow(nextafterf(x, -INFINITY));
		check_narrow(tie);
		check_narrow(nextafterf(tie, INFINITY));
		check_narrow(nextafterf(tie, -INFINITY));
	}
}
END_TEST

START_TEST(half_narrow__floats_of_all_sizes)
{
	for (uint32_t bits = 0; bits < 0xffffff00; bits += 4099)
		check_narrow(from_bits(bits));
	check_narrow(65519.996f);
	check_narrow(65520);
	check_narrow(INFINITY);
	check_narrow(-INFINITY);
	check_narrow(NAN);
}
END_TEST

/* Nearest of the two neighbours, the even one of a tie: by arithmetic in double. */
static uint16_t bfloat_reference(float f)
{
	uint32_t bits = to_bits(f);
	uint16_t down = (uint16_t)(bits >> 16);
	double low = from_bits((uint32_t)down << 16), high = from_bits((uint32_t)(down + 1) << 16);

	if (isinf(f))
		return down;
	/* Above the largest finite value the next step would be 2^128. */
	if (isinf(high))
		high = high > 0 ? 0x1p128 : -0x1p128;
	if (fabs(f - low) == fabs(high - f))
		return down + (down & 1);
	return fabs(f - low) < fabs(high - f) ? down : down + 1;
}

START_TEST(bfloat_narrow__floats_of_all_sizes)
{
	for (uint64_t wide = 0; wide < 0x100000000ull; wide += 1021) {
		float f = from_bits((uint32_t)wide);
		uint16_t got;

		bfloat_narrow(&got, &f, 1);
		if (isnan(f))
			must((got & 0x7fff) > 0x7f80, "NaN became %04x", got);
		else
			must(got == bfloat_reference(f), "%a: %04x instead of %04x", f, got,
			     bfloat_reference(f));
	}
}
END_TEST

START_TEST(bfloat_narrow__ties)
{
	for (uint32_t h = 0; h < 0x7f80; h++) {
		float tie = from_bits(h << 16 | 0x8000);
		uint16_t got;

		bfloat_narrow(&got, &tie, 1);
		ck_assert_uint_eq(got, h + (h & 1));
	}
}
END_TEST

START_TEST(bfloat_widen__and_back)
{
	for (uint32_t h = 0; h < 65536; h++) {
		uint16_t in = (uint16_t)h, back;
		float f;

		bfloat_widen(&f, &in, 1);
		bfloat_narrow(&back, &f, 1);
		if (isnan(f))
			ck_assert_uint_eq(back, h | 0x40);
		else
			ck_assert_uint_eq(back, h);
	}
}
END_TEST

/* The vectors' remainders: nothing beyond n is touched. */
START_TEST(conversions__every_length)
{
	for (size_t n = 0; n < 67; n++) {
		uint16_t in[80], back[80];
		float wide[80];

		for (size_t i = 0; i < 80; i++) {
			in[i] = (uint16_t)(0x3c00 + 17 * i);
			wide[i] = -1;
			back[i] = 0xdead;
		}
		half_widen(wide, in, n);
		half_narrow(back, wide, n);
		for (size_t i = 0; i < 80; i++) {
			ck_assert(i < n ? wide[i] == half_reference(in[i]) : wide[i] == -1);
			ck_assert_uint_eq(back[i], i < n ? in[i] : 0xdead);
		}
	}
}
END_TEST

static Suite *half_suite(void)
{
	Suite *suite = suite_create("half");
	TCase *tcase = tcase_create("conversions");

	tcase_add_test(tcase, half_widen__all_values);
	tcase_add_test(tcase, half_narrow__around_all_values_and_ties);
	tcase_add_test(tcase, half_narrow__floats_of_all_sizes);
	tcase_add_test(tcase, bfloat_narrow__floats_of_all_sizes);
	tcase_add_test(tcase, bfloat_narrow__ties);
	tcase_add_test(tcase, bfloat_widen__and_back);
	tcase_add_test(tcase, conversions__every_length);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(half_suite)
