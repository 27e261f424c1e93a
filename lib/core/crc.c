// SPDX-License-Identifier: BSD-2-Clause
#include <isa-l.h>
#include "core/crc.h"

uint32_t crc32c(const void *data, uint32_t len)
{
	return ~crc32_iscsi((unsigned char *)data, (int)len, 0xffffffff);
}
