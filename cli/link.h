/* SPDX-License-Identifier: BSD-2-Clause */
/* link.h: the way to the local daemon, with errors that say what to do. */
#ifndef CLI_LINK_H
#define CLI_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "mroce.h"

/* The path that is used: --socket, $MROCE_SOCKET or the default. */
const char *link_socket(void);
/* What it means that opening failed with -err, and what to do. */
void link_explain(int err, char *buf, size_t size);
/* Opens a context; on failure says so and returns -errno. */
int link_open(struct mroce **out);
/*
 * Connects to `service` on `host`; on failure says so, with what to start there (`listener` is the
 * command line that listens, for example "mroce recv"), and returns -errno.
 */
int link_connect(struct mroce *m, const char *host, uint32_t service, int timeout_ms,
		 const char *listener, struct mroce_conn **out);
/* Only says what -err of mroce_connect() means. */
void link_connect_failed(const struct mroce *m, int err, const char *host, uint32_t service,
			 const char *listener);
/* The daemon's own description, see mroce-show(1). 0 and a new reference, or -errno, silently. */
int link_show(const char *what, uint32_t conn_id, json_t **out);

/* A socket from which each message is an event as JSON text. 0 or -errno, silently. */
int link_monitor(int *fd);

/* Repairs of one connection as the daemon counts them; `known` is false if it did not tell. */
struct link_repairs {
	bool known;
	uint64_t repairs, spurious, tx_packets;
};
void link_repairs(uint32_t conn_id, struct link_repairs *out);
/* User and system seconds that the local daemon has used; -1 if that cannot be seen. */
double link_daemon_cpu(void);

/*
 * A post said `err`: true if the queue to mroced was full, and it has been waited for a little, so that the post may
 * be tried again. mroced takes from the queue without help; it is given a second. `tries` starts as 0.
 */
bool link_queue_full(int err, unsigned int *tries);

/* Text for a status in which a connection or request ended. */
const char *link_status(enum mroce_status status);

#endif
