// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include "core/timer.h"

int timer_heap_reserve(struct timer_heap *h, uint32_t n)
{
	uint32_t size = h->size ? h->size : 64;
	struct timer **grown;

	if (n <= h->size)
		return 0;
	while (size < n)
		size *= 2;
	grown = realloc(h->timers, size * sizeof(struct timer *));
	if (!grown)
		return -ENOMEM;
	h->timers = grown;
	h->size = size;
	return 0;
}

void timer_heap_free(struct timer_heap *h)
{
	free(h->timers);
	*h = (struct timer_heap){ 0 };
}

static void put(struct timer_heap *h, uint32_t i, struct timer *t)
{
	h->timers[i] = t;
	t->place = i + 1;
}

static void sift_up(struct timer_heap *h, uint32_t i)
{
	struct timer *t = h->timers[i];

	while (i && h->timers[(i - 1) / 2]->at > t->at) {
		put(h, i, h->timers[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(h, i, t);
}

static void sift_down(struct timer_heap *h, uint32_t i)
{
	struct timer *t = h->timers[i];
	uint32_t child;

	while ((child = 2 * i + 1) < h->used) {
		if (child + 1 < h->used && h->timers[child + 1]->at < h->timers[child]->at)
			child++;
		if (h->timers[child]->at >= t->at)
			break;
		put(h, i, h->timers[child]);
		i = child;
	}
	put(h, i, t);
}

void timer_clear(struct timer_heap *h, struct timer *t)
{
	struct timer *last;
	uint32_t i;

	if (!t->place)
		return;
	i = t->place - 1;
	t->place = 0;
	last = h->timers[--h->used];
	if (last == t)
		return;
	put(h, i, last);
	sift_up(h, i);
	sift_down(h, last->place - 1);
}

void timer_set(struct timer_heap *h, struct timer *t, uint64_t at)
{
	if (at == TIMER_NEVER) {
		timer_clear(h, t);
		return;
	}
	if (!t->place) {
		t->at = at;
		put(h, h->used++, t);
		sift_up(h, h->used - 1);
		return;
	}
	t->at = at;
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

	if (!h->used || h->timers[0]->at > now)
		return NULL;
	t = h->timers[0];
	timer_clear(h, t);
	return t;
}

uint64_t timer_next(const struct timer_heap *h)
{
	return h->used ? h->timers[0]->at : TIMER_NEVER;
}
