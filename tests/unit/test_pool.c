// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>
#include "core/pool.h"
#include "unit.h"

START_TEST(pool__max_and_reuse)
{
	enum { MAX = 10000 };
	static void *got[MAX];
	struct pool p;

	pool_init(&p, 100, MAX);
	ck_assert_ptr_null(pool_get(&p)); /* never allocates by itself */
	ck_assert(pool_reserve(&p, 10));
	ck_assert_uint_ge(p.nfree, 10);
	ck_assert(!pool_reserve(&p, MAX + 1));
	for (int i = 0; i < MAX; i++) {
		got[i] = pool_get(&p);
		ck_assert_ptr_nonnull(got[i]);
		ck_assert_uint_eq((uintptr_t)got[i] % 16, 0);
		memset(got[i], 0xab, 100);
	}
	ck_assert_ptr_null(pool_get(&p));
	ck_assert(!pool_reserve(&p, 1));
	pool_put(&p, got[7]);
	ck_assert_ptr_eq(pool_get(&p), got[7]);
	for (int i = 0; i < 100; i++)
		ck_assert_uint_eq(((uint8_t *)got[7])[i], 0);
	ck_assert_uint_eq(p.used, MAX);
	pool_fini(&p);
}
END_TEST

static Suite *pool_suite(void)
{
	Suite *s = suite_create("pool");
	TCase *t = tcase_create("pool");

	tcase_add_test(t, pool__max_and_reuse);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(pool_suite)
