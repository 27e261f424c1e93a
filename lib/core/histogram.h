/* SPDX-License-Identifier: BSD-2-Clause */
/* histogram.h: how long things took, in powers of two. Only ever grows: readers take differences. */
#ifndef CORE_HISTOGRAM_H
#define CORE_HISTOGRAM_H

#include <stdint.h>

/* Bucket i holds what took at most 2^(10 + i) ns: 1.024 us to 68.7 s. The last one holds all above. */
#define HISTOGRAM_SHIFT 10
#define HISTOGRAM_BUCKETS 28

struct histogram {
	uint64_t sum_ns;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t ns)
{
	uint64_t units = ns ? (ns - 1) >> HISTOGRAM_SHIFT : 0;
	uint32_t i = units ? 64 - (uint32_t)__builtin_clzll(units) : 0;

	return i < HISTOGRAM_BUCKETS ? i : HISTOGRAM_BUCKETS - 1;
}

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
	h->bucket[histogram_bucket(ns)]++;
	h->sum_ns += ns;
}

/* Upper edge of a bucket but the last, in ns. */
static inline uint64_t histogram_edge(uint32_t bucket)
{
	return 1ull << (HISTOGRAM_SHIFT + bucket);
}

#endif
