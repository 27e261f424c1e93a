/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The switch: what the rules of a port do to a packet.
 */
#ifndef MROCE_TESTS_FABRIC_SWITCH_RULES_H
#define MROCE_TESTS_FABRIC_SWITCH_RULES_H

#include "switch_maps.h"

/* Flips one to three bits behind the IP header, so that the packet still reaches the host. */
static __noinline int corrupt(struct __sk_buff *skb, __u32 from, __u64 random)
{
	__u32 room = skb->len - from, at, flips, i;
	__u8 byte;

	if (from >= skb->len)
		return 0;
	flips = 1 + draw(&random) % 3;
	for (i = 0; i < 3; i++) {
		if (i >= flips)
			break;
		at = from + draw(&random) % room;
		if (bpf_skb_load_bytes(skb, at, &byte, 1))
			return 0;
		byte ^= 1 << (draw(&random) & 7);
		if (bpf_skb_store_bytes(skb, at, &byte, 1, 0))
			return 0;
	}
	return 1;
}

/* Makes IP and UDP lengths agree with a shortened packet. */
static __always_inline void mend_lengths(struct __sk_buff *skb, const struct packet *pkt, __u32 len)
{
	__be16 was, now;

	if (pkt->v6) {
		now = bpf_htons(len - pkt->l4);
		bpf_skb_store_bytes(skb, pkt->l3 + offsetof(struct ipv6hdr, payload_len), &now, 2,
				    0);
	} else {
		now = bpf_htons(len - pkt->l3);
		if (bpf_skb_load_bytes(skb, pkt->l3 + offsetof(struct iphdr, tot_len), &was, 2))
			return;
		bpf_l3_csum_replace(skb, pkt->l3 + offsetof(struct iphdr, check), was, now, 2);
		bpf_skb_store_bytes(skb, pkt->l3 + offsetof(struct iphdr, tot_len), &now, 2, 0);
	}
	if (pkt->proto != IPPROTO_UDP || len < pkt->l4 + sizeof(struct udphdr))
		return;
	now = bpf_htons(len - pkt->l4);
	bpf_skb_store_bytes(skb, pkt->l4 + offsetof(struct udphdr, len), &now, 2, 0);
}

/*
 * Cuts the packet off somewhere behind its IP header. Half of the time the lengths in the headers
 * are left as they were (a receiver must notice), half of the time they are made to agree (the
 * kernel then lets it through to the socket).
 */
static __noinline int cut_tail(struct __sk_buff *skb, const struct packet *pkt, __u64 random)
{
	__u32 len;

	if (!pkt || pkt->l4 >= skb->len)
		return 0;
	len = pkt->l4 + draw(&random) % (skb->len - pkt->l4);
	if (bpf_skb_change_tail(skb, len, 0))
		return 0;
	if (draw(&random) & 1)
		mend_lengths(skb, pkt, len);
	return 1;
}

static __always_inline bool loses(const struct fab_rule *rule, struct fab_rule_state *state,
				  struct fab_counters *count, __u64 *random)
{
	if (!(rule->flags & FAB_RULE_BURST)) {
		if (!hit(random, rule->loss))
			return false;
		count->lost++;
		return true;
	}
	if (hit(random, state->bad ? rule->burst_r : rule->burst_p))
		state->bad = !state->bad;
	if (!state->bad)
		return false;
	count->lost_burst++;
	return true;
}

static __always_inline bool rule_matches(const struct fab_rule *rule, const struct packet *pkt)
{
	if (pkt->exempt)
		return false;
	if (!rule->only_types)
		return true;
	return pkt->has_type && pkt->type < 64 && (rule->only_types >> pkt->type & 1);
}

static __noinline int apply_rule(struct __sk_buff *skb, const struct packet *pkt, __u32 key,
				 struct verdict *v)
{
	const struct fab_rule *rule = bpf_map_lookup_elem(&fab_rules, &key);
	struct fab_rule_state *state = bpf_map_lookup_elem(&fab_states, &key);
	struct fab_counters *count = bpf_map_lookup_elem(&fab_counters, &key);
	__u32 zero = 0;
	const struct fab_config *cfg = bpf_map_lookup_elem(&fab_config, &zero);
	__u64 random;

	if (!pkt || !v || !rule || !state || !count || !cfg)
		return 0;
	if (rule->flags & FAB_RULE_BLACKHOLE) {
		count->blackholed++;
		v->drop = 1;
		return 0;
	}
	if (!rule_matches(rule, pkt))
		return 0;
	random = mix64(cfg->seed ^ mix64((__u64)cfg->plane << 32 | key)) +
		 __sync_fetch_and_add(&state->packets, 1) * 0xd1342543de82ef95ULL;
	if (loses(rule, state, count, &random)) {
		v->drop = 1;
		return 0;
	}
	if (hit(&random, rule->corrupt) && corrupt(skb, pkt->l4, random))
		count->corrupted++;
	if (hit(&random, rule->truncate) && cut_tail(skb, pkt, random))
		count->truncated++;
	if (hit(&random, rule->ce))
		v->ce = 1;
	if (hit(&random, rule->dup)) {
		v->dup = 1;
		count->duplicated++;
	}
	if (hit(&random, rule->reorder))
		v->hold = rule->reorder_gap > 255 ? 255 : rule->reorder_gap;
	return 0;
}

#endif
