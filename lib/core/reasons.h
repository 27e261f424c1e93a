/* SPDX-License-Identifier: BSD-2-Clause */
/* reasons.h: drop_reasons.h as a table, for whoever prints it. */
#ifndef CORE_REASONS_H
#define CORE_REASONS_H

#include <stddef.h>

struct reason {
	const char *name; /* "HDR_CRC" */
	int number;	  /* enum mroce_reason */
	const char *kind; /* "drop" or "count" */
	const char *text;
};

/* Drops first. */
extern const struct reason reasons[];
extern const size_t nreasons, ndrops;

/* A few words; "unknown reason" for a number that there is not. */
const char *reason_text(int number);

#endif
