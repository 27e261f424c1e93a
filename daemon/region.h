/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region.h: memory of applications. A shared region is a memfd that both sides map; an in-place region is
 * memory of the application's process, reached through its /proc/PID/mem.
 */
#ifndef DAEMON_REGION_H
#define DAEMON_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include "core/engine.h"

/* What a client keeps of one of its regions. The engine may hold the memory a little longer. */
struct region {
	TAILQ_ENTRY(region) link;
	uint32_t key;
	uint64_t len;
	struct inplace *inplace; /* NULL: shared */
};

/* The address space that a process had when it was opened, whatever the process does later. */
struct process {
	int memory; /* /proc/PID/mem: reads nothing once that address space is gone */
	uint32_t users;
};

/*
 * pidfd: of the same process. -ESRCH: it has ended; -EPERM: it runs with other rights than those of `uid`, or
 * we may not look into it; -EMFILE ...
 */
int process_open(pid_t pid, int pidfd, uid_t uid, struct process **out);
void process_put(struct process **p);

/* Fills in base, ops and priv. 0, or -errno and why. */
int region_shared(int memfd, uint64_t len, struct region_params *params, const char **why);
int region_inplace(struct process *process, struct region_params *params, struct inplace **out);
/* From now on nothing reads or writes the process: every access says -ESRCH. */
void region_inplace_revoke(struct inplace *r);

#endif
