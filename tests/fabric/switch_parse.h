/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The switch: reading a packet.
 */
#ifndef MROCE_TESTS_FABRIC_SWITCH_PARSE_H
#define MROCE_TESTS_FABRIC_SWITCH_PARSE_H

#include "switch_maps.h"

static __always_inline void parse_l4(struct __sk_buff *skb, const struct fab_config *cfg,
				     struct packet *pkt)
{
	struct {
		__be16 sport, dport, len, check;
		__u8 version, type;
	} udp = {};
	__u8 icmp_type = 0;

	if (pkt->proto == IPPROTO_ICMPV6) {
		/* 133 to 137: router and neighbour discovery, redirect */
		if (!bpf_skb_load_bytes(skb, pkt->l4, &icmp_type, 1))
			pkt->exempt = icmp_type >= 133 && icmp_type <= 137;
		return;
	}
	if (pkt->proto != IPPROTO_UDP && pkt->proto != IPPROTO_TCP)
		return;
	if (bpf_skb_load_bytes(skb, pkt->l4, &udp, sizeof(udp)) &&
	    bpf_skb_load_bytes(skb, pkt->l4, &udp, 4))
		return;
	pkt->hash = mix64(pkt->hash ^ ((__u64)udp.sport << 32) ^ ((__u64)udp.dport << 48));
	if (pkt->proto != IPPROTO_UDP || skb->len < pkt->l4 + sizeof(udp))
		return;
	pkt->has_type = bpf_ntohs(udp.sport) == cfg->udp_port ||
			bpf_ntohs(udp.dport) == cfg->udp_port;
	pkt->type = udp.type;
}

static __always_inline void parse_ipv4(struct __sk_buff *skb, const struct fab_config *cfg,
				       struct packet *pkt)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, pkt->l3, &ip, sizeof(ip)))
		return;
	pkt->l4 = pkt->l3 + ip.ihl * 4;
	pkt->proto = ip.protocol;
	pkt->ecn = ip.tos & 3;
	pkt->hash = mix64(((__u64)ip.saddr << 32 | ip.daddr) ^ ip.protocol);
	if (!(ip.frag_off & bpf_htons(0x3fff))) /* a fragment has no ports */
		parse_l4(skb, cfg, pkt);
}

static __always_inline void parse_ipv6(struct __sk_buff *skb, const struct fab_config *cfg,
				       struct packet *pkt)
{
	struct ipv6hdr ip;
	__u64 addresses;

	if (bpf_skb_load_bytes(skb, pkt->l3, &ip, sizeof(ip)))
		return;
	pkt->v6 = 1;
	pkt->l4 = pkt->l3 + sizeof(ip);
	pkt->proto = ip.nexthdr;
	pkt->ecn = (ip.flow_lbl[0] >> 4) & 3;
	addresses = (__u64)ip.saddr.s6_addr32[3] << 32 | ip.daddr.s6_addr32[3];
	addresses ^= (__u64)ip.saddr.s6_addr32[0] << 32 | ip.daddr.s6_addr32[1];
	pkt->hash = mix64(addresses ^ ip.nexthdr);
	parse_l4(skb, cfg, pkt);
}

static __always_inline void parse(struct __sk_buff *skb, const struct fab_config *cfg,
				  const struct ethhdr *eth, struct packet *pkt)
{
	__be16 proto = eth->h_proto;

	pkt->l3 = ETH_HLEN;
	if (proto == bpf_htons(ETH_P_8021Q)) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 2, &proto, sizeof(proto)))
			return;
		pkt->l3 += 4;
	}
	if (proto == bpf_htons(ETH_P_IP))
		parse_ipv4(skb, cfg, pkt);
	else if (proto == bpf_htons(ETH_P_IPV6))
		parse_ipv6(skb, cfg, pkt);
	if (!pkt->l4 || (eth->h_dest[0] & 1))
		pkt->exempt = 1;
}

#endif
