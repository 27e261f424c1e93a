// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stated loss tolerance: what completions say is missing is what is missing, whatever the network does; who states
 * nothing notices nothing; peers that forgive what they must not; and what it is worth.
 * TOLERANCE_SEEDS in the environment: so many worlds for each, instead of a few.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "figure.h"

#define SENDS (1 << MROCE_WR_SEND | 1 << MROCE_WR_SEND_IMM)
#define WRITES (1 << MROCE_WR_WRITE | 1 << MROCE_WR_WRITE_IMM)
#define READS (1 << MROCE_WR_READ)
#define TYPE(t) (1u << MROCE_##t)

static uint32_t seeds(uint32_t usual)
{
	const char *text = getenv("TOLERANCE_SEEDS");

	return text ? (uint32_t)strtoul(text, NULL, 10) : usual;
}

static struct tolerance_stats account_of(const struct sim *s, uint32_t host)
{
	struct engine_stats st;

	engine_stats(s->hosts[host]->engine, &st);
	return st.tolerance;
}

/* ---- the account ---- */

/* None, a little, a lot. */
static uint32_t share(struct rng *r, uint32_t most)
{
	return rng_below(r, 3) ? (uint32_t)rng_below(r, most >> rng_below(r, 4)) : 0;
}

static void draw_network(struct rng *r, struct sim_config *c)
{
	static const uint32_t feedback[] = { TYPE(ACK), TYPE(ACK) | TYPE(NACK), TYPE(POLL),
					     TYPE(FORGIVE), TYPE(FORGIVE) | TYPE(ACK) };

	c->imp = (struct impair){
		.loss = share(r, 30 * PERCENT),
		.burst_start = share(r, 20000),
		.burst_end = 20000 + (uint32_t)rng_below(r, 300000),
		.burst_loss = 1000000,
		.reorder = share(r, 40 * PERCENT),
		.reorder_ns = 1 + rng_below(r, 2 * MS),
		.dup = share(r, 30 * PERCENT),
		.corrupt = share(r, 5 * PERCENT),
		.types = feedback[rng_below(r, 5)],
		.type_loss = share(r, 70 * PERCENT),
	};
	c->planes = c->planes_b = 1 + (uint32_t)rng_below(r, 8) % 4;
	c->spines = 1 + (uint32_t)rng_below(r, 3);
	c->mtu = rng_below(r, 2) ? 1500 : 3498;
	c->delay_ns = 1 * US + rng_below(r, 50 * US);
	c->rate_mbps = rng_below(r, 2) ? 1000 : 10000;
	c->ring = rng_below(r, 4) ? 2048 : 16 + (uint32_t)rng_below(r, 60);
	c->wake_ns = c->jitter_ns = 1 + rng_below(r, rng_below(r, 4) ? 10 * US : 1 * MS);
	c->socket_ns = 1 + rng_below(r, 200 * US);
	c->paths = 1 + (uint32_t)rng_below(r, 8);
}

static void draw_traffic(struct rng *r, struct sim_config *c)
{
	static const uint32_t kinds[] = { SENDS, SENDS | WRITES, SENDS | WRITES | READS, WRITES };

	c->lanes = 1 + (uint32_t)rng_below(r, 4);
	c->one_way = rng_below(r, 2);
	c->kinds = kinds[rng_below(r, 4)];
	c->max = 1 + rng_below(r, 1ull << (10 + rng_below(r, 9)));
	c->min = rng_below(r, 2) ? c->max / 2 : 0;
	c->count = 8 + (uint32_t)rng_below(r, 12);
	c->window = 1 + (uint32_t)rng_below(r, 12);
	c->recv_window = rng_below(r, 2) ? 0 : 1 + (uint32_t)rng_below(r, 8);
	c->mode = (enum arena_mode)rng_below(r, ARENA_DEFERRED + 1);
	c->tolerant_ppm = (20 + (uint32_t)rng_below(r, 81)) * PERCENT;
	c->first_msg = rng_below(r, 2) ? 0 : 0xfffffffa;
	c->limit_ns = 600 * SEC;
	c->silence_ns = 30 * SEC;
	c->tries = 30;
	c->handshake_ns = 60 * SEC;
}

/* Everything is checked where completions come in (check.c), and the memory again long afterwards. */
static void account(struct sim *s)
{
	struct tolerance_stats sum = { 0 };
	uint32_t n = seeds(60);

	for (uint32_t i = 0; i < n && !s->failed; i++) {
		struct sim *child = world_child(s, &s->cfg);
		struct rng r = { mix64(s->seed * 1000003 + i) };

		child->seed = s->seed * 1000003 + i;
		draw_network(&r, &child->cfg);
		draw_traffic(&r, &child->cfg);
		world_standard(child);
		for (uint32_t h = 0; h < 2 && !child->failed; h++) {
			struct tolerance_stats st = account_of(child, h);

			sum.complete += st.complete;
			sum.forgiven += st.forgiven;
			sum.over += st.over;
			sum.missing += st.missing;
		}
		if (child->failed)
			sim_fail(s, "world %u: %s", i, child->failure);
		world_child_end(s, child);
	}
	sim_note(
		s,
		"%u worlds: %llu tolerant messages complete, %llu forgiven, %llu over their bound, "
		"%llu bytes missing",
		n, (unsigned long long)sum.complete, (unsigned long long)sum.forgiven,
		(unsigned long long)sum.over, (unsigned long long)sum.missing);
	CHECK(s, n < 20 || (sum.complete && sum.forgiven && sum.over),
	      "the worlds did not show every way to end");
}

/* ---- nothing stated, nothing changed ---- */

static bool hash_packets(struct sim *s, struct frame *p)
{
	uint64_t h = s->tap_state[0] ^ s->now;

	if (p->ctl) /* HELLO says what is offered */
		return true;
	s->tap_state[1]++;
	for (uint32_t i = 0; i < p->len; i++)
		h = (h ^ p->data[i]) * 0x100000001b3ull;
	s->tap_state[0] = h ^ h >> 29;
	return true;
}

static uint64_t packets_of(struct sim *s, bool feature, const struct mroce_tolerance *t)
{
	struct sim *child = world_child(s, &s->cfg);
	uint64_t hash;

	child->cfg.no_tolerance = !feature;
	child->cfg.tolerance = t;
	child->tap = hash_packets;
	world_standard(child);
	CHECK(child, child->tap_state[1] > 1000, "there were only %llu packets",
	      (unsigned long long)child->tap_state[1]);
	hash = child->tap_state[0];
	world_child_end(s, child);
	return hash;
}

/* Every packet, its time, and its bytes. */
static void same_packets(struct sim *s)
{
	static const struct mroce_tolerance nothing = { .fill = MROCE_FILL_KEEP };
	static const struct mroce_tolerance waits = { .deadline_us = 50, .over = MROCE_OVER_WAIT };
	static const struct mroce_tolerance some = { .max_missing = 10000 };
	uint64_t plain = packets_of(s, false, NULL);

	CHECK(s, packets_of(s, true, NULL) == plain, "the feature alone changes packets");
	CHECK(s, packets_of(s, true, &nothing) == plain, "a tolerance of nothing changes packets");
	CHECK(s, packets_of(s, true, &waits) == plain,
	      "a deadline after which one waits on changes packets");
	CHECK(s, packets_of(s, false, &some) == plain,
	      "a tolerance the peer does not know of changes packets");
	CHECK(s, packets_of(s, true, &some) != plain, "a tolerance of 1 %% changes nothing");
}

/* ---- peers that lie ---- */

enum lie {
	LIE_UNSENT,	/* a message that was never sent */
	LIE_RELIABLE,	/* one that stated nothing */
	LIE_TOO_MUCH,	/* more bytes than the bound */
	LIE_ABSURD,	/* more bytes than the message */
	LIE_NOTHING,	/* no bytes */
	LIE_LOSS,	/* as failed, which it was not to */
	LIE_STATUS,	/* a status that does not exist */
	LIE_STREAM,	/* a stream that does not exist */
	LIE_SHORT,	/* half a body */
	LIE_NOT_AGREED, /* the feature was not agreed on */
	LIE_EXT,	/* DATA with an extension that was not agreed on */
	LIE_AGAIN,	/* the one before again, with other numbers: harmless */
	LIE_ANY,	/* any byte of a true one */
	LIE_EXT_ANY,	/* any byte of an extension */
	LIES
};

/* What the tap has seen: tap_state[0] the lie, [1] how often it was told, [2] [3] stream and message. */

static bool stated(const struct frame *p)
{
	const struct mroce_data *d = (const void *)(p->data + MROCE_HDR_LEN);

	return frame_type(p) == MROCE_DATA && d->ext & MROCE_EXT_TOLERANCE;
}

/* Messages of host 0 that host 1 will lie about. */
static void look(struct sim *s, const struct frame *p)
{
	const struct mroce_data *d = (const void *)(p->data + MROCE_HDR_LEN);

	if (frame_type(p) != MROCE_DATA || stated(p) != (s->tap_state[0] != LIE_RELIABLE))
		return;
	s->tap_state[2] = ntohl(d->stream);
	s->tap_state[3] = ntohl(d->msg);
	s->tap_state[4] = be64toh(d->msg_len);
	s->tap_state[5] = 1;
}

static void become_forgive(struct sim *s, struct frame *p, uint64_t missing, uint16_t status)
{
	struct mroce_forgive f = {
		.stream = htonl((uint32_t)s->tap_state[2]),
		.msg = htonl((uint32_t)s->tap_state[3]),
		.missing = htobe64(missing),
		.status = htons(status),
	};

	p->data[1] = MROCE_FORGIVE;
	p->len = MROCE_HDR_LEN + sizeof(f);
	memcpy(p->data + MROCE_HDR_LEN, &f, sizeof(f));
	s->tap_state[1]++;
}

static void garble(struct sim *s, struct frame *p, uint32_t from, uint32_t len)
{
	p->data[from + rng_below(&s->net_rng, len)] = (uint8_t)rng_next(&s->net_rng);
	s->tap_state[1]++;
}

static void tell_lie(struct sim *s, struct frame *p)
{
	struct mroce_forgive *f = (void *)(p->data + MROCE_HDR_LEN);
	struct mroce_data *d = (void *)(p->data + MROCE_HDR_LEN);
	uint64_t len = s->tap_state[4];

	switch ((enum lie)s->tap_state[0]) {
	case LIE_UNSENT:
		s->tap_state[3] += 100000;
		become_forgive(s, p, 1, MROCE_OK);
		break;
	case LIE_RELIABLE: become_forgive(s, p, 1, MROCE_OK); break;
	case LIE_TOO_MUCH: become_forgive(s, p, len / 2 + 2, MROCE_OK); break;
	case LIE_ABSURD:
		become_forgive(s, p, len + 1 + (rng_next(&s->net_rng) >> 1), MROCE_E_LOSS);
		break;
	case LIE_NOTHING: become_forgive(s, p, 0, MROCE_OK); break;
	case LIE_LOSS: become_forgive(s, p, len, MROCE_E_LOSS); break;
	case LIE_STATUS: become_forgive(s, p, 1, MROCE_E_REMOTE_ACCESS); break;
	case LIE_STREAM:
		s->tap_state[2] = UINT32_MAX - 3;
		become_forgive(s, p, 1, MROCE_OK);
		break;
	case LIE_SHORT:
		become_forgive(s, p, 1, MROCE_OK);
		p->len -= 12;
		break;
	case LIE_NOT_AGREED: become_forgive(s, p, 1, MROCE_OK); break;
	case LIE_EXT:
		d->ext |= MROCE_EXT_TOLERANCE;
		s->tap_state[1]++;
		break;
	case LIE_AGAIN: f->missing = htobe64(rng_next(&s->net_rng)); break;
	case LIE_ANY: garble(s, p, MROCE_HDR_LEN, sizeof(*f)); break;
	case LIE_EXT_ANY:
		garble(s, p, MROCE_HDR_LEN + sizeof(*d), sizeof(struct mroce_data_tolerance));
		break;
	case LIES: break;
	}
}

/* A FORGIVE that was sent is sent again as another letter, long after the message ended. */
static void again(struct sim *s, struct frame *p)
{
	static uint8_t kept[sizeof(struct mroce_forgive)];

	if (frame_type(p) == MROCE_FORGIVE && !s->tap_state[6]) {
		memcpy(kept, p->data + MROCE_HDR_LEN, sizeof(kept));
		s->tap_state[6] = s->now;
	} else if (frame_type(p) == MROCE_CREDIT && s->tap_state[6] &&
		   s->now > s->tap_state[6] + MS) {
		p->data[1] = MROCE_FORGIVE;
		p->len = MROCE_HDR_LEN + sizeof(kept);
		memcpy(p->data + MROCE_HDR_LEN, kept, sizeof(kept));
		tell_lie(s, p);
		s->tap_state[1]++;
	}
}

static bool liar(struct sim *s, struct frame *p)
{
	uint64_t lie = s->tap_state[0];
	bool now = rng_ppm(&s->net_rng, 10 * PERCENT);

	if (p->ctl || p->len < MROCE_HDR_LEN)
		return true;
	if (p->from_host == 0) {
		look(s, p);
		return true;
	}
	if (lie == LIE_AGAIN)
		again(s, p);
	else if (lie == LIE_ANY	      ? frame_type(p) == MROCE_FORGIVE
		 : lie == LIE_EXT_ANY ? stated(p) && now
				      : frame_type(p) == MROCE_DATA && now &&
						(s->tap_state[5] || lie == LIE_EXT))
		tell_lie(s, p);
	frame_seal(p);
	return true;
}

static bool must_break(uint64_t lie)
{
	return lie < LIE_AGAIN;
}

static void one_lie(struct sim *s, uint64_t lie)
{
	static const struct mroce_tolerance half = { .max_missing = 500000 };
	struct sim *c = world_child(s, &s->cfg);

	c->hostile = true;
	c->tap = liar;
	c->tap_state[0] = lie;
	c->cfg.no_tolerance = lie == LIE_NOT_AGREED || lie == LIE_EXT;
	c->cfg.tolerance = lie == LIE_RELIABLE ? NULL : &half;
	world_build(c);
	if (lie == LIE_NOT_AGREED)
		c->tap_state[5] = 1;
	if (world_connect(c)) {
		world_traffic(c);
		sim_run(c, c->now + 300 * MS, world_lanes_done);
	}
	CHECK(c, c->tap_state[1], "it was never told");
	if (must_break(lie) && !c->failed)
		CHECK(c,
		      c->pairs[0]->end[0].state == END_ENDED &&
			      c->pairs[0]->end[0].code == MROCE_E_PROTOCOL,
		      "the connection lives on");
	if (lie == LIE_AGAIN && !c->failed)
		CHECK(c, c->pairs[0]->end[0].state == END_UP, "the connection ended");
	c->tap = NULL;
	world_finish(c);
	if (c->failed)
		sim_fail(s, "lie %llu: %s", (unsigned long long)lie, c->failure);
	world_child_end(s, c);
}

static void lies(struct sim *s)
{
	for (uint64_t lie = 0; lie < LIES && !s->failed; lie++)
		one_lie(s, lie);
}

/* ---- what it is worth ---- */

#define STEPS 4
#define PAUSE (40 * MS) /* longer than any step takes */

/* When the last of all hosts had the last of its messages, from when the first was posted. */
static double step_us(const struct sim *s, uint32_t step)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (uint32_t i = 0; i < s->nlanes; i++) {
		const struct msg *m = &s->lanes[i]->msgs[step];

		first = m->posted_at < first ? m->posted_at : first;
		last = m->rx_at > last ? m->rx_at : last;
	}
	return (double)(last - first) / US;
}

/* Everybody sends a message to everybody else, step after step. */
static uint64_t exchange(struct sim *s, uint64_t seed, const struct mroce_tolerance *t, double *us)
{
	struct sim *c = world_child(s, &s->cfg);
	uint32_t n;
	uint64_t missing = 0;

	c->seed = seed;
	world_build(c);
	for (uint32_t i = 0; i < c->cfg.hosts; i++) {
		for (uint32_t j = i + 1; j < c->cfg.hosts; j++)
			pair_connect(pair_new(c, i, j));
	}
	if (world_wait_for(c, 10 * SEC, world_all_up, "all connections to be up")) {
		for (n = 0; n < 2 * c->npairs; n++) {
			struct lane_params p = {
				.from = n & 1,
				.kinds = 1 << MROCE_WR_WRITE_IMM,
				.min = c->cfg.max,
				.max = c->cfg.max,
				.count = STEPS,
				.window = 2,
				.start = c->now + MS,
				.interval = PAUSE,
				.tolerance = t,
			};

			lane_new(c->pairs[n / 2], &p);
		}
		world_wait_lanes(c);
	}
	for (uint32_t i = 0; i < STEPS; i++)
		us[i] = step_us(c, i);
	for (n = 0; n < c->nlanes; n++)
		missing += c->lanes[n]->bytes_missing;
	world_finish(c);
	world_child_end(s, c);
	return missing;
}

static double percentile(double *x, uint32_t n, double p)
{
	qsort(x, n, sizeof(*x), by_value);
	return x[(uint32_t)((n - 1) * p)];
}

#define AT_MEDIAN 1 /* the deadline is the reliable median of the same seed */

/* Of one seed the same network. The first is what the others are compared with. */
static const struct way {
	const char *name;
	bool lossless;
	uint32_t max_missing, deadline_us;
} ways[] = {
	{ .name = "reliable" },
	{ .name = "reliable, nothing is lost", .lossless = true },
	{ .name = "1 % may be missing", .max_missing = 10000 },
	{ .name = "1 %, deadline at the reliable median",
	  .max_missing = 10000,
	  .deadline_us = AT_MEDIAN },
	{ .name = "2 %", .max_missing = 20000 },
	{ .name = "5 %", .max_missing = 50000 },
	{ .name = "5 %, nothing is lost", .lossless = true, .max_missing = 50000 },
	{ .name = "5 %, deadline 1700 us", .max_missing = 50000, .deadline_us = 1700 },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

struct worth {
	double *us[WAYS];
	uint64_t missing[WAYS];
};

static void one_worth(struct sim *s, uint64_t seed, uint32_t at, struct worth *w)
{
	const struct impair lossy = s->cfg.imp, none = { 0 };
	double median[STEPS];

	for (size_t k = 0; k < WAYS; k++) {
		struct mroce_tolerance tol = { .max_missing = ways[k].max_missing,
					       .deadline_us = ways[k].deadline_us };

		if (ways[k].deadline_us == AT_MEDIAN) {
			memcpy(median, w->us[0] + at, sizeof(median));
			tol.deadline_us = (uint32_t)percentile(median, STEPS, 0.5);
		}
		s->cfg.imp = ways[k].lossless ? none : lossy;
		w->missing[k] += exchange(s, seed, tol.max_missing ? &tol : NULL, w->us[k] + at);
	}
	s->cfg.imp = lossy;
}

/* scripts/bench-tolerance reads these lines. */
static void note_way(struct sim *s, const struct worth *w, size_t k, uint32_t total)
{
	double bytes = 56.0 * (double)s->cfg.max * total;
	double *us = w->us[k], *reliable = w->us[0];
	double p99 = percentile(us, total, 0.99), base = percentile(reliable, total, 0.99);

	printf("# way\t%s\t%.0f\t%.0f\t%.2f\t%.3f\n", ways[k].name, percentile(us, total, 0.5), p99,
	       p99 / base, 100.0 * (double)w->missing[k] / bytes);
	for (uint32_t q = 0; total >= 100 && q <= 100; q++)
		printf("# quantile\t%s\t%u\t%.0f\n", ways[k].name, q,
		       percentile(us, total, q / 100.0));
	CHECK(s, (double)w->missing[k] <= bytes * ways[k].max_missing / 1e6,
	      "%s: more is missing than may", ways[k].name);
	if (total < 100)
		return;
	/* A bound below the loss leaves the last hundredth to chance. */
	CHECK(s,
	      percentile(us, total, 0.5) <= percentile(reliable, total, 0.5) &&
		      percentile(us, total, 0.95) <= percentile(reliable, total, 0.95),
	      "%s: slower than reliable", ways[k].name);
	CHECK(s, ways[k].max_missing <= 10000 || p99 <= 0.9 * base,
	      "%s: %.2f of the reliable 99th percentile", ways[k].name, p99 / base);
}

static void worth(struct sim *s)
{
	uint32_t n = seeds(1), total = n * STEPS;
	struct worth w = { .missing = { 0 } };

	for (size_t k = 0; k < WAYS; k++) {
		w.us[k] = calloc(total, sizeof(double));
		if (!w.us[k])
			abort();
	}
	for (uint32_t i = 0; i < n && !s->failed; i++)
		one_worth(s, s->seed * 7919 + i, i * STEPS, &w);
	sim_note(s, "%u steps", total);
	for (size_t k = 0; k < WAYS; k++)
		note_way(s, &w, k, total);
	for (size_t k = 0; k < WAYS; k++)
		free(w.us[k]);
}

/* 1 % in bursts of eight. */
#define BURSTY                                                                  \
	{                                                                       \
		.burst_start = 1263, .burst_end = 125000, .burst_loss = 1000000 \
	}
#define EXCHANGE(size) .hosts = 8, .max = (size), .imp = BURSTY, .mtu = 1500

const struct scenario tolerance_scenarios[] = {
	{ "tolerance_account",
	  "what is said to be missing is what is missing, over many networks",
	  { 0 },
	  account },
	{ "tolerance_none",
	  "nothing stated: every packet is that of the reliable path",
	  { .count = 150, .imp = { .loss = PERCENT, .reorder = PERCENT, .dup = PERCENT } },
	  same_packets },
	{ "tolerance_lies",
	  "peers that forgive what they must not",
	  { .kinds = SENDS | WRITES, .min = 20000, .max = 40000, .count = 200, .imp.loss = 5 * PERCENT },
	  lies },
	{ "tolerance_exchange",
	  "what it is worth: 8 hosts, 256 KiB to each other, 1 % lost in bursts",
	  { EXCHANGE(256 * KIB) },
	  worth },
	{ NULL, NULL, { 0 }, NULL },
};
