// SPDX-License-Identifier: GPL-2.0
/*
 * mroce_tc: NACKs. XDP finds the gap but cannot clone; so it puts a note in front of the packet and
 * passes it. The ingress program sends a marked clone out of the same interface and lets the original
 * go on to the daemon's UDP socket; the egress program makes the clone into the NACK.
 *
 * A VLAN tag that the stack has moved to skb->vlan_tci on receipt stays there in the clone, and is put
 * back by the device on transmission; a tag still in the data is skipped by the parser.
 *
 * The marked clone passes the egress hook nested in the ingress program, on the same CPU.
 */
#include <linux/pkt_cls.h>
#define MARK_MAP mroce_vq_tx
#include "bpf_maps.h"
#include "count.h"
#include "mark.h"
#include "set_ce.h"
#include "nack.h"

/* Did XDP put its note in front? Other XDP programs use the same place: look at the magic number. */
static __always_inline int has_note(struct __sk_buff *skb)
{
	struct mroce_note *note = (void *)(long)skb->data_meta;

	if ((void *)(note + 1) > skb_start(skb))
		return 0;
	return note->magic == MROCE_NOTE_MAGIC && note->ifindex == skb->ifindex;
}

SEC("tc")
int mroce_tc_ingress(struct __sk_buff *skb)
{
	const struct mroce_bpf_config *config;
	struct packet p = {};
	__u32 mark;

	if (!has_note(skb))
		return TC_ACT_UNSPEC;
	config = config_get();
	if (!config || parse_udp(skb_start(skb), skb_end(skb), config->udp_port, &p))
		return TC_ACT_UNSPEC;
	mark = skb->mark;
	skb->mark = MROCE_NACK_MARK;
	/* Positive results mean that the clone was made and dropped on its way: as if the network
	 * had lost it, or counted by the egress program. */
	if (bpf_clone_redirect(skb, skb->ifindex, 0) < 0)
		count(MROCE_COUNT_NACK_FAILED);
	skb->mark = mark;
	return TC_ACT_UNSPEC;
}

/* A clone leaves where it came in. What the host itself sends has no ingress interface. */
static __always_inline int is_clone(struct __sk_buff *skb)
{
	return skb->mark == MROCE_NACK_MARK && skb->ingress_ifindex == skb->ifindex;
}

/* 0; PARSE_OTHER: not ours and untouched; negative: ours, but no NACK can be made of it. */
static __always_inline int rewrite(struct __sk_buff *skb, __u16 port)
{
	__u32 headers = skb->len < HEADERS_MAX ? skb->len : HEADERS_MAX;
	struct mroce_conn_entry *conn;
	struct mroce_path_rx *rx;
	struct packet p = {};
	int err;

	if (bpf_skb_pull_data(skb, headers))
		return PARSE_OTHER;
	err = parse_udp(skb_start(skb), skb_end(skb), port, &p);
	if (err)
		return err;
	err = parse_header(skb_start(skb), skb_end(skb), skb->len, &p);
	if (err)
		return err;
	err = conn_find(&p, &conn);
	if (err)
		return err;
	rx = path_find(&p);
	if (!rx)
		return -MROCE_DROP_PATH;
	return nack_write(skb, &p, conn, rx);
}

/*
 * A clone that cannot become a NACK is dropped: it is somebody else's data packet, and must not go back
 * onto the wire.
 */
SEC("tc")
int mroce_tc_egress(struct __sk_buff *skb)
{
	const struct mroce_bpf_config *config = config_get();
	int err;

	if (!config)
		return TC_ACT_UNSPEC;
	if (!is_clone(skb)) {
		if (config->mark && mark_pass(config, skb->ifindex, skb->len))
			mark(skb, config->udp_port);
		return TC_ACT_UNSPEC;
	}
	err = rewrite(skb, config->udp_port);
	if (err == PARSE_OTHER)
		return TC_ACT_UNSPEC;
	skb->mark = 0;
	if (err) {
		count(MROCE_COUNT_NACK_FAILED);
		return TC_ACT_SHOT;
	}
	count(MROCE_COUNT_TX_NACK);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
