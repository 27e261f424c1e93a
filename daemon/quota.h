/* SPDX-License-Identifier: BSD-2-Clause */
/* quota.h: what one user may hold. */
#ifndef DAEMON_QUOTA_H
#define DAEMON_QUOTA_H

#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

struct quota {
	uid_t uid;
	uint32_t sockets, contexts, connections, services, regions;
	uint64_t bytes;
	uint32_t users; /* clients that point here */
	UT_hash_handle hh;
};

/* Made on first use. NULL: no memory. */
struct quota *quota_get(struct quota **all, uid_t uid);
void quota_put(struct quota **all, struct quota **q);

#endif
