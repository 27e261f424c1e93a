/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guardian.h: a child process that outlives the daemon by a moment. What the kernel does not take away
 * when a process dies (TC filters attached by netlink, the tables of an adopted program, a program behind
 * libxdp's dispatcher, pins) is taken away by it, whatever killed the daemon. Started when there is the first thing to guard.
 */
#ifndef BPF_GUARDIAN_H
#define BPF_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "daemon/port/log.h"
#include "tables.h"

struct guardian {
	int pipe; /* -1: not running; its closing is the sign */
	pid_t pid;
};

void guardian_init(struct guardian *g);
/* 0 or -errno, explained. */
int guardian_watch_tc(struct guardian *g, uint32_t ifindex, bool clsact_is_ours, log_fn log);
int guardian_watch_tables(struct guardian *g, const struct tables *t, log_fn log);
/* Takes our program out of libxdp's dispatcher. */
int guardian_watch_shared(struct guardian *g, uint32_t ifindex, log_fn log);
/* Sweeps pins that nobody holds any more. */
int guardian_watch_pins(struct guardian *g, log_fn log);
/* All was put back by the daemon itself: ends the child without doing anything. */
void guardian_release(struct guardian *g);

#endif
