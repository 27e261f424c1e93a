/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * umem.h: packet memory of one AF_XDP socket, and who owns each frame of it.
 *
 * A frame is always in exactly one place. What the program can see of it: it is free, given to the kernel
 * to receive into (fill), taken from the receive ring and in use (held), or given to the kernel to
 * send (tx). Every move says from where to where and is checked against the frame's own record, so a frame
 * that the kernel returns twice, or that is returned twice by us, is found when it happens.
 */
#ifndef PORT_UMEM_H
#define PORT_UMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UMEM_FRAME_SHIFT 12
#define UMEM_FRAME_SIZE (1u << UMEM_FRAME_SHIFT)

enum umem_owner {
	UMEM_FREE,
	UMEM_FILL, /* kernel's, to receive into: fill ring, driver, or receive ring */
	UMEM_HELD, /* received, being processed */
	UMEM_TX,   /* kernel's, to send: tx ring, driver, or completion ring */
	UMEM_OWNERS
};

struct umem {
	uint8_t *area;
	uint32_t frames;
	uint32_t nfree;
	uint32_t *free; /* stack: the frame used last is still in the cache */
	uint8_t *owner; /* enum umem_owner, per frame */
	uint32_t owned[UMEM_OWNERS];
	uint64_t wrong; /* moves refused: a frame was not where it should have been */
};

/* All frames free. 0, -ENOMEM. */
int umem_init(struct umem *um, uint32_t frames);
void umem_free(struct umem *um);
/* Is every frame in one place, and do the sums agree? Walks all frames: for debug builds and tests. */
bool umem_consistent(const struct umem *um);

static inline size_t umem_bytes(const struct umem *um)
{
	return (size_t)um->frames << UMEM_FRAME_SHIFT;
}

/* False, and counted, if addr lies outside or its frame is not owned by `from`. */
static inline bool umem_move(struct umem *um, uint64_t addr, enum umem_owner from,
			     enum umem_owner to)
{
	uint64_t frame = addr >> UMEM_FRAME_SHIFT;

	if (frame >= um->frames || um->owner[frame] != from) {
		um->wrong++;
		return false;
	}
	um->owner[frame] = to;
	um->owned[from]--;
	um->owned[to]++;
	return true;
}

/* Takes a free frame for `to`; its address, or -1 if there is none. */
static inline int64_t umem_take(struct umem *um, enum umem_owner to)
{
	uint64_t addr;

	if (um->nfree == 0)
		return -1;
	addr = (uint64_t)um->free[um->nfree - 1] << UMEM_FRAME_SHIFT;
	if (!umem_move(um, addr, UMEM_FREE, to))
		return -1;
	um->nfree--;
	return (int64_t)addr;
}

/* Gives a frame back to the free list. */
static inline void umem_give(struct umem *um, uint64_t addr, enum umem_owner from)
{
	if (umem_move(um, addr, from, UMEM_FREE))
		um->free[um->nfree++] = (uint32_t)(addr >> UMEM_FRAME_SHIFT);
}

#endif
