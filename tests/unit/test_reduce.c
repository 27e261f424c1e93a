/* SPDX-License-Identifier: BSD-2-Clause */
/* Reductions against a scalar reference: all types, lengths around blocks and vectors, holes, NaN and infinity. */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "collective/reduce.h"
#include "unit.h"

#define RANKS 5
#define MOST 4200

static uint64_t state;

static uint32_t draw(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 32);
}

static float get_float(enum mroce_coll_type type, const void *at, size_t i)
{
	float f;

	reduce_widen(type, &f, (const char *)at + i * type_size(type), 1);
	return f;
}

static int32_t get_int(const void *at, size_t i)
{
	return ((const int32_t *)at)[i];
}

static bool has(const struct contribution *c, size_t i)
{
	for (uint32_t g = 0; g < c->ngaps; g++)
		if (i >= c->gaps[g].first && i < c->gaps[g].first + c->gaps[g].count)
			return false;
	return true;
}

/* What element i is to be, in the type. Sums of floats are made in the same order, so they are the same bits. */
static void reference(enum mroce_coll_type type, enum mroce_coll_op op, void *out,
		      const struct contribution *from, uint32_t n, size_t i)
{
	uint32_t found = 0, sum = 0;
	int32_t imax = 0;
	float f = 0;

	for (uint32_t r = 0; r < n; r++) {
		float x;

		if (!has(&from[r], i))
			continue;
		found++;
		if (type == MROCE_INT32) {
			sum += (uint32_t)get_int(from[r].data, i);
			if (found == 1 || get_int(from[r].data, i) > imax)
				imax = get_int(from[r].data, i);
			continue;
		}
		x = get_float(type, from[r].data, i);
		if (found == 1)
			f = x;
		else if (op == MROCE_MAX)
			f = isnan(f) || isnan(x) ? NAN : x > f ? x : f;
		else
			f += x;
	}
	if (type == MROCE_INT32) {
		int32_t v = op == MROCE_MAX ? imax : (int32_t)sum;

		if (op == MROCE_AVERAGE && found)
			v /= (int32_t)found;
		memcpy(out, &v, sizeof(v));
		return;
	}
	if (op == MROCE_AVERAGE && found)
		f /= (float)found;
	reduce_narrow(type, out, &f, 1);
}

static bool same(enum mroce_coll_type type, const void *a, const void *b)
{
	if (type != MROCE_INT32 && isnan(get_float(type, a, 0)))
		return isnan(get_float(type, b, 0));
	/* 0 and -0 are equal. */
	return type == MROCE_INT32 ? !memcmp(a, b, 4)
				   : get_float(type, a, 0) == get_float(type, b, 0);
}

static void fill(enum mroce_coll_type type, void *at, size_t n)
{
	static const float special[] = { INFINITY, -INFINITY, NAN, 0, -0.0f };

	for (size_t i = 0; i < n; i++) {
		float f = ((int32_t)draw() >> 8) / 65536.0f;

		if (draw() % 16 == 0)
			f = special[draw() % 5];
		if (type == MROCE_INT32)
			((int32_t *)at)[i] = (int32_t)draw();
		else
			reduce_narrow(type, (char *)at + i * type_size(type), &f, 1);
	}
}

static uint32_t make_gaps(struct gap *gaps, uint32_t most, size_t n)
{
	size_t at = 0;
	uint32_t count = 0;

	while (count < most) {
		at += 1 + draw() % (n / 3 + 1);
		if (at >= n)
			break;
		gaps[count].first = at;
		gaps[count].count = 1 + draw() % (n - at);
		if (gaps[count].count > n / 4 + 1)
			gaps[count].count = n / 4 + 1;
		if (at + gaps[count].count > n)
			gaps[count].count = n - at;
		at += gaps[count].count;
		count++;
	}
	return count;
}

static void check(enum mroce_coll_type type, enum mroce_coll_op op, size_t n, uint32_t ranks,
		  uint32_t most_gaps, bool inplace)
{
	size_t unit = type_size(type), bytes = n * unit;
	uint8_t *data[RANKS], *kept, *out = malloc(bytes + 64);
	struct gap gaps[RANKS][8];
	struct contribution from[RANKS];

	memset(out, 0xa5, bytes + 64);
	for (uint32_t r = 0; r < ranks; r++) {
		data[r] = malloc(bytes + 64);
		memset(data[r], 0xa5, bytes + 64);
		fill(type, data[r], n);
		from[r] = (struct contribution){ data[r], gaps[r],
						 make_gaps(gaps[r], most_gaps, n) };
	}
	kept = malloc(bytes + 1);
	memcpy(kept, data[0], bytes);
	reduce_all(type, op, inplace ? data[0] : out, from, ranks, n);
	for (size_t i = 0; i < 64; i++)
		ck_assert_uint_eq((inplace ? data[0] : out)[bytes + i], 0xa5);
	if (inplace)
		memcpy(out, data[0], bytes);
	from[0].data = kept;
	for (size_t i = 0; i < n; i++) {
		uint8_t want[4];

		reference(type, op, want, from, ranks, i);
		ck_assert_msg(same(type, want, out + i * unit),
			      "type %d op %d, %zu elements: element %zu", type, op, n, i);
	}
	for (uint32_t r = 0; r < ranks; r++)
		free(data[r]);
	free(kept);
	free(out);
}

static const size_t lengths[] = { 0, 1, 2, 3, 7, 8, 15, 17, 64, 1009, 1023, 1024, 1025, MOST };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

START_TEST(reduce_all__whole)
{
	state = 1;
	for (enum mroce_coll_type type = MROCE_FLOAT32; type <= MROCE_INT32; type++)
		for (enum mroce_coll_op op = MROCE_SUM; op <= MROCE_MAX; op++)
			for (size_t i = 0; i < LENGTHS; i++)
				for (uint32_t ranks = 1; ranks <= RANKS; ranks++)
					check(type, op, lengths[i], ranks, 0, ranks & 1);
}
END_TEST

START_TEST(reduce_all__counts_what_is_there)
{
	state = 2;
	for (enum mroce_coll_type type = MROCE_FLOAT32; type <= MROCE_INT32; type++)
		for (enum mroce_coll_op op = MROCE_SUM; op <= MROCE_MAX; op++)
			for (size_t i = 1; i < LENGTHS; i++)
				for (uint32_t round = 0; round < 6; round++)
					check(type, op, lengths[i], 1 + round % RANKS, 8, round & 1);
}
END_TEST

/* The mean of what arrived is the mean, whoever is missing: no bias towards zero. */
START_TEST(reduce_all__average_of_equals)
{
	static float x[3][MOST], out[MOST];
	const struct gap a[] = { { 0, 100 }, { 1000, 100 } }, b[] = { { 50, 2000 } };
	const struct contribution from[] = { { x[0], a, 2 }, { x[1], b, 1 }, { x[2], NULL, 0 } };

	for (size_t i = 0; i < MOST; i++)
		x[0][i] = x[1][i] = x[2][i] = 3;
	reduce_all(MROCE_FLOAT32, MROCE_AVERAGE, out, from, 3, MOST);
	for (size_t i = 0; i < MOST; i++)
		ck_assert(out[i] == 3);
	reduce_all(MROCE_FLOAT32, MROCE_SUM, out, from, 3, MOST);
	ck_assert(out[0] == 6 && out[60] == 3 && out[99] == 3 && out[100] == 6 && out[1050] == 3 &&
		  out[2049] == 6 && out[2050] == 9);
}
END_TEST

START_TEST(reduce_all__nobody_has_it)
{
	float x[4] = { 1, 2, 3, 4 }, out[4];
	const struct gap hole = { 1, 2 };
	const struct contribution from = { x, &hole, 1 };

	for (enum mroce_coll_op op = MROCE_SUM; op <= MROCE_MAX; op++) {
		reduce_all(MROCE_FLOAT32, op, out, &from, 1, 4);
		ck_assert(out[0] == 1 && out[1] == 0 && out[2] == 0 && out[3] == 4);
	}
}
END_TEST

START_TEST(reduce_all__integers_at_the_limits)
{
	int32_t x[2][2] = { { INT_MAX, INT_MIN }, { 1, -1 } }, out[2];
	const struct contribution from[] = { { x[0], NULL, 0 }, { x[1], NULL, 0 } };

	reduce_all(MROCE_INT32, MROCE_SUM, out, from, 2, 2);
	ck_assert(out[0] == INT_MIN && out[1] == INT_MAX);
	reduce_all(MROCE_INT32, MROCE_MAX, out, from, 2, 2);
	ck_assert(out[0] == INT_MAX && out[1] == -1);
	for (uint32_t n = 1; n < 9; n++) {
		for (int32_t v = -20; v <= 20; v++) {
			int32_t acc[3] = { v, INT_MAX, INT_MIN };

			reduce_divide(MROCE_INT32, acc, 3, n);
			ck_assert(acc[0] == v / (int32_t)n && acc[1] == INT_MAX / (int32_t)n &&
				  acc[2] == INT_MIN / (int32_t)n);
		}
	}
}
END_TEST

START_TEST(reduce_pair__every_type_and_length)
{
	state = 3;
	for (enum mroce_coll_type type = MROCE_FLOAT32; type <= MROCE_INT32; type++) {
		for (size_t i = 0; i < LENGTHS; i++) {
			for (enum mroce_coll_op op = MROCE_SUM; op <= MROCE_MAX; op++) {
				static uint32_t a[MOST + 8], b[MOST], kept[MOST];
				size_t n = lengths[i], unit = type_size(type);
				const struct contribution from[] = { { kept, NULL, 0 },
								     { b, NULL, 0 } };

				fill(type, a, n);
				fill(type, b, n);
				memset((char *)a + n * unit, 0xa5, 8);
				memcpy(kept, a, n * unit);
				reduce_pair(type, op, a, b, n);
				ck_assert_uint_eq(((uint8_t *)a)[n * unit], 0xa5);
				if (op == MROCE_AVERAGE)
					reduce_divide(type, a, n, 2);
				for (size_t e = 0; e < n; e++) {
					uint8_t want[4];

					/* The ring rounds before it divides by two, which is exact
					 * but where the sum overflows or the half is subnormal. */
					if (op == MROCE_AVERAGE && unit == 2)
						break;
					reference(type, op, want, from, 2, e);
					ck_assert(same(type, want, (char *)a + e * unit));
				}
			}
		}
	}
}
END_TEST

START_TEST(type_size__all)
{
	ck_assert_uint_eq(type_size(MROCE_FLOAT32), 4);
	ck_assert_uint_eq(type_size(MROCE_FLOAT16), 2);
	ck_assert_uint_eq(type_size(MROCE_BFLOAT16), 2);
	ck_assert_uint_eq(type_size(MROCE_INT32), 4);
	ck_assert_uint_eq(type_size((enum mroce_coll_type)77), 0);
}
END_TEST

static Suite *reduce_suite(void)
{
	Suite *suite = suite_create("reduce");
	TCase *tcase = tcase_create("reductions");

	tcase_add_test(tcase, reduce_all__whole);
	tcase_add_test(tcase, reduce_all__counts_what_is_there);
	tcase_add_test(tcase, reduce_all__average_of_equals);
	tcase_add_test(tcase, reduce_all__nobody_has_it);
	tcase_add_test(tcase, reduce_all__integers_at_the_limits);
	tcase_add_test(tcase, reduce_pair__every_type_and_length);
	tcase_add_test(tcase, type_size__all);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(reduce_suite)
