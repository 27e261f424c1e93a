/* SPDX-License-Identifier: BSD-2-Clause */
/* sock_addr.h: struct ip and the kernel's socket addresses. */
#ifndef PORT_SOCK_ADDR_H
#define PORT_SOCK_ADDR_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include "daemon/net/ip.h"

struct sock_addr {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

/* ifindex is the scope of link-local addresses. */
static inline void sock_addr_set(struct sock_addr *a, const struct ip *ip, uint16_t udp_port,
				 uint32_t ifindex)
{
	memset(a, 0, sizeof(*a));
	if (ip_is_v4(ip)) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(udp_port);
		memcpy(&a->v4.sin_addr, ip->a + 12, 4);
		a->len = sizeof(a->v4);
		return;
	}
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htons(udp_port);
	memcpy(&a->v6.sin6_addr, ip->a, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr))
		a->v6.sin6_scope_id = ifindex;
	a->len = sizeof(a->v6);
}

static inline struct ip sock_addr_ip(const struct sockaddr *any)
{
	if (any->sa_family == AF_INET6)
		return ip_from_v6(&((const struct sockaddr_in6 *)any)->sin6_addr);
	return ip_from_v4(&((const struct sockaddr_in *)any)->sin_addr);
}

static inline uint16_t sock_addr_port(const struct sockaddr *any)
{
	/* At the same place in both families. */
	return ntohs(((const struct sockaddr_in *)any)->sin_port);
}

#endif
