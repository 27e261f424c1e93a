// SPDX-License-Identifier: GPL-2.0
/*
 * mroce_post: puts letters into envelopes (post.h). For socket ports: the daemon hands a letter over as a
 * datagram with a mark and a preliminary header; here, still within its system call, the letter gets the
 * path with the most room, PSN, una, time and UDP source port. What cannot be sent is dropped with a reason that
 * the daemon reads. Everything else passes, counted and marked by the virtual queue.
 *
 * Loads on 6.1: compare-and-exchange in BPF is of 5.12. No lock: every word but a path's next PSN has one
 * writer, and maps with a bpf_spin_lock cannot be mapped into the daemon's memory.
 */
#include <linux/pkt_cls.h>
#define MARK_MAP mroce_vq_tx
#define BPF_MAPS_SENDING
#include "bpf_maps.h"
#include "count.h"
#include "crc.h"
#include "mark.h"
#include "set_ce.h"
#include "mroce/post.h"

#define TS_SHIFT 10 /* hdr.ts counts units of 1024 ns */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MROCE_MAX_CONNS);
	__type(key, __u32);
	__type(value, struct mroce_post_conn);
} mroce_post SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MROCE_POSTED);
	__type(key, __u32);
	__type(value, struct mroce_posted);
} mroce_posted SEC(".maps");

/* What comes from other hosts or other interfaces can bear any mark. */
static __always_inline int is_letter(const struct __sk_buff *skb)
{
	return skb->mark == MROCE_LETTER_MARK && skb->ingress_ifindex == 0;
}

/* 0: *l4 is the offset of UDP, *h the preliminary header. */
static __always_inline int read_letter(struct __sk_buff *skb, __u16 port, __u32 *l4,
				       struct mroce_hdr *h)
{
	__u32 headers = skb->len < HEADERS_MAX ? skb->len : HEADERS_MAX;
	struct packet p = {};

	if (bpf_skb_pull_data(skb, headers) || parse_udp(skb_start(skb), skb_end(skb), port, &p))
		return PARSE_OTHER;
	*l4 = p.l4;
	if (bpf_skb_load_bytes(skb, p.l4 + sizeof(struct udphdr), h, sizeof(*h)))
		return PARSE_OTHER;
	if (bpf_ntohl(h->hdr_crc) != post_seal(bpf_ntohl(h->una), bpf_ntohl(h->psn)))
		return PARSE_OTHER;
	return 0;
}

static __always_inline int write_envelope(struct __sk_buff *skb, __u32 l4, struct mroce_hdr *h,
					  __u32 ts, const struct post_envelope *v)
{
	__be16 sport = bpf_htons((__u16)v->sport);

	h->path = (__u8)v->path;
	h->epoch = bpf_htons((__u16)v->epoch);
	h->psn = bpf_htonl(v->psn);
	h->una = bpf_htonl(v->una);
	h->ts = bpf_htonl(ts);
	h->hdr_crc = bpf_htonl(crc32c_words(h, MROCE_HDR_CRC_LEN / 4));
	/* Without a UDP checksum there is none to be mended. */
	if (bpf_skb_store_bytes(skb, l4, &sport, sizeof(sport), 0) ||
	    bpf_skb_store_bytes(skb, l4 + sizeof(struct udphdr), h, sizeof(*h), 0))
		return -MROCE_DROP_TRUNCATED;
	return 0;
}

/* 0; PARSE_OTHER: not ours and untouched; -reason: to be dropped. */
static __always_inline int post(struct __sk_buff *skb, __u16 port)
{
	__u32 ts = (__u32)(bpf_ktime_get_ns() >> TS_SHIFT), l4, slot, cookie, index;
	struct post_envelope v = {};
	struct mroce_post_conn *c;
	struct mroce_posted *r;
	struct mroce_hdr h;
	int err = read_letter(skb, port, &l4, &h);

	if (err)
		return err;
	cookie = bpf_ntohl(h.psn);
	slot = bpf_ntohl(h.una) & (MROCE_MAX_CONNS - 1);
	index = cookie & (MROCE_POSTED - 1);
	c = bpf_map_lookup_elem(&mroce_post, &slot);
	r = bpf_map_lookup_elem(&mroce_posted, &index);
	if (!c || !r)
		return -MROCE_DROP_NO_CONN;
	err = post_check(c, bpf_ntohl(h.una), cookie);
	if (err)
		return err; /* the place in mroce_posted may be somebody else's */
	err = post_take(c, bpf_ntohs(h.epoch), h.path, &v);
	post_tell(r, cookie, ts, err, &v);
	return err ? err : write_envelope(skb, l4, &h, ts, &v);
}

SEC("tc")
int mroce_tc_post(struct __sk_buff *skb)
{
	const struct mroce_bpf_config *config = config_get();
	int err = PARSE_OTHER;

	if (!config)
		return TC_ACT_UNSPEC;
	if (is_letter(skb))
		err = post(skb, config->udp_port);
	if (err < 0) {
		count(-err);
		return TC_ACT_SHOT;
	}
	if (!err) {
		skb->mark = 0;
		count(MROCE_COUNT_TX_LETTER);
	}
	if (config->mark && mark_pass(config, skb->ifindex, skb->len))
		mark(skb, config->udp_port);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
