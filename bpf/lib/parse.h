/* SPDX-License-Identifier: GPL-2.0 */
/*
 * parse.h: from a frame to a checked mroce header. The one parser of the XDP and the TC programs: both
 * give it the bounds of what lies in linear memory.
 *
 * Offsets are kept as numbers, not pointers, since helpers that resize a frame invalidate pointers.
 * They are 32 bits wide because the verifier of 6.1 forgets the bounds of narrower ones when they
 * are spilled to the stack.
 */
#ifndef PARSE_H
#define PARSE_H

#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include "crc.h"
#include "mroce/drop_reasons.h"
#include "mroce/maps.h"
#include "mroce/wire.h"

#define IP4_FRAGMENT 0x3fff /* more fragments, or an offset */
#define TOS_ECN_MASK 3
#define TOS_ECN_CE 3
#define TOS_ECN_ECT0 2
#define VLAN_TAGS_MAX 2

/* The longest way to the end of the mroce header: two tags, IPv4 with all its options. */
#define HEADERS_MAX (14 + 4 * VLAN_TAGS_MAX + 60 + 8 + MROCE_HDR_LEN)

struct vlan_tag {
	__be16 tci;
	__be16 proto;
};

/* What is known of a packet; all in host byte order but the ports. */
struct packet {
	__u32 l3;      /* offset of the IP header */
	__u32 l4;      /* offset of the UDP header */
	__u32 l4_room; /* bytes from there to the end, as IP says */
	__u32 payload; /* bytes of UDP payload */
	__u32 v6;      /* 1: IPv6, 0: IPv4 */
	__u32 tos;     /* or traffic class */
	__u32 type;
	__u32 path;
	__u32 cid;
	__u32 token;
	__u32 epoch;
	__u32 body_len;
	__u32 psn;
	__u32 una;
	__u32 ts;
	__u32 marked; /* 1: by our own virtual queue */
	__be16 source;
	__be16 dest;
	struct mroce_address to; /* IPv4 as ::ffff:a.b.c.d */
};

/*
 * Keeps the compiler from deriving a pointer a second time from the same offset: the verifier takes
 * the two for different places, and a bounds check of one says nothing about the other.
 */
#define KEEP_VALUE(v) asm volatile("" : "+r"(v))

enum parse_result {
	PARSE_OK = 0,
	PARSE_OTHER = 1, /* not ours, or not ours to judge: pass it on untouched */
			 /* negative: -enum mroce_reason, ours but wrong */
};

static __always_inline int is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

/* Offset of what follows Ethernet and its tags, and its protocol; 0 if the frame ends before. */
static __always_inline __u32 parse_ether(void *data, void *end, __be16 *proto)
{
	struct ethhdr *eth = data;
	__u32 offset = sizeof(*eth);

	if ((void *)(eth + 1) > end)
		return 0;
	*proto = eth->h_proto;
#pragma clang loop unroll(full)
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		struct vlan_tag *tag = data + offset;

		if (!is_vlan(*proto))
			return offset;
		if ((void *)(tag + 1) > end)
			return 0;
		*proto = tag->proto;
		offset += sizeof(*tag);
	}
	return offset;
}

static __always_inline int parse_ip4(void *data, void *end, struct packet *p)
{
	struct iphdr *ip = data + p->l3;
	__u32 header, total;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_UDP)
		return PARSE_OTHER;
	if (ip->frag_off & bpf_htons(IP4_FRAGMENT))
		return PARSE_OTHER;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	p->v6 = 0;
	p->to.word[0] = 0;
	p->to.word[1] = 0;
	p->to.word[2] = bpf_htonl(0xffff);
	p->to.word[3] = ip->daddr;
	p->tos = ip->tos;
	p->l4 = p->l3 + header;
	p->l4_room = total > header ? total - header : 0;
	return PARSE_OK;
}

static __always_inline int parse_ip6(void *data, void *end, struct packet *p)
{
	struct ipv6hdr *ip = data + p->l3;

	if ((void *)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
		return PARSE_OTHER;
	p->v6 = 1;
	__builtin_memcpy(&p->to, &ip->daddr, sizeof(p->to));
	p->tos = (bpf_ntohl(*(__be32 *)ip) >> 20) & 0xff;
	p->l4 = p->l3 + sizeof(*ip);
	p->l4_room = bpf_ntohs(ip->payload_len);
	return PARSE_OK;
}

/* PARSE_OK: UDP to our port, p->l3 to p->dest are set. Whether the lengths are true is not checked. */
static __always_inline int parse_udp(void *data, void *end, __u16 port, struct packet *p)
{
	struct udphdr *udp;
	__be16 proto;
	int err;

	p->l3 = parse_ether(data, end, &proto);
	if (!p->l3)
		return PARSE_OTHER;
	if (proto == bpf_htons(ETH_P_IP))
		err = parse_ip4(data, end, p);
	else if (proto == bpf_htons(ETH_P_IPV6))
		err = parse_ip6(data, end, p);
	else
		return PARSE_OTHER;
	if (err)
		return err;
	udp = data + p->l4;
	if ((void *)(udp + 1) > end || udp->dest != bpf_htons(port))
		return PARSE_OTHER;
	p->source = udp->source;
	p->dest = udp->dest;
	return PARSE_OK;
}

/*
 * The mroce header behind parse_udp(). frame_len counts the whole frame, also what is not linear.
 * Fills in the rest of *p.
 */
static __always_inline int parse_header(void *data, void *end, __u32 frame_len, struct packet *p)
{
	struct udphdr *udp = data + p->l4;
	struct mroce_hdr *h;
	__u32 udp_len;

	KEEP_VALUE(udp);
	h = (void *)(udp + 1);
	if ((void *)(udp + 1) > end)
		return PARSE_OTHER;
	udp_len = bpf_ntohs(udp->len);
	if (udp_len < sizeof(*udp) + MROCE_HDR_LEN || udp_len > p->l4_room ||
	    p->l4 + p->l4_room > frame_len)
		return -MROCE_DROP_TRUNCATED;
	if ((void *)(h + 1) > end)
		return PARSE_OTHER; /* there, but not in linear memory: leave it to the stack */
	p->payload = udp_len - sizeof(*udp);
	if (h->version != MROCE_WIRE_VERSION)
		return -MROCE_DROP_VERSION;
	if (bpf_ntohl(h->hdr_crc) != crc32c_words(h, MROCE_HDR_CRC_LEN / 4))
		return -MROCE_DROP_HDR_CRC;
	p->body_len = bpf_ntohs(h->body_len);
	if (p->body_len != p->payload - MROCE_HDR_LEN)
		return -MROCE_DROP_TRUNCATED;
	p->type = h->type;
	if (p->type == 0 || p->type >= MROCE_TYPE_MAX)
		return -MROCE_DROP_TYPE;
	p->path = h->path;
	p->cid = bpf_ntohl(h->cid);
	p->token = bpf_ntohl(h->token);
	p->epoch = bpf_ntohs(h->epoch);
	p->psn = bpf_ntohl(h->psn);
	p->una = bpf_ntohl(h->una);
	p->ts = bpf_ntohl(h->ts);
	return PARSE_OK;
}

/* Is it for one of our ports, not on its way through this host? Eight compares at most. */
static __always_inline int packet_is_local(const struct packet *p,
					   const struct mroce_bpf_config *config)
{
	int found = 0;

#pragma clang loop unroll(full)
	for (__u32 i = 0; i < MROCE_MAX_PORTS; i++) {
		const struct mroce_address *a = &config->local[i];

		found |= a->word[3] == p->to.word[3] && a->word[2] == p->to.word[2] &&
			 a->word[1] == p->to.word[1] && a->word[0] == p->to.word[0];
	}
	return found;
}

static __always_inline int packet_has_ce(const struct packet *p)
{
	return (p->tos & TOS_ECN_MASK) == TOS_ECN_CE;
}

#endif
