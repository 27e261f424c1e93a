/* SPDX-License-Identifier: BSD-2-Clause */
/* iptext.h: addresses as people write them. 16 bytes: IPv6, or IPv4 as ::ffff:a.b.c.d. */
#ifndef COMMON_IPTEXT_H
#define COMMON_IPTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define IPTEXT_MAX 46 /* INET6_ADDRSTRLEN */

const char *iptext(const uint8_t ip[16], char out[IPTEXT_MAX]);
/* false if the family is neither IPv4 nor IPv6. */
bool ip_from_sockaddr(const struct sockaddr *addr, uint8_t ip[16]);

#endif
