/* SPDX-License-Identifier: GPL-2.0 */
/* set_ce.h: marks what leaves on the skb path. */
#ifndef SET_CE_H
#define SET_CE_H

#include "count.h"
#include "parse.h"

static __always_inline void *skb_start(struct __sk_buff *skb)
{
	return (void *)(long)skb->data;
}

static __always_inline void *skb_end(struct __sk_buff *skb)
{
	return (void *)(long)skb->data_end;
}

static __always_inline int set_ce4(struct __sk_buff *skb, __u32 l3)
{
	struct iphdr *ip = skb_start(skb) + l3;
	__u32 sum;

	if ((void *)(ip + 1) > skb_end(skb))
		return 0;
	/* RFC 1624, equation 3, for the word that holds version, length and TOS: it becomes larger by 1 or 2. */
	sum = bpf_ntohs((__u16)~ip->check) + TOS_ECN_CE - (ip->tos & TOS_ECN_MASK);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~bpf_htons((__u16)sum);
	ip->tos |= TOS_ECN_CE;
	return 1;
}

static __always_inline int set_ce6(struct __sk_buff *skb, __u32 l3)
{
	struct ipv6hdr *ip = skb_start(skb) + l3;

	if ((void *)(ip + 1) > skb_end(skb))
		return 0;
	ip->flow_lbl[0] |= TOS_ECN_CE << 4;
	return 1;
}

/* What the stack sends of ours when the virtual queue of the interface is too long leaves with CE. */
static __always_inline void mark(struct __sk_buff *skb, __u16 port)
{
	__u32 headers = skb->len < HEADERS_MAX ? skb->len : HEADERS_MAX, l3;
	struct packet p = {};

	if (bpf_skb_pull_data(skb, headers) || parse_udp(skb_start(skb), skb_end(skb), port, &p))
		return;
	if ((p.tos & TOS_ECN_MASK) == 0 || packet_has_ce(&p))
		return;
	l3 = p.l3;
	KEEP_VALUE(l3);
	l3 &= 63;
	if (p.v6 ? set_ce6(skb, l3) : set_ce4(skb, l3))
		count(MROCE_COUNT_MARKED);
}

#endif
