/* SPDX-License-Identifier: GPL-2.0 */
/* trace.h: for `mroce trace`: each packet of one connection with what became of it, into a ring buffer. */
#ifndef TRACE_H
#define TRACE_H

#include "parse.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MROCE_TRACE_BYTES);
} mroce_trace SEC(".maps");

/* The shortest frame that parse_header() takes. */
#define TRACE_FRAME_MIN (14 + 20 + 8 + MROCE_HDR_LEN)

/*
 * Not inlined: what is off is to cost no more than the question whether it is on. Numbers are arguments, since a
 * pointer to struct packet would keep all of it on the stack, where older verifiers lose its bounds.
 */
static __noinline int trace_packet(struct xdp_md *ctx, __u32 cid, int verdict)
{
	__u32 len = bpf_xdp_get_buff_len(ctx), snap = len;
	struct mroce_trace_event *e;

	if (len < TRACE_FRAME_MIN)
		return 0;
	if (snap > MROCE_TRACE_SNAP)
		snap = MROCE_TRACE_SNAP;
	e = bpf_ringbuf_reserve(&mroce_trace, sizeof(*e), 0);
	if (!e)
		return 0; /* the reader is too slow; it sees gaps of nothing, the packet goes its way */
	e->ns = bpf_ktime_get_ns();
	e->ifindex = ctx->ingress_ifindex;
	e->cid = cid;
	e->verdict = verdict;
	e->frame_len = len;
	e->queue = ctx->rx_queue_index;
	e->snap = 0;
	/* Its bounds right before its use, and not zero: what verifiers of all ages follow. */
	snap--;
	KEEP_VALUE(snap);
	if (snap < MROCE_TRACE_SNAP && !bpf_xdp_load_bytes(ctx, 0, e->frame, snap + 1))
		e->snap = snap + 1;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

#endif
