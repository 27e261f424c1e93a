/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reply.h: turns the headers of a packet round so that it goes back to where it came from. The pieces
 * may lie in the packet itself (XDP) or on the stack (TC). An answer has no IPv4 options.
 */
#ifndef REPLY_H
#define REPLY_H

#include "parse.h"

#define REPLY_TTL 64
#define IP4_DONT_FRAGMENT 0x4000

static __always_inline __u32 reply_ip_len(const struct packet *p)
{
	return p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/* Bytes of a whole frame that answers p with an mroce packet of this body. */
static __always_inline __u32 reply_frame_len(const struct packet *p, __u32 body_len)
{
	return p->l3 + reply_ip_len(p) + sizeof(struct udphdr) + MROCE_HDR_LEN + body_len;
}

static __always_inline void reply_ether(struct ethhdr *eth)
{
	__u8 dest[ETH_ALEN];

	__builtin_memcpy(dest, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, dest, ETH_ALEN);
}

static __always_inline __u8 reply_tos(const struct packet *p)
{
	return (p->tos & ~TOS_ECN_MASK) | TOS_ECN_ECT0;
}

/* The checksum of an IPv4 header without options whose check field is zero. */
static __always_inline __u16 ip4_checksum(const struct iphdr *ip)
{
	const __u16 *half = (const void *)ip;
	__u32 sum = 0;

#pragma clang loop unroll(full)
	for (unsigned int i = 0; i < sizeof(*ip) / 2; i++)
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline void reply_ip4(struct iphdr *ip, const struct packet *p, __u32 udp_len)
{
	__be32 from = ip->saddr;

	*(__u8 *)ip = 0x45; /* version 4, 5 words */
	ip->tos = reply_tos(p);
	ip->tot_len = bpf_htons(sizeof(*ip) + udp_len);
	ip->id = 0;
	ip->frag_off = bpf_htons(IP4_DONT_FRAGMENT);
	ip->ttl = REPLY_TTL;
	ip->saddr = ip->daddr;
	ip->daddr = from;
	ip->check = 0;
	ip->check = ip4_checksum(ip);
}

/* The flow label stays: routers may hash it. */
static __always_inline void reply_ip6(struct ipv6hdr *ip, const struct packet *p, __u32 udp_len)
{
	__u32 first = bpf_ntohl(*(__be32 *)ip) & 0xf00fffff;
	struct in6_addr from = ip->saddr;

	*(__be32 *)ip = bpf_htonl(first | (__u32)reply_tos(p) << 20);
	ip->payload_len = bpf_htons(udp_len);
	ip->hop_limit = REPLY_TTL;
	ip->saddr = ip->daddr;
	ip->daddr = from;
}

/* Both ports stay: the source port is the path's entropy in either direction, see wire.h. */
static __always_inline void reply_udp(struct udphdr *udp, const struct packet *p, __u32 udp_len)
{
	udp->source = p->source;
	udp->dest = p->dest;
	udp->len = bpf_htons(udp_len);
	udp->check = 0;
}

#endif
