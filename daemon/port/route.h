/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h: the port's own memory of how to reach each remote address: ready-made headers, refreshed when the
 * mirror's version has moved on. One comparison per packet while nothing changes.
 */
#ifndef PORT_ROUTE_H
#define PORT_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>
#include "core/port.h"
#include "daemon/net/watch.h"
#include "frame.h"

struct route {
	struct ip remote, next_hop;
	uint32_t number; /* position in the table + 1 */
	struct frame_template headers;
	uint32_t version; /* of the mirror when last looked up */
	bool ready;	  /* headers are complete */
	bool reachable;	  /* there is a route; the neighbour may still be unknown */
	bool used;	  /* a frame left since route_keep_fresh() */
	UT_hash_handle hh;
};

struct route_table {
	struct route **at; /* flow.route is a route's number */
	uint32_t n, size;
	struct route *hash;
	struct watch *watch;
	struct mirror_if *mif;
	struct ip addr; /* the port's own, preferred as source */
	uint16_t udp_port;
};

void route_table_free(struct route_table *t);
/* The port's address changed: look up everything again. */
void route_table_forget(struct route_table *t);
/* NULL only if memory is short. */
struct route *route_find(struct route_table *t, const struct ip *remote);
/* Looks up again what has changed, and asks the kernel for the neighbour if it is missing. */
void route_refresh(struct route_table *t, struct route *r, uint64_t now);
/* Lets the kernel confirm the neighbours that are in use before it forgets them. */
void route_keep_fresh(struct route_table *t, uint64_t now);

/* The route of a flow, ready to be used; NULL: not now. */
static inline struct route *route_of_flow(struct route_table *t, struct flow *flow, uint64_t now)
{
	uint32_t version = t->watch->mirror->version;
	struct route *r;

	if (flow->route && flow->route <= t->n &&
	    ip_equal(&t->at[flow->route - 1]->remote, &flow->remote))
		r = t->at[flow->route - 1];
	else
		r = route_find(t, &flow->remote);
	if (!r)
		return NULL;
	flow->route = r->number;
	if (r->version != version || !r->ready)
		route_refresh(t, r, now);
	if (!r->ready)
		return NULL;
	r->used = true;
	flow->route_version = version;
	return r;
}

#endif
