/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/histogram.h"
#include "pair.h"
#include "unit.h"

static char from[1 << 16], to[1 << 16];

START_TEST(bucket__has_its_edges)
{
	ck_assert_uint_eq(histogram_bucket(0), 0);
	for (uint32_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
		ck_assert_uint_eq(histogram_bucket(histogram_edge(i)), i);
		ck_assert_uint_eq(histogram_bucket(histogram_edge(i) + 1), i + 1);
	}
	ck_assert_uint_eq(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}
END_TEST

START_TEST(add__counts_and_sums)
{
	struct histogram h = { 0 };

	histogram_add(&h, 1000);
	histogram_add(&h, 1025);
	histogram_add(&h, 3000);
	ck_assert_uint_eq(h.bucket[0], 1);
	ck_assert_uint_eq(h.bucket[1], 1);
	ck_assert_uint_eq(h.bucket[2], 1);
	ck_assert_uint_eq(h.sum_ns, 5025);
}
END_TEST

static uint64_t total(const struct histogram *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

/* Loses every 20th packet of data. */
static enum pair_fate lossy(struct pair *p, int side, struct packet *pk, const struct ip *remote)
{
	(void)side;
	(void)remote;
	return pk->type == MROCE_DATA && p->packets % 20 == 7 ? PAIR_DROP : PAIR_PASS;
}

START_TEST(times__of_a_transfer_with_loss)
{
	struct pair *p = pair_new(NULL, 1);
	const struct engine_times *t = engine_times(p->side[0].engine);
	struct engine_totals totals;
	struct conn_stats st;
	uint32_t key, rkey;

	pair_connect(p);
	key = pair_region(p, 0, from, sizeof(from), MROCE_ACCESS_LOCAL);
	rkey = pair_region(p, 1, to, sizeof(to), MROCE_ACCESS_REMOTE_WRITE);
	p->fate = lossy;
	for (uint32_t i = 0; i < 30; i++)
		ck_assert_int_eq(
			pair_post(p, 0, MROCE_WR_WRITE, 1, i, key, from, sizeof(from), to, rkey, 0),
			0);
	pair_wait(p, 0, 30);
	ck_assert_uint_eq(total(&t->completion), 30);
	ck_assert_uint_gt(total(&t->rtt), 0);
	engine_conn_stats(p->side[0].conn, p->now, &st);
	ck_assert_uint_gt(st.repairs, 0);
	/* Each letter that was lost counts once, however often it was. */
	ck_assert_uint_gt(total(&t->repair), 0);
	ck_assert_uint_le(total(&t->repair), st.repairs);
	/* Two ways of 20 us: nothing can be faster. */
	for (uint32_t i = 0; histogram_edge(i) < 2 * p->delay_ns; i++) {
		ck_assert_uint_eq(t->rtt.bucket[i], 0);
		ck_assert_uint_eq(t->completion.bucket[i], 0);
	}
	ck_assert_uint_ge(t->rtt.sum_ns, 2 * p->delay_ns * total(&t->rtt));
	engine_totals(p->side[0].engine, &totals);
	ck_assert_uint_eq(totals.tx_bytes, 30 * sizeof(from));
	ck_assert_uint_eq(totals.repairs, st.repairs);
	pair_free(p);
}
END_TEST

static bool all_gone(struct pair *p)
{
	struct engine_stats st;

	engine_stats(p->side[0].engine, &st);
	return st.conns == 0;
}

START_TEST(totals__outlive_connections)
{
	struct pair *p = pair_new(NULL, 1);
	struct engine_totals totals;
	struct engine_stats st;
	uint32_t key, rkey;

	pair_connect(p);
	key = pair_region(p, 0, from, sizeof(from), MROCE_ACCESS_LOCAL);
	rkey = pair_region(p, 1, to, sizeof(to), MROCE_ACCESS_REMOTE_WRITE);
	ck_assert_int_eq(pair_post(p, 0, MROCE_WR_WRITE, 1, 5, key, from, 5000, to, rkey, 0), 0);
	pair_wait(p, 0, 1);
	engine_conn_close(p->side[0].conn, MROCE_CLOSE_NORMAL, p->now);
	engine_conn_free(&p->side[0].conn);
	ck_assert(pair_run(p, 10000000000ull, all_gone));
	engine_totals(p->side[0].engine, &totals);
	ck_assert_uint_eq(totals.tx_bytes, 5000);
	ck_assert_uint_eq(totals.tx_msgs, 1);
	engine_stats(p->side[0].engine, &st);
	ck_assert_uint_eq(st.notes[NOTE_CONN_UP], 1);
	ck_assert_uint_eq(st.notes[NOTE_CONN_DOWN], 1);
	pair_free(p);
}
END_TEST

static Suite *histogram_suite(void)
{
	Suite *s = suite_create("histogram");
	TCase *tc = tcase_create("histogram");

	tcase_add_test(tc, bucket__has_its_edges);
	tcase_add_test(tc, add__counts_and_sums);
	tcase_add_test(tc, times__of_a_transfer_with_loss);
	tcase_add_test(tc, totals__outlive_connections);
	suite_add_tcase(s, tc);
	return s;
}

UNIT_MAIN(histogram_suite)
