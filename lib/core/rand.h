/* SPDX-License-Identifier: BSD-2-Clause */
/* rand.h: ids, tokens and keys: ChaCha20 under the engine's seed, so unguessable yet replayable. */
#ifndef CORE_RAND_H
#define CORE_RAND_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint8_t key[32];
	uint8_t block[64];
	uint64_t counter;
	uint32_t left; /* bytes of block not yet used */
};

/* The key is seed and `more`, 256 bits together. */
void rng_init(struct rng *r, uint64_t seed, const uint8_t more[24]);
void rng_bytes(struct rng *r, void *out, size_t len);
uint32_t rng_u32(struct rng *r);
uint64_t rng_u64(struct rng *r);
/* Never 0. */
uint32_t rng_nonzero(struct rng *r);

#endif
