// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include "core/internal.h"
#include "unit.h"

static const struct engine_ops no_ops;
static struct engine *e;
static uint8_t mem[1000];
static uint32_t key, released;
static int owner, stranger;

static void on_release(void *priv)
{
	(*(uint32_t *)priv)++;
}

static const struct region_ops release_only = { .release = on_release };

static struct region_params params(void)
{
	return (struct region_params){
		.owner = &owner,
		.iova = 0xfffffffffffff000ull,
		.len = sizeof(mem),
		.access = MROCE_ACCESS_REMOTE_READ,
		.base = mem,
		.ops = &release_only,
		.priv = &released,
	};
}

static void setup(void)
{
	struct engine_config cfg;
	struct region_params p = params();

	engine_config_default(&cfg);
	cfg.letters = cfg.messages = 128;
	e = engine_new(&cfg, &no_ops, NULL);
	ck_assert_ptr_nonnull(e);
	released = 0;
	ck_assert_int_eq(engine_region_add(e, &p, &key), 0);
}

static void teardown(void)
{
	engine_free(&e);
	ck_assert_uint_eq(released, 1);
}

START_TEST(region__bounds)
{
	struct region *r = region_get(e, &owner, key);
	uint64_t iova = 0xfffffffffffff000ull;

	ck_assert_ptr_nonnull(r);
	ck_assert(region_allows(r, iova, 1000, 0));
	ck_assert(region_allows(r, iova + 1000, 0, 0));
	ck_assert(!region_allows(r, iova + 1000, 1, 0));
	ck_assert(!region_allows(r, iova, 1001, 0));
	ck_assert(!region_allows(r, iova - 1, 2, 0));
	ck_assert(!region_allows(r, iova + 1, UINT64_MAX, 0));
	ck_assert(!region_allows(r, 0, 1, 0));
	ck_assert(region_allows(r, iova, 1, MROCE_ACCESS_REMOTE_READ));
	ck_assert(!region_allows(r, iova, 1, MROCE_ACCESS_REMOTE_WRITE));
	ck_assert(!region_allows(r, iova, 1, MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ));
	region_put(&r);
	ck_assert_ptr_null(r);
}
END_TEST

START_TEST(region__owner)
{
	ck_assert_ptr_null(region_get(e, &stranger, key));
	ck_assert_ptr_null(region_get(e, &owner, key + 1));
	ck_assert_int_eq(engine_region_remove(e, &stranger, key), -ENOENT);
	ck_assert_int_eq(engine_region_remove(e, &owner, key + 1), -ENOENT);
}
END_TEST

START_TEST(region__removed_but_held)
{
	struct region *r = region_get(e, &owner, key);

	ck_assert_int_eq(engine_region_remove(e, &owner, key), 0);
	ck_assert_int_eq(engine_region_remove(e, &owner, key), -ENOENT);
	ck_assert_ptr_null(region_get(e, &owner, key));
	ck_assert(!region_allows(r, 0xfffffffffffff000ull, 1, 0));
	ck_assert_uint_eq(released, 0);
	region_put(&r);
	ck_assert_uint_eq(released, 1);
}
END_TEST

START_TEST(region__invalid)
{
	struct region_params p = params();
	uint32_t k = 42;

	p.len = 0;
	ck_assert_int_eq(engine_region_add(e, &p, &k), -EINVAL);
	p = params();
	p.len = 0x2000; /* beyond the end of addresses */
	ck_assert_int_eq(engine_region_add(e, &p, &k), -EINVAL);
	p = params();
	p.base = NULL;
	ck_assert_int_eq(engine_region_add(e, &p, &k), -EINVAL);
	ck_assert_uint_eq(k, 42);
}
END_TEST

START_TEST(region__keys_do_not_repeat)
{
	struct region_params p = params();
	uint32_t keys[300];

	p.ops = NULL;
	for (uint32_t i = 0; i < 300; i++) {
		ck_assert_int_eq(engine_region_add(e, &p, &keys[i]), 0);
		ck_assert_uint_ne(keys[i], 0);
		for (uint32_t j = 0; j < i; j++)
			ck_assert_uint_ne(keys[i], keys[j]);
	}
}
END_TEST

static Suite *region_suite(void)
{
	Suite *s = suite_create("region");
	TCase *t = tcase_create("region");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, region__bounds);
	tcase_add_test(t, region__owner);
	tcase_add_test(t, region__removed_but_held);
	tcase_add_test(t, region__invalid);
	tcase_add_test(t, region__keys_do_not_repeat);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(region_suite)
