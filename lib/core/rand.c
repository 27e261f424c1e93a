// SPDX-License-Identifier: BSD-2-Clause
#include <sodium.h>
#include <string.h>
#include "core/rand.h"

void rng_init(struct rng *r, uint64_t seed, const uint8_t more[24])
{
	memset(r, 0, sizeof(*r));
	memcpy(r->key, &seed, sizeof(seed));
	memcpy(r->key + sizeof(seed), more, sizeof(r->key) - sizeof(seed));
}

void rng_bytes(struct rng *r, void *out, size_t len)
{
	uint8_t *at = out;

	for (size_t i = 0; i < len; i += sizeof(uint32_t)) {
		uint32_t v = rng_u32(r);

		memcpy(at + i, &v, len - i < sizeof(v) ? len - i : sizeof(v));
	}
}

static void refill(struct rng *r)
{
	uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];

	memcpy(nonce, &r->counter, sizeof(nonce));
	r->counter++;
	crypto_stream_chacha20(r->block, sizeof(r->block), nonce, r->key);
	r->left = sizeof(r->block);
}

uint32_t rng_u32(struct rng *r)
{
	uint32_t v;

	if (r->left < sizeof(v))
		refill(r);
	r->left -= sizeof(v);
	memcpy(&v, r->block + r->left, sizeof(v));
	memset(r->block + r->left, 0, sizeof(v));
	return v;
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t high = rng_u32(r);

	return high << 32 | rng_u32(r);
}

uint32_t rng_nonzero(struct rng *r)
{
	uint32_t v;

	do {
		v = rng_u32(r);
	} while (!v);
	return v;
}
