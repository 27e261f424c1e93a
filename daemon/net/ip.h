/* SPDX-License-Identifier: BSD-2-Clause */
/* ip.h: addresses of both families in one type, see struct ip. */
#ifndef NET_IP_H
#define NET_IP_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "core/port.h"

/* IPv4 as ::ffff:a.b.c.d */
static inline bool ip_is_v4(const struct ip *ip)
{
	static const uint8_t prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(ip->a, prefix, sizeof(prefix)) == 0;
}

static inline struct ip ip_from_v4(const void *be32)
{
	struct ip ip = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff } };

	memcpy(ip.a + 12, be32, 4);
	return ip;
}

static inline struct ip ip_from_v6(const void *in6)
{
	struct ip ip;

	memcpy(ip.a, in6, 16);
	return ip;
}

/* 0, -EINVAL */
int ip_parse(const char *text, struct ip *out);

#endif
