/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mroce_collective.h: the interface of libmroce-collective: operations in which N processes take part, on top of
 * libmroce.
 *
 * A *communicator* joins ranks 0 .. N-1, one process each, every two of them by a connection. All ranks
 * call the same operations in the same order with the same arguments (buffers aside); an operation returns
 * when this rank's result is there and its buffers are its own again.
 *
 * An operation is reliable unless its options state how much may be missing. docs/loss-tolerance.md and
 * docs/collectives.md say what a result means then.
 *
 * Threads: a communicator belongs to one thread at a time; different communicators are independent.
 *
 * Errors: functions return 0 or -errno and leave out-parameters untouched; mroce_comm_last_error()
 * tells in words what happened. When a rank dies, is not reachable or does not keep step, the operation
 * ends with -ECONNRESET, -ETIMEDOUT or -EPROTO at all other ranks, too: the communicator can then only be closed.
 */
#ifndef MROCE_COLLECTIVE_H
#define MROCE_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mroce_comm;

#define MROCE_COMM_RANKS 256	/* at most */
#define MROCE_COMM_SERVICE 7100 /* unless given */

enum mroce_coll_type {
	MROCE_FLOAT32 = 0,
	MROCE_FLOAT16 = 1,  /* IEEE 754 binary16 */
	MROCE_BFLOAT16 = 2, /* the upper half of a float32 */
	MROCE_INT32 = 3,    /* sums wrap round */
};

enum mroce_coll_op {
	MROCE_SUM = 0,
	MROCE_AVERAGE =
		1, /* of the contributions that arrived, element by element; integers towards zero */
	MROCE_MAX = 2, /* NaN if one of them is */
};

enum mroce_coll_algorithm {
	MROCE_COLL_AUTO = 0,
	MROCE_COLL_DIRECT = 1, /* everybody to everybody, two steps */
	MROCE_COLL_RING = 2,   /* round in a circle, in slices; reliable only */
};

enum mroce_coll_flags {
	/* All ranks get the same result: in all-reduce only the contributions may be missing in part, the
	 * sums are told reliably. */
	MROCE_COLL_SAME = 1,
	/* All-reduce and reduce-scatter of floats, not with MROCE_MAX: randomised Hadamard transform
	 * before, its inverse after, so that what is missing becomes a little noise everywhere. */
	MROCE_COLL_HADAMARD = 2,
};

/* Zeroed: reliable. NULL means that, too. */
struct mroce_coll_options {
	uint32_t max_missing; /* of each message, parts per million, 0 .. 1000000 */
	uint32_t deadline_us; /* of each message, see struct mroce_tolerance; 0: none */
	uint32_t flags;	      /* enum mroce_coll_flags */
	uint32_t algorithm;   /* enum mroce_coll_algorithm */
};

/* ---- communicator ---- */

struct mroce_comm_config {
	const char *socket;	  /* of the daemon, as in mroce_open(); NULL: the usual one */
	const char *const *hosts; /* name or address of each rank; the same list everywhere */
	uint32_t size;		  /* ranks, 1 .. MROCE_COMM_RANKS */
	uint32_t rank;		  /* this one */
	uint32_t service; /* rank r listens on service + r of its host; 0: MROCE_COMM_SERVICE */
	uint32_t timeout_ms; /* for all ranks to be there, and in an operation without any progress; 0: 30 s */
	uint64_t seed; /* of the signs of the Hadamard transform; the same everywhere */
};

/*
 * Joins. Returns when every rank is connected with every other. -EINVAL; as mroce_open(); -ETIMEDOUT: a rank has not
 * come, mroce_comm_open_error() says which; -EPROTO: a rank has another list or version.
 */
int mroce_comm_open(const struct mroce_comm_config *config, struct mroce_comm **out);
/* What went wrong in this thread's last mroce_comm_open(). */
const char *mroce_comm_open_error(void);
/* Leaves. Waits (2 s at most) until the others leave, too, so that nobody's last message is cut off. */
void mroce_comm_close(struct mroce_comm **comm);
uint32_t mroce_comm_rank(const struct mroce_comm *comm);
uint32_t mroce_comm_size(const struct mroce_comm *comm);
const char *mroce_comm_last_error(const struct mroce_comm *comm);

/*
 * Memory from which operations send and into which they receive without a copy. Zeroed, aligned to a page. Operations
 * take any other memory as well, and copy it.
 */
int mroce_comm_alloc(struct mroce_comm *comm, size_t size, void **out);
void mroce_comm_free(struct mroce_comm *comm, void **memory);

/* Reads a list of hosts: one a line, white space and what follows a # are ignored. -errno; -EINVAL: none in it. */
int mroce_hosts_read(const char *path, char ***hosts, uint32_t *count);
void mroce_hosts_free(char ***hosts, uint32_t count);
/* The one entry that is an address of this host (names are resolved). -ENOENT: none; -EEXIST: several. */
int mroce_hosts_self(const char *const *hosts, uint32_t count, uint32_t *rank);

/* ---- operations ---- */

/*
 * count is in elements, buffers are aligned to the element. `in` and `out` may be the same buffer where
 * both have the same size; otherwise they must not overlap.
 */

/* out[i] = op over all ranks' in[i]. */
int mroce_all_reduce(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, enum mroce_coll_op op,
		     const struct mroce_coll_options *options);
/* in: size * count elements; out: the count elements of the reduced whole that begin at rank * count. */
int mroce_reduce_scatter(struct mroce_comm *comm, const void *in, void *out, size_t count,
			 enum mroce_coll_type type, enum mroce_coll_op op,
			 const struct mroce_coll_options *options);
/* in: count elements; out: size * count elements, those of rank r from r * count on. `in` may be its own place in out. */
int mroce_all_gather(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, const struct mroce_coll_options *options);
/* in and out: size * count elements, not the same buffer; part r of in goes to rank r, part r of out comes from it. */
int mroce_all_to_all(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, const struct mroce_coll_options *options);
/* buffer of `root` to everybody's buffer. */
int mroce_broadcast(struct mroce_comm *comm, void *buffer, size_t count, enum mroce_coll_type type,
		    uint32_t root, const struct mroce_coll_options *options);
/* Returns when all ranks have called it. */
int mroce_barrier(struct mroce_comm *comm);

/* ---- what was missing ---- */

/* Of the last operation, at this rank. */
struct mroce_coll_account {
	uint64_t bytes;	  /* that were to come from others */
	uint64_t missing; /* of them, that did not */
};
void mroce_comm_account(const struct mroce_comm *comm, struct mroce_coll_account *out);

/*
 * Which elements of the result lack something that was to come from `rank`. Missing elements of all-gather, all-to-all and
 * broadcast read as zero. In the reducing operations the result is made of the contributions that arrived; where the sum
 * of an all-reduce itself did not arrive, the result is this rank's own contribution (with MROCE_COLL_HADAMARD, both
 * in the transformed domain, and elements are its coefficients).
 */
struct mroce_coll_gap {
	uint32_t rank;
	uint64_t first, count; /* elements of `out` */
};
/* Writes up to n gaps of the last operation, returns how many there are. */
uint32_t mroce_comm_missing(const struct mroce_comm *comm, struct mroce_coll_gap *out, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif
