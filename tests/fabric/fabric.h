/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * The test fabric's contract between the switch program (switch.bpf.c) and its control tool
 * (fabricctl.c): one plane is one network namespace holding one switch, or one leaf-spine network.
 *
 * Ports are numbered so that no table has to be searched:
 *	0 .. hosts-1				edge port of host 1 .. hosts
 *	hosts + leaf * spines + spine		leaf's uplink to a spine
 *	hosts + leaves * spines + spine * leaves + leaf		spine's port to a leaf
 * Every port has two rules: [2 * port + FAB_FROM] for packets that enter the switch by it, and
 * [2 * port + FAB_TO] for packets that leave by it.
 */
#ifndef MROCE_TESTS_FABRIC_H
#define MROCE_TESTS_FABRIC_H

#include <linux/types.h>

#define FAB_MAX_HOSTS 200
#define FAB_MAX_LEAVES 16
#define FAB_MAX_SPINES 16
#define FAB_MAX_PORTS (FAB_MAX_HOSTS + 2 * FAB_MAX_LEAVES * FAB_MAX_SPINES)
#define FAB_MAX_IFINDEX 4096 /* interface numbers start at 1 in every namespace */

#define FAB_HOLD_SLOTS 16    /* packets one port may hold back at a time */
#define FAB_DELAY_SLOTS 1024 /* packets on their way to one host, where a delay was asked for */
#define FAB_HOLD_BYTES 9216  /* a larger frame is never held */

#define FAB_TICK_BYTES 1014   /* the clock packet, see switch.bpf.c */
#define FAB_TICK_PROTO 0x88b5 /* IEEE local experimental EtherType */

enum fab_dir {
	FAB_FROM,
	FAB_TO,
	FAB_DIRS,
};

enum fab_port_kind {
	FAB_EDGE,     /* to a host */
	FAB_UPLINK,   /* leaf, to a spine */
	FAB_DOWNLINK, /* spine, to a leaf */
};

/* A probability p is stored as p * 2^32; FAB_ALWAYS is exactly 1. */
#define FAB_ALWAYS 0xffffffffU

#define FAB_RULE_BLACKHOLE 1U /* drop everything, silently */
#define FAB_RULE_BURST 2U     /* Gilbert-Elliott instead of independent loss */

struct fab_rule {
	__u64 only_types; /* bit t: impair packets of type t; 0: all packets */
	__u32 flags;	  /* FAB_RULE_* */
	__u32 loss;
	__u32 burst_p; /* good -> bad, per packet */
	__u32 burst_r; /* bad -> good, per packet; in the bad state everything is lost */
	__u32 dup;
	__u32 corrupt;
	__u32 truncate;
	__u32 reorder;
	__u32 reorder_gap; /* packets that overtake a held one */
	__u32 ce;
};

struct fab_rule_state {
	__u64 packets; /* packets the rule has looked at; drives the random numbers */
	__u32 bad;     /* Gilbert-Elliott state */
	__u32 pad;
};

struct fab_port {
	__u32 ifindex;	   /* 0: no such port */
	__u32 kind;	   /* enum fab_port_kind */
	__u32 leaf;	   /* leaf (edge, uplink: own; downlink: the other end), from 0 */
	__u32 spine;	   /* from 0; 0 for edge ports */
	__u32 ps_per_byte; /* link speed in picoseconds; 0: no rate limit */
	__u32 pad;
	__u64 rate;  /* the same as it was asked for, bit/s; the program does not read this */
	__u64 limit; /* likewise, bytes */
	__u64 ce_threshold; /* likewise, bytes */
	__u64 burst_ns;	    /* what TBF lets pass without waiting */
	__u64 limit_ns;	    /* queue size in time */
	__u64 ce_ns;	    /* mark CE when the queue is longer; 0: never */
	__u64 delay_ns;	    /* edge ports: a packet is on its way to the host for so long */
};

struct fab_config {
	__u64 seed;
	__u32 plane;
	__u32 hosts;
	__u32 leaves; /* 1 without leaf-spine */
	__u32 spines; /* 0 without leaf-spine */
	__u32 ports;
	__u32 queues;	/* receive queues of a host interface */
	__u32 udp_port; /* where only_types looks for packet types */
	__u32 ecmp_salt;
	__u32 tick_ifindex;    /* where the clock packet is sent again */
	__u32 tick_generation; /* clock packets of another generation end; 0: none runs */
	__u32 hold_ns;	       /* a held packet waits no longer than about this */
	__u32 has_delay;       /* there is memory for packets on their way */
};

struct fab_counters {
	__u64 packets;
	__u64 bytes;
	__u64 lost; /* independent loss */
	__u64 lost_burst;
	__u64 blackholed;
	__u64 duplicated;
	__u64 corrupted;
	__u64 truncated;
	__u64 held;		/* held back to be overtaken */
	__u64 released;		/* let go again: == held once all is quiet */
	__u64 released_by_time; /* of these, because too few packets followed */
	__u64 hold_full;	/* chosen, but not held: no slot free, or not a plain packet */
	__u64 ce_marked;
	__u64 delayed;
	__u64 delay_dropped; /* too many packets were on their way already */
	__u64 flooded;	     /* copies sent because the destination is many, or unknown */
};

enum fab_slot_state {
	FAB_SLOT_FREE,
	FAB_SLOT_BUSY, /* being written or read by one CPU */
	FAB_SLOT_HELD,
};

/* A withheld or delayed packet. */
struct fab_slot {
	__u32 state; /* enum fab_slot_state, changed by compare and swap */
	__u32 len;
	__u32 queue; /* receive queue of the host, plus 1 */
	__u32 pad;
	__u64 due_count; /* the port's packet count at which it goes */
	__u64 due_ns;
	__u8 data[FAB_HOLD_BYTES];
};

struct fab_tick {
	__u8 eth[12];
	__be16 proto;
	__u16 pad;
	__u32 generation;
};

#endif
