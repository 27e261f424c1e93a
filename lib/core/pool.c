// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include "core/pool.h"

#define SLAB_HEAD 64
#define SLAB_BYTES (256u << 10)

void pool_init(struct pool *p, size_t size, uint32_t max)
{
	*p = (struct pool){ .size = (size + 15) & ~(size_t)15, .max = max };
}

void pool_fini(struct pool *p)
{
	void *slab = p->slabs;

	while (slab) {
		void *next = *(void **)slab;

		free(slab);
		slab = next;
	}
	*p = (struct pool){ 0 };
}

static void push(struct pool *p, void *record)
{
	*(void **)record = p->free;
	p->free = record;
	p->nfree++;
}

void *pool_get_dirty(struct pool *p)
{
	void *record = p->free;

	if (!record)
		return NULL;
	p->free = *(void **)record;
	p->nfree--;
	p->used++;
	return record;
}

void *pool_get(struct pool *p)
{
	void *record = pool_get_dirty(p);

	return record ? memset(record, 0, p->size) : NULL;
}

void pool_put(struct pool *p, void *record)
{
	p->used--;
	push(p, record);
}

static bool grow(struct pool *p)
{
	uint32_t total = p->used + p->nfree;
	size_t n = SLAB_BYTES / p->size;
	uint8_t *slab;

	if (n > p->max - total)
		n = p->max - total;
	if (n == 0)
		return false;
	slab = malloc(SLAB_HEAD + n * p->size);
	if (!slab)
		return false;
	*(void **)slab = p->slabs;
	p->slabs = slab;
	while (n--)
		push(p, slab + SLAB_HEAD + n * p->size);
	return true;
}

bool pool_reserve(struct pool *p, uint32_t n)
{
	while (p->nfree < n) {
		if (!grow(p))
			return false;
	}
	return true;
}
