// SPDX-License-Identifier: BSD-2-Clause
#include "ip.h"

#include <errno.h>

const char *ip_text(const struct ip *ip, char text[IP_TEXT_LEN])
{
	if (ip_is_v4(ip))
		return inet_ntop(AF_INET, ip->a + 12, text, IP_TEXT_LEN);
	return inet_ntop(AF_INET6, ip->a, text, IP_TEXT_LEN);
}

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
