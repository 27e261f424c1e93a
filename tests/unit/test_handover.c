// SPDX-License-Identifier: BSD-2-Clause
/*
 * Letters handed over: all tests of the engine once more with ports that put letters into envelopes, and what
 * can happen to letters on their way there.
 */
#include "unit.h"
#undef UNIT_MAIN
#define UNIT_MAIN(suite)
#include "test_engine.c"

#define LEN 500000

static void write_it(struct world *w)
{
	pair_post(w->p, 0, MROCE_WR_WRITE, 0, 1, w->key[0], w->mem[0], LEN, w->mem[1], w->key[1], 0);
	pair_wait(w->p, 0, w->p->side[0].ndone + 1);
	check_status(w, 0, w->p->side[0].ndone - 1, 1, MROCE_OK);
	ck_assert_mem_eq(w->mem[0], w->mem[1], LEN);
	memset(w->mem[1], 0, LEN);
}

static uint32_t paths_with_packets(struct world *w)
{
	struct path_stats st;
	uint32_t n = 0;

	for (uint32_t i = 0; !engine_path_stats(w->p->side[0].conn, i, &st); i++)
		n += st.tx_packets > 10;
	return n;
}

static uint64_t returned(struct world *w)
{
	uint64_t sum = 0;

	for (int i = 0; i < PAIR_PORTS; i++)
		sum += w->p->side[0].offices[i].returned;
	return sum;
}

START_TEST(post__every_path_is_used)
{
	struct world w = world_new(NULL, 2, LEN);

	write_it(&w);
	ck_assert_uint_ge(w.p->letters, LEN / 1372);
	ck_assert_uint_eq(paths_with_packets(&w), 8);
	ck_assert_uint_eq(w.p->side[0].offices[0].returned, 0);
	ck_assert_uint_gt(w.p->side[0].offices[1].sent, 0);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static enum pair_posting sometimes(struct pair *p, struct packet *letter)
{
	uint32_t dice = pair_rand(p) % 100;

	(void)letter;
	return dice < 20 ? PAIR_POST_SWALLOW : dice < 40 ? PAIR_POST_LATE : PAIR_POST;
}

/* Each of them comes back into its queue, and none twice to the application. */
START_TEST(post__letters_vanish_or_come_late)
{
	struct world w = world_new(NULL, 4, LEN);

	w.p->posting = sometimes;
	w.p->fate = _i ? lossy : NULL;
	w.p->fate_arg = (void *)10;
	for (int i = 0; i < 5; i++)
		write_it(&w);
	ck_assert_uint_gt(returned(&w), 20);
	w.p->posting = NULL;
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static enum pair_posting never(struct pair *p, struct packet *letter)
{
	(void)p;
	(void)letter;
	return PAIR_POST_SWALLOW;
}

/* The TC program is gone: the engine picks paths itself, says so, and tries again after a while. */
START_TEST(post__nobody_there)
{
	struct world w = world_new(NULL, 1, LEN);
	struct post_office *office = &w.p->side[0].offices[0];
	uint64_t sent;

	write_it(&w);
	w.p->posting = never;
	for (int i = 0; i < 20 && !office->refusals; i++) {
		write_it(&w);
		pair_run(w.p, 20000000, NULL);
	}
	ck_assert_uint_eq(office->refusals, 1);
	ck_assert_ptr_nonnull(strstr(w.p->side[0].last_log, "no word from it"));
	sent = office->sent;
	w.p->posting = NULL;
	write_it(&w);
	ck_assert_uint_eq(office->sent, sent);
	pair_run(w.p, 11000000000ull, NULL);
	write_it(&w);
	ck_assert_uint_gt(office->sent, sent);
	ck_assert_uint_eq(office->refusals, 0);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* No word of its letters: the daemon sends them itself at once, and the port is closed to nobody. */
START_TEST(post__no_word_delays_nothing)
{
	struct world w = world_new(NULL, 2, LEN);
	uint64_t began = w.p->now, usual;

	write_it(&w);
	usual = w.p->now - began;
	w.p->posting = never;
	began = w.p->now;
	write_it(&w);
	ck_assert_uint_gt(returned(&w), 0);
	ck_assert_uint_le(w.p->now - began, 2 * usual);
	ck_assert_uint_eq(w.p->side[0].offices[0].off_until, 0);
	w.p->posting = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* The two number packets by turns: every PSN once, or the peer would drop it. */
START_TEST(post__by_turns_with_the_engine)
{
	struct world w = world_new(NULL, 2, LEN);

	for (int i = 0; i < 10; i++) {
		for (int port = 0; port < 2; port++)
			w.p->side[0].offices[port].off_until = i % 2 ? UINT64_MAX : 0;
		write_it(&w);
	}
	ck_assert_uint_eq(w.p->side[0].offices[0].returned, 0);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static Suite *handover_suite(void)
{
	Suite *s = engine_suite();
	TCase *t = tcase_create("post");

	tcase_add_test(t, post__every_path_is_used);
	tcase_add_loop_test(t, post__letters_vanish_or_come_late, 0, 2);
	tcase_add_test(t, post__nobody_there);
	tcase_add_test(t, post__no_word_delays_nothing);
	tcase_add_test(t, post__by_turns_with_the_engine);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	pair_hands_over = true;
	return unit_run(handover_suite);
}
