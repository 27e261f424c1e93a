/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cc.h: congestion control of one path, four functions and their state. The window is in packets; what
 * counts against it is what the network may still hold: sent and neither seen nor lost.
 */
#ifndef CORE_CC_H
#define CORE_CC_H

#include <stdint.h>

#define CC_STATE_WORDS 8

struct cc {
	uint32_t cwnd; /* packets, 1 .. MROCE_WINDOW */
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
};

struct cc_ops {
	const char *name;
	void (*init)(struct cc *cc, uint64_t now);
	void (*ack)(struct cc *cc, const struct cc_ack *a);
	void (*timeout)(struct cc *cc, uint64_t now); /* an RTO: nothing came back */
};

extern const struct cc_ops cc_delay; /* delay and ECN, ignores lone losses: the default */
extern const struct cc_ops cc_fixed; /* fixed window, for experiments */

const struct cc_ops *cc_find(const char *name); /* NULL if there is none */

#endif
