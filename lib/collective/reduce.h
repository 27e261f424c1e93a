/* SPDX-License-Identifier: BSD-2-Clause */
/* reduce.h: many arrays into one. Pure functions; 16-bit floats are added up in float32. */
#ifndef COLLECTIVE_REDUCE_H
#define COLLECTIVE_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include "mroce_collective.h"

/* Elements that are not there. */
struct gap {
	size_t first, count;
};

struct contribution {
	const void *data;
	const struct gap *gaps; /* in order, apart from each other */
	uint32_t ngaps;
};

/* Bytes of an element; 0: no such type. */
size_t type_size(enum mroce_coll_type type);

/*
 * out[i] = op over those contributions that have element i; 0 where none has. They are taken in order, so the
 * same contributions give the same bits. `out` may be the data of one of them.
 */
void reduce_all(enum mroce_coll_type type, enum mroce_coll_op op, void *out,
		const struct contribution *from, uint32_t n, size_t count);
/* acc[i] = acc[i] op x[i], an average being summed up first. */
void reduce_pair(enum mroce_coll_type type, enum mroce_coll_op op, void *acc, const void *x,
		 size_t count);
/* The end of an average: acc[i] = acc[i] / n. */
void reduce_divide(enum mroce_coll_type type, void *acc, size_t count, uint32_t n);

/* float32 from and to the floating types. */
void reduce_widen(enum mroce_coll_type type, float *out, const void *in, size_t count);
void reduce_narrow(enum mroce_coll_type type, void *out, const float *in, size_t count);

#endif
