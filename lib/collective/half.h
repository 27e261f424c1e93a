/* SPDX-License-Identifier: BSD-2-Clause */
/* half.h: 16-bit floats to float32 and back, round to nearest, ties to even. */
#ifndef COLLECTIVE_HALF_H
#define COLLECTIVE_HALF_H

#include <stddef.h>
#include <stdint.h>

void half_widen(float *out, const uint16_t *in, size_t n);
void half_narrow(uint16_t *out, const float *in, size_t n);
void bfloat_widen(float *out, const uint16_t *in, size_t n);
void bfloat_narrow(uint16_t *out, const float *in, size_t n);

#endif
