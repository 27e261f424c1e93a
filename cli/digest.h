/* SPDX-License-Identifier: BSD-2-Clause */
/* digest.h: the end-to-end check of one file, of either kind. */
#ifndef CLI_DIGEST_H
#define CLI_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sodium.h>
#include "fileproto.h"

struct digest {
	enum fp_digest_kind kind;
	uint64_t crc;
	crypto_hash_sha256_state sha;
};

bool digest_known(uint32_t kind);
void digest_start(struct digest *d, enum fp_digest_kind kind);
void digest_add(struct digest *d, const void *data, size_t len);
/* All FP_DIGEST_MAX bytes are set, those not needed to 0. */
void digest_end(struct digest *d, uint8_t out[FP_DIGEST_MAX]);
const char *digest_name(enum fp_digest_kind kind);

#endif
