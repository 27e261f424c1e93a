// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory of the simulated applications: slots with guard bytes, patterns that depend on every
 * byte's place, and regions of all kinds: plain, through operations, through operations that write
 * only at flush() (as process_vm_writev would), and without any memory at all for huge messages.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mroce/gaps.h"
#include "sim.h"

#define VIRTUAL_GRAIN 512 /* less than the smallest chunk */

/* ---- patterns ---- */

static inline uint64_t pattern_word(uint64_t key, uint64_t i)
{
	uint64_t w = (key ^ i * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;

	return w ^ w >> 32;
}

static inline uint8_t pattern_byte(uint64_t key, uint64_t off)
{
	return (uint8_t)(pattern_word(key, off / 8) >> (off % 8 * 8));
}

void pattern_write(uint64_t key, uint64_t off, uint8_t *dst, uint64_t len)
{
	uint64_t i = 0;

	for (; i < len && (off + i) % 8; i++)
		dst[i] = pattern_byte(key, off + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t w = pattern_word(key, (off + i) / 8);

		memcpy(dst + i, &w, 8);
	}
	for (; i < len; i++)
		dst[i] = pattern_byte(key, off + i);
}

static bool bytes_match(uint64_t key, uint64_t off, const uint8_t *src, uint64_t from, uint64_t to,
			uint64_t *bad)
{
	for (uint64_t i = from; i < to; i++) {
		if (src[i] != pattern_byte(key, off + i)) {
			*bad = off + i;
			return false;
		}
	}
	return true;
}

bool pattern_matches(uint64_t key, uint64_t off, const uint8_t *src, uint64_t len, uint64_t *bad)
{
	uint64_t i = (8 - off % 8) % 8;

	if (i > len)
		i = len;
	if (!bytes_match(key, off, src, 0, i, bad))
		return false;
	for (; i + 8 <= len; i += 8) {
		uint64_t w = pattern_word(key, (off + i) / 8), is;

		memcpy(&is, src + i, 8);
		if (is != w)
			return bytes_match(key, off, src, i, i + 8, bad);
	}
	return bytes_match(key, off, src, i, len, bad);
}

static bool all_bytes(const uint8_t *p, uint64_t len, uint8_t value)
{
	return !len || (p[0] == value && !memcmp(p, p + 1, len - 1));
}

/* ---- how the engine reaches the memory ---- */

static int ops_read(void *priv, uint64_t offset, void *dst, uint32_t len)
{
	struct arena *a = priv;

	if (a->gone)
		return -EFAULT;
	memcpy(dst, a->mem + offset, len);
	return 0;
}

static int ops_write(void *priv, uint64_t offset, const void *src, uint32_t len)
{
	struct arena *a = priv;

	if (a->gone)
		return -EFAULT;
	if (a->mode == ARENA_OPS) {
		memcpy(a->mem + offset, src, len);
		return 0;
	}
	if (a->ndeferred == a->deferred_room) {
		a->deferred_room = a->deferred_room ? 2 * a->deferred_room : 256;
		a->deferred = realloc(a->deferred, a->deferred_room * sizeof(*a->deferred));
		if (!a->deferred)
			abort();
	}
	a->deferred[a->ndeferred++] = (struct deferred){ offset, src, len };
	return 0;
}

static int ops_flush(void *priv)
{
	struct arena *a = priv;
	uint32_t n = a->ndeferred;

	a->ndeferred = 0;
	if (a->gone)
		return -EFAULT;
	for (uint32_t i = 0; i < n; i++)
		memcpy(a->mem + a->deferred[i].offset, a->deferred[i].src, a->deferred[i].len);
	return 0;
}

static void ops_release(void *priv)
{
	struct arena *a = priv;

	if (a->released)
		sim_fail(a->s, "region %08x was released twice", a->key);
	a->released = true;
}

static int virtual_read(void *priv, uint64_t offset, void *dst, uint32_t len)
{
	struct arena *a = priv;

	pattern_write(a->pattern, offset - GUARD, dst, len);
	return 0;
}

static int virtual_write(void *priv, uint64_t offset, const void *src, uint32_t len)
{
	struct arena *a = priv;
	uint64_t off = offset - GUARD, grain = off / VIRTUAL_GRAIN, bad;

	if (offset < GUARD || off + len > a->max)
		sim_fail(a->s, "write of %u bytes at %llu outside the message", len,
			 (unsigned long long)off);
	else if (!pattern_matches(a->pattern, off, src, len, &bad))
		sim_fail(a->s, "byte %llu of a huge message is wrong", (unsigned long long)bad);
	else if (!(a->came[grain / 64] >> grain % 64 & 1))
		a->written += len;
	if (!a->s->failed)
		a->came[grain / 64] |= 1ull << grain % 64;
	return 0;
}

static int virtual_flush(void *priv)
{
	(void)priv;
	return 0;
}

static const struct region_ops memory_ops = {
	.read = ops_read, .write = ops_write, .flush = ops_flush, .release = ops_release
};
static const struct region_ops plain_ops = { .release = ops_release };
static const struct region_ops virtual_ops = {
	.read = virtual_read, .write = virtual_write, .flush = virtual_flush, .release = ops_release
};

/* ---- arenas ---- */

static const struct region_ops *ops_of(enum arena_mode mode)
{
	switch (mode) {
	case ARENA_PLAIN: return &plain_ops;
	case ARENA_OPS:
	case ARENA_DEFERRED: return &memory_ops;
	case ARENA_VIRTUAL: return &virtual_ops;
	}
	return NULL;
}

static void arena_register(struct arena *a, void *owner)
{
	struct region_params rp = {
		.owner = owner,
		.iova = a->iova,
		.len = a->stride * a->slots,
		.access = a->access,
		.base = a->mode == ARENA_PLAIN ? a->mem : NULL,
		.ops = ops_of(a->mode),
		.priv = a,
	};
	int err = engine_region_add(a->host->engine, &rp, &a->key);

	if (err)
		sim_fail(a->s, "engine_region_add: %s", strerror(-err));
	else if (!a->key)
		sim_fail(a->s, "a region got the key 0");
	a->registered = !err;
	a->life = a->host->life;
}

/* Never 0. */
uint64_t arena_sum(const struct arena *a)
{
	uint64_t sum = 1;

	for (uint64_t i = 0; a->mem && i + 8 <= a->stride * a->slots; i += 8) {
		uint64_t w;

		memcpy(&w, a->mem + i, 8);
		sum = (sum ^ w) * 0x9e3779b97f4a7c15ULL;
		sum ^= sum >> 31;
	}
	return sum ? sum : 1;
}

struct arena *arena_new(struct sim *s, struct host *h, void *owner, uint32_t slots, uint64_t max,
			uint32_t access, enum arena_mode mode)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (!a)
		abort();
	a->s = s;
	a->host = h;
	a->mode = mode;
	a->slots = mode == ARENA_VIRTUAL ? 1 : slots;
	a->max = max;
	a->stride = (max + 2 * GUARD + 63) & ~63ull;
	a->iova = rng_next(&s->app_rng) >> 8;
	a->access = access;
	if (mode == ARENA_VIRTUAL)
		a->came = calloc(max / VIRTUAL_GRAIN / 64 + 1, 8);
	else
		a->mem = malloc(a->stride * a->slots);
	if (!a->mem && !a->came)
		abort();
	if (a->mem)
		memset(a->mem, FREE_BYTE, a->stride * a->slots);
	arena_register(a, owner);
	return a;
}

void arena_remove(struct arena *a, void *owner)
{
	int err;

	if (!a || !a->registered)
		return;
	a->registered = false;
	if (!a->host->engine)
		return;
	err = engine_region_remove(a->host->engine, owner, a->key);
	if (err)
		sim_fail(a->s, "engine_region_remove: %s", strerror(-err));
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	free(a->mem);
	free(a->came);
	free(a->deferred);
	free(a);
}

uint8_t *arena_slot(const struct arena *a, uint32_t slot)
{
	return a->mem + slot * a->stride + GUARD;
}

uint64_t arena_addr(const struct arena *a, uint32_t slot)
{
	return a->iova + (a->mode == ARENA_VIRTUAL ? 0 : slot * a->stride) + GUARD;
}

void arena_fill(struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len)
{
	if (a->mode == ARENA_VIRTUAL)
		a->pattern = pattern;
	else
		pattern_write(pattern, 0, arena_slot(a, slot), len);
}

/* The application has its memory back and uses it for something else. */
void arena_scribble(struct arena *a, uint32_t slot)
{
	if (a->mode == ARENA_VIRTUAL) {
		a->pattern = a->written = 0;
		memset(a->came, 0, (a->max / VIRTUAL_GRAIN / 64 + 1) * 8);
	} else {
		memset(arena_slot(a, slot), FREE_BYTE, a->max);
	}
}

bool arena_guards(const struct arena *a, uint32_t slot, char *why)
{
	const uint8_t *p;

	if (a->mode == ARENA_VIRTUAL)
		return true;
	p = arena_slot(a, slot);
	if (all_bytes(p - GUARD, GUARD, FREE_BYTE) && all_bytes(p + a->max, GUARD, FREE_BYTE))
		return true;
	sprintf(why, "guard bytes of slot %u were overwritten", slot);
	return false;
}

bool arena_check(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len, char *why)
{
	const uint8_t *p;
	uint64_t bad;

	if (a->mode == ARENA_VIRTUAL) {
		sprintf(why, "%llu bytes came of %llu", (unsigned long long)a->written,
			(unsigned long long)len);
		return a->written == len && a->pattern == pattern;
	}
	p = arena_slot(a, slot);
	if (!pattern_matches(pattern, 0, p, len, &bad)) {
		sprintf(why, "byte %llu of %llu in slot %u is %02x, should be %02x",
			(unsigned long long)bad, (unsigned long long)len, slot, p[bad],
			pattern_byte(pattern, bad));
		return false;
	}
	if (!all_bytes(p + len, a->max - len, FREE_BYTE)) {
		sprintf(why, "written past the %llu bytes of the message in slot %u",
			(unsigned long long)len, slot);
		return false;
	}
	return arena_guards(a, slot, why);
}

bool arena_check_gaps(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len,
		      const struct mroce_gaps *gaps, uint8_t fill, char *why)
{
	static struct mroce_range gap[4096];
	const uint8_t *p = arena_slot(a, slot);
	uint32_t n = gaps_ranges(gaps, gap, 4096);
	uint64_t at = 0, bad;

	for (uint32_t i = 0; i <= n; i++) {
		uint64_t end = i < n ? gap[i].offset : len;

		if (n > 4096 || end < at || end > len || (i < n && gap[i].length > len - end)) {
			sprintf(why, "its list of what is missing makes no sense");
			return false;
		}
		if (!pattern_matches(pattern, at, p + at, end - at, &bad)) {
			sprintf(why, "byte %llu is said to be here, and is %02x, should be %02x",
				(unsigned long long)bad, p[bad], pattern_byte(pattern, bad));
			return false;
		}
		if (i < n && !all_bytes(p + end, gap[i].length, fill)) {
			sprintf(why, "something is at %llu to %llu, which is said to be missing",
				(unsigned long long)end, (unsigned long long)(end + gap[i].length));
			return false;
		}
		at = i < n ? end + gap[i].length : len;
	}
	if (!all_bytes(p + len, a->max - len, FREE_BYTE)) {
		sprintf(why, "written past the end of the message in slot %u", slot);
		return false;
	}
	return arena_guards(a, slot, why);
}

/* A missing byte may look like the right one by chance, one of 256. */
bool arena_check_missing(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len,
			 uint64_t missing, uint8_t fill, char *why)
{
	const uint8_t *p = arena_slot(a, slot);
	uint64_t differ = 0;

	for (uint64_t i = 0; i < len; i++) {
		if (p[i] == pattern_byte(pattern, i))
			continue;
		differ++;
		if (p[i] == fill)
			continue;
		sprintf(why, "byte %llu is %02x, neither %02x nor missing", (unsigned long long)i,
			p[i], pattern_byte(pattern, i));
		return false;
	}
	if (differ > missing || differ + 32 + missing / 16 < missing) {
		sprintf(why, "%llu bytes are said to be missing, and %llu are",
			(unsigned long long)missing, (unsigned long long)differ);
		return false;
	}
	return arena_guards(a, slot, why);
}

bool arena_untouched(const struct arena *a, uint32_t slot, char *why)
{
	const uint8_t *p;
	uint64_t i = 0;

	if (a->mode == ARENA_VIRTUAL) {
		sprintf(why, "%llu bytes were written", (unsigned long long)a->written);
		return a->written == 0;
	}
	p = arena_slot(a, slot);
	if (all_bytes(p, a->max, FREE_BYTE))
		return arena_guards(a, slot, why);
	while (p[i] == FREE_BYTE)
		i++;
	sprintf(why, "byte %llu of slot %u was written although the slot was free",
		(unsigned long long)i, slot);
	return false;
}
