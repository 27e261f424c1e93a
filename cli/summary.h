/* SPDX-License-Identifier: BSD-2-Clause */
/* summary.h: the closing line of a transfer, for people and as JSON. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <stdint.h>
#include "fileproto.h"
#include "link.h"

struct summary {
	const char *verb; /* "sent", "received" */
	const char *peer;
	uint64_t files, bytes, failed;
	double seconds;
	enum fp_digest_kind digest;
	struct link_repairs repairs; /* not known: left out */
};

void summary_print(const struct summary *s);

#endif
