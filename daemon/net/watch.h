/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: the netlink sockets that feed the mirror, and ask the kernel to resolve neighbours.
 */
#ifndef NET_WATCH_H
#define NET_WATCH_H

#include <libmnl/libmnl.h>
#include "mirror.h"
#include "daemon/port/log.h"

struct watch {
	struct mnl_socket *events;
	struct mnl_socket *dumps;
	struct mirror *mirror;
	uint32_t seq;
	log_fn log;
};

/* Subscribes, then reads everything. The mirror's interfaces must be there. 0 or -errno, explained. */
int watch_open(struct watch *w, struct mirror *m, log_fn log);
void watch_close(struct watch *w);
int watch_fd(const struct watch *w);
/* Takes all pending changes; reads everything anew when the kernel dropped some. */
void watch_poll(struct watch *w);
/* Reads all tables anew. */
void watch_resync(struct watch *w);
/*
 * Lets the kernel resolve or confirm a neighbour, at a rate that depends on its state. Frames that
 * need it wait, so this is called again and again.
 */
void watch_ask(struct watch *w, struct mirror_if *mif, const struct ip *next_hop, uint64_t now);

#endif
