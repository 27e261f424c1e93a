// SPDX-License-Identifier: BSD-2-Clause
/* The layouts in the objects' BTF, that is what the BPF programs use, against those of this compiler. */
#include "bpf_test.h"
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <mroce/post.h>
#include <string.h>
#include "mroce_post.skel.h"

struct field {
	const char *type, *name;
	uint32_t offset;
};

#define FIELD(type, name)                                 \
	{                                                 \
#type, #name, offsetof(struct type, name) \
	}

static const struct field fields[] = {
	FIELD(mroce_bpf_config, schema),
	FIELD(mroce_bpf_config, udp_port),
	FIELD(mroce_bpf_config, nack),
	FIELD(mroce_bpf_config, trace),
	FIELD(mroce_bpf_config, mark),
	FIELD(mroce_bpf_config, local),
	FIELD(mroce_bpf_config, vqueue),
	FIELD(mroce_vqueue_config, ifindex),
	FIELD(mroce_vqueue_config, rate),
	FIELD(mroce_vqueue_config, shift),
	FIELD(mroce_vqueue_config, threshold),
	FIELD(mroce_vqueue, last),
	FIELD(mroce_vqueue, backlog),
	FIELD(mroce_vqueue, marked),
	FIELD(mroce_vqueue, reserved),
	FIELD(mroce_conn_entry, cid),
	FIELD(mroce_conn_entry, token),
	FIELD(mroce_conn_entry, peer_cid),
	FIELD(mroce_conn_entry, peer_token),
	FIELD(mroce_conn_entry, hint),
	FIELD(mroce_conn_entry, npaths),
	FIELD(mroce_conn_entry, reserved),
	FIELD(mroce_path_rx, seen),
	FIELD(mroce_path_rx, kbase),
	FIELD(mroce_path_rx, highest),
	FIELD(mroce_path_rx, epoch),
	FIELD(mroce_path_rx, rx_packets),
	FIELD(mroce_path_rx, rx_bytes),
	FIELD(mroce_path_rx, ce_bytes),
	FIELD(mroce_path_rx, ce_packets),
	FIELD(mroce_path_rx, last_ts),
	FIELD(mroce_path_rx, late),
	FIELD(mroce_path_rx, duplicate),
	FIELD(mroce_path_rx, gaps),
	FIELD(mroce_path_rx, ahead),
	FIELD(mroce_path_rx, stale),
	FIELD(mroce_path_rx, acks),
	FIELD(mroce_path_rx, queue),
	FIELD(mroce_path_rx, queue_moves),
	FIELD(mroce_path_rx, tracker_pad),
	FIELD(mroce_path_rx, placed),
	FIELD(mroce_path_rx, missed),
	FIELD(mroce_path_rx, base),
	FIELD(mroce_path_rx, nack_tolerance),
	FIELD(mroce_path_rx, daemon_pad),
	FIELD(mroce_post_path, next),
	FIELD(mroce_post_path, una),
	FIELD(mroce_post_path, flown),
	FIELD(mroce_post_path, cwnd),
	FIELD(mroce_post_path, window),
	FIELD(mroce_post_path, epoch),
	FIELD(mroce_post_path, sport),
	FIELD(mroce_post_path, reserved),
	FIELD(mroce_post_conn, cid),
	FIELD(mroce_post_conn, first),
	FIELD(mroce_post_conn, turn),
	FIELD(mroce_post_conn, reserved),
	FIELD(mroce_post_conn, path),
	FIELD(mroce_posted, cookie),
	FIELD(mroce_posted, psn),
	FIELD(mroce_posted, ts),
	FIELD(mroce_posted, path),
	FIELD(mroce_posted, reason),
	FIELD(mroce_posted, epoch),
};

struct type {
	const char *type;
	uint32_t size;
};

static const struct type types[] = {
	{ "mroce_bpf_config", sizeof(struct mroce_bpf_config) },
	{ "mroce_conn_entry", sizeof(struct mroce_conn_entry) },
	{ "mroce_path_rx", sizeof(struct mroce_path_rx) },
	{ "mroce_vqueue_config", sizeof(struct mroce_vqueue_config) },
	{ "mroce_vqueue", sizeof(struct mroce_vqueue) },
};

static const struct type post_types[] = {
	{ "mroce_bpf_config", sizeof(struct mroce_bpf_config) },
	{ "mroce_post_path", sizeof(struct mroce_post_path) },
	{ "mroce_post_conn", sizeof(struct mroce_post_conn) },
	{ "mroce_posted", sizeof(struct mroce_posted) },
};

static const struct btf_type *find(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	return id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
}

static bool field_agrees(const struct btf *btf, const struct field *f)
{
	const struct btf_type *t = find(btf, f->type);
	const struct btf_member *m;

	if (!t)
		return false;
	m = btf_members(t);
	for (uint32_t i = 0; i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, m[i].name_off), f->name))
			return btf_member_bit_offset(t, i) == f->offset * 8;
	return false;
}

static uint32_t members_listed(const char *type)
{
	uint32_t n = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		n += !strcmp(fields[i].type, type);
	return n;
}

static void compare(const struct btf *btf, const char *object, const struct type *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct btf_type *t = find(btf, list[i].type);
		bool good = t && t->size == list[i].size &&
			    btf_vlen(t) == members_listed(list[i].type);

		for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
			if (!strcmp(fields[k].type, list[i].type))
				good = good && field_agrees(btf, &fields[k]);
		tap(good, "layout: struct %s in %s", list[i].type, object);
	}
}

#define COMPARE(object, name, list) \
	compare(bpf_object__btf(object), name, list, sizeof(list) / sizeof((list)[0]))

static void check_map(const struct bpf_map *map, uint32_t type, uint32_t entries, uint32_t value,
		      uint32_t flags)
{
	tap(bpf_map__type(map) == type && bpf_map__max_entries(map) == entries &&
		    bpf_map__value_size(map) == value && bpf_map__map_flags(map) == flags &&
		    bpf_map__key_size(map) == 4 &&
		    (type == BPF_MAP_TYPE_XSKMAP || bpf_map__btf_value_type_id(map)),
	    "layout: map %s", bpf_map__name(map));
}

/* Opened only: BTF is in the file. */
static void compare_post(void)
{
	struct mroce_post *post = mroce_post__open();

	if (!tap(post != NULL, "layout: mroce_post opens"))
		return;
	COMPARE(post->obj, "mroce_post", post_types);
	check_map(post->maps.mroce_post, BPF_MAP_TYPE_ARRAY, MROCE_MAX_CONNS,
		  sizeof(struct mroce_post_conn), BPF_F_MMAPABLE);
	check_map(post->maps.mroce_posted, BPF_MAP_TYPE_ARRAY, MROCE_POSTED,
		  sizeof(struct mroce_posted), BPF_F_MMAPABLE);
	mroce_post__destroy(post);
}

void test_layout(struct bed *bed)
{
	COMPARE(bed->xdp->obj, "mroce_xdp", types);
	COMPARE(bed->tc->obj, "mroce_tc", types);
	check_map(bed->xdp->maps.mroce_config, BPF_MAP_TYPE_ARRAY, 1,
		  sizeof(struct mroce_bpf_config), BPF_F_MMAPABLE);
	check_map(bed->xdp->maps.mroce_conns, BPF_MAP_TYPE_ARRAY, MROCE_MAX_CONNS,
		  sizeof(struct mroce_conn_entry), BPF_F_MMAPABLE);
	check_map(bed->xdp->maps.mroce_paths, BPF_MAP_TYPE_ARRAY, MROCE_MAX_CONNS * MROCE_MAX_PATHS,
		  sizeof(struct mroce_path_rx), BPF_F_MMAPABLE);
	check_map(bed->xdp->maps.mroce_counters, BPF_MAP_TYPE_PERCPU_ARRAY, MROCE_COUNTERS, 8, 0);
	check_map(bed->xdp->maps.mroce_xsks, BPF_MAP_TYPE_XSKMAP, MROCE_MAX_QUEUES, 4, 0);
	compare_post();
}
