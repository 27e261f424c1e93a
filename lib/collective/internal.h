/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal.h: the rooms of libmroce-collective.
 *
 *	comm.c		a communicator's life
 *	transport.c	messages between ranks, and what goes wrong with them
 *	memory.c	registered memory: the application's, and room for an operation
 *	hosts.c		lists of hosts
 *	operation.c	what all operations begin and end with
 *	direct.c ring.c	the two ways of moving pieces
 *	all_reduce.c ...	the operations
 *	reduce.c half.c hadamard.c	arithmetic
 */
#ifndef COLLECTIVE_INTERNAL_H
#define COLLECTIVE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "mroce.h"
#include "mroce_collective.h"
#include "collective/hadamard.h"
#include "collective/reduce.h"

#define ERROR_TEXT 320
/* Streams of each connection. */
#define STREAM_CONTROL 0
#define STREAM_DATA 1

/* A message that is to come, or on its way. Must not move until it is done. */
struct message {
	struct mroce_comm *comm;
	uint32_t rank; /* the other one */
	bool receive, done;
	bool cannot_fail; /* leaving: an end of the connection is as good */
	size_t length;
	uint64_t missing;
	uint32_t first_gap, ngaps; /* in comm->gaps */
};

struct peer {
	struct mroce_conn *conn; /* NULL: this rank */
	struct message hello, sent, bye;
};

struct memory {
	LIST_ENTRY(memory) entry;
	struct mroce_mr *mr;
	uint8_t *addr;
	size_t size;
};

struct mroce_comm {
	struct mroce *m;
	uint32_t size, rank, service;
	char **hosts;
	uint32_t timeout_ms;
	uint64_t seed;
	struct peer *peers;
	uint64_t operations; /* so far */
	int broken;	     /* -errno: only closing is left */
	char error[ERROR_TEXT];

	/* Hellos and byes, sent and received. */
	struct mroce_mr *control;

	LIST_HEAD(, memory) memories;
	struct memory *arena; /* room for an operation */
	size_t arena_used;

	/* Of the operation that runs. */
	uint32_t sends_out;
	struct message *messages;
	size_t messages_room;
	struct mroce_coll_account account;
	struct mroce_range *gaps; /* in bytes of their messages */
	size_t ngaps, gaps_room;
	struct mroce_coll_gap *missing;
	size_t nmissing, missing_room;
};

/* ---- transport.c ---- */

uint64_t coll_now_ms(void);
/* Says what went wrong, for mroce_comm_last_error(); returns err. */
int comm_fail(struct mroce_comm *c, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, and no operation works any more; the other ranks are told by the end of the connections. */
int comm_break(struct mroce_comm *c, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Makes n messages for an operation; the ones before are gone. NULL: no memory, said. */
struct message *comm_messages(struct mroce_comm *c, size_t n);
/*
 * Posts; memory is the arena's or of mroce_comm_alloc(). A message of no bytes is not sent, and done at once. Waits
 * only where queues are full.
 */
int comm_receive(struct mroce_comm *c, uint32_t from, void *at, size_t length, struct message *m);
/* tolerance NULL: reliable. */
int comm_send(struct mroce_comm *c, uint32_t to, const void *at, size_t length,
	      const struct mroce_tolerance *tolerance);
/* Even if it has no bytes. */
int comm_receive_signal(struct mroce_comm *c, uint32_t from, struct message *m);
int comm_send_signal(struct mroce_comm *c, uint32_t to);
/* Until it is there. */
int comm_await(struct mroce_comm *c, const struct message *m);
/* Until all that this rank has sent has arrived, or was given up by the receiver. */
int comm_drain(struct mroce_comm *c);
/* Takes what has come, waiting up to timeout_ms for something. Number of completions or -errno. */
int comm_progress(struct mroce_comm *c, int timeout_ms);

/* ---- memory.c ---- */

/* The region that [addr, addr + length) is in; NULL: in none. */
const struct memory *memory_find(const struct mroce_comm *c, const void *addr, size_t length);
int memory_get(struct mroce_comm *c, size_t size, struct memory **out);
void memory_put(struct memory **memory);
void memory_free_all(struct mroce_comm *c);
/* Room for the next operation; every arena_take() is rounded up to ARENA_ALIGN. */
#define ARENA_ALIGN 64
int arena_reset(struct mroce_comm *c, size_t size);
void *arena_take(struct mroce_comm *c, size_t size);
static inline size_t arena_size(size_t size)
{
	return (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* ---- operation.c ---- */

/* What an operation is about. */
struct request {
	enum mroce_coll_type type;
	enum mroce_coll_op op;
	const struct mroce_coll_options *options;
	const void *in; /* may be NULL with in_count 0 */
	void *out;
	size_t in_count, out_count; /* elements */
	bool reduces;
	bool rings;    /* knows how to go round */
	bool in_moves; /* `in` is taken to its place in `out` at once: no copy of it is needed */
};

struct operation {
	struct mroce_comm *comm;
	enum mroce_coll_type type;
	enum mroce_coll_op op;
	struct mroce_coll_options options;
	bool ring;
	size_t unit; /* bytes of an element */

	struct mroce_tolerance stated;
	const struct mroce_tolerance *tolerance; /* that, or NULL: reliable */

	/* What is moved: registered memory. */
	const uint8_t *in;
	uint8_t *out;
	size_t in_count, out_count;
	uint8_t *staging; /* what others contribute: a share of `in` each; reducing operations only */

	void *user_out; /* where out is to be in the end */
	size_t user_count;
	struct hadamard shape; /* of a part; rows 0: no transform */
	float *scratch;	       /* a part in float32, if elements are narrower */
};

/* Checks the arguments, copies what does not lie in registered memory, transforms. */
int operation_begin(struct mroce_comm *c, const struct request *r, struct operation *o);
/* Waits for the sends, transforms back and copies the result. Takes the error so far and returns it, or its own. */
int operation_end(struct operation *o, int err);
/* Notes what is missing in a message that belongs at element `first` of the result. */
int operation_note(struct operation *o, const struct message *m, size_t first);
/* A message's gaps in elements: an array from malloc. Others wait for messages: without memory the comm breaks. */
int operation_gaps(struct operation *o, const struct message *m, struct gap **gaps);
bool is_tolerant(const struct mroce_coll_options *o);

/* How count elements are dealt out to the ranks; the share of each is the same if count is a multiple. */
struct share {
	size_t first, count;
};
static inline size_t share_size(const struct mroce_comm *c, size_t count)
{
	return (count + c->size - 1) / c->size;
}
static inline struct share share_of(const struct mroce_comm *c, size_t count, uint32_t rank)
{
	size_t each = share_size(c, count);
	size_t first = each * rank < count ? each * rank : count;

	return (struct share){ first, count - first < each ? count - first : each };
}

/* The i-th peer of this rank, i = 0 .. size - 2: everybody begins with another one. */
static inline uint32_t peer_after(const struct mroce_comm *c, uint32_t i)
{
	return (c->rank + 1 + i) % c->size;
}

/* ---- direct.c: everybody to everybody. Messages are an array with one for each rank. ---- */

/* Share r of `count` elements at base comes from rank r. */
int direct_receive_shares(struct operation *o, struct message *m, uint8_t *base, size_t count);
/* Share r of `count` elements at base goes to rank r. */
int direct_send_shares(struct operation *o, const uint8_t *base, size_t count);
/* The same to all. */
int direct_send_same(struct operation *o, const uint8_t *at, size_t count,
		     const struct mroce_tolerance *tolerance);
/* Until all are there; what is missing of share r of `count` is noted, and replaced by elements of `instead`
 * at the same place, if that is not NULL. */
int direct_await_shares(struct operation *o, struct message *m, size_t count, uint8_t *base,
			const uint8_t *instead);
/* All ranks' contributions to this rank's share of `in`: receives, and reduces into `out`, whose first element
 * is element out_first of the result. */
int direct_receive_contributions(struct operation *o, struct message *m);
int direct_reduce(struct operation *o, struct message *m, uint8_t *out, size_t out_first);

/* ---- ring.c ---- */

#define RING_FROM_BYTES (256u << 10) /* shorter arrays go directly: a ring takes more steps */
/* A piece is cut into slices, so that one is on its way while another is reduced. */
#define RING_SLICE_BYTES (128u << 10)
#define RING_SLICES 64
size_t ring_slice(const struct operation *o, size_t piece);

/*
 * reduce: this rank's share of `in` is reduced into `reduced`. gather: this rank's share of `out` (what
 * was reduced, or what lies there) goes to all.
 */
int ring_run(struct operation *o, bool reduce, bool gather, uint8_t *reduced);

#endif
