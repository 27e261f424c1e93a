/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * gaps.h: which bytes of a message are missing. Chunks below `first` are all here. Of the MROCE_CHUNK_SPAN
 * chunks from there on one bit each says whether it is missing, and beyond them nothing has arrived:
 * exact, whatever the length of the message.
 */
#ifndef MROCE_GAPS_H
#define MROCE_GAPS_H

#include <stdbool.h>
#include <stdint.h>
#include "mroce.h"
#include "mroce/wire.h"

struct mroce_gaps {
	uint64_t msg_len;
	uint32_t chunk_size; /* 0: nothing is missing */
	uint32_t first;
	uint64_t word[MROCE_CHUNK_SPAN / 64];
};

static inline bool gaps_missing(const struct mroce_gaps *g, uint64_t chunk)
{
	uint64_t at = chunk - g->first;

	if (chunk < g->first)
		return false;
	return at >= MROCE_CHUNK_SPAN || (g->word[at / 64] >> (at % 64) & 1);
}

/* The ranges in order, up to n of them into out; returns how many there are. */
static inline uint32_t gaps_ranges(const struct mroce_gaps *g, struct mroce_range *out, uint32_t n)
{
	uint64_t count = g->chunk_size ? (g->msg_len + g->chunk_size - 1) / g->chunk_size : 0;
	uint32_t found = 0;

	for (uint64_t c = g->first; c < count;) {
		uint64_t from = c;

		if (!gaps_missing(g, c)) {
			c++;
			continue;
		}
		while (c < count && c - g->first < MROCE_CHUNK_SPAN && gaps_missing(g, c))
			c++;
		if (c < count && c - g->first >= MROCE_CHUNK_SPAN)
			c = count;
		if (found < n) {
			uint64_t end = c * g->chunk_size;

			out[found].offset = from * g->chunk_size;
			out[found].length = (end < g->msg_len ? end : g->msg_len) -
					    out[found].offset;
		}
		found++;
	}
	return found;
}

#endif
