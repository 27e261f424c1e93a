/* SPDX-License-Identifier: BSD-2-Clause */
/* collective.h: the parts of `mroce collective`. */
#ifndef CLI_COLLECTIVE_H
#define CLI_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>
#include "mroce_collective.h"
#include "samples.h"

enum coll_kind {
	COLL_ALL_REDUCE,
	COLL_REDUCE_SCATTER,
	COLL_ALL_GATHER,
	COLL_ALL_TO_ALL,
	COLL_BROADCAST,
};

struct coll_test {
	enum coll_kind kind;
	enum mroce_coll_type type;
	enum mroce_coll_op op;
	uint32_t root;
	struct mroce_coll_options options;
	uint64_t iterations, warmup;
	bool check;
};

/* Of one size; the same at all ranks. */
struct coll_result {
	uint64_t size;		     /* bytes of the larger buffer */
	uint64_t count;		     /* elements, as given to the operation */
	struct samples_summary time; /* of an operation, us: the slowest rank's each time */
	double algbw, busbw;	     /* 10^9 bytes a second */
	/* Of the last operation, all ranks together. */
	uint64_t wrong;	    /* elements beyond rounding */
	uint64_t explained; /* elements that what is missing can have touched */
	double error; /* length of the difference from the exact result, by that of the exact result */
	/* A mean operation, all ranks together. */
	double bytes, missing;
};

/* Every rank calls it. 0 or -errno, see mroce_comm_last_error(). */
int coll_measure(struct mroce_comm *comm, const struct coll_test *t, uint64_t size,
		 struct coll_result *out);

#endif
