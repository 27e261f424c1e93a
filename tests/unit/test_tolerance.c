// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stated loss tolerance: the account of what is missing agrees with the memory to the byte, whatever the
 * network, the deadline and the policy; nothing lands in memory that was given back.
 */
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "core/internal.h"
#include "pair.h"
#include "unit.h"

#define BOTH (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)
#define OLD 0xa5
#define ROUNDS 48 /* messages on one pair of engines */
#define SLOT 400000u
#define RANGES 4096

/* ---- the extension ---- */

START_TEST(ext__there_and_back)
{
	struct mroce_tolerance in = { .max_missing = 12345,
				      .deadline_us = 678,
				      .fill = MROCE_FILL_KEEP,
				      .over = MROCE_OVER_FAIL,
				      .ncritical = (uint8_t)_i,
				      .critical = {
					      { 1, 2 }, { 1ull << 39, 7 }, { 3, 4 }, { 5, 6 } } };
	struct mroce_tolerance out;
	uint8_t buf[128];
	uint32_t len = tolerance_build(&in, buf);

	for (uint32_t i = in.ncritical; i < MROCE_CRITICAL; i++)
		in.critical[i] = (struct mroce_range){ 0 };
	ck_assert_uint_eq(len, 12 + 16 * (uint32_t)_i);
	for (uint32_t shorter = 0; shorter < len; shorter++)
		ck_assert_int_lt(tolerance_parse(buf, shorter, &out), 0);
	ck_assert_int_eq(tolerance_parse(buf, sizeof(buf), &out), (int)len);
	ck_assert_mem_eq(&in, &out, sizeof(in));
	buf[9] = MROCE_CRITICAL + 1;
	ck_assert_int_lt(tolerance_parse(buf, sizeof(buf), &out), 0);
}
END_TEST

START_TEST(fits__bounds)
{
	struct mroce_tolerance t = { .max_missing = 1000000,
				     .ncritical = 1,
				     .critical = { { 90, 10 } } };

	ck_assert(tolerance_fits(&t, 100));
	ck_assert(!tolerance_fits(&t, 99));
	t.critical[0].length = UINT64_MAX;
	ck_assert(!tolerance_fits(&t, 100));
	t.ncritical = 0;
	t.max_missing = 1000001;
	ck_assert(!tolerance_fits(&t, 100));
}
END_TEST

START_TEST(gaps__ranges)
{
	struct mroce_gaps g = {
		.msg_len = 64 * 10 - 3, .chunk_size = 10, .first = 2, .word = { 0x8b }
	};
	struct mroce_range r[4];

	/* 1000 1011 from chunk 2 on: 2 and 3, 5, 9. */
	ck_assert_uint_eq(gaps_ranges(&g, r, 4), 3);
	ck_assert(r[0].offset == 20 && r[0].length == 20);
	ck_assert(r[1].offset == 50 && r[1].length == 10);
	ck_assert(r[2].offset == 90 && r[2].length == 10);
	g.word[0] = 1ull << 61;
	ck_assert_uint_eq(gaps_ranges(&g, r, 4), 1);
	ck_assert(r[0].offset == 630 && r[0].length == 7);
	/* Beyond the span nothing has come. */
	g.msg_len = 10ull * 5000;
	g.word[0] = 0;
	ck_assert_uint_eq(gaps_ranges(&g, r, 4), 1);
	ck_assert(r[0].offset == 10ull * (2 + MROCE_CHUNK_SPAN) &&
		  r[0].offset + r[0].length == g.msg_len);
	ck_assert_uint_eq(gaps_ranges(&g, NULL, 0), 1);
}
END_TEST

/* ---- whole messages over bad networks ---- */

struct bad_net {
	uint32_t loss, burst_in, burst_out; /* percent */
	uint32_t size;			    /* larger packets vanish; 0: none do */
	bool in_burst, data_only;
};

static enum pair_fate bad(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	struct bad_net *n = p->fate_arg;

	(void)from;
	(void)remote;
	if (n->size && (uint32_t)MROCE_HDR_LEN + pk->body_len > n->size)
		return PAIR_DROP;
	if (n->data_only && pk->type != MROCE_DATA)
		return PAIR_PASS;
	if (pair_rand(p) % 100 < (n->in_burst ? n->burst_out : n->burst_in))
		n->in_burst = !n->in_burst;
	if (n->in_burst || pair_rand(p) % 100 < n->loss)
		return PAIR_DROP;
	return pair_rand(p) % 100 < 2	? PAIR_HOLD
	       : pair_rand(p) % 100 < 1 ? PAIR_DUPLICATE
					: PAIR_PASS;
}

struct shot {
	struct mroce_tolerance t;
	uint32_t len;
	uint8_t op;
	bool tolerant;
};

/* ---- memory that is written only by its flush, as that of another process is ---- */

struct lazy {
	uint8_t *mem;
	uint32_t n;
	struct {
		uint64_t offset;
		const void *src;
		uint32_t len;
	} todo[8192];
};

static int lazy_write(void *priv, uint64_t offset, const void *src, uint32_t len)
{
	struct lazy *l = priv;

	ck_assert_uint_lt(l->n, 8192);
	l->todo[l->n].offset = offset;
	l->todo[l->n].src = src;
	l->todo[l->n++].len = len;
	return 0;
}

static int lazy_flush(void *priv)
{
	struct lazy *l = priv;

	for (uint32_t i = 0; i < l->n; i++)
		memcpy(l->mem + l->todo[i].offset, l->todo[i].src, l->todo[i].len);
	l->n = 0;
	return 0;
}

static int lazy_read(void *priv, uint64_t offset, void *dst, uint32_t len)
{
	memcpy(dst, ((struct lazy *)priv)->mem + offset, len);
	return 0;
}

static uint32_t lazy_region(struct pair *p, struct lazy *l, void *mem, uint64_t len)
{
	static const struct region_ops ops = { .read = lazy_read,
					       .write = lazy_write,
					       .flush = lazy_flush };
	struct region_params r = {
		.iova = (uintptr_t)mem, .len = len, .access = BOTH, .ops = &ops, .priv = l
	};
	uint32_t key = 0;

	l->mem = mem;
	ck_assert_int_eq(engine_region_add(p->side[1].engine, &r, &key), 0);
	return key;
}

struct range_world {
	struct lazy lazy;
	struct pair *p;
	struct bad_net net;
	uint8_t *src, *dst, *copy;
	uint32_t key[2];
	struct shot shots[ROUNDS];
	uint32_t recv_at[ROUNDS], tx_at[ROUNDS]; /* which completion is whose */
	uint32_t nrecv;
	bool narrowed; /* messages may have been cut anew under way */
};

static uint32_t below(struct pair *p, uint32_t n)
{
	return pair_rand(p) % n;
}

static struct shot draw(struct pair *p)
{
	static const uint32_t bounds[] = { 0, 1000, 10000, 50000, 200000, 1000000 };
	static const uint32_t deadlines[] = { 0, 0, 50, 300, 3000, 20000 };
	static const uint32_t lens[] = { 0, 1, 900, 5000, 60000, 100000, SLOT };
	static const uint8_t ops[] = { MROCE_WR_SEND, MROCE_WR_SEND_IMM, MROCE_WR_WRITE_IMM,
				       MROCE_WR_WRITE };
	struct shot s = { .tolerant = below(p, 4) != 0, .op = ops[below(p, 4)] };

	s.len = lens[below(p, 7)];
	s.len -= s.len > 1000 ? below(p, 1000) : 0;
	s.t.max_missing = bounds[below(p, 6)];
	s.t.deadline_us = deadlines[below(p, 6)];
	s.t.fill = (uint8_t)below(p, 2);
	s.t.over = (uint8_t)below(p, 2);
	s.t.ncritical = (uint8_t)(s.len && !below(p, 2) ? below(p, MROCE_CRITICAL + 1) : 0);
	for (uint32_t i = 0; i < s.t.ncritical; i++) {
		s.t.critical[i].offset = below(p, s.len);
		s.t.critical[i].length = below(p, s.len - (uint32_t)s.t.critical[i].offset + 1) /
					 (1 + below(p, 20));
	}
	return s;
}

static void post_shot(struct range_world *w, uint32_t i)
{
	struct shot *s = &w->shots[i];
	bool write = s->op == MROCE_WR_WRITE || s->op == MROCE_WR_WRITE_IMM;
	uint8_t *to = w->dst + (uint64_t)i * SLOT;
	struct work_request wr = {
		.id = i,
		.opcode = s->op,
		.stream = i % 2,
		.key = w->key[0],
		.addr = (uintptr_t)w->src + (uint64_t)i * SLOT,
		.len = s->len,
		.imm = i,
		.raddr = write ? (uintptr_t)to : 0,
		.rkey = write ? w->key[1] : 0,
		.tolerance = s->tolerant ? &s->t : NULL,
	};

	if (s->op != MROCE_WR_WRITE) {
		ck_assert_int_eq(pair_post(w->p, 1, MROCE_WR_RECV, wr.stream, i, w->key[1], to,
					   SLOT, NULL, 0, 0),
				 0);
		w->nrecv++;
	}
	ck_assert_int_eq(engine_post(w->p->side[0].conn, &wr, w->p->now), 0);
}

static bool all_ended(struct pair *p)
{
	const struct range_world *w = (void *)((char *)p->fate_arg -
					       offsetof(struct range_world, net));

	return p->side[0].ndone == ROUNDS && p->side[1].ndone == w->nrecv;
}

static void check_critical(const struct shot *s, const struct mroce_range *gap)
{
	for (uint32_t i = 0; i < s->t.ncritical; i++) {
		const struct mroce_range *c = &s->t.critical[i];

		ck_assert(c->offset >= gap->offset + gap->length ||
			  gap->offset >= c->offset + c->length || !c->length);
	}
}

static bool all_are(const uint8_t *p, uint64_t n, uint8_t value)
{
	while (n && *p == value) {
		p++;
		n--;
	}
	return !n;
}

/*
 * What a gap holds. Of a message that was cut anew under way, what had come in the old cut counts as missing; under
 * MROCE_FILL_KEEP it is still there.
 */
static bool gap_holds(const struct range_world *w, const struct shot *s, const uint8_t *src,
		      const uint8_t *dst, uint64_t n)
{
	if (s->t.fill != MROCE_FILL_KEEP)
		return all_are(dst, n, 0);
	if (!w->narrowed)
		return all_are(dst, n, OLD);
	while (n && (dst[n - 1] == OLD || dst[n - 1] == src[n - 1]))
		n--;
	return !n;
}

/* The memory of message i against the list of what is missing in it. */
static void check_bytes(const struct range_world *w, uint32_t i, const struct engine_completion *c)
{
	static struct mroce_range gap[RANGES];
	const struct shot *s = &w->shots[i];
	const uint8_t *src = w->src + (uint64_t)i * SLOT, *dst = w->dst + (uint64_t)i * SLOT;
	uint32_t n = c->gaps ? gaps_ranges(c->gaps, gap, RANGES) : 0;
	uint64_t at = 0, missing = 0;

	ck_assert(!c->missing == !n);
	for (uint32_t g = 0; g < n; g++) {
		ck_assert(gap[g].length && (!g || gap[g].offset > at) &&
			  gap[g].offset + gap[g].length <= s->len);
		ck_assert_mem_eq(src + at, dst + at, gap[g].offset - at);
		ck_assert(gap_holds(w, s, src + gap[g].offset, dst + gap[g].offset, gap[g].length));
		if (c->status == MROCE_OK)
			check_critical(s, &gap[g]);
		at = gap[g].offset + gap[g].length;
		missing += gap[g].length;
	}
	ck_assert_mem_eq(src + at, dst + at, s->len - at);
	ck_assert_uint_eq(missing, c->missing);
	ck_assert_uint_eq(c->length + c->missing, s->len);
	ck_assert(all_are(dst + s->len, SLOT - s->len, OLD));
}

static void check_verdict(const struct shot *s, const struct engine_completion *c)
{
	uint64_t bound = s->tolerant ? (uint64_t)s->len * s->t.max_missing / 1000000 : 0;

	if (c->status == MROCE_OK) {
		ck_assert_uint_le(c->missing, bound);
		return;
	}
	ck_assert_uint_eq(c->status, MROCE_E_LOSS);
	ck_assert(s->tolerant && s->t.over == MROCE_OVER_FAIL && s->t.deadline_us && c->missing);
	ck_assert(c->missing > bound || s->t.ncritical);
}

static void check_all(struct range_world *w)
{
	const struct pair_side *tx = &w->p->side[0], *rx = &w->p->side[1];

	for (uint32_t i = 0; i < ROUNDS; i++)
		w->tx_at[tx->done[i].id] = i;
	for (uint32_t i = 0; i < w->nrecv; i++) {
		const struct engine_completion *c = &rx->done[i];
		const struct engine_completion *sent = &tx->done[w->tx_at[c->id]];

		check_verdict(&w->shots[c->id], c);
		check_bytes(w, (uint32_t)c->id, c);
		ck_assert_uint_eq(sent->status, c->status);
		ck_assert_uint_eq(sent->missing, c->missing);
		ck_assert_uint_eq(sent->length, c->length);
	}
	for (uint32_t i = 0; i < ROUNDS; i++) {
		check_verdict(&w->shots[i], &tx->done[w->tx_at[i]]);
		if (!w->shots[i].tolerant)
			ck_assert_mem_eq(w->src + (uint64_t)i * SLOT, w->dst + (uint64_t)i * SLOT,
					 w->shots[i].len);
	}
}

static void check_counters(const struct range_world *w)
{
	struct engine_stats st;
	uint64_t forgiven = 0, over = 0, missing = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct engine_completion *c = &w->p->side[0].done[i];

		forgiven += c->status == MROCE_OK && c->missing;
		over += c->status == MROCE_E_LOSS;
		missing += c->missing;
	}
	engine_stats(w->p->side[1].engine, &st);
	ck_assert_uint_eq(st.tolerance.forgiven, forgiven);
	ck_assert_uint_eq(st.tolerance.over, over);
	ck_assert_uint_eq(st.tolerance.missing, missing);
}

static void net_draw(struct range_world *w)
{
	static const uint32_t losses[] = { 0, 1, 3, 10, 30 };

	w->net.loss = losses[below(w->p, 5)];
	w->net.burst_in = below(w->p, 3);
	w->net.burst_out = 10 + below(w->p, 40);
	w->net.data_only = below(w->p, 2);
}

/* What was given back stays as it is, however long the network keeps old packets. */
static void check_nothing_lands(struct range_world *w)
{
	struct engine_stats st;

	memcpy(w->copy, w->dst, (uint64_t)ROUNDS * SLOT);
	w->p->fate = NULL;
	pair_run(w->p, 300000000ull, NULL);
	ck_assert_mem_eq(w->copy, w->dst, (uint64_t)ROUNDS * SLOT);
	for (int i = 0; i < 2; i++) {
		engine_stats(w->p->side[i].engine, &st);
		ck_assert_uint_eq(st.letters_used, 0);
		ck_assert_int_eq(w->p->side[i].ended, 0);
	}
}

START_TEST(property__account_is_exact)
{
	struct range_world *w = calloc(1, sizeof(*w));
	uint64_t size = (uint64_t)ROUNDS * SLOT;
	uint32_t streams_seen[2] = { 0, 0 };
	uint32_t narrow_at = _i % 3 == 2 ? (uint32_t)_i % ROUNDS
					 : ROUNDS; /* messages are cut anew */

	w->p = pair_new(NULL, 1 + (uint32_t)_i % 4);
	w->p->rng = 0x9e3779b9u * (uint32_t)(_i + 1) | 1;
	pair_connect(w->p);
	w->src = malloc(size);
	w->dst = malloc(size);
	w->copy = malloc(size);
	memset(w->dst, OLD, size);
	for (uint64_t i = 0; i < size; i += 4)
		memcpy(w->src + i, &(uint32_t){ pair_rand(w->p) }, 4);
	w->key[0] = pair_region(w->p, 0, w->src, size, BOTH);
	w->key[1] = _i & 1 ? lazy_region(w->p, &w->lazy, w->dst, size)
			   : pair_region(w->p, 1, w->dst, size, BOTH);
	net_draw(w);
	w->p->fate = bad;
	w->p->fate_arg = &w->net;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		w->shots[i] = draw(w->p);
		post_shot(w, i);
		if (i == narrow_at) {
			w->net.size = 1300;
			w->narrowed = true;
		}
		if (!below(w->p, 4))
			pair_run(w->p, below(w->p, 500000), NULL);
	}
	ck_assert(pair_run(w->p, 60000000000ull, all_ended));
	check_all(w);
	check_counters(w);
	for (uint32_t i = 0; i < ROUNDS; i++) { /* in the order of their streams */
		uint32_t id = (uint32_t)w->p->side[0].done[i].id;

		ck_assert_uint_eq(id, 2 * streams_seen[id % 2]++ + id % 2);
	}
	check_nothing_lands(w);
	pair_free(w->p);
	free(w->src);
	free(w->dst);
	free(w->copy);
	free(w);
}
END_TEST

/* ---- single situations ---- */

struct one {
	struct pair *p;
	uint8_t *mem[2];
	uint32_t key[2];
	uint64_t size;
};

static struct one one_of(const struct engine_config *cfg, uint64_t size)
{
	struct one o = { .p = pair_new(cfg, 1), .size = size };

	pair_connect(o.p);
	pair_run(o.p, 10000000, NULL); /* until it is known what paths carry */
	for (int i = 0; i < 2; i++) {
		o.mem[i] = malloc(size);
		memset(o.mem[i], i ? OLD : 0x11, size);
		o.key[i] = pair_region(o.p, i, o.mem[i], size, BOTH);
	}
	return o;
}

static void one_free(struct one *o)
{
	pair_free(o->p);
	free(o->mem[0]);
	free(o->mem[1]);
}

static void one_send(struct one *o, uint64_t id, const struct mroce_tolerance *t)
{
	struct work_request wr = { .id = id,
				   .opcode = MROCE_WR_SEND,
				   .key = o->key[0],
				   .addr = (uintptr_t)o->mem[0],
				   .len = o->size,
				   .tolerance = t };

	ck_assert_int_eq(
		pair_post(o->p, 1, MROCE_WR_RECV, 0, id, o->key[1], o->mem[1], o->size, NULL, 0, 0),
		0);
	ck_assert_int_eq(engine_post(o->p->side[0].conn, &wr, o->p->now), 0);
}

struct chunk_fate {
	uint32_t chunk; /* of every message */
	bool hold;	/* its first letter comes much later, the others are lost; else all are */
	uint32_t times;
	uint64_t hash, packets;
};

static enum pair_fate lose_chunk(struct pair *p, int from, struct packet *pk,
				 const struct ip *remote)
{
	struct chunk_fate *f = p->fate_arg;
	struct mroce_data d;

	(void)remote;
	(void)from;
	if (pk->type != MROCE_DATA)
		return PAIR_PASS;
	memcpy(&d, pk->body, sizeof(d));
	if (ntohl(d.chunk) != f->chunk)
		return PAIR_PASS;
	f->times++;
	if (f->hold)
		return f->times == 1 ? PAIR_HOLD : PAIR_DROP;
	return PAIR_DROP;
}

/* The receiver ends it within so many ns, with bytes missing; both sides are told the same. dark: the network comes back then. */
static void one_is_forgiven(struct one *o, uint64_t ns, bool dark)
{
	const struct engine_completion *rx = &o->p->side[1].done[0], *tx = &o->p->side[0].done[0];
	uint64_t start = o->p->now;

	pair_wait(o->p, 1, 1);
	ck_assert_uint_lt(o->p->now - start, ns);
	if (dark)
		o->p->fate = NULL;
	pair_wait(o->p, 0, 1);
	ck_assert_uint_eq(tx->status, MROCE_OK);
	ck_assert_uint_eq(rx->missing, tx->missing);
	ck_assert_uint_gt(rx->missing, 0);
}

/* Its repair could never come: the message ends without it, at both sides. */
START_TEST(forgive__chunk_that_never_comes)
{
	struct one o = one_of(NULL, 100000);
	struct chunk_fate f = { .chunk = 5 };
	struct mroce_tolerance t = { .max_missing = 20000 };

	o.p->fate = lose_chunk;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	one_is_forgiven(&o, 1000000, false);
	one_free(&o);
}
END_TEST

struct tail_fate {
	uint32_t chunk; /* from here on nothing of the sender comes through */
	enum pair_fate fate;
	bool dark;
};

static enum pair_fate lose_tail(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	struct tail_fate *f = p->fate_arg;
	struct mroce_data d;

	(void)remote;
	if (from != 0)
		return PAIR_PASS;
	if (pk->type == MROCE_DATA) {
		memcpy(&d, pk->body, sizeof(d));
		f->dark |= ntohl(d.chunk) >= f->chunk;
	}
	return f->dark ? f->fate : PAIR_PASS;
}

/* The last chunks are lost, and all that could have told of them: the message's own pace tells that it is over. */
START_TEST(forgive__tail_that_is_lost_whole)
{
	struct one o = one_of(NULL, 100000);
	struct tail_fate f = { .chunk = 72, .fate = PAIR_DROP };
	struct mroce_tolerance t = { .max_missing = 50000 };

	o.p->fate = lose_tail;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	one_is_forgiven(&o, 2000000, true);
	ck_assert(all_are(o.mem[1], o.size - o.p->side[1].done[0].missing, 0x11));
	one_free(&o);
}
END_TEST

/* Of a few chunks no pace can be told: what has not been sent yet, as it seems, is waited for. */
START_TEST(forgive__not_what_may_be_under_way)
{
	struct one o = one_of(NULL, 10000);
	struct tail_fate f = { .chunk = 5, .fate = PAIR_HOLD };
	struct mroce_tolerance t = { .max_missing = 500000 };

	o.p->hold_ns = 10000000;
	o.p->fate = lose_tail;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	pair_wait(o.p, 1, 1);
	ck_assert_uint_eq(o.p->side[1].done[0].missing, 0);
	pair_wait(o.p, 0, 1);
	one_free(&o);
}
END_TEST

/* A letter that the network kept back meets memory that is already somebody else's. */
START_TEST(forgive__late_letter_lands_nowhere)
{
	struct one o = one_of(NULL, 100000);
	struct chunk_fate f = { .chunk = 5, .hold = true };
	struct mroce_tolerance t = { .max_missing = 20000, .deadline_us = 100 };

	o.p->hold_ns = 50000000;
	o.p->fate = lose_chunk;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	pair_wait(o.p, 1, 1);
	ck_assert_uint_gt(o.p->side[1].done[0].missing, 0);
	memset(o.mem[1], 0x77, o.size);
	pair_run(o.p, 500000000ull, NULL);
	ck_assert(all_are(o.mem[1], o.size, 0x77));
	ck_assert_uint_eq(o.p->side[0].done[0].missing, o.p->side[1].done[0].missing);
	one_free(&o);
}
END_TEST

START_TEST(critical__is_waited_for)
{
	struct one o = one_of(NULL, 100000);
	struct chunk_fate f = { .chunk = 5 };
	struct mroce_tolerance t = { .max_missing = 500000,
				     .deadline_us = 200,
				     .ncritical = 1,
				     .critical = { { 7000, 1 } } };

	o.p->fate = lose_chunk;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	pair_run(o.p, 100000000, NULL);
	ck_assert_uint_eq(o.p->side[1].ndone, 0);
	o.p->fate = NULL;
	pair_wait(o.p, 1, 1);
	ck_assert_uint_eq(o.p->side[1].done[0].missing, 0);
	ck_assert_mem_eq(o.mem[0], o.mem[1], o.size);
	one_free(&o);
}
END_TEST

/* Over the bound: failing at the deadline, or waiting on. */
START_TEST(over__fail_or_wait)
{
	struct one o = one_of(NULL, 100000);
	struct chunk_fate f = { .chunk = 5 };
	struct mroce_tolerance t = { .max_missing = 10, .deadline_us = 2000, .over = (uint8_t)_i };

	o.p->fate = lose_chunk;
	o.p->fate_arg = &f;
	one_send(&o, 1, &t);
	pair_run(o.p, 50000000, NULL);
	ck_assert_uint_eq(o.p->side[1].ndone, _i == MROCE_OVER_FAIL);
	o.p->fate = NULL;
	pair_wait(o.p, 1, 1);
	pair_wait(o.p, 0, 1);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(o.p->side[i].done[0].status,
				  _i == MROCE_OVER_FAIL ? MROCE_E_LOSS : MROCE_OK);
	one_free(&o);
}
END_TEST

static enum pair_fate hash_data(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	struct chunk_fate *f = p->fate_arg;

	(void)from;
	(void)remote;
	if (packet_is_setup(pk->type))
		return PAIR_PASS;
	f->packets++;
	f->hash = f->hash * 0x100000001b3ull ^ p->now ^ (uint64_t)pk->type << 32 ^ pk->psn ^
		  (uint64_t)pk->path << 40 ^ (uint64_t)pk->una << 8;
	for (uint32_t i = 0; i < pk->body_len; i++)
		f->hash = (f->hash ^ pk->body[i]) * 0x100000001b3ull;
	return f->packets % 37 == 5 ? PAIR_DROP : PAIR_PASS;
}

static struct chunk_fate trace_of(bool feature, const struct mroce_tolerance *t)
{
	struct engine_config cfg;
	struct chunk_fate f = { 0 };
	struct one o;

	engine_config_default(&cfg);
	cfg.no_tolerance = !feature;
	o = one_of(&cfg, 300000);
	o.p->fate = hash_data;
	o.p->fate_arg = &f;
	for (uint32_t i = 0; i < 20; i++)
		one_send(&o, i, t);
	pair_wait(o.p, 0, 20);
	pair_wait(o.p, 1, 20);
	if (!feature || !t || !t->max_missing)
		ck_assert_mem_eq(o.mem[0], o.mem[1], o.size);
	one_free(&o);
	return f;
}

/* No tolerance, and one of nothing: every packet, its time and its bytes are those of the reliable path. */
START_TEST(nothing_stated__same_packets)
{
	struct mroce_tolerance none = { .deadline_us = 0 };
	struct mroce_tolerance some = { .max_missing = 10000 };
	struct chunk_fate off = trace_of(false, NULL), on = trace_of(true, NULL);
	struct chunk_fate zero = trace_of(true, &none), unknown = trace_of(false, &some);
	struct chunk_fate stated = trace_of(true, &some);

	ck_assert_uint_gt(off.packets, 4000);
	ck_assert(off.hash == on.hash && off.packets == on.packets);
	ck_assert(off.hash == zero.hash && off.packets == zero.packets);
	ck_assert(off.hash == unknown.hash && off.packets == unknown.packets);
	ck_assert(off.hash != stated.hash);
}
END_TEST

static Suite *tolerance_suite(void)
{
	const char *seeds = getenv("TOLERANCE_SEEDS");
	Suite *s = suite_create("tolerance");
	TCase *t = tcase_create("account");

	tcase_add_loop_test(t, ext__there_and_back, 0, MROCE_CRITICAL + 1);
	tcase_add_test(t, fits__bounds);
	tcase_add_test(t, gaps__ranges);
	suite_add_tcase(s, t);
	t = tcase_create("situations");
	tcase_add_test(t, forgive__chunk_that_never_comes);
	tcase_add_test(t, forgive__tail_that_is_lost_whole);
	tcase_add_test(t, forgive__not_what_may_be_under_way);
	tcase_add_test(t, forgive__late_letter_lands_nowhere);
	tcase_add_test(t, critical__is_waited_for);
	tcase_add_loop_test(t, over__fail_or_wait, 0, 2);
	tcase_add_test(t, nothing_stated__same_packets);
	suite_add_tcase(s, t);
	t = tcase_create("properties");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, property__account_is_exact, 0, seeds ? atoi(seeds) : 60);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(tolerance_suite)
