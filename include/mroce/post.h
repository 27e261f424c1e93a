/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * post.h: letters that the daemon hands over, and the kernel puts into envelopes. The daemon sends a letter as a
 * UDP datagram with a preliminary header; the TC egress program picks the path, numbers the packet, makes
 * header and source port what they have to be, and tells in mroce_posted what it did.
 *
 * The picking is written once: the TC program and the ports of the tests compile the same functions.
 *
 * Preliminary header: as the final one, but
 *     path   the path to be taken only if there is no other, or MROCE_POST_ANY
 *     epoch  the paths that may be taken, a bit for each
 *     psn    the cookie
 *     una    the sender's own connection id
 *     ts     0
 *     hdr_crc  post_seal(): no CRC, so that no receiver takes it for a packet
 */
#ifndef MROCE_POST_H
#define MROCE_POST_H

#include <linux/types.h>
#include "drop_reasons.h"
#include "maps.h"
#include "wire.h"

#define MROCE_MAP_POST "mroce_post"	/* array[MAX_CONNS] of struct mroce_post_conn, mmapable */
#define MROCE_MAP_POSTED "mroce_posted" /* array[MROCE_POSTED] of struct mroce_posted, mmapable */

/* skb mark of a letter that waits for its envelope, "mrLT". */
#define MROCE_LETTER_MARK 0x6d724c54u
#define MROCE_LETTER_SEAL 0x6d724c54u
#define MROCE_POST_ANY 0xff
/* Cookies that are remembered; a power of two, far more than are handed over at once. */
#define MROCE_POSTED 1024

/* What the kernel has to know of a path. Written by the daemon, but for `next`. */
struct mroce_post_path {
	__u32 next; /* PSN; both move it, by compare and exchange only */
	__u32 una;
	__u32 flown;  /* next - flown packets are in flight */
	__u32 cwnd;   /* so many may be */
	__u32 window; /* what it counts for when paths are compared */
	__u16 epoch;
	__u16 sport; /* host order */
	__u32 reserved[2];
};

struct mroce_post_conn {
	__u32 cid;   /* own; 0: nobody */
	__u32 first; /* cookies before this one are void */
	__u32 turn;  /* kernel's: paths equally filled take turns */
	__u32 reserved[5];
	struct mroce_post_path path[MROCE_MAX_PATHS];
};

/* What became of a letter. Written by the kernel, the cookie last. */
struct mroce_posted {
	__u32 cookie;
	__u32 psn;
	__u32 ts;
	__u8 path;
	__u8 reason; /* 0: it left under this path and PSN; else enum mroce_reason: it did not leave */
	__u16 epoch;
};

_Static_assert(sizeof(struct mroce_post_path) == 32, "map layout");
_Static_assert(sizeof(struct mroce_post_conn) == 32 + 32 * MROCE_MAX_PATHS, "map layout");
_Static_assert(sizeof(struct mroce_posted) == 16, "map layout");

struct post_envelope {
	__u32 path, psn, una, epoch, sport;
};

/* How the TC program knows a letter again; a CRC would say no more of what has not left the host. */
static inline __attribute__((always_inline)) __u32 post_seal(__u32 cid, __u32 cookie)
{
	return MROCE_LETTER_SEAL ^ cid ^ cookie;
}

#define POST_READ(x) (*(const volatile __typeof__(x) *)&(x))
/* Somebody else took the PSN in between: look again so often. */
#define POST_TRIES 4

static inline __attribute__((always_inline)) int post_has_room(const struct mroce_post_path *p)
{
	__u32 next = POST_READ(p->next);

	return next - p->flown < p->cwnd && next - p->una < MROCE_WINDOW;
}

/* a is the less filled one in relation to its window, without the packet itself: see lib/core/spray.c. */
static inline __attribute__((always_inline)) int post_less_filled(const struct mroce_post_path *a,
								  const struct mroce_post_path *b)
{
	return (__u64)(POST_READ(a->next) - a->flown) * b->window <
	       (__u64)(POST_READ(b->next) - b->flown) * a->window;
}

/* The path of `mask` that is filled least; MROCE_MAX_PATHS: none has room. */
static inline __attribute__((always_inline)) __u32 post_pick(const struct mroce_post_conn *c,
							     __u32 mask)
{
	__u32 best = MROCE_MAX_PATHS, at = c->turn;

	for (int i = 0; i < MROCE_MAX_PATHS; i++, at++) {
		const struct mroce_post_path *p;

		at &= MROCE_MAX_PATHS - 1;
		p = &c->path[at];
		if (!(mask >> at & 1) || !post_has_room(p))
			continue;
		if (best == MROCE_MAX_PATHS ||
		    post_less_filled(p, &c->path[best & (MROCE_MAX_PATHS - 1)]))
			best = at;
	}
	return best;
}

/* Takes the next PSN of the best path. 0, or -enum mroce_reason and nothing was taken. */
static inline __attribute__((always_inline)) int post_take(struct mroce_post_conn *c, __u32 mask,
							   __u32 avoid, struct post_envelope *out)
{
	__u32 rest = avoid < MROCE_MAX_PATHS ? mask & ~(1u << avoid) : mask;

	for (int i = 0; i < POST_TRIES; i++) {
		__u32 at = post_pick(c, rest), psn;
		struct mroce_post_path *p;

		if (at == MROCE_MAX_PATHS)
			at = post_pick(c, mask);
		if (at >= MROCE_MAX_PATHS)
			return -MROCE_DROP_POST_FULL;
		p = &c->path[at];
		psn = POST_READ(p->next);
		if (__sync_val_compare_and_swap(&p->next, psn, psn + 1) != psn)
			continue;
		c->turn = at + 1;
		out->path = at;
		out->psn = psn;
		out->una = p->una;
		out->epoch = p->epoch;
		out->sport = p->sport;
		return 0;
	}
	return -MROCE_DROP_POST_FULL;
}

/* 0, or why a letter with this cookie of this connection is not to be sent. */
static inline __attribute__((always_inline)) int post_check(const struct mroce_post_conn *c,
							    __u32 cid, __u32 cookie)
{
	if (!cid || POST_READ(c->cid) != cid)
		return -MROCE_DROP_NO_CONN;
	if (cookie - POST_READ(c->first) >= MROCE_POSTED)
		return -MROCE_DROP_POST_VOID;
	return 0;
}

static inline __attribute__((always_inline)) void post_tell(struct mroce_posted *r, __u32 cookie,
							    __u32 ts, int err,
							    const struct post_envelope *v)
{
	r->psn = v->psn;
	r->path = (__u8)v->path;
	r->epoch = (__u16)v->epoch;
	r->ts = ts;
	r->reason = (__u8)-err;
	__sync_lock_test_and_set(&r->cookie, cookie);
}

#endif
