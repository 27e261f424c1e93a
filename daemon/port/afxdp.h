/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * afxdp.h: the port of one interface: XDP and TC programs, an AF_XDP socket on each receive queue, the UDP
 * socket for what goes round them, and the operations that the engine sees.
 */
#ifndef PORT_AFXDP_H
#define PORT_AFXDP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "core/engine.h"
#include "daemon/bpf/attach.h"
#include "daemon/bpf/pin.h"
#include "daemon/bpf/tc.h"
#include "daemon/net/ethtool.h"
#include "daemon/net/watch.h"
#include "door.h"
#include "portset.h"
#include "route.h"
#include "xsk.h"

struct afxdp {
	struct port port; /* what the engine sees */
	struct engine *engine;
	log_fn log;
	struct mirror_if *mif;
	struct ip wanted; /* address asked for by NAME@ADDRESS */
	bool address_wanted;
	uint32_t opened_on;	     /* the interface that has our programs and sockets; 0: none */
	uint64_t mend_at, mend_wait; /* when to try again; not 0: it has failed, and was told */
	struct ethtool_facts facts;
	struct attach attach;
	struct tc tc;
	bool tc_open;
	struct pins pins;
	struct door door;
	struct route_table routes;
	struct xsk *xsks; /* index = receive queue */
	uint32_t queues, tx_queues;
	uint32_t next_queue; /* to be served first */
	uint32_t ip_max;     /* largest IP packet that may be sent */
	uint64_t now;	     /* of the last call that had one */
	uint64_t door_checked;
	/* between tx_begin() and tx_end() */
	struct xsk *tx_xsk;
	uint64_t tx_addr;
	const struct frame_template *tx_headers;
	uint16_t tx_sport;
	bool tx_full;	     /* the last tx_begin() found no room */
	uint64_t rx_strange; /* frames in the AF_XDP rings that are not for us: never expected */
};

struct afxdp_params {
	const struct portset_config *cfg;
	const char *name;
	const struct ip *wanted; /* NULL: choose the address */
	uint32_t ring_size;
	struct mirror_if *mif;
	struct watch *watch;
	struct tables *shared;
	struct guardian *guardian;
	struct engine *engine;
	bool again; /* not at start: nothing is waited for */
};

/* 0 or -errno, explained; nothing is left attached then. */
int afxdp_open(struct afxdp *a, const struct afxdp_params *p);
/* From now on packets are ours. */
void afxdp_activate(struct afxdp *a, const struct portset_config *cfg);
void afxdp_close(struct afxdp *a);

/* Each sees to one port and returns what portset.h says of all. */
uint32_t afxdp_rx(struct afxdp *a, uint64_t now, uint32_t budget);
bool afxdp_tx(struct afxdp *a);
/* See portkind.h. */
bool afxdp_needs_mending(const struct afxdp *a);
void afxdp_mend(struct afxdp *a, const struct afxdp_params *p, uint64_t now);
/* Takes over changes that the mirror saw. */
void afxdp_follow(struct afxdp *a, uint64_t now);
json_t *afxdp_show(const struct afxdp *a);

#endif
