/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * maps.h: what the BPF programs and the daemon share. Everything here lives in BPF maps that the
 * daemon maps into its memory, so a layout change must change MROCE_MAP_SCHEMA.
 */
#ifndef MROCE_MAPS_H
#define MROCE_MAPS_H

#include <linux/types.h>
#include "vqueue.h"
#include "wire.h"

#define MROCE_MAP_SCHEMA 3

/* Stands in the programs' BTF as "mroce_schema:3": a daemon that adopts a program sees whether it is of its kind. */
#define MROCE_SCHEMA_TAG "mroce_schema:"
#ifdef __bpf__
#define MROCE_TEXT_(x) #x
#define MROCE_TEXT(x) MROCE_TEXT_(x)
#define MROCE_TAGGED __attribute__((btf_decl_tag(MROCE_SCHEMA_TAG MROCE_TEXT(MROCE_MAP_SCHEMA))))
#else
#define MROCE_TAGGED
#endif

#define MROCE_MAX_CONNS 4096 /* power of two: slot = cid & (MROCE_MAX_CONNS - 1) */
#define MROCE_MAX_QUEUES 64  /* receive queues of one interface */

/* Map names (15 characters at most, so that bpftool shows them whole). */
#define MROCE_MAP_CONFIG "mroce_config" /* array[1] of struct mroce_bpf_config, mmapable */
#define MROCE_MAP_CONNS "mroce_conns"	/* array[MAX_CONNS] of struct mroce_conn_entry, mmapable */
#define MROCE_MAP_PATHS \
	"mroce_paths" /* array[MAX_CONNS * MAX_PATHS] of struct mroce_path_rx, mmapable */
#define MROCE_MAP_VQUEUES_RX "mroce_vq_rx" /* array[MAX_PORTS] of struct mroce_vqueue: XDP */
#define MROCE_MAP_VQUEUES_TX "mroce_vq_tx" /* the same: TC egress */
#define MROCE_MAP_TRACE "mroce_trace"	   /* ringbuf of struct mroce_trace_event: XDP */
#define MROCE_MAP_XSKS "mroce_xsks" /* xskmap[MAX_QUEUES], key = receive queue of the interface */
#define MROCE_MAP_COUNTERS \
	"mroce_counters" /* percpu array[MROCE_COUNTERS] of __u64, see drop_reasons.h */

struct mroce_bpf_config {
	__u32 schema;	/* MROCE_MAP_SCHEMA; set by the daemon; 0: pass everything */
	__u16 udp_port; /* host byte order */
	__u16 nack;	/* 1: pass gap-revealing packets with a note so that TC sends a NACK */
	__u32 mark;	/* 1: look at vqueue[] */
	__u32 trace;	/* connection whose packets are traced; 0: none, MROCE_TRACE_ALL: all */
	/* The ports' own addresses, IPv4 as ::ffff:a.b.c.d, unused ones zero. Packets to others are on
	 * their way through this host and none of our business. */
	struct mroce_address {
		__be32 word[4];
	} local[MROCE_MAX_PORTS];
	/* The same ports' virtual queues. */
	struct mroce_vqueue_config vqueue[MROCE_MAX_PORTS];
} MROCE_TAGGED;

/* Written by the daemon, read by BPF. The daemon writes cid last when it opens a slot and first
 * (to 0) when it closes one. */
struct mroce_conn_entry {
	__u32 cid; /* host order; 0 = free */
	__u32 token;
	__u32 peer_cid; /* what goes into ACKs */
	__u32 peer_token;
	__u32 hint;   /* rate hint for ACKs, 16-bit float in the low half; 0 = none */
	__u32 npaths; /* paths of the peer; higher path numbers are dropped */
	__u32 reserved[2];
};

/*
 * Receive state of one path, index slot * MROCE_MAX_PATHS + path. Two writers, never of one word:
 * the first two cache lines belong to the tracker (XDP, or its twin in user space), the last two
 * to the daemon. track.h has the only code that touches them and says why it is right.
 */
struct mroce_path_rx {
	/* tracker's */
	__u64 seen[MROCE_WINDOW_WORDS];
	__u32 kbase;   /* lower edge of the window of seen[]: max(base, una received) */
	__u32 highest; /* highest PSN seen or announced by POLL */
	__u32 epoch;
	__u32 rx_packets;
	__u32 rx_bytes;
	__u32 ce_bytes;
	__u32 ce_packets;
	__u32 last_ts;	 /* ts of the newest packet */
	__u32 late;	 /* below the window: came twice, or after being given up */
	__u32 duplicate; /* seen already, inside the window */
	__u32 gaps;	 /* gap-revealing packets */
	__u32 ahead;	 /* beyond the window */
	__u32 stale;	 /* of an older epoch */
	__u32 acks;	 /* ACKs and NACKs made; incremented atomically, see track_ack() */
	__u32 queue;	 /* receive queue of the last packet */
	__u32 queue_moves;
	__u32 tracker_pad[8];
	/* daemon's */
	__u64 placed[MROCE_WINDOW_WORDS];
	__u64 missed[MROCE_WINDOW_WORDS]; /* seen, but lost between XDP and the daemon, or corrupt */
	__u32 base;	      /* every PSN below is placed, or was given up by the sender */
	__u32 nack_tolerance; /* packets of reordering to allow before a hole is a loss */
	__u32 daemon_pad[14];
} __attribute__((aligned(64)));

/* Note that XDP leaves in front of a gap-revealing packet for the TC ingress program. */
struct mroce_note {
	__u32 magic; /* MROCE_NOTE_MAGIC */
	__u32 ifindex;
};
#define MROCE_NOTE_MAGIC 0x6d724e4bu /* "mrNK" */
/* skb mark by which the TC egress program knows a clone that is to become a NACK. */
#define MROCE_NACK_MARK 0x6d724e4bu

#define MROCE_TRACE_ALL 0xffffffffu
#define MROCE_TRACE_BYTES 262144 /* of the ring */
#define MROCE_TRACE_SNAP 208	 /* an ACK over IPv6 with two tags */

/* A packet that arrived, and what became of it. */
struct mroce_trace_event {
	__u64 ns; /* CLOCK_MONOTONIC */
	__u32 ifindex;
	__u32 cid;     /* that it was for */
	__s32 verdict; /* enum xdp_action, or -enum mroce_reason: dropped */
	__u32 frame_len;
	__u32 queue;
	__u32 snap; /* bytes of frame[] */
	/* As it is then: if the verdict is XDP_TX, the answer. */
	__u8 frame[MROCE_TRACE_SNAP];
};

_Static_assert(sizeof(struct mroce_trace_event) == 32 + MROCE_TRACE_SNAP, "map layout");
_Static_assert(sizeof(struct mroce_bpf_config) == 16 + 32 * MROCE_MAX_PORTS, "map layout");
_Static_assert(sizeof(struct mroce_conn_entry) == 32, "map layout");
_Static_assert(sizeof(struct mroce_path_rx) == 256, "map layout");
_Static_assert(__builtin_offsetof(struct mroce_path_rx, placed) == 128, "map layout");

#endif
