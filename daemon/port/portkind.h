/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * portkind.h: what portset.c needs of a kind of port: AF_XDP (afxdp.h) or plain UDP sockets (sock.h). All
 * ports of a daemon are of one kind. What its ports share is the kind's own; a port is known by the
 * struct port in it.
 */
#ifndef PORT_PORTKIND_H
#define PORT_PORTKIND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/engine.h"
#include "daemon/net/watch.h"
#include "portset.h"

struct port_params {
	const struct portset_config *cfg;
	const char *name;
	const struct ip *wanted; /* NULL: choose the address */
	struct mirror_if *mif;
	struct watch *watch;
	struct engine *engine;
};

struct port_kind {
	const char *name;
	/* Before the first port, and after the last: 0 or -errno, explained. */
	int (*prepare)(const struct portset_config *cfg, uint32_t ports, void **shared);
	void (*dispose)(void *shared);
	/* Connections end: nothing is answered any more. */
	void (*silence)(void *shared);
	int (*open)(void *shared, const struct port_params *p, struct port **out);
	/* From now on packets are ours. The port is in the engine's table. */
	void (*activate)(struct port *port, const struct portset_config *cfg);
	void (*close)(struct port *port);
	/* Descriptors to wait for, one after the other; -1 at the end. */
	int (*descriptor)(const struct port *port, uint32_t i);
	uint32_t (*rx)(struct port *port, uint64_t now, uint32_t budget);
	bool (*tx)(struct port *port);
	/* Takes over changes that the mirror saw. */
	void (*follow)(struct port *port, uint64_t now);
	void (*every_second)(struct port *port, uint64_t now);
	/*
	 * Is the interface gone, back, or of other queues than those that are served? Then mend() closes the
	 * port or opens it anew, and its descriptors change. Not if the port is not mendable: it stays down
	 * when its interface has gone. All NULL: no port of this kind is.
	 */
	bool (*mendable)(const struct port *port);
	bool (*needs_mending)(const struct port *port);
	void (*mend)(void *shared, struct port *port, const struct portset_config *cfg,
		     uint64_t now);
	/* Adds to out[]: what ports share, and what is the port's own. */
	void (*shared_counters)(const void *shared, uint64_t out[MROCE_COUNTERS]);
	void (*counters)(const struct port *port, uint64_t out[MROCE_COUNTERS]);
	json_t *(*show)(const struct port *port);
};

extern const struct port_kind port_kind_afxdp, port_kind_socket;

#endif
