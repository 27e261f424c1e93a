/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * vqueue.h: a queue that is only counted. It fills with what passes and drains slightly below the link's rate,
 * so it grows before the real one does; above its threshold packets count as marked with CE. For networks
 * and hosts that do not mark. Written once: XDP (what arrives), TC (what the stack sends), user-space ports,
 * simulator, tests. No division.
 *
 * Several CPUs may count in one queue without locks. What they lose of each other makes the queue look
 * shorter by some packets; it cannot grow stale, since the clock drains it.
 */
#ifndef MROCE_VQUEUE_H
#define MROCE_VQUEUE_H

#include <linux/types.h>

/* Written by the daemon; rate 0: off. */
struct mroce_vqueue_config {
	__u32 ifindex;	 /* the interface that it is for */
	__u32 rate;	 /* bytes that drain in 2^shift ns */
	__u32 shift;	 /* at most MROCE_VQUEUE_SHIFT_MAX */
	__u32 threshold; /* bytes */
};

struct mroce_vqueue {
	__u64 last;    /* ns, when it was counted last */
	__u64 backlog; /* bytes << shift */
	__u64 marked;  /* packets found above the threshold */
	__u64 reserved;
};

#define MROCE_VQUEUE_SHIFT_MAX 31
/* A longer pause drains it just as well; keeps the product below 2^64. */
#define MROCE_VQUEUE_PAUSE 0xffffffffull
/* It does not grow beyond so many thresholds (a power of two, as a shift): overload is not remembered for long. */
#define MROCE_VQUEUE_DEPTH 2
/* What a frame takes on the link beside itself: preamble, FCS, gap. */
#define MROCE_VQUEUE_FRAME 24

static inline __attribute__((always_inline)) int vqueue_pass(struct mroce_vqueue *q,
							     const struct mroce_vqueue_config *c,
							     __u64 now, __u32 bytes)
{
	__u32 shift = c->shift & MROCE_VQUEUE_SHIFT_MAX;
	__u64 threshold = (__u64)c->threshold << shift, backlog = q->backlog, pause, drained;

	/* Another CPU's clock may be ahead of ours by a little. */
	pause = now > q->last ? now - q->last : 0;
	if (pause > MROCE_VQUEUE_PAUSE)
		pause = MROCE_VQUEUE_PAUSE;
	drained = pause * c->rate;
	backlog = backlog > drained ? backlog - drained : 0;
	backlog += (__u64)bytes << shift;
	if (backlog > threshold << MROCE_VQUEUE_DEPTH)
		backlog = threshold << MROCE_VQUEUE_DEPTH;
	if (pause)
		q->last = now;
	q->backlog = backlog;
	if (backlog <= threshold)
		return 0;
	q->marked++;
	return 1;
}

#ifndef __bpf__

#define MROCE_VQUEUE_PERCENT 97	       /* of the link's rate */
#define MROCE_VQUEUE_WAIT_NS 200000ull /* threshold: what drains in so long */
#define MROCE_VQUEUE_LEAST 16384

/* A virtual queue for a link of `mbps`; 0: off. */
static inline void vqueue_set(struct mroce_vqueue_config *c, __u32 ifindex, __u32 mbps)
{
	/* bytes per 2^shift ns = mbps / 8000 x 0.97 x 2^shift: as exact as 24 bits are */
	__u64 scaled = (__u64)mbps * MROCE_VQUEUE_PERCENT << MROCE_VQUEUE_SHIFT_MAX;
	__u64 threshold = (__u64)mbps * MROCE_VQUEUE_WAIT_NS / 8000;
	__u32 shift = MROCE_VQUEUE_SHIFT_MAX;

	scaled /= 800000;
	while (scaled >> 24) {
		scaled >>= 1;
		shift--;
	}
	c->ifindex = ifindex;
	c->shift = shift;
	c->threshold = (__u32)(threshold > MROCE_VQUEUE_LEAST ? threshold : MROCE_VQUEUE_LEAST);
	c->rate = (__u32)scaled;
}

#endif

_Static_assert(sizeof(struct mroce_vqueue_config) == 16, "map layout");
_Static_assert(sizeof(struct mroce_vqueue) == 32, "map layout");

#endif
