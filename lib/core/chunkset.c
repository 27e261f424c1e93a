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

/*
 * Moves base over what is done. Bits that base leaves are cleared at once: they are those of the
 * chunks a span later.
 */
static void slide(struct chunkset *s)
{
	while (s->base < s->count) {
		uint64_t *word = word_of(s, s->base);
		uint32_t at = s->base & 63;
		uint64_t open = ~*word >> at;
		uint32_t run = open ? (uint32_t)__builtin_ctzll(open) : 64 - at;

		if (!run)
			return;
		if (s->words)
			*word &= ~((run == 64 ? ~0ULL : (1ULL << run) - 1) << at);
		s->base += run;
	}
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
	if (chunk - s->base >= MROCE_CHUNK_SPAN)
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
	if (chunk >= s->count || chunk - s->base >= MROCE_CHUNK_SPAN)
		return false;
	return *word_of(s, chunk) & (1ULL << (chunk & 63));
}
