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
#include "switch_keep.h"
#include "switch_maps.h"
#include "switch_parse.h"
#include "switch_rules.h"

char LICENSE[] SEC("license") = "GPL";

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
