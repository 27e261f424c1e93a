// SPDX-License-Identifier: BSD-2-Clause
#include "ip.h"

#include <errno.h>

int ip_parse(const char *text, struct ip *out)
{
	uint8_t bytes[16];

	if (inet_pton(AF_INET, text, bytes) == 1)
		*out = ip_from_v4(bytes);
	else if (inet_pton(AF_INET6, text, bytes) == 1)
		*out = ip_from_v6(bytes);
	else
		return -EINVAL;
	return 0;
}
