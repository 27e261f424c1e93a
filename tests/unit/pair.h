/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pair.h: two engines joined in memory, for the tests of the engine's rooms. Time is a number, packets lie in
 * a queue for `delay_ns`; a test may look at each and decide its fate.
 */
#ifndef TESTS_UNIT_PAIR_H
#define TESTS_UNIT_PAIR_H

#include "core/engine.h"
#include "core/packet.h"
#include "mroce/gaps.h"

#define PAIR_PORTS 4
#define PAIR_COMPLETIONS 4096

enum pair_posting {
	PAIR_POST,	   /* it leaves */
	PAIR_POST_SWALLOW, /* it never comes to the TC program, or that is not attached */
	PAIR_POST_LATE,	   /* it comes there once nobody waits for it any more */
};

enum pair_fate { PAIR_PASS, PAIR_DROP, PAIR_DUPLICATE, PAIR_HOLD, PAIR_SEEN_ONLY, PAIR_CORRUPT };

struct pair;

struct pair_side {
	struct pair *pair;
	int index;
	struct engine *engine;
	struct port ports[PAIR_PORTS];
	struct post_office offices[PAIR_PORTS];
	struct post_tables tables;
	struct conn *conn, *accepted;
	struct engine_completion done[PAIR_COMPLETIONS];
	struct mroce_gaps gaps[PAIR_COMPLETIONS]; /* of done[i], if it has any */
	uint32_t ndone;
	int connected, refused, n_accepted, ended, code;
	uint32_t logs;
	char last_log[512];
};

struct pair {
	struct pair_side side[2];
	uint64_t now, delay_ns, hold_ns;
	/* Fate of each packet as it leaves; NULL: all pass. */
	enum pair_fate (*fate)(struct pair *p, int from, struct packet *pk, const struct ip *remote);
	void *fate_arg;
	uint32_t rng;
	uint64_t packets;
	bool port_full; /* tx_begin gives nothing */
	/* What becomes of a letter handed over; NULL: it gets its envelope. */
	enum pair_posting (*posting)(struct pair *p, struct packet *letter);
	uint64_t letters; /* handed over and sent */
	struct pair_packet *head, **tail;
};

/* All ports of new pairs put letters into envelopes. */
extern bool pair_hands_over;

/* cfg: NULL for defaults. nports planes; conn 0 -> 1 is made by pair_connect(). */
struct pair *pair_new(const struct engine_config *cfg, uint32_t nports);
struct pair *pair_new_unequal(const struct engine_config *cfg0, const struct engine_config *cfg1,
			      uint32_t nports0, uint32_t nports1);
void pair_free(struct pair *p);
void pair_connect(struct pair *p);
/* From now on the ports of a side put letters into envelopes. */
void pair_hand_over(struct pair *p, int side);
/* Runs until `until(p)` or `ns` have passed; true if until() came true. until NULL: just run. */
bool pair_run(struct pair *p, uint64_t ns, bool (*until)(struct pair *p));
/* Until side has n completions, at most 30 simulated seconds; checks that it came to that. */
void pair_wait(struct pair *p, int side, uint32_t n);
uint32_t pair_rand(struct pair *p);

uint32_t pair_region(struct pair *p, int side, void *mem, uint64_t len, uint32_t access);
int pair_post(struct pair *p, int side, uint8_t opcode, uint32_t stream, uint64_t id, uint32_t key,
	      const void *mem, uint64_t len, const void *rmem, uint32_t rkey, uint32_t imm);

#endif
