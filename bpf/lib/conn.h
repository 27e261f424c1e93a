/* SPDX-License-Identifier: GPL-2.0 */
/* conn.h: from a checked header to its connection and to the receive state of its path. */
#ifndef CONN_H
#define CONN_H

#include "bpf_maps.h"
#include "parse.h"
#include "mroce/track.h"

/*
 * Does the sender of this type number it with a path of the receiver? ACK and NACK are about the
 * receiver's own path, and a PROBE_REPLY answers a probe on it: how many the receiver has is known
 * to its daemon alone. All other types are about a path of the sender, of which there are npaths.
 */
static __always_inline int names_own_path(__u32 type)
{
	return type == MROCE_ACK || type == MROCE_NACK || type == MROCE_PROBE_REPLY;
}

/* 0 and the connection, or -reason. */
static __always_inline int conn_find(const struct packet *p, struct mroce_conn_entry **conn)
{
	__u32 slot = p->cid & (MROCE_MAX_CONNS - 1);
	struct mroce_conn_entry *entry = bpf_map_lookup_elem(&mroce_conns, &slot);

	if (!entry || p->cid == 0 || TRACK_READ(entry->cid) != p->cid)
		return -MROCE_DROP_NO_CONN;
	if (entry->token != p->token)
		return -MROCE_DROP_TOKEN;
	if (p->path >= MROCE_MAX_PATHS)
		return -MROCE_DROP_PATH;
	if (p->path >= entry->npaths && !names_own_path(p->type))
		return -MROCE_DROP_PATH;
	*conn = entry;
	return 0;
}

/* The receive state of a packet that passed conn_find(). */
static __always_inline struct mroce_path_rx *path_find(const struct packet *p)
{
	__u32 slot = p->cid & (MROCE_MAX_CONNS - 1);
	__u32 index = slot * MROCE_MAX_PATHS + p->path;

	return bpf_map_lookup_elem(&mroce_paths, &index);
}

/* A path is in order only while it stays on one receive queue: show it if it does not. */
static __always_inline void path_queue(struct mroce_path_rx *rx, __u32 queue)
{
	if (rx->queue == queue)
		return;
	if (rx->rx_packets)
		rx->queue_moves++;
	rx->queue = queue;
}

static __always_inline struct track_packet packet_track(const struct packet *p)
{
	struct track_packet t = {
		.psn = p->psn,
		.una = p->una,
		.ts = p->ts,
		.bytes = p->payload,
		.epoch = p->epoch,
		.ce = packet_has_ce(p) || p->marked,
	};

	return t;
}

#endif
