/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon/quota.c and where it is asked: what one user may hold, over all contexts, and gets back. */
#include <errno.h>
#include "mroce.h"
#include "loop_daemon.h"

#define SERVICE 9
#define WAIT_MS 20000
#define MIB (1024ull * 1024)

static struct loop_daemon daemon_process;
static struct mroce *context[2];

static void setup(void)
{
	loop_daemon_init(&daemon_process);
	daemon_process.cfg.contexts = 3;
	daemon_process.cfg.connections = 6;
	daemon_process.cfg.services = 4;
	daemon_process.cfg.regions = 5;
	daemon_process.cfg.memory_mib = 8;
	loop_daemon_start(&daemon_process);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(mroce_open(daemon_process.socket, &context[i]), 0);
}

static void teardown(void)
{
	for (int i = 0; i < 2; i++)
		mroce_close(&context[i]);
	loop_daemon_stop(&daemon_process);
}

/* The daemon sees the end of a context a moment after it. */
static int open_soon(struct mroce **m)
{
	int err = -EDQUOT;

	for (int i = 0; i < 2000 && (err = mroce_open(daemon_process.socket, m)) == -EDQUOT; i++)
		usleep(5000);
	return err;
}

START_TEST(quota__contexts)
{
	struct mroce *third, *fourth;

	ck_assert_int_eq(mroce_open(daemon_process.socket, &third), 0);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &fourth), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(NULL), "[quota] contexts"));
	mroce_close(&third);
	ck_assert_int_eq(open_soon(&fourth), 0);
	mroce_close(&fourth);
}
END_TEST

START_TEST(quota__regions_of_all_contexts)
{
	struct mroce_mr *mr[6];

	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(mroce_alloc(context[i & 1], 4096, 0, &mr[i]), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(mroce_alloc(context[i], 4096, 0, &mr[5]), -EDQUOT);
		ck_assert_ptr_nonnull(strstr(mroce_last_error(context[i]), "[quota] regions"));
	}
	mroce_mr_free(&mr[0]);
	ck_assert_int_eq(mroce_alloc(context[1], 4096, 0, &mr[0]), 0);
}
END_TEST

START_TEST(quota__memory)
{
	struct mroce_mr *mr[3];

	ck_assert_int_eq(mroce_alloc(context[0], 9 * MIB, 0, &mr[0]), -EDQUOT);
	ck_assert_int_eq(mroce_alloc(context[0], 5 * MIB, 0, &mr[0]), 0);
	ck_assert_int_eq(mroce_alloc(context[1], 4 * MIB, 0, &mr[1]), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(context[1]), "memory_mib"));
	ck_assert_int_eq(mroce_alloc(context[1], 3 * MIB, 0, &mr[1]), 0);
	ck_assert_int_eq(mroce_alloc(context[1], 4096, 0, &mr[2]), -EDQUOT);
	mroce_mr_free(&mr[0]);
	ck_assert_int_eq(mroce_alloc(context[1], 5 * MIB, 0, &mr[0]), 0);
}
END_TEST

START_TEST(quota__a_context_gives_all_back)
{
	struct mroce_mr *mr;
	struct mroce *m;

	for (int round = 0; round < 4; round++) {
		ck_assert_int_eq(open_soon(&m), 0);
		ck_assert_int_eq(mroce_alloc(m, 8 * MIB, 0, &mr), 0);
		mroce_close(&m);
		for (int i = 0; i < 2000; i++) {
			int err = mroce_alloc(context[0], 8 * MIB, 0, &mr);

			if (err == 0)
				break;
			ck_assert_int_eq(err, -EDQUOT);
			usleep(5000);
		}
		mroce_mr_free(&mr);
	}
}
END_TEST

START_TEST(quota__services)
{
	struct mroce_listener *l[5];

	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(mroce_listen(context[i & 1], SERVICE + i, 4, &l[i]), 0);
	ck_assert_int_eq(mroce_listen(context[0], SERVICE + 4, 4, &l[4]), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(context[0]), "[quota] services"));
	mroce_listener_free(&l[1]);
	ck_assert_int_eq(mroce_listen(context[0], SERVICE + 4, 4, &l[4]), 0);
}
END_TEST

/* Both ends are this user's: three connections are six. */
START_TEST(quota__connections)
{
	struct mroce_conn *out[4], *in[4];
	struct mroce_listener *l;

	ck_assert_int_eq(mroce_listen(context[1], SERVICE, 16, &l), 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(mroce_connect(context[0], "127.0.0.1", SERVICE, WAIT_MS, &out[i]),
				 0);
		ck_assert_int_eq(mroce_accept(l, WAIT_MS, &in[i]), 0);
	}
	ck_assert_int_eq(mroce_connect(context[0], "127.0.0.1", SERVICE, WAIT_MS, &out[3]), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(context[0]), "[quota] connections"));
	mroce_conn_close(&out[0]);
	mroce_conn_close(&in[0]);
	for (int i = 0; i < 2; i++) { /* what is given back can be had again and again */
		ck_assert_int_eq(mroce_connect(context[0], "127.0.0.1", SERVICE, WAIT_MS, &out[0]),
				 0);
		ck_assert_int_eq(mroce_accept(l, WAIT_MS, &in[0]), 0);
		mroce_conn_close(&out[0]);
		mroce_conn_close(&in[0]);
	}
}
END_TEST

static Suite *quota_suite(void)
{
	Suite *suite = suite_create("quota");
	TCase *tcase = tcase_create("of a user");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, quota__contexts);
	tcase_add_test(tcase, quota__regions_of_all_contexts);
	tcase_add_test(tcase, quota__memory);
	tcase_add_test(tcase, quota__a_context_gives_all_back);
	tcase_add_test(tcase, quota__services);
	tcase_add_test(tcase, quota__connections);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(quota_suite)
