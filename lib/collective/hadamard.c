/* SPDX-License-Identifier: BSD-2-Clause */
/* hadamard.c: randomised Hadamard transform of columns, a strip of them at a time so that it stays in the cache. */
#include <math.h>
#include <string.h>
#include "collective/hadamard.h"
#include "collective/vector.h"

#define STRIP 32 /* columns; with 256 rows 32 KiB */

struct hadamard hadamard_shape(size_t count)
{
	struct hadamard h = { .rows = 1 };

	while (h.rows < HADAMARD_ROWS && count / (2 * h.rows) >= HADAMARD_COLUMNS)
		h.rows *= 2;
	h.columns = (count + h.rows - 1) / h.rows;
	return h;
}

/* splitmix64 of Steele, Lea and Flood: the i-th number of a sequence without the ones before. */
static uint64_t random_bits(uint64_t seed, uint64_t i)
{
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A random bit an element goes into its sign. */
static VECTORISED void flip_signs(float *x, uint32_t bits, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t u;

		memcpy(&u, x + i, sizeof(u));
		u ^= (bits >> i) << 31;
		memcpy(x + i, &u, sizeof(u));
	}
}

static void apply_signs(float *x, size_t count, uint64_t seed)
{
	for (size_t i = 0; i < count; i += 32)
		flip_signs(x + i, (uint32_t)random_bits(seed, i / 32),
			   count - i < 32 ? count - i : 32);
}

static VECTORISED void butterfly(float (*strip)[STRIP], size_t rows, size_t half)
{
	for (size_t base = 0; base < rows; base += 2 * half) {
		for (size_t r = base; r < base + half; r++) {
			float *restrict upper = strip[r], *restrict lower = strip[r + half];

			for (size_t c = 0; c < STRIP; c++) {
				float a = upper[c], b = lower[c];

				upper[c] = a + b;
				lower[c] = a - b;
			}
		}
	}
}

static void load_strip(const struct hadamard *h, float (*strip)[STRIP], const float *x, size_t at,
		       size_t width)
{
	for (size_t r = 0; r < h->rows; r++) {
		memcpy(strip[r], x + r * h->columns + at, width * sizeof(float));
		memset(strip[r] + width, 0, (STRIP - width) * sizeof(float));
	}
}

static void store_strip(const struct hadamard *h, float (*strip)[STRIP], float *x, size_t at,
			size_t width)
{
	float scale = 1 / sqrtf((float)h->rows);

	for (size_t r = 0; r < h->rows; r++) {
		float *row = x + r * h->columns + at;

		for (size_t c = 0; c < width; c++)
			row[c] = strip[r][c] * scale;
	}
}

static void transform(const struct hadamard *h, float *x)
{
	float strip[HADAMARD_ROWS][STRIP];

	if (h->rows == 1)
		return;
	for (size_t at = 0; at < h->columns; at += STRIP) {
		size_t width = h->columns - at < STRIP ? h->columns - at : STRIP;

		load_strip(h, strip, x, at, width);
		for (size_t half = 1; half < h->rows; half *= 2)
			butterfly(strip, h->rows, half);
		store_strip(h, strip, x, at, width);
	}
}

void hadamard_forward(const struct hadamard *h, float *x, uint64_t seed)
{
	apply_signs(x, h->rows * h->columns, seed);
	transform(h, x);
}

void hadamard_inverse(const struct hadamard *h, float *x, uint64_t seed)
{
	transform(h, x);
	apply_signs(x, h->rows * h->columns, seed);
}
