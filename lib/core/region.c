// SPDX-License-Identifier: BSD-2-Clause
/* Registered memory: who may touch which bytes, and how they are touched. */
#include <stdlib.h>
#include "core/internal.h"

struct region *region_find(struct engine *e, uint32_t key)
{
	struct hnode *n = e->regions.heads[hash_mix(key, 0, 0) & e->regions.mask];

	for (; n; n = n->next) {
		struct region *r = container_of(n, struct region, link);

		if (r->key == key)
			return r;
	}
	return NULL;
}

static uint32_t fresh_key(struct engine *e)
{
	uint32_t key;

	do {
		key = rng_nonzero(&e->rng);
	} while (region_find(e, key));
	return key;
}

int engine_region_add(struct engine *e, const struct region_params *p, uint32_t *key)
{
	struct region *r;

	if (!p->len || p->iova + p->len < p->iova)
		return -EINVAL;
	if (!p->base && (!p->ops || !p->ops->read || !p->ops->write))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOSPC;
	r->p = *p;
	r->refs = 1;
	r->key = fresh_key(e);
	hash_add(&e->regions, hash_mix(r->key, 0, 0), &r->link);
	e->nregions++;
	*key = r->key;
	return 0;
}

static void region_unlink(struct engine *e, struct region *r)
{
	hash_del(&e->regions, hash_mix(r->key, 0, 0), &r->link);
	e->nregions--;
	r->removed = true;
	region_put(&r);
}

/* Requests do not wait for their turn, or for a message, to find out that their memory is gone. */
static void end_users(struct engine *e, const struct region *r)
{
	for (uint32_t i = 0; i < e->cfg.max_conns; i++) {
		struct conn *c = e->conns[i];
		struct stream *s;

		if (!c || c->state != CONN_OPEN || c->owner != r->p.owner)
			continue;
		for (s = TAILQ_FIRST(&c->streams); s; s = TAILQ_NEXT(s, all))
			stream_region_gone(s, r);
	}
}

int engine_region_remove(struct engine *e, void *owner, uint32_t key)
{
	struct region *r = region_find(e, key);

	if (!r || r->p.owner != owner)
		return -ENOENT;
	rxmsg_deferred_flush(e);
	r->refs++;
	region_unlink(e, r);
	end_users(e, r);
	region_put(&r);
	return 0;
}

struct region *region_get(struct engine *e, const void *owner, uint32_t key)
{
	struct region *r = region_find(e, key);

	if (!r || r->p.owner != owner)
		return NULL;
	r->refs++;
	return r;
}

void region_put(struct region **r)
{
	struct region *gone = *r;

	*r = NULL;
	if (!gone || --gone->refs)
		return;
	if (gone->p.ops && gone->p.ops->release)
		gone->p.ops->release(gone->p.priv);
	free(gone);
}

bool region_allows(const struct region *r, uint64_t addr, uint64_t len, uint32_t access)
{
	if (r->removed || (r->p.access & access) != access)
		return false;
	return addr >= r->p.iova && len <= r->p.len && addr - r->p.iova <= r->p.len - len;
}

int region_read(struct region *r, uint64_t addr, void *dst, uint32_t len)
{
	uint64_t offset = addr - r->p.iova;

	if (!r->p.base)
		return r->p.ops->read(r->p.priv, offset, dst, len);
	memcpy(dst, (const uint8_t *)r->p.base + offset, len);
	return 0;
}

int region_write(struct region *r, uint64_t addr, const void *src, uint32_t len)
{
	uint64_t offset = addr - r->p.iova;
	int err;

	if (!r->p.base) {
		err = r->p.ops->write(r->p.priv, offset, src, len);
		return err < 0 ? err : r->p.ops->flush != NULL;
	}
	memcpy((uint8_t *)r->p.base + offset, src, len);
	return 0;
}

int region_flush(struct region *r)
{
	return r->p.ops->flush(r->p.priv);
}

void region_table_free(struct engine *e)
{
	for (uint32_t i = 0; i <= e->regions.mask; i++) {
		while (e->regions.heads[i])
			region_unlink(e, container_of(e->regions.heads[i], struct region, link));
	}
}
