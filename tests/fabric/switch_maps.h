/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The switch: its maps, and what it knows and decides about a packet.
 */
#ifndef MROCE_TESTS_FABRIC_SWITCH_MAPS_H
#define MROCE_TESTS_FABRIC_SWITCH_MAPS_H

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

#endif
