// SPDX-License-Identifier: BSD-2-Clause
/* Virtual time: a binary heap of events; equal times keep the order in which they were made. */
#include <stdio.h>
#include <stdlib.h>
#include "sim.h"

static bool event_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void events_grow(struct events *q)
{
	q->size = q->size ? q->size * 2 : 1024;
	q->heap = realloc(q->heap, q->size * sizeof(*q->heap));
	if (!q->heap)
		abort();
}

static void sift_up(struct events *q, uint32_t i, struct event ev)
{
	while (i) {
		uint32_t parent = (i - 1) / 2;

		if (!event_before(&ev, &q->heap[parent]))
			break;
		q->heap[i] = q->heap[parent];
		i = parent;
	}
	q->heap[i] = ev;
}

static void sift_down(struct events *q, struct event ev)
{
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= q->used)
			break;
		if (child + 1 < q->used && event_before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!event_before(&q->heap[child], &ev))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = ev;
}

void sim_at(struct sim *s, uint64_t at, event_fn fn, void *a, uint64_t b)
{
	struct events *q = &s->events;
	struct event ev = { at < s->now ? s->now : at, q->order++, fn, a, b };

	if (q->used == q->size)
		events_grow(q);
	sift_up(q, q->used++, ev);
}

void sim_after(struct sim *s, uint64_t delay, event_fn fn, void *a, uint64_t b)
{
	sim_at(s, s->now + delay, fn, a, b);
}

static struct event events_pop(struct events *q)
{
	struct event first = q->heap[0];

	q->used--;
	if (q->used)
		sift_down(q, q->heap[q->used]);
	return first;
}

bool sim_run(struct sim *s, uint64_t until, bool (*done)(struct sim *s))
{
	while (!s->failed) {
		struct event ev;

		if (done && done(s))
			return true;
		if (!s->events.used || s->events.heap[0].at > until) {
			s->now = until;
			return false;
		}
		ev = events_pop(&s->events);
		s->now = ev.at;
		ev.fn(s, ev.a, ev.b);
	}
	return false;
}

void events_free(struct events *q)
{
	free(q->heap);
	q->heap = NULL;
	q->used = q->size = 0;
}
