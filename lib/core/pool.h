/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h: records of one size on a free list, taken from slabs. pool_get() never allocates: the packet
 * path uses what pool_reserve() put aside between batches.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
	void *free;  /* list through the first word of each free record */
	void *slabs; /* list through the first word of each slab */
	size_t size; /* of a record */
	uint32_t nfree, used, max;
};

/* At most `max` records of `size` bytes. */
void pool_init(struct pool *p, size_t size, uint32_t max);
void pool_fini(struct pool *p);
/* Zeroed; NULL: nothing put aside. */
void *pool_get(struct pool *p);
/* The same, but the contents are left as they are. */
void *pool_get_dirty(struct pool *p);
void pool_put(struct pool *p, void *record);
/* Tries to have n records free, as far as max allows. False: less than that are free. */
bool pool_reserve(struct pool *p, uint32_t n);

#endif
