/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bpf_maps.h: the maps that the XDP and the TC programs share. The loader gives both objects the
 * same maps by name. Values carry their types, so that `bpftool map dump` prints field names.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "mroce/maps.h"
#include "mroce/drop_reasons.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mroce_bpf_config);
} mroce_config SEC(".maps");

/* Programs that only send have no use for them. */
#ifndef BPF_MAPS_SENDING
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MROCE_MAX_CONNS);
	__type(key, __u32);
	__type(value, struct mroce_conn_entry);
} mroce_conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MROCE_MAX_CONNS *MROCE_MAX_PATHS);
	__type(key, __u32);
	__type(value, struct mroce_path_rx);
} mroce_paths SEC(".maps");
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MROCE_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} mroce_counters SEC(".maps");

/* The configuration, or NULL while no daemon of this layout has written one: touch nothing then. */
static __always_inline const struct mroce_bpf_config *config_get(void)
{
	__u32 zero = 0;
	const struct mroce_bpf_config *config = bpf_map_lookup_elem(&mroce_config, &zero);

	return config && config->schema == MROCE_MAP_SCHEMA ? config : NULL;
}

#endif
