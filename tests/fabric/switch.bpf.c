// SPDX-License-Identifier: GPL-2.0
/*
 * The switch of the test fabric: a TC ingress program on every port. It decides where a packet
 * goes, does to it what the rules of the two ports say, and redirects it to the egress of the port,
 * where TBF queues it. Maps are found through the program by fabricctl; nothing is pinned.
 *
 * Randomness is a hash of (seed, port, direction, number of the packet), so a run repeats as far as
 * the traffic does. ARP, neighbour discovery and multicast are never impaired (only a blackhole stops
 * them): they would shift the numbering, and they are not what is tested.
 *
 * Reordering holds a copy of the packet in a map until `gap` later packets of that port have
 * gone. So that the last packet of a burst is not held for ever, a clock packet circulates between two
 * veth ends (tick0, tick1) at a rate that TBF sets to about one round per millisecond; each round
 * lets packets go whose time has come. Delay works the same way, with a ring of packets per host
 * and ten rounds per millisecond.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <stddef.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fabric.h"

char LICENSE[] SEC("license") = "GPL";

struct virtual_queue {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 free_ns; /* when the link would be idle, were nothing more to come */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_config);
} fab_config SEC(".maps");

/* ifindex -> port number + 1 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FAB_MAX_IFINDEX);
	__type(key, __u32);
	__type(value, __u32);
} fab_ifindex SEC(".maps");

/* The sizes of the maps below are set by fabricctl to the number of ports there are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_port);
} fab_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_rule);
} fab_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_rule_state);
} fab_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_counters);
} fab_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct virtual_queue);
} fab_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_slot);
} fab_slots SEC(".maps");

/* Packets on their way to a host: slots head - 1 down to tail, modulo their number. */
struct delay_ring {
	struct bpf_spin_lock lock; /* for head; only the clock packet moves tail */
	__u32 pad;
	__u64 head;
	__u64 tail;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_ring);
} fab_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fab_slot);
} fab_delay SEC(".maps");

/* What the switch knows about the packet in hand. */
struct packet {
	__u32 l3;   /* offset of the IP header */
	__u32 l4;   /* offset behind it; 0: not an IP packet */
	__u32 hash; /* of addresses and ports */
	__u8 v6;
	__u8 proto;
	__u8 has_type; /* it is to or from the transport's UDP port */
	__u8 type;
	__u8 ecn;
	__u8 exempt; /* never impaired */
};

/* What the rules decided. */
struct verdict {
	__u64 random;
	__u8 drop;
	__u8 dup;
	__u8 hold;
	__u8 ce;
};

static __always_inline __u64 mix64(__u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static __always_inline __u32 draw(__u64 *random)
{
	*random = mix64(*random);
	return *random >> 32;
}

static __always_inline bool hit(__u64 *random, __u32 probability)
{
	if (!probability)
		return false;
	return draw(random) < probability || probability == FAB_ALWAYS;
}

static __always_inline struct fab_counters *counters_of(__u32 port, __u32 dir)
{
	__u32 key = 2 * port + dir;

	return bpf_map_lookup_elem(&fab_counters, &key);
}

/* ------------------------------------------------------------------ parsing */

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

/* ------------------------------------------------------------------ damage */

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

/* ------------------------------------------------------------------ rules */

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

/* ------------------------------------------------------------------ queue and CE */

/*
 * The length of the TBF queue cannot be read from here, so it is computed: same rate, same burst,
 * same limit. Returns true if a packet of `len` bytes finds more than the marking threshold waiting.
 */
static __always_inline bool queue_above_threshold(__u32 port_nr, const struct fab_port *port,
						  __u32 len)
{
	struct virtual_queue *queue = bpf_map_lookup_elem(&fab_queues, &port_nr);
	__u64 now = bpf_ktime_get_ns(), cost = (__u64)len * port->ps_per_byte / 1000;
	__u64 burst_ns = port->burst_ns, limit_ns = port->limit_ns, ce_ns = port->ce_ns;
	__u64 free_ns, waiting;

	if (!queue)
		return false;
	bpf_spin_lock(&queue->lock);
	free_ns = queue->free_ns;
	if ((__s64)(free_ns - (now - burst_ns)) < 0)
		free_ns = now - burst_ns;
	free_ns += cost;
	waiting = (__s64)(free_ns - now) > 0 ? free_ns - now : 0;
	if (waiting <= limit_ns) /* else TBF drops it */
		queue->free_ns = free_ns;
	bpf_spin_unlock(&queue->lock);
	return ce_ns && waiting > ce_ns;
}

static __always_inline void mark_ce(struct __sk_buff *skb, struct packet *pkt,
				    struct fab_counters *count)
{
	if (!pkt->l4 || !pkt->ecn || pkt->ecn == 3)
		return;
	if (bpf_skb_ecn_set_ce(skb) != 1)
		return;
	pkt->ecn = 3;
	count->ce_marked++;
}

/* ------------------------------------------------------------------ packets kept in maps */

static __always_inline struct fab_slot *slot_of(__u32 port, __u32 i)
{
	__u32 key = port * FAB_HOLD_SLOTS + i;

	return bpf_map_lookup_elem(&fab_slots, &key);
}

static __always_inline bool slot_take(struct fab_slot *slot, __u32 was)
{
	return slot->state == was &&
	       __sync_val_compare_and_swap(&slot->state, was, FAB_SLOT_BUSY) == was;
}

static __always_inline void slot_give(struct fab_slot *slot, __u32 state)
{
	__sync_lock_test_and_set(&slot->state, state);
}

static __always_inline bool slot_fill(struct __sk_buff *skb, struct fab_slot *slot)
{
	__u32 len = skb->len;

	asm volatile("" : "+r"(len));
	if (len < ETH_HLEN || len > FAB_HOLD_BYTES)
		return false;
	slot->len = len;
	slot->queue = skb->queue_mapping;
	return !bpf_skb_load_bytes(skb, 0, slot->data, len);
}

/* Replaces the contents of the packet by those of the slot. */
static __always_inline bool slot_empty_into(struct __sk_buff *skb, struct fab_slot *slot)
{
	__u32 len = slot->len;

	asm volatile("" : "+r"(len));
	if (len < ETH_HLEN || len > FAB_HOLD_BYTES)
		return false;
	if (skb->len != len && bpf_skb_change_tail(skb, len, 0))
		return false;
	skb->queue_mapping = slot->queue;
	return !bpf_skb_store_bytes(skb, 0, slot->data, len, BPF_F_INVALIDATE_HASH);
}

/* A slot keeps bytes; what the kernel keeps beside them (segmentation, a VLAN tag) would be lost. */
static __always_inline bool is_plain(const struct __sk_buff *skb)
{
	return !skb->gso_size && !skb->vlan_present;
}

/* ------------------------------------------------------------------ delay */

static __always_inline struct fab_slot *delay_slot(__u32 port, __u64 at)
{
	__u32 key = port * FAB_DELAY_SLOTS + at % FAB_DELAY_SLOTS;

	return bpf_map_lookup_elem(&fab_delay, &key);
}

/* Puts a copy of the packet on its way; if there are too many, it is lost. */
static __noinline int delay(struct __sk_buff *skb, __u32 port, __u64 delay_ns)
{
	struct fab_counters *count = counters_of(port, FAB_TO);
	struct delay_ring *ring = bpf_map_lookup_elem(&fab_rings, &port);
	__u64 now = bpf_ktime_get_ns(), at;
	struct fab_slot *slot;
	bool full;

	if (!count || !ring)
		return 0;
	bpf_spin_lock(&ring->lock);
	at = ring->head;
	full = at - ring->tail >= FAB_DELAY_SLOTS;
	if (!full)
		ring->head = at + 1;
	bpf_spin_unlock(&ring->lock);
	slot = full ? NULL : delay_slot(port, at);
	if (!slot) {
		count->delay_dropped++;
		return 0;
	}
	slot->due_ns = now + delay_ns;
	if (slot_fill(skb, slot)) {
		count->delayed++;
		slot_give(slot, FAB_SLOT_HELD);
	} else {
		count->delay_dropped++;
		slot_give(slot, FAB_SLOT_BUSY); /* to be skipped */
	}
	return 0;
}

/* Sends a copy, now or later. */
static __noinline int emit_copy(struct __sk_buff *skb, __u32 port)
{
	const struct fab_port *out = bpf_map_lookup_elem(&fab_ports, &port);

	if (!out)
		return 0;
	if (out->delay_ns && is_plain(skb))
		delay(skb, port, out->delay_ns);
	else
		bpf_clone_redirect(skb, out->ifindex, 0);
	return 0;
}

struct tick_loop {
	struct __sk_buff *skb;
	__u64 now;
	__u32 port;
	bool all;
};

/* Sends the oldest packet on its way to a host, if it is time. Returns 1 if it is not. */
static long arrive_one(__u32 i __attribute__((unused)), struct tick_loop *loop)
{
	__u32 port = loop->port;
	const struct fab_port *out = bpf_map_lookup_elem(&fab_ports, &port);
	struct delay_ring *ring = bpf_map_lookup_elem(&fab_rings, &port);
	struct fab_slot *slot;
	__u32 state;

	if (!ring || !out || ring->tail == ring->head)
		return 1;
	slot = delay_slot(port, ring->tail);
	if (!slot)
		return 1;
	state = slot->state;
	if (state == FAB_SLOT_FREE) /* still being filled */
		return 1;
	if (state == FAB_SLOT_HELD && !loop->all && loop->now < slot->due_ns)
		return 1;
	if (state == FAB_SLOT_HELD && slot_empty_into(loop->skb, slot))
		bpf_clone_redirect(loop->skb, out->ifindex, 0);
	slot_give(slot, FAB_SLOT_FREE);
	ring->tail++;
	return 0;
}

static long arrive(__u32 port, struct tick_loop *loop)
{
	loop->port = port;
	bpf_loop(FAB_DELAY_SLOTS, arrive_one, loop, 0);
	return 0;
}

/* ------------------------------------------------------------------ reordering */

/* Returns 1 if the packet is now in a slot, and must not be sent. */
static __noinline int hold_back(struct __sk_buff *skb, __u32 port, __u64 due_count, __u64 due_ns)
{
	struct fab_counters *count = counters_of(port, FAB_TO);
	struct fab_slot *slot;
	__u32 i;

	if (!count)
		return 0;
	for (i = 0; i < FAB_HOLD_SLOTS && is_plain(skb); i++) {
		slot = slot_of(port, i);
		if (!slot)
			return 0;
		if (!slot_take(slot, FAB_SLOT_FREE))
			continue;
		if (!slot_fill(skb, slot)) {
			slot_give(slot, FAB_SLOT_FREE);
			return 0;
		}
		slot->due_count = due_count;
		slot->due_ns = due_ns;
		slot_give(slot, FAB_SLOT_HELD);
		count->held++;
		return 1;
	}
	count->hold_full++;
	return 0;
}

/*
 * Sends the packet, then each held packet whose turn has come, in its own right: the frame is sent
 * as a clone and its contents are replaced, over and over. The last one is left in the frame.
 */
static __noinline int release_by_count(struct __sk_buff *skb, __u32 port, __u64 count_now)
{
	struct fab_counters *count = counters_of(port, FAB_TO);
	struct fab_slot *slot;
	__u32 i;

	if (!count || !is_plain(skb))
		return 0;
	for (i = 0; i < FAB_HOLD_SLOTS; i++) {
		slot = slot_of(port, i);
		if (!slot)
			return 0;
		if (slot->state != FAB_SLOT_HELD || count_now < slot->due_count)
			continue;
		if (!slot_take(slot, FAB_SLOT_HELD))
			continue;
		emit_copy(skb, port);
		if (!slot_empty_into(skb, slot)) {
			slot_give(slot, FAB_SLOT_HELD);
			return 1; /* the packet itself has gone already */
		}
		slot_give(slot, FAB_SLOT_FREE);
		count->released++;
	}
	return 0;
}

static long release_by_time(__u32 port, struct tick_loop *loop)
{
	struct fab_counters *count = counters_of(port, FAB_TO);
	struct fab_slot *slot;
	__u32 i;

	if (!count)
		return 1;
	for (i = 0; i < FAB_HOLD_SLOTS; i++) {
		slot = slot_of(port, i);
		if (!slot)
			return 1;
		if (slot->state != FAB_SLOT_HELD || (!loop->all && loop->now < slot->due_ns))
			continue;
		if (!slot_take(slot, FAB_SLOT_HELD))
			continue;
		if (!slot_empty_into(loop->skb, slot)) {
			slot_give(slot, FAB_SLOT_HELD);
			return 1;
		}
		slot_give(slot, FAB_SLOT_FREE);
		count->released++;
		count->released_by_time++;
		emit_copy(loop->skb, port);
	}
	return 0;
}

/* ------------------------------------------------------------------ forwarding */

static __always_inline __u32 leaf_of(const struct fab_config *cfg, __u32 host)
{
	__u32 leaves = cfg->leaves ? cfg->leaves : 1;

	return host / ((cfg->hosts + leaves - 1) / leaves);
}

static __always_inline __u32 spine_for(const struct fab_config *cfg, __u32 hash)
{
	return cfg->spines ? (__u32)mix64((__u64)hash << 32 | cfg->ecmp_salt) % cfg->spines : 0;
}

static __always_inline __u32 uplink(const struct fab_config *cfg, __u32 leaf, __u32 spine)
{
	return cfg->hosts + leaf * cfg->spines + spine;
}

static __always_inline __u32 downlink(const struct fab_config *cfg, __u32 spine, __u32 leaf)
{
	return cfg->hosts + cfg->leaves * cfg->spines + spine * cfg->leaves + leaf;
}

/* Interface addresses are 02:00:00:<plane>:00:<host>. Returns the host from 0, or -1. */
static __always_inline int host_of_mac(const struct fab_config *cfg, const __u8 *mac)
{
	if (mac[0] != 2 || mac[1] || mac[2] || mac[3] != (__u8)cfg->plane || mac[4])
		return -1;
	if (!mac[5] || mac[5] > cfg->hosts)
		return -1;
	return mac[5] - 1;
}

static __always_inline __u32 route(const struct fab_config *cfg, const struct fab_port *in,
				   __u32 host, __u32 hash)
{
	__u32 leaf = leaf_of(cfg, host);

	switch (in->kind) {
	case FAB_DOWNLINK: return downlink(cfg, in->spine, leaf);
	case FAB_EDGE:
		if (leaf != in->leaf)
			return uplink(cfg, in->leaf, spine_for(cfg, hash));
		break;
	case FAB_UPLINK: break;
	}
	return host;
}

/* True if a packet to everybody that came in by `in` leaves by `out`. No path leads back. */
static __always_inline bool floods(const struct fab_port *in, const struct fab_port *out,
				   __u32 spine)
{
	if (!out->ifindex || out->ifindex == in->ifindex)
		return false;
	if (in->kind == FAB_DOWNLINK)
		return out->kind == FAB_DOWNLINK && out->spine == in->spine;
	if (out->leaf != in->leaf)
		return false;
	if (out->kind == FAB_EDGE)
		return true;
	return in->kind == FAB_EDGE && out->kind == FAB_UPLINK && out->spine == spine;
}

static __noinline int flood_to(struct __sk_buff *skb, __u32 port, __u32 ifindex)
{
	__u32 key = 2 * port + FAB_TO;
	const struct fab_rule *rule = bpf_map_lookup_elem(&fab_rules, &key);
	struct fab_counters *count = counters_of(port, FAB_TO);

	if (!rule || !count)
		return 0;
	if (rule->flags & FAB_RULE_BLACKHOLE) {
		count->blackholed++;
		return 0;
	}
	count->packets++;
	count->bytes += skb->len;
	count->flooded++;
	bpf_clone_redirect(skb, ifindex, 0);
	return 0;
}

struct flood_loop {
	struct __sk_buff *skb;
	const struct fab_port *in;
	__u32 spine;
};

static long flood_one(__u32 nr, struct flood_loop *loop)
{
	const struct fab_port *out = bpf_map_lookup_elem(&fab_ports, &nr);

	if (out && floods(loop->in, out, loop->spine))
		flood_to(loop->skb, nr, out->ifindex);
	return 0;
}

static __always_inline int flood(struct __sk_buff *skb, const struct fab_config *cfg,
				 const struct fab_port *in, __u32 hash)
{
	struct flood_loop loop = { .skb = skb, .in = in, .spine = spine_for(cfg, hash) };

	bpf_loop(cfg->ports, flood_one, &loop, 0);
	return TC_ACT_SHOT;
}

static __always_inline int send_to(struct __sk_buff *skb, const struct fab_config *cfg,
				   struct packet *pkt, struct verdict *v, __u32 nr)
{
	const struct fab_port *out = bpf_map_lookup_elem(&fab_ports, &nr);
	struct fab_counters *count = counters_of(nr, FAB_TO);
	__u32 rule_key = 2 * nr + FAB_TO;
	struct fab_rule_state *state = bpf_map_lookup_elem(&fab_states, &rule_key);
	__u64 seen;

	if (!out || !count || !state || !out->ifindex)
		return TC_ACT_SHOT;
	apply_rule(skb, pkt, rule_key, v);
	if (v->drop)
		return TC_ACT_SHOT;
	if (out->ps_per_byte && queue_above_threshold(nr, out, skb->len))
		v->ce = 1;
	if (v->ce)
		mark_ce(skb, pkt, count);
	count->packets++;
	count->bytes += skb->len;
	if (cfg->queues > 1) /* as a NIC spreads flows over its receive queues */
		skb->queue_mapping = 1 + pkt->hash % cfg->queues;
	if (v->dup)
		emit_copy(skb, nr);
	if (!cfg->tick_generation)
		return bpf_redirect(out->ifindex, 0);

	seen = state->packets;
	if (v->hold && hold_back(skb, nr, seen + v->hold, bpf_ktime_get_ns() + cfg->hold_ns))
		return TC_ACT_SHOT;
	if (release_by_count(skb, nr, seen))
		return TC_ACT_SHOT;
	if (!out->delay_ns || !is_plain(skb))
		return bpf_redirect(out->ifindex, 0);
	emit_copy(skb, nr);
	return TC_ACT_SHOT;
}

SEC("tc")
int fab_switch(struct __sk_buff *skb)
{
	__u32 zero = 0, ifindex = skb->ifindex, in_nr, *entry;
	const struct fab_config *cfg = bpf_map_lookup_elem(&fab_config, &zero);
	const struct fab_port *in;
	struct fab_counters *count;
	struct packet pkt = {};
	struct verdict v = {};
	struct ethhdr eth;
	int host;

	entry = bpf_map_lookup_elem(&fab_ifindex, &ifindex);
	if (!cfg || !entry || !*entry || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return TC_ACT_SHOT;
	in_nr = *entry - 1;
	in = bpf_map_lookup_elem(&fab_ports, &in_nr);
	count = counters_of(in_nr, FAB_FROM);
	if (!in || !count)
		return TC_ACT_SHOT;
	count->packets++;
	count->bytes += skb->len;

	parse(skb, cfg, &eth, &pkt);
	apply_rule(skb, &pkt, 2 * in_nr + FAB_FROM, &v);
	if (v.drop)
		return TC_ACT_SHOT;
	host = host_of_mac(cfg, eth.h_dest);
	if (host < 0)
		return flood(skb, cfg, in, pkt.hash);
	return send_to(skb, cfg, &pkt, &v, route(cfg, in, host, pkt.hash));
}

/* The clock packet has come round. */
SEC("tc")
int fab_tick(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct fab_config *cfg = bpf_map_lookup_elem(&fab_config, &zero);
	struct tick_loop loop = { .skb = skb, .now = bpf_ktime_get_ns() };
	struct fab_tick tick;
	bool ends;

	if (!cfg || bpf_skb_load_bytes(skb, 0, &tick, sizeof(tick)))
		return TC_ACT_SHOT;
	if (tick.proto != bpf_htons(FAB_TICK_PROTO))
		return TC_ACT_SHOT;
	ends = tick.generation != cfg->tick_generation;
	if (ends && cfg->tick_generation) /* a younger one is on its way */
		return TC_ACT_SHOT;
	loop.all = ends;
	bpf_loop(cfg->ports, release_by_time, &loop, 0);
	if (cfg->has_delay)
		bpf_loop(cfg->hosts, arrive, &loop, 0);
	if (ends || bpf_skb_change_tail(skb, FAB_TICK_BYTES, 0) ||
	    bpf_skb_store_bytes(skb, 0, &tick, sizeof(tick), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(cfg->tick_ifindex, 0);
}

/* Lets what a host sends by XDP_TX or redirect enter: veth drops it at a port without a program. */
SEC("xdp.frags")
int fab_pass(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_PASS;
}
