// SPDX-License-Identifier: BSD-2-Clause
#include "route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void route_table_free(struct route_table *t)
{
	HASH_CLEAR(hh, t->hash);
	for (uint32_t i = 0; i < t->n; i++)
		free(t->at[i]);
	free(t->at);
	memset(t, 0, sizeof(*t));
}

void route_table_forget(struct route_table *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->at[i]->version = 0;
}

static struct route *add(struct route_table *t, const struct ip *remote)
{
	struct route *r;

	if (t->n == t->size) {
		uint32_t size = t->size ? t->size * 2 : 64;
		struct route **bigger = realloc(t->at, size * sizeof(*bigger));

		if (!bigger)
			return NULL;
		t->at = bigger;
		t->size = size;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->remote = *remote;
	t->at[t->n++] = r;
	r->number = t->n;
	HASH_ADD(hh, t->hash, remote, sizeof(r->remote), r);
	return r;
}

struct route *route_find(struct route_table *t, const struct ip *remote)
{
	struct route *r;

	HASH_FIND(hh, t->hash, remote, sizeof(*remote), r);
	return r ? r : add(t, remote);
}

static void look_up(struct route_table *t, struct route *r)
{
	struct mirror_target target;
	struct frame_ends ends = { .dst = r->remote, .dport = t->udp_port };
	int err = mirror_resolve(t->mif, &r->remote, &t->addr, &target);

	r->version = t->watch->mirror->version;
	r->ready = !err;
	r->reachable = err != -EHOSTUNREACH;
	if (!r->reachable)
		return;
	r->next_hop = target.next_hop;
	memcpy(ends.src_mac, target.src_mac, 6);
	memcpy(ends.dst_mac, target.dst_mac, 6);
	ends.src = target.src;
	frame_template_init(&r->headers, &ends);
}

void route_refresh(struct route_table *t, struct route *r, uint64_t now)
{
	if (r->version != t->watch->mirror->version)
		look_up(t, r);
	if (r->reachable && !r->ready)
		watch_ask(t->watch, t->mif, &r->next_hop, now);
}

void route_keep_fresh(struct route_table *t, uint64_t now)
{
	for (uint32_t i = 0; i < t->n; i++) {
		struct route *r = t->at[i];

		if (!r->used)
			continue;
		r->used = false;
		watch_ask(t->watch, t->mif, &r->next_hop, now);
	}
}
