/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nack.h: turns a clone of a gap-revealing packet into a NACK, on the skb path.
 *
 * Everything is read into the stack, turned there and stored with helpers. Direct writes into the
 * packet would be shorter, but make the verifier put an unshare of every cloned skb (all of TCP's) at the
 * program's start, and other traffic is to cost one comparison.
 */
#ifndef NACK_H
#define NACK_H

#include "ack.h"
#include "reply.h"

/* Every field of a letter at its natural place, so that it can be stored in one go. */
struct nack_letter {
	struct udphdr udp;
	struct mroce_hdr h;
	struct mroce_ack ack;
};

#define NACK_UDP_LEN sizeof(struct nack_letter)

static __always_inline int nack_ether(struct __sk_buff *skb)
{
	struct ethhdr eth;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return -1;
	reply_ether(&eth);
	return bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0);
}

static __always_inline int nack_ip4(struct __sk_buff *skb, const struct packet *p)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, p->l3, &ip, sizeof(ip)))
		return -1;
	reply_ip4(&ip, p, NACK_UDP_LEN);
	return bpf_skb_store_bytes(skb, p->l3, &ip, sizeof(ip), 0);
}

static __always_inline int nack_ip6(struct __sk_buff *skb, const struct packet *p)
{
	struct ipv6hdr ip;

	if (bpf_skb_load_bytes(skb, p->l3, &ip, sizeof(ip)))
		return -1;
	reply_ip6(&ip, p, NACK_UDP_LEN);
	return bpf_skb_store_bytes(skb, p->l3, &ip, sizeof(ip), 0);
}

static __always_inline int nack_body(struct __sk_buff *skb, const struct packet *p,
				     const struct mroce_conn_entry *conn, struct mroce_path_rx *rx)
{
	struct nack_letter letter;

	reply_udp(&letter.udp, p, NACK_UDP_LEN);
	ack_make(&letter.h, &letter.ack, MROCE_NACK, p, conn, rx);
	return bpf_skb_store_bytes(skb, p->l3 + reply_ip_len(p), &letter, sizeof(letter), 0);
}

/* 0, or an error after which the skb is of no use. */
static __always_inline int nack_write(struct __sk_buff *skb, const struct packet *p,
				      const struct mroce_conn_entry *conn, struct mroce_path_rx *rx)
{
	if (bpf_skb_change_tail(skb, reply_frame_len(p, sizeof(struct mroce_ack)), 0))
		return -1;
	if (nack_ether(skb))
		return -1;
	if (p->v6 ? nack_ip6(skb, p) : nack_ip4(skb, p))
		return -1;
	return nack_body(skb, p, conn, rx);
}

#endif
