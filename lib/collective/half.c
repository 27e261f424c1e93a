/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * half.c: 16-bit floats. Conversions are integer arithmetic with selections instead of branches, so that a
 * compiler makes vectors of them on any machine. A NaN stays a NaN, and becomes a quiet one when narrowed.
 */
#include <string.h>
#include "collective/half.h"
#include "collective/vector.h"

/* Exponents count from 127 in float32, from 15 in float16; mantissas have 23 and 10 bits. */
#define BIAS ((127u - 15u) << 23)
#define SHIFT 13

static inline float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t as_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline float widen(uint16_t h)
{
	uint32_t rest = (uint32_t)(h & 0x7fff) << SHIFT;
	uint32_t normal = rest + BIAS;
	/* Infinity and NaN: the largest exponent becomes the largest. */
	uint32_t special = normal + BIAS;
	/* Subnormals: the mantissa behind a one that is subtracted again. */
	float small = as_float(rest + BIAS + (1u << 23)) - as_float(BIAS + (1u << 23));
	uint32_t bits = rest >= 0x7c00u << SHIFT ? special : normal;

	bits = rest < 0x0400u << SHIFT ? as_bits(small) : bits;
	return as_float(bits | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t narrow(float f)
{
	uint32_t bits = as_bits(f);
	uint32_t rest = bits & 0x7fffffff;
	uint32_t normal = (rest - BIAS + 0xfff + (rest >> SHIFT & 1)) >> SHIFT;
	/* Below 2^-14: the addition of 0.5 shifts the mantissa to its place, and rounds. */
	uint32_t small = as_bits(as_float(rest) + 0.5f) - as_bits(0.5f);
	uint32_t special = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
	uint32_t h = rest >= 0x47800000 ? special : normal; /* 65536 */

	h = rest < 0x38800000 ? small : h; /* 2^-14 */
	return (uint16_t)(h | (bits >> 16 & 0x8000));
}

VECTORISED void half_widen(float *restrict out, const uint16_t *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = widen(in[i]);
}

VECTORISED void half_narrow(uint16_t *restrict out, const float *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = narrow(in[i]);
}

VECTORISED void bfloat_widen(float *restrict out, const uint16_t *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = as_float((uint32_t)in[i] << 16);
}

VECTORISED void bfloat_narrow(uint16_t *restrict out, const float *restrict in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = as_bits(in[i]);
		uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		uint32_t nan = bits >> 16 | 0x40;

		out[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
	}
}
