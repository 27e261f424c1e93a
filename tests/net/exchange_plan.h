/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two ends of an exchange send each other. Both compute it from the same parameters, so each knows what
 * must arrive, where, and in which order, and nothing has to be believed.
 */
#ifndef EXCHANGE_PLAN_H
#define EXCHANGE_PLAN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_SIZES 16
#define PLAN_GUARD 64
/* Prime, so that no chunk size divides it: a chunk in the wrong place never looks right. */
#define PLAN_PERIOD 1000003u

enum plan_op {
	PLAN_SEND,
	PLAN_SEND_IMM,
	PLAN_WRITE,
	PLAN_WRITE_IMM,
	PLAN_READ,
	PLAN_OPS,
};

/* Sent to the other end as it is: both ends run the same program on one machine. */
struct plan_params {
	uint64_t seed;
	uint64_t sizes[PLAN_SIZES];
	uint64_t random_max; /* besides `sizes`: anything up to this, small ones as likely as large ones */
	uint32_t nsizes;
	uint32_t streams;
	uint32_t messages; /* of each stream and direction */
	uint32_t ops;	   /* bits of enum plan_op */
	uint32_t memory;   /* 0 both kinds, 1 shared with the daemon, 2 registered in place */
	uint32_t window;   /* requests in flight per stream */
	uint32_t receives; /* receives kept posted per stream */
	uint32_t blocked; /* this stream gets no receives until all others are done; UINT32_MAX: none */
	uint32_t slow_us; /* the accepting end sleeps so long before each look at its completions */
	uint32_t one_way; /* only the connecting end sends */
};

struct plan_msg {
	enum plan_op op;
	uint32_t imm;
	uint64_t size;
	uint64_t from; /* place in the pattern of the end that has the bytes */
	uint64_t to;   /* place in the landing region of the end that gets them */
};

/* The messages of a stream in a direction. Direction 0 is posted by the connecting end. */
struct plan_flow {
	struct plan_msg *msgs;
	uint32_t n;
};

struct plan {
	struct plan_params p;
	struct plan_flow *flows[2];
	uint64_t landing[2][2]; /* [end][memory kind]: bytes of the landing region */
	uint64_t pattern[2];	/* [end]: bytes of pattern needed */
};

/* splitmix64 */
static inline uint64_t plan_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline int plan_takes_receive(enum plan_op op)
{
	return op == PLAN_SEND || op == PLAN_SEND_IMM || op == PLAN_WRITE_IMM;
}

/* The memory kind (0 shared, 1 in place) for number n of something. */
static inline int plan_kind(const struct plan_params *p, uint32_t n)
{
	return p->memory ? (int)p->memory - 1 : (int)(n & 1);
}

static inline enum plan_op plan_pick_op(const struct plan_params *p, uint64_t *rnd)
{
	enum plan_op op;

	do
		op = (enum plan_op)(plan_random(rnd) % PLAN_OPS);
	while (!(p->ops & (1u << op)));
	return op;
}

static inline uint64_t plan_pick_size(const struct plan_params *p, uint64_t *rnd)
{
	uint64_t pick = plan_random(rnd) % (p->nsizes + (p->random_max ? 2 : 0));

	if (pick < p->nsizes)
		return p->sizes[pick];
	return plan_random(rnd) % ((p->random_max >> plan_random(rnd) % 12) + 1);
}

static inline void plan_message(struct plan *plan, int dir, uint32_t stream, struct plan_msg *m,
				uint64_t *rnd)
{
	int sender = dir;
	int taker = 1 - dir;
	uint64_t *landing;

	m->op = plan_pick_op(&plan->p, rnd);
	m->size = plan_pick_size(&plan->p, rnd);
	m->imm = (uint32_t)plan_random(rnd);
	m->from = plan_random(rnd) % PLAN_PERIOD;
	if (m->op == PLAN_READ) {
		sender = 1 - dir;
		taker = dir;
	}
	landing = &plan->landing[taker][plan_kind(&plan->p, stream)];
	m->to = *landing + PLAN_GUARD + plan_random(rnd) % 16;
	*landing = m->to + m->size;
	if (m->from + m->size > plan->pattern[sender])
		plan->pattern[sender] = m->from + m->size;
}

static inline void plan_make(struct plan *plan, const struct plan_params *params)
{
	memset(plan, 0, sizeof(*plan));
	plan->p = *params;
	for (int dir = 0; dir < 2; dir++) {
		plan->flows[dir] = calloc(params->streams, sizeof(*plan->flows[dir]));
		for (uint32_t s = 0; s < params->streams; s++) {
			struct plan_flow *f = &plan->flows[dir][s];
			uint64_t rnd = params->seed * 4099 + s * 2 + (uint32_t)dir;

			f->n = dir && params->one_way ? 0 : params->messages;
			f->msgs = calloc(f->n + 1, sizeof(*f->msgs));
			for (uint32_t i = 0; i < f->n; i++)
				plan_message(plan, dir, s, &f->msgs[i], &rnd);
		}
	}
	for (int i = 0; i < 4; i++)
		plan->landing[i / 2][i % 2] += PLAN_GUARD;
	plan->pattern[0]++;
	plan->pattern[1]++;
}

static inline void plan_free(struct plan *plan)
{
	for (int dir = 0; dir < 2; dir++) {
		for (uint32_t s = 0; plan->flows[dir] && s < plan->p.streams; s++)
			free(plan->flows[dir][s].msgs);
		free(plan->flows[dir]);
		plan->flows[dir] = NULL;
	}
}

/* ---- pattern ---- */

/* PLAN_PERIOD random bytes; the pattern repeats them without end. */
static inline uint8_t *plan_period(uint64_t seed)
{
	uint8_t *period = malloc(PLAN_PERIOD + 8);

	for (uint32_t i = 0; i < PLAN_PERIOD; i += 8) {
		uint64_t r = plan_random(&seed);

		memcpy(period + i, &r, 8);
	}
	return period;
}

static inline void plan_fill(uint8_t *to, const uint8_t *period, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += PLAN_PERIOD)
		memcpy(to + i, period, size - i < PLAN_PERIOD ? size - i : PLAN_PERIOD);
}

/* The first byte that differs from the pattern at `from`, or `size`. */
static inline uint64_t plan_differs(const uint8_t *got, const uint8_t *period, uint64_t from,
				    uint64_t size)
{
	uint64_t i = 0;

	while (i < size) {
		uint64_t at = (from + i) % PLAN_PERIOD;
		uint64_t n = PLAN_PERIOD - at;

		if (n > size - i)
			n = size - i;
		if (memcmp(got + i, period + at, n)) {
			while (got[i] == period[(from + i) % PLAN_PERIOD])
				i++;
			return i;
		}
		i += n;
	}
	return size;
}

#endif
