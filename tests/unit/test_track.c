// SPDX-License-Identifier: BSD-2-Clause
/*
 * track.h: tables of situations, a long random run against a model that keeps whole sets, and every
 * interleaving of the two sides.
 */
#include "unit.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * Every access to a shared word comes by here. While `recording`, writes are logged (the daemon's
 * side runs alone); while `exploring`, pending writes of the other side may land before each read.
 */
static void before_read(const volatile void *word);
static void after_write(volatile void *word, size_t size);

#define TRACK_READ(x) (before_read(&(x)), *(const volatile __typeof__(x) *)&(x))
#define TRACK_WRITE(x, v)                                      \
	do {                                                   \
		*(volatile __typeof__(x) *)&(x) = (v);         \
		after_write((volatile void *)&(x), sizeof(x)); \
	} while (0)
#define TRACK_PUBLISH(x, v) TRACK_WRITE(x, v)
#include <mroce/track.h>

/* ---- random numbers ---- */

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32) % n;
}

static int one_in(uint32_t n)
{
	return random_below(n) == 0;
}

/* ---- the log and the explorer ---- */

#define LOG_MAX 64
#define CHOICES_MAX 256

struct logged {
	size_t offset; /* in struct mroce_path_rx */
	size_t size;
	uint64_t value;
	int op; /* the operation it belongs to */
};

static struct {
	struct mroce_path_rx *rx; /* the one that is being worked on */
	int recording, exploring;
	int op;
	struct logged log[2][LOG_MAX]; /* of the daemon, and of a tracker on another CPU */
	int logged[2], applied[2];
	int writer;	  /* whose writes are being recorded */
	int ops_begun[2]; /* the number of the last operation of which a write has landed */
	int choice[CHOICES_MAX], options[CHOICES_MAX];
	int depth, known;
} explorer;

static void after_write(volatile void *word, size_t size)
{
	struct logged *l;

	if (!explorer.recording)
		return;
	ck_assert_int_lt(explorer.logged[explorer.writer], LOG_MAX);
	l = &explorer.log[explorer.writer][explorer.logged[explorer.writer]++];
	l->offset = (size_t)((volatile char *)word - (volatile char *)explorer.rx);
	l->size = size;
	l->op = explorer.op;
	l->value = 0;
	memcpy(&l->value, (const void *)word, size);
}

static int choose(int options)
{
	if (explorer.depth == explorer.known) {
		/* Every ck_assert writes its place to a file, so not one per choice. */
		if (explorer.known >= CHOICES_MAX)
			ck_abort_msg("more than %d choices in one schedule", CHOICES_MAX);
		explorer.choice[explorer.known] = 0;
		explorer.options[explorer.known++] = options;
	}
	return explorer.choice[explorer.depth++];
}

/* On to the next schedule; 0 when all were run. */
static int next_schedule(void)
{
	while (explorer.known > 0) {
		int last = explorer.known - 1;

		if (++explorer.choice[last] < explorer.options[last]) {
			explorer.depth = 0;
			return 1;
		}
		explorer.known--;
	}
	return 0;
}

static void land(int writer)
{
	struct logged *l = &explorer.log[writer][explorer.applied[writer]++];

	memcpy((char *)explorer.rx + l->offset, &l->value, l->size);
	explorer.ops_begun[writer] = l->op + 1;
}

static int is_pending(int writer, size_t offset)
{
	for (int i = explorer.applied[writer]; i < explorer.logged[writer]; i++)
		if (explorer.log[writer][i].offset == offset)
			return 1;
	return 0;
}

/*
 * Lets any number of pending writes of the other parties land, in their order. A read of a word that
 * no pending write touches gives the same either way, so only the others branch.
 */
static void before_read(const volatile void *word)
{
	size_t offset = (size_t)((const volatile char *)word - (const volatile char *)explorer.rx);

	while (explorer.exploring && (is_pending(0, offset) || is_pending(1, offset))) {
		int open[2], n = 0, pick;

		for (int w = 0; w < 2; w++)
			if (explorer.applied[w] < explorer.logged[w])
				open[n++] = w;
		pick = choose(n + 1);
		if (pick == 0)
			return;
		land(open[pick - 1]);
	}
}

/* ---- what an ACK says ---- */

static int says_placed(const struct track_state *s, uint32_t psn)
{
	uint32_t away = psn - s->base;

	return psn_before(psn, s->base) ||
	       (away < MROCE_WINDOW && (s->placed[bitmap_word(psn)] & bitmap_bit(psn)));
}

static int says_seen(const struct track_state *s, uint32_t psn)
{
	return says_placed(s, psn) ||
	       (!psn_before(s->highest, psn) && (s->seen[bitmap_word(psn)] & bitmap_bit(psn)));
}

static struct track_packet packet(uint32_t psn, uint32_t una)
{
	struct track_packet p = { .psn = psn, .una = una, .ts = psn, .bytes = 100 };

	return p;
}

/* ---- tables ---- */

enum what { END, RX, POLL, UNA, PLACE, MISS, TOLERATE };

struct step {
	enum what what;
	uint32_t psn, una;
	uint16_t epoch;
	int expect;
};

struct table {
	const char *name;
	uint32_t first;
	struct step steps[16];
};

static const struct table tables[] = {
	{ "in order", 0, { { RX, 0, 0, 0, 0 }, { RX, 1, 0, 0, 0 }, { RX, 2, 1, 0, 0 } } },
	{ "duplicate inside the window",
	  5,
	  { { RX, 5, 5, 0, 0 }, { RX, 5, 5, 0, -MROCE_DROP_DUPLICATE } } },
	{ "late: given up before it came",
	  5,
	  { { RX, 6, 6, 0, 0 }, { RX, 5, 5, 0, -MROCE_DROP_LATE } } },
	{ "late: placed before it came again",
	  5,
	  { { RX, 5, 5, 0, 0 },
	    { PLACE, 5, 0, 0, 0 },
	    { RX, 6, 5, 0, 0 },
	    { RX, 5, 5, 0, -MROCE_DROP_LATE } } },
	{ "ahead",
	  0,
	  { { RX, 255, 0, 0, TRACK_GAP },
	    { RX, 256, 0, 0, -MROCE_DROP_AHEAD },
	    { RX, 256, 1, 0, 0 } } },
	{ "una above psn",
	  10,
	  { { RX, 10, 11, 0, -MROCE_DROP_SEQUENCE },
	    { RX, 400, 10, 0, -MROCE_DROP_SEQUENCE },
	    { POLL, 10, 11, 0, -MROCE_DROP_SEQUENCE },
	    { RX, 10, 10, 0, 0 } } },
	{ "gap, and the hole filled",
	  0,
	  { { RX, 0, 0, 0, 0 }, { RX, 2, 0, 0, TRACK_GAP }, { RX, 1, 0, 0, 0 }, { RX, 3, 0, 0, 0 } } },
	{ "first packet lost", 7, { { RX, 8, 7, 0, TRACK_GAP }, { RX, 9, 7, 0, 0 } } },
	{ "given up is no gap",
	  7,
	  { { RX, 9, 9, 0, 0 }, { RX, 12, 12, 0, 0 }, { RX, 14, 12, 0, TRACK_GAP } } },
	{ "announced by POLL is no gap",
	  0,
	  { { RX, 0, 0, 0, 0 }, { POLL, 3, 0, 0, 0 }, { RX, 3, 0, 0, 0 }, { RX, 5, 0, 0, TRACK_GAP } } },
	{ "POLL with nothing sent yet", 100, { { POLL, 100, 100, 0, 0 }, { RX, 100, 100, 0, 0 } } },
	{ "POLL with a full window",
	  0,
	  { { RX, 0, 0, 0, 0 }, { POLL, 256, 0, 0, 0 }, { POLL, 257, 0, 0, -MROCE_DROP_SEQUENCE } } },
	{ "tolerance 1: a hole is a loss two above",
	  0,
	  { { TOLERATE, 1, 0, 0, 0 },
	    { RX, 0, 0, 0, 0 },
	    { RX, 2, 0, 0, 0 },
	    { RX, 3, 0, 0, TRACK_GAP },
	    { RX, 4, 0, 0, 0 } } },
	{ "tolerance 3: filled in time",
	  0,
	  { { TOLERATE, 3, 0, 0, 0 },
	    { RX, 0, 0, 0, 0 },
	    { RX, 2, 0, 0, 0 },
	    { RX, 3, 0, 0, 0 },
	    { RX, 4, 0, 0, 0 },
	    { RX, 1, 0, 0, 0 },
	    { RX, 5, 0, 0, 0 },
	    { RX, 6, 0, 0, 0 } } },
	{ "tolerance 3: jump over several",
	  0,
	  { { TOLERATE, 3, 0, 0, 0 },
	    { RX, 0, 0, 0, 0 },
	    { RX, 4, 0, 0, 0 },
	    { RX, 5, 0, 0, TRACK_GAP },
	    { RX, 9, 0, 0, TRACK_GAP } } },
	{ "tolerance beyond the window: never",
	  0,
	  { { TOLERATE, 256, 0, 0, 0 },
	    { RX, 0, 0, 0, 0 },
	    { RX, 200, 0, 0, 0 },
	    { RX, 255, 0, 0, 0 } } },
	{ "older epoch",
	  0,
	  { { RX, 0, 0, 1, 0 },
	    { RX, 1, 0, 0, -MROCE_DROP_STALE_EPOCH },
	    { POLL, 1, 0, 0, -MROCE_DROP_STALE_EPOCH },
	    { RX, 1, 0, 1, 0 } } },
	{ "new epoch goes on with PSNs",
	  0,
	  { { RX, 0, 0, 0, 0 },
	    { RX, 3, 3, 1, 0 },
	    { RX, 1, 0, 0, -MROCE_DROP_STALE_EPOCH },
	    { RX, 4, 3, 1, 0 } } },
	{ "epoch wraps",
	  0,
	  { { RX, 0, 0, 0x7fff, 0 },
	    { RX, 1, 0, 0xfffe, 0 },
	    { RX, 2, 0, 0xffff, 0 },
	    { RX, 3, 0, 0, 0 },
	    { RX, 4, 0, 0xffff, -MROCE_DROP_STALE_EPOCH },
	    { RX, 4, 0, 1, 0 } } },
	{ "PSN wraps in order",
	  0xfffffffe,
	  { { RX, 0xfffffffe, 0xfffffffe, 0, 0 },
	    { RX, 0xffffffff, 0xfffffffe, 0, 0 },
	    { RX, 0, 0xfffffffe, 0, 0 },
	    { RX, 1, 0, 0, 0 },
	    { RX, 0xffffffff, 0xfffffffe, 0, -MROCE_DROP_LATE } } },
	{ "PSN wraps over a gap",
	  0xfffffffe,
	  { { RX, 0xfffffffe, 0xfffffffe, 0, 0 },
	    { RX, 2, 0xfffffffe, 0, TRACK_GAP },
	    { RX, 0xffffffff, 0xfffffffe, 0, 0 },
	    { RX, 253, 0xfffffffe, 0, TRACK_GAP },
	    { RX, 254, 0xfffffffe, 0, -MROCE_DROP_AHEAD } } },
	{ "una far ahead clears the window",
	  0,
	  { { RX, 0, 0, 0, 0 },
	    { RX, 5000, 5000, 0, 0 },
	    { RX, 5001, 5000, 0, 0 },
	    { RX, 5000, 5000, 0, -MROCE_DROP_DUPLICATE } } },
	{ "first PSN in the upper half",
	  0x80000000,
	  { { RX, 0x80000000, 0x80000000, 0, 0 },
	    { RX, 0x7fffffff, 0x7fffffff, 0, -MROCE_DROP_LATE } } },
};

static int run_step(struct mroce_path_rx *rx, const struct step *s)
{
	struct track_packet p = packet(s->psn, s->una);

	p.epoch = s->epoch;
	switch (s->what) {
	case RX: return track_rx(rx, &p);
	case POLL: return track_poll(rx, &p);
	case UNA: track_una(rx, s->psn); return 0;
	case PLACE: track_place(rx, s->psn); return 0;
	case MISS: track_miss(rx, s->psn); return 0;
	case TOLERATE: rx->nack_tolerance = s->psn; return 0;
	case END: break;
	}
	return 0;
}

START_TEST(track_rx__tables)
{
	const struct table *t = &tables[_i];
	struct mroce_path_rx rx;

	track_reset(&rx, t->first);
	for (const struct step *s = t->steps; s->what != END; s++) {
		int got = run_step(&rx, s);

		ck_assert_msg(got == s->expect, "%s: step %d gave %d instead of %d", t->name,
			      (int)(s - t->steps) + 1, got, s->expect);
	}
}
END_TEST

START_TEST(track_rx__counters_wrap)
{
	struct mroce_path_rx rx;
	struct track_packet p = packet(0, 0);
	struct track_state s;

	track_reset(&rx, 0);
	rx.rx_bytes = 0xffffffd0;
	rx.ce_bytes = 0xffffffff;
	rx.late = 0xffff;
	p.ce = 1;
	ck_assert_int_eq(track_rx(&rx, &p), TRACK_NEW);
	ck_assert_int_eq(track_rx(&rx, &p), -MROCE_DROP_DUPLICATE);
	track_ack(&rx, &s);
	ck_assert_uint_eq(s.rx_bytes, 0xffffffd0 + 200u);
	ck_assert_uint_eq(s.ce_bytes, 199);
	ck_assert_uint_eq(s.late, 0);
	ck_assert_uint_eq(rx.ce_packets, 2);
	ck_assert_uint_eq(rx.rx_packets, 2);
}
END_TEST

/* The trap: a packet that XDP marked and the daemon never got must look like a hole. */
START_TEST(track_miss__shows_a_hole_until_given_up)
{
	struct mroce_path_rx rx;
	struct track_packet p;
	struct track_state s;

	track_reset(&rx, 60);
	for (uint32_t psn = 60; psn < 70; psn++) {
		p = packet(psn, 60);
		ck_assert_int_eq(track_rx(&rx, &p), TRACK_NEW);
		if (psn != 64)
			track_place(&rx, psn);
	}
	track_ack(&rx, &s);
	ck_assert(says_seen(&s, 64) && !says_placed(&s, 64));
	track_miss(&rx, 64);
	track_ack(&rx, &s);
	ck_assert(!says_seen(&s, 64));
	ck_assert(says_placed(&s, 63) && says_placed(&s, 69));
	ck_assert_uint_eq(s.base, 64);
	track_una(&rx, 65);
	ck_assert_uint_eq(rx.base, 70);
	ck_assert_uint_eq(rx.missed[1], 0);
}
END_TEST

START_TEST(track_miss__of_what_is_placed_changes_nothing)
{
	struct mroce_path_rx rx;
	struct mroce_path_rx before;

	track_reset(&rx, 0);
	track_place(&rx, 5);
	before = rx;
	track_miss(&rx, 5);
	track_miss(&rx, 256);
	track_place(&rx, 256);
	track_place(&rx, 0xffffffff);
	ck_assert_mem_eq(&rx, &before, sizeof(rx));
}
END_TEST

/* base moves over a whole window of placed PSNs from any alignment. */
START_TEST(track_run__whole_window_from_any_alignment)
{
	for (uint32_t first = 0xffffffc0; first != 64; first++) {
		struct mroce_path_rx rx;

		track_reset(&rx, first);
		for (uint32_t i = MROCE_WINDOW - 1; i > 0; i--)
			track_place(&rx, first + i);
		ck_assert_uint_eq(rx.base, first);
		track_place(&rx, first);
		ck_assert_uint_eq(rx.base, first + MROCE_WINDOW);
		for (int w = 0; w < MROCE_WINDOW_WORDS; w++)
			ck_assert_uint_eq(rx.placed[w], 0);
	}
}
END_TEST

START_TEST(bitmap_range__every_start_and_length)
{
	for (uint32_t psn = 0; psn < MROCE_WINDOW; psn++) {
		for (uint32_t n = 0; n <= MROCE_WINDOW + 2; n++) {
			uint64_t want[MROCE_WINDOW_WORDS] = { 0 };

			for (uint32_t i = 0; i < n; i++)
				want[bitmap_word(psn + i)] |= bitmap_bit(psn + i);
			for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++)
				ck_assert_uint_eq(bitmap_range(w, psn, n), want[w]);
		}
	}
}
END_TEST

/* ---- the model: PSNs as they would be if they never wrapped, in plain sets ---- */

#define SPACE 200000

struct model {
	int64_t kbase, highest, base; /* offsets from the first PSN, in [MROCE_WINDOW, SPACE) */
	int32_t epoch;
	uint32_t tolerance;
	uint8_t seen[SPACE], placed[SPACE], missed[SPACE];
	uint32_t late, duplicate, gaps, ahead, stale, packets;
};

struct arrival {
	int64_t psn, una;
	int32_t epoch;
};

static struct model model; /* too large for the stack */

static int model_arrival(struct model *m, const struct arrival *a)
{
	m->packets++;
	if (a->epoch < m->epoch) {
		m->stale++;
		return -MROCE_DROP_STALE_EPOCH;
	}
	if (a->psn < a->una || a->psn - a->una > MROCE_WINDOW)
		return -MROCE_DROP_SEQUENCE;
	m->epoch = a->epoch;
	if (a->una > m->kbase)
		m->kbase = a->una;
	if (m->base > m->kbase)
		m->kbase = m->base;
	if (m->kbase - 1 > m->highest)
		m->highest = m->kbase - 1;
	return 0;
}

/* Has a hole just come to be more than `tolerance` below the highest PSN seen? */
static int model_loss(const struct model *m, int64_t was, int64_t is)
{
	if (m->tolerance == 0)
		return is > was + 1;
	if (m->tolerance >= MROCE_WINDOW)
		return 0;
	for (int64_t hole = m->kbase; hole < is - (int64_t)m->tolerance; hole++)
		if (!m->seen[hole] && was - hole <= (int64_t)m->tolerance)
			return 1;
	return 0;
}

static int model_rx(struct model *m, const struct arrival *a)
{
	int err = model_arrival(m, a);
	int64_t was;

	if (err)
		return err;
	if (a->psn < m->kbase) {
		m->late++;
		return -MROCE_DROP_LATE;
	}
	if (a->psn >= m->kbase + MROCE_WINDOW) {
		m->ahead++;
		return -MROCE_DROP_AHEAD;
	}
	if (m->seen[a->psn]) {
		m->duplicate++;
		return -MROCE_DROP_DUPLICATE;
	}
	m->seen[a->psn] = 1;
	if (a->psn <= m->highest)
		return TRACK_NEW;
	was = m->highest;
	m->highest = a->psn;
	if (!model_loss(m, was, a->psn))
		return TRACK_NEW;
	m->gaps++;
	return TRACK_GAP;
}

static int model_poll(struct model *m, const struct arrival *a)
{
	int err = model_arrival(m, a);

	if (!err && a->psn - 1 > m->highest)
		m->highest = a->psn - 1;
	return err;
}

static void model_slide(struct model *m)
{
	while (m->placed[m->base])
		m->base++;
}

static void model_una(struct model *m, int64_t una)
{
	if (una > m->base)
		m->base = una;
	model_slide(m);
}

static int model_in_window(const struct model *m, int64_t psn)
{
	return psn >= m->base && psn < m->base + MROCE_WINDOW;
}

static void model_place(struct model *m, int64_t psn)
{
	if (model_in_window(m, psn))
		m->placed[psn] = 1;
	model_slide(m);
}

static void model_miss(struct model *m, int64_t psn)
{
	if (model_in_window(m, psn) && !m->placed[psn])
		m->missed[psn] = 1;
}

/* Bits are a ring: a miss the daemon has not moved past yet also hides the PSN 256 above it. */
static int model_hidden(const struct model *m, int64_t psn)
{
	if (psn >= m->base && psn < m->base + MROCE_WINDOW && m->missed[psn])
		return 1;
	return psn - MROCE_WINDOW >= m->base && m->missed[psn - MROCE_WINDOW];
}

/* No PSN of the model: they begin at 0. */
#define NONE_WRONG (-1)

/* The first PSN of which the model and the ACK differ about its being placed. */
static int64_t wrong_placed(const struct model *m, const struct track_state *s, uint32_t first)
{
	for (int64_t psn = m->base - 5; psn < m->base + MROCE_WINDOW + 5; psn++) {
		int placed = psn < m->base || (model_in_window(m, psn) && m->placed[psn]);

		if (says_placed(s, first + (uint32_t)psn) != placed)
			return psn;
	}
	return NONE_WRONG;
}

/* And about its being seen; of what is placed the ACK need not say so. */
static int64_t wrong_seen(const struct model *m, const struct track_state *s, uint32_t first)
{
	for (int64_t psn = m->kbase; psn < m->kbase + MROCE_WINDOW; psn++) {
		int seen = m->seen[psn] && !model_hidden(m, psn);

		if (m->placed[psn] && model_in_window(m, psn))
			continue;
		seen = psn < m->base || (psn <= m->highest && seen);
		if (says_seen(s, first + (uint32_t)psn) != seen)
			return psn;
	}
	return NONE_WRONG;
}

static void compare(const struct model *m, struct mroce_path_rx *rx, uint32_t first)
{
	struct track_state s;

	track_ack(rx, &s);
	ck_assert_uint_eq(s.base, first + (uint32_t)m->base);
	ck_assert_uint_eq(s.highest, first + (uint32_t)m->highest);
	ck_assert_uint_eq(rx->kbase, first + (uint32_t)m->kbase);
	ck_assert_uint_eq((uint16_t)rx->epoch, (uint16_t)m->epoch);
	ck_assert_uint_eq(s.late, (uint16_t)(m->late + m->duplicate));
	ck_assert_uint_eq(rx->gaps, m->gaps);
	ck_assert_uint_eq(rx->ahead, m->ahead);
	ck_assert_uint_eq(rx->stale, m->stale);
	ck_assert_uint_eq(s.rx_bytes, m->packets * 100);
	ck_assert_int_eq(wrong_placed(m, &s, first), NONE_WRONG);
	ck_assert_int_eq(wrong_seen(m, &s, first), NONE_WRONG);
}

/* Mostly a path that goes on with loss and some reordering; now and then anything. */
static struct arrival random_arrival(const struct model *m)
{
	struct arrival a = { .epoch = m->epoch };

	a.psn = m->highest + 1;
	if (one_in(8))
		a.psn += random_below(6);
	if (one_in(6))
		a.psn -= random_below(40);
	if (one_in(40))
		a.psn = m->kbase - 20 + random_below(MROCE_WINDOW + 60);
	a.una = m->kbase;
	if (one_in(10) && a.psn > a.una)
		a.una += random_below((uint32_t)(a.psn - a.una));
	if (a.psn - a.una > MROCE_WINDOW - 20)
		a.una = a.psn - MROCE_WINDOW + 40 + random_below(100);
	if (one_in(50))
		a.una = a.psn + 5 - random_below(300);
	if (one_in(5000))
		a.una = a.psn = a.psn + 200 + random_below(400);
	if (one_in(200))
		a.psn = a.una + MROCE_WINDOW;
	if (one_in(100))
		a.epoch += (int32_t)random_below(3) - 1;
	return a;
}

struct door {
	struct arrival waiting[64];
	int n;
};

static struct arrival door_take(struct door *d)
{
	int i = (int)random_below((uint32_t)d->n);
	struct arrival a = d->waiting[i];

	d->waiting[i] = d->waiting[--d->n];
	return a;
}

static void daemon_step(struct mroce_path_rx *rx, struct door *d, uint32_t first)
{
	struct arrival a = door_take(d);

	track_una(rx, first + (uint32_t)a.una);
	model_una(&model, a.una);
	if (one_in(15)) {
		track_miss(rx, first + (uint32_t)a.psn);
		model_miss(&model, a.psn);
	} else if (!one_in(30)) {
		track_place(rx, first + (uint32_t)a.psn);
		model_place(&model, a.psn);
	}
}

static void tracker_step(struct mroce_path_rx *rx, struct door *d, uint32_t first)
{
	struct arrival a = random_arrival(&model);
	struct track_packet p = packet(first + (uint32_t)a.psn, first + (uint32_t)a.una);
	int verdict;

	p.epoch = (uint16_t)a.epoch;
	if (one_in(16)) {
		ck_assert_int_eq(track_poll(rx, &p), model_poll(&model, &a));
		return;
	}
	verdict = track_rx(rx, &p);
	ck_assert_int_eq(verdict, model_rx(&model, &a));
	if (verdict >= 0 && d->n < 64)
		d->waiting[d->n++] = a;
}

START_TEST(track__random_run_agrees_with_the_model)
{
	/* Wraps after 256, 1000, ... PSNs; the last begins in the middle. */
	static const uint32_t firsts[] = { 0xfffffe00, 0xfffffc00, 0, 0x7fffff00, 0x12345678 };
	uint32_t first = firsts[_i % 5];
	struct mroce_path_rx rx;
	struct door door = { .n = 0 };

	random_state = 77 + (uint64_t)_i;
	memset(&model, 0, sizeof(model));
	model.base = model.kbase = 2 * MROCE_WINDOW;
	model.highest = model.base - 1;
	model.epoch = _i % 2 ? 0xfff0 : 0;
	track_reset(&rx, first + (uint32_t)model.base);
	rx.epoch = (uint16_t)model.epoch;
	for (int i = 0; i < 40000 && model.highest < SPACE - 2000; i++) {
		if (one_in(2000)) {
			static const uint32_t tolerances[] = { 0, 0, 1, 3, 20, 255, 256 };

			model.tolerance = tolerances[random_below(7)];
			rx.nack_tolerance = model.tolerance;
		}
		if (door.n && one_in(door.n > 32 ? 1 : 3))
			daemon_step(&rx, &door, first);
		else
			tracker_step(&rx, &door, first);
		if (i % 8 == 0)
			compare(&model, &rx, first);
	}
	ck_assert_int_gt(model.highest, 10000);
	ck_assert(model.gaps && model.late && model.duplicate && model.ahead && model.stale);
}
END_TEST

/* ---- every interleaving ---- */

/*
 * The daemon's steps read none of the tracker's words, so what it writes does not depend on the
 * schedule: it runs alone once and its writes are logged. Then the tracker's code runs for real, once
 * for every way in which those writes can land between its reads. Memory is taken to be sequentially
 * consistent; the two orders that the code needs beyond that are a release and a full barrier, named
 * at the top of track.h.
 */
enum daemon_op { D_UNA, D_PLACE, D_MISS };

struct daemon_step {
	enum daemon_op op;
	uint32_t psn;
};

struct scene {
	struct mroce_path_rx start;
	struct daemon_step daemon[4];
	int daemon_steps;
	struct track_packet packets[3]; /* by the tracker, before the ACK */
	int npackets;
	int elsewhere;	   /* the packets are tracked on another CPU, while the ACK is made */
	int publish_first; /* a wrong daemon, to see that the test sees */
	/* Truth, of the PSNs [low, low + 3 * window): at the start. */
	uint32_t low;
	uint8_t done[3 * MROCE_WINDOW]; /* placed, or given up */
	uint8_t seen[3 * MROCE_WINDOW]; /* by the tracker */
	uint32_t una;			/* highest that was ever sent */
};

static void daemon_run(struct mroce_path_rx *rx, const struct daemon_step *d)
{
	switch (d->op) {
	case D_UNA: track_una(rx, d->psn); break;
	case D_PLACE: track_place(rx, d->psn); break;
	case D_MISS: track_miss(rx, d->psn); break;
	}
}

/* Swaps the order of clearing and publishing in what was logged. */
static void spoil(void)
{
	size_t base = __builtin_offsetof(struct mroce_path_rx, base);

	for (int i = 1; i < explorer.logged[0]; i++) {
		struct logged *l = explorer.log[0];

		for (int k = i; k > 0 && l[k].offset == base && l[k - 1].offset != base; k--) {
			struct logged swap = l[k];

			l[k] = l[k - 1];
			l[k - 1] = swap;
		}
	}
}

static void record(const struct scene *scene)
{
	struct mroce_path_rx rx = scene->start;

	memset(&explorer, 0, sizeof(explorer));
	explorer.rx = &rx;
	explorer.recording = 1;
	for (explorer.op = 0; explorer.op < scene->daemon_steps; explorer.op++)
		daemon_run(&rx, &scene->daemon[explorer.op]);
	if (scene->publish_first)
		spoil();
	rx = scene->start;
	explorer.writer = 1;
	for (int i = 0; scene->elsewhere && i < scene->npackets; i++) {
		struct track_packet p = scene->packets[i];

		explorer.op = i;
		track_rx(&rx, &p);
	}
	explorer.recording = 0;
}

/* What holds for a scene in every schedule of it, by PSN from scene.low on. */
#define NEVER 255
static struct {
	uint8_t done_after[3 * MROCE_WINDOW]; /* so many operations of the daemon have begun, or NEVER */
	uint8_t unjudged[3 * MROCE_WINDOW]; /* given up: its bit may say anything */
} truth;

static uint8_t done_after(const struct scene *scene, uint32_t psn)
{
	if (scene->done[psn - scene->low])
		return 0;
	for (int i = 0; i < scene->daemon_steps; i++) {
		const struct daemon_step *d = &scene->daemon[i];

		if ((d->op == D_PLACE && d->psn == psn) ||
		    (d->op == D_UNA && psn_before(psn, d->psn)))
			return (uint8_t)(i + 1);
	}
	return NEVER;
}

static int was_missed(const struct scene *scene, uint32_t psn)
{
	for (int i = 0; i < scene->daemon_steps; i++)
		if (scene->daemon[i].op == D_MISS && scene->daemon[i].psn == psn)
			return 1;
	return 0;
}

static void learn_truth(const struct scene *scene)
{
	for (uint32_t i = 0; i < 3 * MROCE_WINDOW; i++) {
		uint32_t psn = scene->low + i;

		truth.done_after[i] = done_after(scene, psn);
		truth.unjudged[i] = psn_before(psn, scene->una) || was_missed(scene, psn) ||
				    was_missed(scene, psn - MROCE_WINDOW);
	}
}

/* 1: the ACK promises what is not there. 2: it shows a hole where there is none. 3: it has seen what
 * was never there. */
static int judge(const struct scene *scene, const struct track_state *s, const uint8_t *seen)
{
	for (uint32_t i = 0; i < 3 * MROCE_WINDOW; i++) {
		uint32_t psn = scene->low + i;
		int done = truth.done_after[i] <= explorer.ops_begun[0];

		if (!done && says_placed(s, psn))
			return 1;
		if (truth.unjudged[i])
			continue;
		if (seen[i] && !scene->elsewhere && !says_seen(s, psn) &&
		    !psn_before(s->highest, psn))
			return 2;
		if (!seen[i] && !done && says_seen(s, psn))
			return 3;
	}
	return 0;
}

static int one_schedule(const struct scene *scene)
{
	struct mroce_path_rx rx = scene->start;
	uint8_t seen[3 * MROCE_WINDOW];
	struct track_state s;

	memcpy(seen, scene->seen, sizeof(seen));
	explorer.rx = &rx;
	for (int w = 0; w < 2; w++)
		explorer.applied[w] = explorer.ops_begun[w] = 0;
	explorer.exploring = 1;
	for (int i = 0; i < scene->npackets; i++) {
		struct track_packet p = scene->packets[i];

		if (scene->elsewhere || track_rx(&rx, &p) >= 0)
			seen[p.psn - scene->low] = 1;
	}
	track_ack(&rx, &s);
	explorer.exploring = 0;
	return judge(scene, &s, seen);
}

/* The verdict of the first schedule that goes wrong, or 0; and how many were run. */
static int explore(const struct scene *scene, long *schedules)
{
	int verdict;

	record(scene);
	learn_truth(scene);
	do {
		verdict = one_schedule(scene);
		++*schedules;
	} while (!verdict && next_schedule());
	return verdict;
}

static void scene_start(struct scene *scene, uint32_t first)
{
	memset(scene, 0, sizeof(*scene));
	track_reset(&scene->start, first);
	scene->low = first - MROCE_WINDOW;
	memset(scene->done, 1, MROCE_WINDOW);
	memset(scene->seen, 1, MROCE_WINDOW);
	scene->una = first;
}

static void scene_see(struct scene *scene, uint32_t psn, uint32_t una)
{
	struct track_packet p = packet(psn, una);

	if (track_rx(&scene->start, &p) >= 0)
		scene->seen[psn - scene->low] = 1;
	scene->una = psn_max(scene->una, una);
}

static void scene_place(struct scene *scene, uint32_t psn)
{
	track_place(&scene->start, psn);
	scene->done[psn - scene->low] = 1;
}

static void scene_daemon(struct scene *scene, enum daemon_op op, uint32_t psn)
{
	scene->daemon[scene->daemon_steps++] = (struct daemon_step){ op, psn };
}

/* All of a window but its first PSN was placed; then the first comes, and base jumps by a window. */
static void scene_whole_window(struct scene *scene, uint32_t first)
{
	scene_start(scene, first);
	for (uint32_t i = 0; i < MROCE_WINDOW; i++)
		scene_see(scene, first + i, first);
	for (uint32_t i = 1; i < MROCE_WINDOW; i++)
		scene_place(scene, first + i);
	scene_daemon(scene, D_PLACE, first);
}

START_TEST(interleaving__base_jumps_by_a_window)
{
	struct scene scene;
	long n = 0;

	scene_whole_window(&scene, 0xffffff42);
	ck_assert_int_eq(explore(&scene, &n), 0);
	ck_assert_int_gt(n, 100);
}
END_TEST

/* The first PSN is given up; its bit is taken by the PSN a window above, which is placed. */
START_TEST(interleaving__bit_is_used_again_under_an_old_base)
{
	uint32_t first = 0xffffff42;
	struct scene scene;
	long n = 0;

	scene_whole_window(&scene, first);
	scene.daemon_steps = 0;
	scene_see(&scene, first + MROCE_WINDOW, first + 1);
	scene_see(&scene, first + MROCE_WINDOW + 1, first + 2);
	scene_daemon(&scene, D_UNA, first + 1);
	scene_daemon(&scene, D_PLACE, first + MROCE_WINDOW + 1);
	scene_daemon(&scene, D_PLACE, first + MROCE_WINDOW);
	ck_assert_int_eq(explore(&scene, &n), 0);
	ck_assert_int_gt(n, 1000);
}
END_TEST

START_TEST(interleaving__new_packet_as_soon_as_base_moves)
{
	uint32_t first = 30;
	struct scene scene;
	long n = 0;

	scene_whole_window(&scene, first);
	scene.packets[scene.npackets++] = packet(first + MROCE_WINDOW, first);
	scene.packets[scene.npackets++] = packet(first + MROCE_WINDOW + 1, first + 2);
	scene.una = first + 2;
	ck_assert_int_eq(explore(&scene, &n), 0);
	ck_assert_int_gt(n, 100);
}
END_TEST

/* NACKs are made on the skb path, perhaps on another CPU than the one that tracks. */
START_TEST(interleaving__ack_on_a_third_cpu)
{
	uint32_t first = 62;
	struct scene scene;
	long n = 0;

	scene_start(&scene, first);
	for (uint32_t i = 0; i < 5; i++)
		scene_see(&scene, first + i, first);
	scene_place(&scene, first + 1);
	scene_daemon(&scene, D_PLACE, first);
	scene_daemon(&scene, D_MISS, first + 3);
	scene.packets[scene.npackets++] = packet(first + 7, first + 1);
	scene.elsewhere = 1;
	ck_assert_int_eq(explore(&scene, &n), 0);
	ck_assert_int_gt(n, 1000);
}
END_TEST

/* A daemon that publishes base before it has cleared the bits must be caught. */
START_TEST(interleaving__wrong_order_is_found)
{
	struct scene scene;
	long n = 0;

	scene_whole_window(&scene, 0xffffff42);
	scene.publish_first = 1;
	ck_assert_int_eq(explore(&scene, &n), 1);
}
END_TEST

static void scene_random(struct scene *scene)
{
	uint32_t first = one_in(2) ? 0u - random_below(100) : random_below(300);
	uint32_t top = first, una = first, span = 2 + random_below(MROCE_WINDOW - 2);

	scene_start(scene, first);
	for (uint32_t i = 0; i < span; i++) {
		if (one_in(9))
			una = first + random_below(i + 1);
		una = psn_max(una, scene->una);
		if (!one_in(7)) {
			top = first + i;
			scene_see(scene, top, una);
		}
	}
	for (uint32_t i = 1; i < span; i++)
		if (scene->seen[MROCE_WINDOW + i] && !one_in(20))
			scene_place(scene, first + i);
	for (int i = 0; i < 2; i++) {
		uint32_t psn = first + random_below(span);

		if (one_in(3))
			scene_daemon(scene, D_UNA, scene->una);
		else if (scene->seen[psn - scene->low])
			scene_daemon(scene,
				     one_in(4) && !scene->done[psn - scene->low] ? D_MISS : D_PLACE,
				     psn);
	}
	scene->packets[scene->npackets++] = packet(top + 1 + random_below(3), scene->una);
	if (one_in(2))
		scene->una = scene->packets[0].una = scene->una +
						     random_below(top + 1 - scene->una + 1);
}

START_TEST(interleaving__random_scenes)
{
	struct scene scene;
	long n = 0;

	random_state = 4711 + (uint64_t)_i;
	for (int i = 0; i < 100; i++) {
		int verdict;

		scene_random(&scene);
		verdict = explore(&scene, &n);
		ck_assert_msg(verdict == 0, "seed %d, scene %d, schedule %ld: verdict %d",
			      4711 + _i, i, n, verdict);
	}
	ck_assert_int_gt(n, 1000);
}
END_TEST

static Suite *track_suite(void)
{
	Suite *suite = suite_create("track");
	TCase *cases = tcase_create("tables");
	TCase *random = tcase_create("model");
	TCase *interleaving = tcase_create("interleaving");

	tcase_add_loop_test(cases, track_rx__tables, 0, (int)(sizeof(tables) / sizeof(tables[0])));
	tcase_add_test(cases, track_rx__counters_wrap);
	tcase_add_test(cases, track_miss__shows_a_hole_until_given_up);
	tcase_add_test(cases, track_miss__of_what_is_placed_changes_nothing);
	tcase_add_test(cases, track_run__whole_window_from_any_alignment);
	tcase_add_test(cases, bitmap_range__every_start_and_length);
	suite_add_tcase(suite, cases);
	tcase_add_loop_test(random, track__random_run_agrees_with_the_model, 0, 5);
	suite_add_tcase(suite, random);
	tcase_add_test(interleaving, interleaving__base_jumps_by_a_window);
	tcase_add_test(interleaving, interleaving__bit_is_used_again_under_an_old_base);
	tcase_add_test(interleaving, interleaving__new_packet_as_soon_as_base_moves);
	tcase_add_test(interleaving, interleaving__ack_on_a_third_cpu);
	tcase_add_test(interleaving, interleaving__wrong_order_is_found);
	tcase_add_loop_test(interleaving, interleaving__random_scenes, 0, 5);
	suite_add_tcase(suite, interleaving);
	return suite;
}

UNIT_MAIN(track_suite)
