/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunkset.h: which chunks of a message are done. Messages of up to 64 chunks need no memory; longer
 * ones a bitmap of MROCE_CHUNK_SPAN bits that slides over the message.
 */
#ifndef CORE_CHUNKSET_H
#define CORE_CHUNKSET_H

#include <stdbool.h>
#include <stdint.h>
#include "mroce/wire.h"

#define CHUNKSET_WORDS (MROCE_CHUNK_SPAN / 64)

struct chunkset {
	uint64_t *words; /* CHUNKSET_WORDS of them, or NULL: `few` is all */
	uint64_t few;
	uint32_t base;	/* all below are done */
	uint32_t count; /* chunks of the message */
};

static inline bool chunkset_needs_words(uint32_t count)
{
	return count > 64;
}

/* words: zeroed by this call; NULL if count does not need it. */
void chunkset_init(struct chunkset *s, uint32_t count, uint64_t *words);
/* 0: was not done, is now. -EEXIST: was done before. -ERANGE: no such chunk, or beyond the span. */
int chunkset_add(struct chunkset *s, uint32_t chunk);
bool chunkset_has(const struct chunkset *s, uint32_t chunk);

#endif
