/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vector.h: loops that the compiler vectorises, once for every x86-64 and once for those with AVX2; the
 * loader takes the one that fits. Neither contracts a multiplication and an addition, so both give the same bits.
 */
#ifndef COLLECTIVE_VECTOR_H
#define COLLECTIVE_VECTOR_H

/* The sanitizers run before the loader has chosen. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(__SANITIZE_ADDRESS__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

#endif
