/* SPDX-License-Identifier: BSD-2-Clause */
/* Two threads and the sleeping protocol of ring.h: a wake-up is never lost. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "common/ring.h"
#include "unit.h"

#define ENTRIES 64u
#define ROUNDS 300000u
/* Far longer than any scheduling delay: a poll that runs into it was never woken. */
#define LOST_MS 20000

struct shared {
	uint32_t tail __attribute__((aligned(64)));
	uint32_t head __attribute__((aligned(64)));
	uint32_t consumer_asleep;
	uint32_t producer_asleep;
	uint32_t entries[ENTRIES];
	int bell_consumer, bell_producer;
	uint32_t rings;
	bool lost;
};

static uint32_t xorshift(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

static bool sleep_on(int bell)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	eventfd_t ignored;

	if (poll(&p, 1, LOST_MS) != 1)
		return false;
	eventfd_read(bell, &ignored);
	return true;
}

static void *produce(void *arg)
{
	struct shared *s = arg;
	uint32_t random = 2463534242u;

	for (uint32_t i = 0; i < ROUNDS && !s->lost; i++) {
		while (i - ring_load(&s->head) >= ENTRIES && !s->lost) {
			ring_sleep(&s->producer_asleep);
			if (i - ring_load(&s->head) >= ENTRIES && !sleep_on(s->bell_producer))
				s->lost = true;
			ring_awake(&s->producer_asleep);
		}
		s->entries[i % ENTRIES] = i * 3;
		ring_store(&s->tail, i + 1);
		if (ring_must_wake(&s->consumer_asleep)) {
			s->rings++;
			eventfd_write(s->bell_consumer, 1);
		}
		if (xorshift(&random) % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static bool consume(struct shared *s)
{
	uint32_t random = 88675123u;
	bool right = true;

	for (uint32_t i = 0; i < ROUNDS && !s->lost;) {
		if (ring_load(&s->tail) == i) {
			ring_sleep(&s->consumer_asleep);
			if (ring_load(&s->tail) == i && !sleep_on(s->bell_consumer))
				s->lost = true;
			ring_awake(&s->consumer_asleep);
			continue;
		}
		right &= s->entries[i % ENTRIES] == i * 3;
		ring_store(&s->head, ++i);
		if (ring_must_wake(&s->producer_asleep))
			eventfd_write(s->bell_producer, 1);
		if (xorshift(&random) % 64 == 0)
			sched_yield();
	}
	return right;
}

START_TEST(ring__two_threads_lose_no_wakeup)
{
	static struct shared s;
	pthread_t producer;
	bool right;

	s.bell_consumer = eventfd(0, EFD_NONBLOCK);
	s.bell_producer = eventfd(0, EFD_NONBLOCK);
	ck_assert_int_eq(pthread_create(&producer, NULL, produce, &s), 0);
	right = consume(&s);
	pthread_join(producer, NULL);
	ck_assert_msg(!s.lost, "a sleeper was not woken");
	ck_assert(right);
	ck_assert_msg(s.rings > 0, "nobody ever slept: the test showed nothing");
	ck_assert_uint_lt(s.rings, ROUNDS);
}
END_TEST

START_TEST(ring_must_wake__once_for_each_sleep)
{
	uint32_t asleep = 0;

	ck_assert(!ring_must_wake(&asleep));
	ring_sleep(&asleep);
	ck_assert(ring_must_wake(&asleep));
	ck_assert(!ring_must_wake(&asleep));
	ck_assert_msg(!ring_awake(&asleep), "the sleeper must learn that a wake-up is on its way");
	ring_sleep(&asleep);
	ck_assert(ring_awake(&asleep));
	ck_assert(!ring_must_wake(&asleep));
}
END_TEST

static Suite *ring_suite(void)
{
	Suite *suite = suite_create("ring");
	TCase *tcase = tcase_create("sleeping");

	tcase_add_test(tcase, ring_must_wake__once_for_each_sleep);
	tcase_add_test(tcase, ring__two_threads_lose_no_wakeup);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(ring_suite)
