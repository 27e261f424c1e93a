/* SPDX-License-Identifier: BSD-2-Clause */
/* programs.h: the XDP programs of mroce on this host's interfaces, with their maps, without asking the daemon. */
#ifndef CLI_PROGRAMS_H
#define CLI_PROGRAMS_H

#include "daemon/bpf/adopt.h"

struct program {
	const char *interface;
	uint32_t ifindex;
	struct adopt_found found;
	struct tables tables; /* the callee's: tables_close() */
};

/* Calls for each; 0 or -errno: the first that `fn` returned, or why the programs cannot be looked at, explained. */
int programs_each(int (*fn)(void *ctx, struct program *p), void *ctx);

#endif
