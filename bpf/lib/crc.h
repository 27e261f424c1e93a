/* SPDX-License-Identifier: GPL-2.0 */
/* crc.h: CRC32C over words in memory, for packets whose length the compiler knows. */
#ifndef CRC_H
#define CRC_H

#include "mroce/crc32c.h"

/* The finished value (as ISA-L's ~crc32_iscsi(p, 4 * words, ~0)). `words` must be a constant. */
static __always_inline __u32 crc32c_words(const void *p, __u32 words)
{
	const __u32 *word = p;
	__u32 crc = CRC32C_INIT;

#pragma clang loop unroll(full)
	for (__u32 i = 0; i < words; i++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		crc = crc32c_word(crc, word[i]);
#else
		crc = crc32c_word(crc, __builtin_bswap32(word[i]));
#endif
	}
	return ~crc;
}

#endif
