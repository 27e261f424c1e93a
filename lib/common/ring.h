/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring.h: the only code that touches the shared indices and flags of struct abi_rings. Both sides use it.
 */
#ifndef COMMON_RING_H
#define COMMON_RING_H

#include <stdbool.h>
#include <stdint.h>
#include "common/abi.h"

static inline uint32_t ring_load(const uint32_t *index)
{
	return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static inline void ring_store(uint32_t *index, uint32_t value)
{
	__atomic_store_n(index, value, __ATOMIC_RELEASE);
}

/* Sleeper, before it looks at the ring for the last time. */
static inline void ring_sleep(uint32_t *asleep)
{
	__atomic_store_n(asleep, 1, __ATOMIC_RELAXED);
	/* Pairs with the fence in ring_must_wake(): either we see the entry or the other side sees the flag. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Sleeper, awake again. False: the other side has cleared the flag, its wake-up is there or on its way. */
static inline bool ring_awake(uint32_t *asleep)
{
	return __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) != 0;
}

/* Producer, after it has written its index: must it wake the other side? */
static inline bool ring_must_wake(uint32_t *asleep)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(!__atomic_load_n(asleep, __ATOMIC_RELAXED), 1))
		return false;
	return __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) != 0;
}

/* In loops that look at a ring: kind to the other thread of the core. */
static inline void ring_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
