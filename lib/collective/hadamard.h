/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hadamard.h: randomised Hadamard transform. An array is seen as a matrix; each column is multiplied by random signs and
 * transformed. Neighbours in memory are in different columns, so that a hole of consecutive elements takes one
 * coefficient (or few) of many columns, and becomes after the inverse a little noise in all of their elements.
 */
#ifndef COLLECTIVE_HADAMARD_H
#define COLLECTIVE_HADAMARD_H

#include <stddef.h>
#include <stdint.h>

#define HADAMARD_ROWS 256 /* at most: a hole is spread over so many elements */
#define HADAMARD_COLUMNS \
	512 /* rather than fewer, there are fewer rows: about a packet of float32 */

struct hadamard {
	size_t rows; /* a power of two */
	size_t columns;
};

/* rows * columns >= count; what is beyond count is to be zero before the transform. */
struct hadamard hadamard_shape(size_t count);
/* The transform keeps lengths (it is orthonormal); the inverse with the same seed undoes it but for rounding. */
void hadamard_forward(const struct hadamard *h, float *x, uint64_t seed);
void hadamard_inverse(const struct hadamard *h, float *x, uint64_t seed);

#endif
