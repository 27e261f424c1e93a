/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include "common/iptext.h"

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

const char *iptext(const uint8_t ip[16], char out[IPTEXT_MAX])
{
	if (memcmp(ip, v4_prefix, sizeof(v4_prefix)) == 0)
		return inet_ntop(AF_INET, ip + 12, out, IPTEXT_MAX);
	return inet_ntop(AF_INET6, ip, out, IPTEXT_MAX);
}

bool ip_from_sockaddr(const struct sockaddr *addr, uint8_t ip[16])
{
	if (addr->sa_family == AF_INET) {
		memcpy(ip, v4_prefix, sizeof(v4_prefix));
		memcpy(ip + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
		return true;
	}
	if (addr->sa_family == AF_INET6) {
		memcpy(ip, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
		return true;
	}
	return false;
}
