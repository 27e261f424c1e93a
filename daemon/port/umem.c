// SPDX-License-Identifier: BSD-2-Clause
#include "umem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (2u << 20)

/* Begins at a multiple of a huge page, so that the kernel may use some: fewer TLB misses. */
static uint8_t *area_map(size_t bytes)
{
	uint8_t *map = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t skip;

	if (map == MAP_FAILED)
		return NULL;
	skip = -(uintptr_t)map & (HUGE_PAGE - 1);
	if (skip)
		munmap(map, skip);
	map += skip;
	if (skip < HUGE_PAGE)
		munmap(map + bytes, HUGE_PAGE - skip);
	madvise(map, bytes, MADV_HUGEPAGE);
	madvise(map, bytes, MADV_DONTFORK); /* pinned pages would be copied at every fork */
	return map;
}

int umem_init(struct umem *um, uint32_t frames)
{
	memset(um, 0, sizeof(*um));
	um->frames = frames;
	um->area = area_map(umem_bytes(um));
	um->free = calloc(frames, sizeof(*um->free));
	um->owner = calloc(frames, sizeof(*um->owner));
	if (!um->area || !um->free || !um->owner) {
		umem_free(um);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < frames; i++)
		um->free[i] = frames - 1 - i;
	um->nfree = frames;
	um->owned[UMEM_FREE] = frames;
	return 0;
}

void umem_free(struct umem *um)
{
	if (um->area)
		munmap(um->area, umem_bytes(um));
	free(um->free);
	free(um->owner);
	memset(um, 0, sizeof(*um));
}

bool umem_consistent(const struct umem *um)
{
	uint32_t count[UMEM_OWNERS] = { 0 };

	for (uint32_t i = 0; i < um->frames; i++) {
		if (um->owner[i] >= UMEM_OWNERS)
			return false;
		count[um->owner[i]]++;
	}
	for (uint32_t i = 0; i < um->nfree; i++) {
		if (um->owner[um->free[i]] != UMEM_FREE)
			return false;
	}
	return um->nfree == um->owned[UMEM_FREE] && memcmp(count, um->owned, sizeof(count)) == 0 &&
	       um->wrong == 0;
}
