/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c: memory that messages are sent from and placed into. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "collective/internal.h"

const struct memory *memory_find(const struct mroce_comm *c, const void *addr, size_t length)
{
	const uint8_t *at = addr;
	const struct memory *mem;

	LIST_FOREACH(mem, &c->memories, entry)
		if (at >= mem->addr && length <= mem->size &&
		    (size_t)(at - mem->addr) <= mem->size - length)
			return mem;
	return NULL;
}

int memory_get(struct mroce_comm *c, size_t size, struct memory **out)
{
	struct memory *mem = calloc(1, sizeof(*mem));
	int err;

	if (!mem)
		return comm_fail(c, -ENOMEM, "no memory for a region of %zu bytes", size);
	err = mroce_alloc(c->m, size, MROCE_ACCESS_LOCAL, &mem->mr);
	if (err) {
		free(mem);
		return comm_fail(c, err, "%zu bytes of memory: %s", size, mroce_last_error(c->m));
	}
	mem->addr = mroce_mr_addr(mem->mr);
	mem->size = size;
	LIST_INSERT_HEAD(&c->memories, mem, entry);
	*out = mem;
	return 0;
}

void memory_put(struct memory **memory)
{
	struct memory *mem = *memory;

	if (!mem)
		return;
	*memory = NULL;
	LIST_REMOVE(mem, entry);
	mroce_mr_free(&mem->mr);
	free(mem);
}

void memory_free_all(struct mroce_comm *c)
{
	struct memory *mem;

	c->arena = NULL;
	while ((mem = LIST_FIRST(&c->memories)))
		memory_put(&mem);
}

int mroce_comm_alloc(struct mroce_comm *comm, size_t size, void **out)
{
	struct memory *mem;
	int err;

	if (!size)
		return comm_fail(comm, -EINVAL, "memory of 0 bytes: give at least 1");
	err = memory_get(comm, size, &mem);
	if (!err)
		*out = mem->addr;
	return err;
}

void mroce_comm_free(struct mroce_comm *comm, void **memory)
{
	struct memory *mem;

	if (!*memory)
		return;
	LIST_FOREACH(mem, &comm->memories, entry) {
		if (mem->addr != *memory || mem == comm->arena)
			continue;
		memory_put(&mem);
		break;
	}
	*memory = NULL;
}

/* ---- room for an operation ---- */

int arena_reset(struct mroce_comm *c, size_t size)
{
	c->arena_used = 0;
	if (!size || (c->arena && c->arena->size >= size))
		return 0;
	/* Twice as much as before, so that growing sizes do not make a new region each time. */
	if (c->arena && size < 2 * c->arena->size)
		size = 2 * c->arena->size;
	memory_put(&c->arena);
	return memory_get(c, size, &c->arena);
}

void *arena_take(struct mroce_comm *c, size_t size)
{
	uint8_t *at = c->arena ? c->arena->addr + c->arena_used : NULL;

	c->arena_used += arena_size(size);
	return at;
}
