/* SPDX-License-Identifier: GPL-2.0 */
/* mark.h: the virtual queue of the interface that a packet passes. */
#ifndef MARK_H
#define MARK_H

#include "bpf_maps.h"
#include "mroce/vqueue.h"

/* Of each object its own: XDP counts what comes in, TC what goes out. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MROCE_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct mroce_vqueue);
} MARK_MAP SEC(".maps");

/* While config->mark: 1 if the queue of the interface is longer than its threshold. Every packet counts, whoever's. */
static __always_inline int mark_pass(const struct mroce_bpf_config *config, __u32 ifindex,
				     __u32 bytes)
{
	for (__u32 i = 0; i < MROCE_MAX_PORTS; i++) {
		const struct mroce_vqueue_config *c = &config->vqueue[i];
		struct mroce_vqueue *q;
		__u32 key = i;

		if (c->ifindex != ifindex || !c->rate)
			continue;
		q = bpf_map_lookup_elem(&MARK_MAP, &key);
		return q ? vqueue_pass(q, c, bpf_ktime_get_ns(), bytes + MROCE_VQUEUE_FRAME) : 0;
	}
	return 0;
}

#endif
