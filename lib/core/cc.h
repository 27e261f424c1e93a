/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cc.h: congestion control of one path, a few functions and their state. What counts against the window is
 * what the network may still hold: sent and neither seen nor lost. A window may be a fraction of a packet:
 * then the sender waits between packets (pace.c).
 */
#ifndef CORE_CC_H
#define CORE_CC_H

#include <stdbool.h>
#include <stdint.h>

#define CC_STATE_WORDS 6
#define CC_UNIT 256u /* cc.window counts in 1/CC_UNIT packets */

struct cc {
	uint32_t cwnd;	 /* the window in whole packets, rounded up: 1 .. MROCE_WINDOW */
	uint32_t window; /* the same in 1/CC_UNIT packets; set by cc_set_window() alone */
	uint64_t state[CC_STATE_WORDS];
};

struct cc_ack {
	uint64_t now;
	uint32_t acked;	    /* packets newly seen by the peer */
	uint32_t lost;	    /* packets newly found lost */
	uint32_t in_flight; /* before this ACK */
	uint32_t rx_bytes;  /* newly received at the peer, and of these with CE */
	uint32_t ce_bytes;
	uint64_t rtt; /* sample, ns; 0 = none */
	uint64_t srtt, min_rtt;
	uint32_t siblings; /* paths between the same two ports, this one included: they grow together */
	bool ce_everywhere; /* no usable path is without CE: there is nowhere to steer to */
};

struct cc_ops {
	const char *name;
	void (*init)(struct cc *cc, uint64_t now);
	/* The round trip has become known before anything was acknowledged: where to start. May be NULL. */
	void (*start)(struct cc *cc, uint32_t window);
	void (*ack)(struct cc *cc, const struct cc_ack *a);
	/* Nothing was sent for a while: what the window said of the network is forgotten, it may be at most this. May be NULL. */
	void (*rest)(struct cc *cc, uint32_t window);
	void (*timeout)(struct cc *cc, uint64_t now); /* an RTO: nothing came back */
};

extern const struct cc_ops cc_ecn;   /* ECN and delay together, ignores lone losses: the default */
extern const struct cc_ops cc_delay; /* delay alone decides, for networks that mark at random */
extern const struct cc_ops cc_fixed; /* fixed window, for experiments */

const struct cc_ops *cc_find(const char *name); /* NULL if there is none */
/* window in 1/CC_UNIT packets; kept within `least` and MROCE_WINDOW packets. */
void cc_set_window(struct cc *cc, uint64_t window, uint32_t least);

#endif
