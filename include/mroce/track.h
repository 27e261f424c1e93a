/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * track.h: receive tracking of one path, written once: compiled into the XDP and TC programs, the
 * user-space ports, the simulator and the unit tests.
 *
 * Two parties work on a struct mroce_path_rx at the same time, without locks:
 *
 *  - the *tracker* (XDP, in softirq, on the CPU of the path's receive queue; or its twin in user
 *    space) owns seen[], kbase, highest, epoch and the counters;
 *  - the *daemon* owns placed[], missed[], base and nack_tolerance.
 *
 * Every word has one writer. What is left is the order in which one side's words become visible to
 * the other, and there is just one place where it matters: an ACK must not promise a PSN that was not
 * placed. Bits are reused every 256 PSNs, so a stale bit of PSN p read together with a new base
 * would look like PSN p + 256. Hence:
 *
 *  - the daemon clears the placed and missed bits of PSNs that leave the window *before* it
 *    publishes the new base (store-release);
 *  - the tracker reads base *before* placed[] (a full barrier between them: the atomic add on
 *    acks). With an old base and newer bits, a bit of p set in the meantime belongs to p + 256*n,
 *    which can only exist once base has passed p: so p is done, and the ACK still tells the truth.
 *
 * tests/unit/test_track.c runs every interleaving of the two sides' steps over small windows.
 *
 * If a path wanders between receive queues, two CPUs may run the tracker of one path at once and
 * lose each other's update of seen[]. The worst that follows is a PSN that looks unseen (repaired
 * once more) or seen but never placed (found by the daemon's sweep, see track_miss()): bytes are
 * never lost. Such moves are counted in queue_moves.
 *
 * Work per packet is bounded: no loops but over the four words of a bitmap.
 */
#ifndef MROCE_TRACK_H
#define MROCE_TRACK_H

#include "maps.h"
#include "drop_reasons.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Accesses to words that the other side reads or writes. The interleaving test puts its own here. */
#ifndef TRACK_READ
#define TRACK_READ(x) (*(const volatile __typeof__(x) *)&(x))
#define TRACK_WRITE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define TRACK_PUBLISH(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#endif

/* Serial arithmetic (RFC 1982) on 32-bit PSNs and 16-bit epochs. */
static __always_inline int psn_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u32 psn_max(__u32 a, __u32 b)
{
	return psn_before(a, b) ? b : a;
}

static __always_inline int epoch_before(__u16 a, __u16 b)
{
	return (__s16)(__u16)(a - b) < 0;
}

static __always_inline __u32 bitmap_word(__u32 psn)
{
	return (psn >> 6) & (MROCE_WINDOW_WORDS - 1);
}

static __always_inline __u64 bitmap_bit(__u32 psn)
{
	return 1ULL << (psn & 63);
}

static __always_inline int bitmap_test(const __u64 *map, __u32 psn)
{
	return (TRACK_READ(map[bitmap_word(psn)]) & bitmap_bit(psn)) != 0;
}

static __always_inline __u64 low_bits(__u32 n)
{
	return n >= 64 ? ~0ULL : (1ULL << (n & 63)) - 1;
}

/* The bits of word w that belong to the n PSNs from psn on, in a bitmap used as a ring. */
static __always_inline __u64 bitmap_range(__u32 w, __u32 psn, __u32 n)
{
	__u32 away = (w * 64 - psn) & (MROCE_WINDOW - 1); /* from psn to the word's first bit */
	__u64 mask = 0;

	if (n >= MROCE_WINDOW)
		return ~0ULL;
	if (away < n)
		mask = low_bits(n - away);
	if (away > MROCE_WINDOW - 64) { /* the range begins inside this word */
		__u32 skip = MROCE_WINDOW - away;

		mask |= low_bits(n) << (skip & 63);
	}
	return mask;
}

static __always_inline void bitmap_clear_range(__u64 *map, __u32 psn, __u32 n)
{
#ifdef __clang__
#pragma unroll
#endif
	for (__u32 w = 0; w < MROCE_WINDOW_WORDS; w++) {
		__u64 mask = bitmap_range(w, psn, n);

		if (mask)
			TRACK_WRITE(map[w], map[w] & ~mask);
	}
}

/* Is one of the n PSNs from psn on not set in map? */
static __always_inline int bitmap_any_clear(const __u64 *map, __u32 psn, __u32 n)
{
	__u64 clear = 0;

#ifdef __clang__
#pragma unroll
#endif
	for (__u32 w = 0; w < MROCE_WINDOW_WORDS; w++)
		clear |= bitmap_range(w, psn, n) & ~map[w];
	return clear != 0;
}

/* ---- tracker's side ---- */

/* What the tracker is told of a packet; host byte order. */
struct track_packet {
	__u32 psn;
	__u32 una;
	__u32 ts;
	__u32 bytes; /* UDP payload */
	__u16 epoch;
	__u8 ce; /* arrived with CE */
};

enum track_verdict {
	TRACK_NEW = 0, /* first time; deliver */
	TRACK_GAP = 1, /* the same, and it shows that earlier ones are lost: NACK */
		       /* negative: -enum mroce_reason, drop */
};

/* Moves the window's lower edge over everything that is done and frees its bits. */
static __always_inline void track_slide(struct mroce_path_rx *rx, __u32 una)
{
	__u32 edge = psn_max(una, TRACK_READ(rx->base));
	__u32 kbase = rx->kbase;

	if (!psn_before(kbase, edge))
		return;
	bitmap_clear_range(rx->seen, kbase, edge - kbase);
	TRACK_WRITE(rx->kbase, edge);
	if (psn_before(rx->highest, edge - 1))
		TRACK_WRITE(rx->highest, edge - 1);
}

/* Counts, checks epoch and una. 0, or -reason. */
static __always_inline int track_arrival(struct mroce_path_rx *rx, const struct track_packet *p)
{
	rx->rx_packets++;
	rx->rx_bytes += p->bytes;
	if (p->ce) {
		rx->ce_packets++;
		rx->ce_bytes += p->bytes;
	}
	if (epoch_before(p->epoch, rx->epoch)) {
		rx->stale++;
		return -MROCE_DROP_STALE_EPOCH;
	}
	if (psn_before(p->psn, p->una) || p->psn - p->una > MROCE_WINDOW)
		return -MROCE_DROP_SEQUENCE;
	rx->epoch = p->epoch;
	rx->last_ts = p->ts;
	track_slide(rx, p->una);
	return 0;
}

/*
 * A packet that carries a PSN. TRACK_NEW or TRACK_GAP: hand it to the daemon. Negative: drop it.
 *
 * PSNs go on over an epoch change (the first packet of an epoch has una == psn), so a change of
 * epoch needs no reset, and stragglers of the old route are below the window.
 */
static __always_inline int track_rx(struct mroce_path_rx *rx, const struct track_packet *p)
{
	__u32 psn = p->psn, top, tolerance, n;
	int err = track_arrival(rx, p);

	if (err)
		return err;
	if (psn_before(psn, rx->kbase)) {
		rx->late++;
		return -MROCE_DROP_LATE;
	}
	if (psn - rx->kbase >= MROCE_WINDOW) {
		rx->ahead++;
		return -MROCE_DROP_AHEAD;
	}
	if (bitmap_test(rx->seen, psn)) {
		rx->duplicate++;
		return -MROCE_DROP_DUPLICATE;
	}
	TRACK_WRITE(rx->seen[bitmap_word(psn)], rx->seen[bitmap_word(psn)] | bitmap_bit(psn));

	top = rx->highest;
	if (!psn_before(top, psn))
		return TRACK_NEW; /* fills a hole */
	TRACK_WRITE(rx->highest, psn);

	/* A hole is a loss once a PSN more than `tolerance` above it was seen: look at the PSNs that
	 * have just come to that distance, [top - tolerance, psn - tolerance). */
	tolerance = TRACK_READ(rx->nack_tolerance);
	if (tolerance == 0) {
		if (psn == top + 1)
			return TRACK_NEW;
		rx->gaps++;
		return TRACK_GAP;
	}
	if (tolerance >= MROCE_WINDOW)
		return TRACK_NEW;
	top = psn_max(top - tolerance, rx->kbase);
	n = psn - tolerance - top;
	if ((__s32)n <= 0 || !bitmap_any_clear(rx->seen, top, n))
		return TRACK_NEW;
	rx->gaps++;
	return TRACK_GAP;
}

/* POLL: p->psn is the PSN the path will use next. 0: answer with an ACK. Negative: drop. */
static __always_inline int track_poll(struct mroce_path_rx *rx, const struct track_packet *p)
{
	int err = track_arrival(rx, p);

	if (err)
		return err;
	if (psn_before(rx->highest, p->psn - 1))
		TRACK_WRITE(rx->highest, p->psn - 1);
	return 0;
}

/* An ACK's state in host byte order, as the tracker's side makes it. */
struct track_state {
	__u32 base, highest, rx_bytes, ce_bytes;
	__u16 late;
	__u64 seen[MROCE_WINDOW_WORDS];
	__u64 placed[MROCE_WINDOW_WORDS];
};

/* Reads the path's state for an ACK or NACK. May run on any CPU, beside both writers. */
static __always_inline void track_ack(struct mroce_path_rx *rx, struct track_state *s)
{
	__u32 acks;

	s->base = TRACK_READ(rx->base);
	/* Full barrier: base before placed[], see top of file. The result has to be used, since an
	 * atomic add without fetch orders nothing on arm64. */
	acks = __sync_fetch_and_add(&rx->acks, 1);
	asm volatile("" : : "r"(acks) : "memory");
	s->highest = TRACK_READ(rx->highest);
	s->rx_bytes = TRACK_READ(rx->rx_bytes);
	s->ce_bytes = TRACK_READ(rx->ce_bytes);
	s->late = (__u16)(TRACK_READ(rx->late) + TRACK_READ(rx->duplicate));
#ifdef __clang__
#pragma unroll
#endif
	for (__u32 w = 0; w < MROCE_WINDOW_WORDS; w++) {
		s->placed[w] = TRACK_READ(rx->placed[w]);
		s->seen[w] = TRACK_READ(rx->seen[w]) & ~TRACK_READ(rx->missed[w]);
	}
}

/* ---- daemon's side ---- */

#ifndef __bpf__

/* Before the connection's entry is published: no packet of the path has arrived yet. */
static inline void track_reset(struct mroce_path_rx *rx, __u32 first_psn)
{
	__builtin_memset(rx, 0, sizeof(*rx));
	rx->base = first_psn;
	rx->kbase = first_psn;
	rx->highest = first_psn - 1;
}

/* Moves base up to `to` (serial), freeing bits first. */
static inline void track_set_base(struct mroce_path_rx *rx, __u32 to)
{
	if (!psn_before(rx->base, to))
		return;
	bitmap_clear_range(rx->placed, rx->base, to - rx->base);
	bitmap_clear_range(rx->missed, rx->base, to - rx->base);
	TRACK_PUBLISH(rx->base, to);
}

/* How many PSNs from rx->base on are placed without a hole. */
static inline __u32 track_run(const struct mroce_path_rx *rx)
{
	__u32 run = 0;

	while (run < MROCE_WINDOW) {
		__u32 psn = rx->base + run;
		__u64 word = rx->placed[bitmap_word(psn)] >> (psn & 63);
		__u32 left = 64 - (psn & 63);
		__u32 ones = ~word ? (__u32)__builtin_ctzll(~word) : 64;

		if (ones < left)
			return run + ones;
		run += left;
	}
	return MROCE_WINDOW;
}

/* The una of a packet that the daemon processes. */
static inline void track_una(struct mroce_path_rx *rx, __u32 una)
{
	track_set_base(rx, una);
	track_set_base(rx, rx->base + track_run(rx));
}

/* The bytes of this PSN are where the application reads them, or never needed (a duplicate chunk). */
static inline void track_place(struct mroce_path_rx *rx, __u32 psn)
{
	if (psn - rx->base >= MROCE_WINDOW)
		return; /* given up by the sender in the meantime */
	TRACK_WRITE(rx->placed[bitmap_word(psn)], rx->placed[bitmap_word(psn)] | bitmap_bit(psn));
	if (psn == rx->base)
		track_set_base(rx, rx->base + track_run(rx));
}

/*
 * This PSN was seen by the tracker but its bytes are gone (ring full, no frame, body corrupt, no
 * record): show it as a hole so that the sender repairs it.
 */
static inline void track_miss(struct mroce_path_rx *rx, __u32 psn)
{
	if (psn - rx->base >= MROCE_WINDOW || bitmap_test(rx->placed, psn))
		return;
	TRACK_WRITE(rx->missed[bitmap_word(psn)], rx->missed[bitmap_word(psn)] | bitmap_bit(psn));
}

#endif /* !__bpf__ */
#endif
