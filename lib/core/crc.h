/* SPDX-License-Identifier: BSD-2-Clause */
/* crc.h: CRC32C as the packets carry it. */
#ifndef CORE_CRC_H
#define CORE_CRC_H

#include <stdint.h>

uint32_t crc32c(const void *data, uint32_t len);

#endif
