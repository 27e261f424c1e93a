// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include "core/chunkset.h"

void chunkset_init(struct chunkset *s, uint32_t count, uint64_t *words)
{
	*s = (struct chunkset){ .words = words, .count = count };
	if (words)
		memset(words, 0, CHUNKSET_WORDS * sizeof(*words));
}

static uint64_t *word_of(const struct chunkset *s, uint32_t chunk)
{
	if (!s->words)
		return (uint64_t *)&s->few;
	return &s->words[(chunk / 64) & (CHUNKSET_WORDS - 1)];
}

/* Moves base over what is done; a word that base leaves is cleared for the chunks a span later. */
static void slide(struct chunkset *s)
{
	while (s->base < s->count) {
		uint64_t *word = word_of(s, s->base);
		uint64_t open = ~*word >> (s->base & 63);

		if (open) {
			s->base += (uint32_t)__builtin_ctzll(open);
			break;
		}
		s->base = (s->base | 63) + 1;
		if (s->words)
			*word = 0;
	}
	if (s->base > s->count)
		s->base = s->count;
}

int chunkset_add(struct chunkset *s, uint32_t chunk)
{
	uint64_t bit = 1ULL << (chunk & 63);
	uint64_t *word;

	if (chunk >= s->count)
		return -ERANGE;
	if (chunk < s->base)
		return -EEXIST;
	/* Bits below base in its word are still set: only whole words may be reused. */
	if (chunk - (s->base & ~63u) >= MROCE_CHUNK_SPAN)
		return -ERANGE;
	word = word_of(s, chunk);
	if (*word & bit)
		return -EEXIST;
	*word |= bit;
	if (chunk == s->base)
		slide(s);
	return 0;
}

bool chunkset_has(const struct chunkset *s, uint32_t chunk)
{
	if (chunk < s->base)
		return true;
	if (chunk >= s->count || chunk - (s->base & ~63u) >= MROCE_CHUNK_SPAN)
		return false;
	return *word_of(s, chunk) & (1ULL << (chunk & 63));
}
