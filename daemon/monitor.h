/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * monitor.h: who listens to events. Each listener has a socket of its own, and the kernel's buffer of that
 * socket is its queue: what does not fit is counted and told later, so nobody makes the worker wait.
 */
#ifndef DAEMON_MONITOR_H
#define DAEMON_MONITOR_H

#include <sys/types.h>
#include "daemon/daemon.h"

#define MONITORS_MAX 32
#define MONITORS_OF_USER 8

/*
 * A new listener. *fd is its end of a SOCK_SEQPACKET pair, the caller's to close: a record (JSON, one object)
 * is one message, the first is "start". 0, -EDQUOT, or -errno.
 */
int monitor_new(struct daemon *d, uid_t uid, int *fd);
/* Safe inside the engine's callbacks. */
void monitor_note(struct daemon *d, int level, const struct engine_note *n, const char *line);
/* Tells all that the daemon stops. */
void monitor_free_all(struct daemon *d);

#endif
