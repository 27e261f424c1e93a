/* SPDX-License-Identifier: BSD-2-Clause */
/* timer.h: timers in a binary heap; a timer knows its place, so that moving it costs O(log n). */
#ifndef CORE_TIMER_H
#define CORE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define TIMER_NEVER UINT64_MAX

struct timer {
	uint64_t at;
	uint32_t place; /* index in the heap + 1; 0: not armed */
	uint32_t kind;	/* the owner's */
};

/* The time stands beside the pointer: comparing touches the heap alone, not the owners all over memory. */
struct timer_slot {
	uint64_t at;
	struct timer *timer;
};

struct timer_heap {
	struct timer_slot *slots;
	uint32_t used, size;
};

/* Makes room for n timers armed at once. 0, -ENOMEM. */
int timer_heap_reserve(struct timer_heap *h, uint32_t n);
void timer_heap_free(struct timer_heap *h);
/* Arms or moves; TIMER_NEVER disarms. */
void timer_set(struct timer_heap *h, struct timer *t, uint64_t at);
/* Arms for `at` unless it is armed for earlier: cheap, for owners who look again when it fires. */
void timer_by(struct timer_heap *h, struct timer *t, uint64_t at);
void timer_clear(struct timer_heap *h, struct timer *t);
/* The earliest that is due, disarmed; NULL if none. */
struct timer *timer_due(struct timer_heap *h, uint64_t now);
uint64_t timer_next(const struct timer_heap *h);

#endif
