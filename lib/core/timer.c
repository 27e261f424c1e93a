// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include "core/timer.h"

int timer_heap_reserve(struct timer_heap *h, uint32_t n)
{
	uint32_t size = h->size ? h->size : 64;
	struct timer_slot *grown;

	if (n <= h->size)
		return 0;
	while (size < n)
		size *= 2;
	grown = realloc(h->slots, size * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	h->slots = grown;
	h->size = size;
	return 0;
}

void timer_heap_free(struct timer_heap *h)
{
	free(h->slots);
	*h = (struct timer_heap){ 0 };
}

static void put(struct timer_heap *h, uint32_t i, struct timer_slot slot)
{
	h->slots[i] = slot;
	slot.timer->place = i + 1;
}

static void sift_up(struct timer_heap *h, uint32_t i)
{
	struct timer_slot slot = h->slots[i];

	while (i && h->slots[(i - 1) / 2].at > slot.at) {
		put(h, i, h->slots[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(h, i, slot);
}

static void sift_down(struct timer_heap *h, uint32_t i)
{
	struct timer_slot slot = h->slots[i];
	uint32_t child;

	while ((child = 2 * i + 1) < h->used) {
		if (child + 1 < h->used && h->slots[child + 1].at < h->slots[child].at)
			child++;
		if (h->slots[child].at >= slot.at)
			break;
		put(h, i, h->slots[child]);
		i = child;
	}
	put(h, i, slot);
}

void timer_clear(struct timer_heap *h, struct timer *t)
{
	struct timer_slot last;
	uint32_t i;

	if (!t->place)
		return;
	i = t->place - 1;
	t->place = 0;
	last = h->slots[--h->used];
	if (last.timer == t)
		return;
	put(h, i, last);
	sift_up(h, i);
	sift_down(h, last.timer->place - 1);
}

void timer_set(struct timer_heap *h, struct timer *t, uint64_t at)
{
	if (at == TIMER_NEVER) {
		timer_clear(h, t);
		return;
	}
	t->at = at;
	if (!t->place) {
		put(h, h->used++, (struct timer_slot){ at, t });
		sift_up(h, h->used - 1);
		return;
	}
	h->slots[t->place - 1].at = at;
	sift_up(h, t->place - 1);
	sift_down(h, t->place - 1);
}

void timer_by(struct timer_heap *h, struct timer *t, uint64_t at)
{
	if (!t->place || at < t->at)
		timer_set(h, t, at);
}

struct timer *timer_due(struct timer_heap *h, uint64_t now)
{
	struct timer *t;

	if (!h->used || h->slots[0].at > now)
		return NULL;
	t = h->slots[0].timer;
	timer_clear(h, t);
	return t;
}

uint64_t timer_next(const struct timer_heap *h)
{
	return h->used ? h->slots[0].at : TIMER_NEVER;
}
