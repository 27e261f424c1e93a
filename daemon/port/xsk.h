/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xsk.h: one AF_XDP socket on one receive queue, with its own packet memory. Knows frames and rings,
 * not what is in the packets.
 */
#ifndef PORT_XSK_H
#define PORT_XSK_H

#include <stdbool.h>
#include <stdint.h>
#include <xdp/xsk.h>
#include "log.h"
#include "umem.h"

#define XSK_BATCH 64

struct xsk_params {
	const char *interface;
	uint32_t queue;
	uint32_t ring_size; /* rx and tx ring, power of two */
	uint32_t hw_ring;   /* the driver's receive ring, 0 unknown */
	bool transmit;	    /* the interface has a transmit queue of this number */
	bool generic;	    /* XDP runs in generic mode */
	bool again;	    /* while the daemon works: wait for the old socket, and no longer */
};

struct xsk {
	struct umem um;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons rx, comp;
	struct xsk_umem *kernel_umem;
	struct xsk_socket *socket;
	int fd;
	uint32_t queue;
	bool zero_copy, transmit;
	uint32_t unsubmitted; /* written to the tx ring, not shown to the kernel yet */
	uint32_t fill_min, fill_max, fill_want; /* frames in the kernel's hands to receive into */
	uint32_t backlog;			/* largest since fill_checked */
	uint64_t fill_checked;			/* rx_packets at that time */
	uint64_t rx_packets, tx_packets, kicks;
};

/* 0 or -errno, explained through log. */
int xsk_open(struct xsk *x, const struct xsk_params *p, log_fn log);
void xsk_close(struct xsk *x);

/* Takes up to max (<= XSK_BATCH) received packets: their frames are held until xsk_rx_done(). */
uint32_t xsk_rx(struct xsk *x, struct xdp_desc *out, uint32_t max);
/* Gives them back to be received into. */
void xsk_rx_done(struct xsk *x, const struct xdp_desc *descs, uint32_t n);

/* A frame to fill and send; -1: none free, or the ring is full, even after asking the kernel. */
int64_t xsk_tx_take(struct xsk *x);
/* The frame goes to the ring; sent by xsk_tx_flush(). addr may point into the frame. */
void xsk_tx_put(struct xsk *x, uint64_t addr, uint32_t len);
/* Shows the ring to the kernel, makes it send, takes finished frames back. True while some wait. */
bool xsk_tx_flush(struct xsk *x);

/* Where the frames are, as `show` names the places. Fill counts what the driver holds. */
struct xsk_frames {
	uint32_t total, free, fill, rx, tx, completion, held;
};
void xsk_frames(const struct xsk *x, struct xsk_frames *out);
/* False, with an explanation, if frames are missing or in two places. */
bool xsk_check(const struct xsk *x, log_fn log);
int xsk_stats(const struct xsk *x, struct xdp_statistics *out);

#endif
