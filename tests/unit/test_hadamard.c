/* SPDX-License-Identifier: BSD-2-Clause */
/* The randomised Hadamard transform: inverse of itself, keeps lengths, is linear, spreads holes. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "collective/hadamard.h"
#include "unit.h"

static const size_t counts[] = { 1, 2, 511, 512, 1023, 1024, 1025, 5003, 65536, 131072, 200003 };
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static float *make(const struct hadamard *h, size_t count, uint32_t seed)
{
	float *x = calloc(h->rows * h->columns + 1, sizeof(*x));

	ck_assert_ptr_nonnull(x);
	for (size_t i = 0; i < count; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = (float)((int32_t)seed) / 2147483648.0f;
	}
	x[h->rows * h->columns] = 4711;
	return x;
}

static double norm(const float *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	return sqrt(sum);
}

START_TEST(hadamard_shape__room_for_all)
{
	for (size_t count = 0; count < 300000; count += 1 + count / 50) {
		struct hadamard h = hadamard_shape(count);

		ck_assert_uint_eq(h.rows & (h.rows - 1), 0);
		ck_assert(h.rows >= 1 && h.rows <= HADAMARD_ROWS);
		ck_assert(h.rows * h.columns >= count && h.rows * h.columns < count + h.rows);
		ck_assert(h.rows == 1 || h.columns >= HADAMARD_COLUMNS);
	}
}
END_TEST

START_TEST(hadamard_inverse__undoes)
{
	for (size_t c = 0; c < COUNTS; c++) {
		struct hadamard h = hadamard_shape(counts[c]);
		size_t n = h.rows * h.columns;
		float *x = make(&h, counts[c], 7), *y = make(&h, counts[c], 7);

		hadamard_forward(&h, y, 99);
		ck_assert(fabs(norm(x, n) - norm(y, n)) <= 1e-5 * norm(x, n));
		hadamard_inverse(&h, y, 99);
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(fabsf(x[i] - y[i]) < 2e-6f, "%zu of %zu", i, counts[c]);
		ck_assert(y[n] == 4711);
		free(x);
		free(y);
	}
}
END_TEST

START_TEST(hadamard_forward__is_the_hadamard_matrix)
{
	struct hadamard h = { .rows = 16, .columns = 37 };
	float *y = make(&h, 16 * 37, 3);

	hadamard_forward(&h, y, 5);
	for (size_t c = 0; c < h.columns; c++) {
		float *z = make(&h, 16 * 37, 3), *signs = calloc(16 * 37, sizeof(float));

		for (size_t i = 0; i < 16 * 37; i++)
			signs[i] = 1;
		/* Signs alone: a transform of one row is only that. */
		hadamard_forward(&(struct hadamard){ .rows = 1, .columns = 16 * 37 }, signs, 5);
		for (size_t r = 0; r < 16; r++) {
			double sum = 0;

			for (size_t k = 0; k < 16; k++) {
				double a = (double)z[k * 37 + c] * signs[k * 37 + c];

				sum += __builtin_parity((unsigned int)(r & k)) ? -a : a;
			}
			ck_assert(fabs(sum / 4 - y[r * 37 + c]) < 1e-5);
		}
		free(z);
		free(signs);
	}
	free(y);
}
END_TEST

START_TEST(hadamard_forward__another_seed_is_another_transform)
{
	struct hadamard h = hadamard_shape(5003);
	float *x = make(&h, 5003, 1), *y = make(&h, 5003, 1);

	hadamard_forward(&h, x, 1);
	hadamard_forward(&h, y, 2);
	ck_assert(memcmp(x, y, 5003 * sizeof(float)) != 0);
	free(x);
	free(y);
}
END_TEST

/* One per cent lost in one piece: without the transform it is all gone there; with it no element is far off. */
START_TEST(hadamard_inverse__spreads_a_hole)
{
	size_t count = 131072, hole = count / 100;
	struct hadamard h = hadamard_shape(count);
	float *x = make(&h, count, 9), *y = make(&h, count, 9);
	double worst = 0, error = 0;

	for (size_t i = 0; i < count; i++)
		x[i] = y[i] = 1;
	hadamard_forward(&h, y, 4);
	memset(y + 5000, 0, hole * sizeof(float));
	hadamard_inverse(&h, y, 4);
	for (size_t i = 0; i < count; i++) {
		worst = fmax(worst, fabs(x[i] - y[i]));
		error += (x[i] - y[i]) * (x[i] - y[i]);
	}
	/* As much energy is missing as coefficients are, but no element is lost. */
	ck_assert_double_gt(error, 0.005 * count);
	ck_assert_double_lt(error, 0.02 * count);
	ck_assert_double_lt(worst, 0.5);
	free(x);
	free(y);
}
END_TEST

static Suite *hadamard_suite(void)
{
	Suite *suite = suite_create("hadamard");
	TCase *tcase = tcase_create("transform");

	tcase_add_test(tcase, hadamard_shape__room_for_all);
	tcase_add_test(tcase, hadamard_inverse__undoes);
	tcase_add_test(tcase, hadamard_forward__is_the_hadamard_matrix);
	tcase_add_test(tcase, hadamard_forward__another_seed_is_another_transform);
	tcase_add_test(tcase, hadamard_inverse__spreads_a_hole);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(hadamard_suite)
