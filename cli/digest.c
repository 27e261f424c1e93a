// SPDX-License-Identifier: BSD-2-Clause
/*
 * digest.c: CRC64 by default: tens of gigabytes a second, and another polynomial than the CRC32C of
 * the packets, which would let pass here exactly what it let pass there. SHA-256 when asked for.
 */
#include <string.h>
#include <isa-l/crc64.h>
#include "digest.h"

bool digest_known(uint32_t kind)
{
	return kind == FP_CRC64 || kind == FP_SHA256;
}

void digest_start(struct digest *d, enum fp_digest_kind kind)
{
	d->kind = kind;
	d->crc = 0;
	if (kind == FP_SHA256)
		crypto_hash_sha256_init(&d->sha);
}

void digest_add(struct digest *d, const void *data, size_t len)
{
	switch (d->kind) {
	case FP_CRC64: d->crc = crc64_ecma_refl(d->crc, data, len); return;
	case FP_SHA256: crypto_hash_sha256_update(&d->sha, data, len); return;
	}
}

void digest_end(struct digest *d, uint8_t out[FP_DIGEST_MAX])
{
	memset(out, 0, FP_DIGEST_MAX);
	switch (d->kind) {
	case FP_CRC64:
		for (int i = 0; i < 8; i++)
			out[i] = (uint8_t)(d->crc >> (56 - 8 * i));
		return;
	case FP_SHA256: crypto_hash_sha256_final(&d->sha, out); return;
	}
}

const char *digest_name(enum fp_digest_kind kind)
{
	switch (kind) {
	case FP_CRC64: return "CRC64";
	case FP_SHA256: return "SHA-256";
	}
	return "?";
}
