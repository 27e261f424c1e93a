/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The switch: packets that are kept in maps for a while. See switch.bpf.c for the idea.
 */
#ifndef MROCE_TESTS_FABRIC_SWITCH_KEEP_H
#define MROCE_TESTS_FABRIC_SWITCH_KEEP_H

#include "switch_maps.h"

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

#endif
