// SPDX-License-Identifier: BSD-2-Clause
/* The whole engine, two of them in memory: every operation, over good and bad networks. */
#include <stdlib.h>
#include "pair.h"
#include "unit.h"

#define BOTH (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)

struct world {
	struct pair *p;
	uint8_t *mem[2];
	uint32_t key[2];
	uint64_t size;
};

static struct world world_new(const struct engine_config *cfg, uint32_t nports, uint64_t size)
{
	struct world w = { .p = pair_new(cfg, nports), .size = size };

	pair_connect(w.p);
	for (int i = 0; i < 2; i++) {
		w.mem[i] = malloc(size);
		for (uint64_t b = 0; b < size; b++)
			w.mem[i][b] = i ? 0 : (uint8_t)pair_rand(w.p);
		w.key[i] = pair_region(w.p, i, w.mem[i], size, BOTH);
	}
	return w;
}

static void world_free(struct world *w)
{
	pair_free(w->p);
	free(w->mem[0]);
	free(w->mem[1]);
}

static void check_status(struct world *w, int side, uint32_t from, uint32_t n, uint8_t status)
{
	for (uint32_t i = from; i < from + n; i++)
		ck_assert_uint_eq(w->p->side[side].done[i].status, status);
}

/* Nothing is left in flight and no record leaked. */
static void check_quiet(struct world *w)
{
	struct engine_stats st;

	pair_run(w->p, 300000000ull, NULL);
	for (int i = 0; i < 2; i++) {
		engine_stats(w->p->side[i].engine, &st);
		ck_assert_uint_eq(st.letters_used, 0);
	}
}

static enum pair_fate lossy(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	uint32_t percent = (uint32_t)(uintptr_t)p->fate_arg;

	(void)from;
	(void)pk;
	(void)remote;
	return pair_rand(p) % 100 < percent ? PAIR_DROP : PAIR_PASS;
}

static bool untouched(const uint8_t *mem, uint64_t from, uint64_t to)
{
	while (from < to && !mem[from])
		from++;
	return from == to;
}

static const uint64_t sizes[] = { 0, 1, 7, 1371, 1372, 1373, 2744, 100000, 3000000 };
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

START_TEST(write__sizes)
{
	struct world w = world_new(NULL, 4, 4000000);
	uint64_t n = sizes[_i];

	pair_post(w.p, 0, MROCE_WR_WRITE, 0, 77, w.key[0], w.mem[0], n, w.mem[1], w.key[1], 0);
	pair_wait(w.p, 0, 1);
	ck_assert_uint_eq(w.p->side[0].done[0].id, 77);
	ck_assert_uint_eq(w.p->side[0].done[0].length, n);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], n);
	ck_assert(untouched(w.mem[1], n, w.size));
	ck_assert_uint_eq(w.p->side[1].ndone, 0);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static const uint32_t losses[] = { 1, 10, 30, 50 };

START_TEST(write__loss)
{
	struct world w = world_new(NULL, 4, 2000000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)(uintptr_t)losses[_i];
	pair_post(w.p, 0, MROCE_WR_WRITE, 3, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(send__many_in_order)
{
	struct world w = world_new(NULL, 2, 2000000);
	const uint32_t n = 500, len = 3001;

	w.p->fate = lossy;
	w.p->fate_arg = (void *)(uintptr_t)losses[_i];
	for (uint32_t i = 0; i < n; i++)
		pair_post(w.p, 1, MROCE_WR_RECV, 5, i, w.key[1], w.mem[1] + i * len, len, NULL, 0, 0);
	for (uint32_t i = 0; i < n; i++)
		pair_post(w.p, 0, i % 2 ? MROCE_WR_SEND : MROCE_WR_SEND_IMM, 5, i, w.key[0],
			  w.mem[0] + i * len, len, NULL, 0, i);
	pair_wait(w.p, 0, n);
	pair_wait(w.p, 1, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct engine_completion *c = &w.p->side[1].done[i];

		ck_assert_uint_eq(w.p->side[0].done[i].id, i);
		ck_assert_uint_eq(c->id, i);
		ck_assert_uint_eq(c->length, len);
		ck_assert_uint_eq(c->opcode, MROCE_WR_RECV);
		ck_assert_int_eq(c->has_imm, !(i % 2));
		if (c->has_imm)
			ck_assert_uint_eq(c->imm, i);
	}
	check_status(&w, 0, 0, n, MROCE_OK);
	check_status(&w, 1, 0, n, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], n * len);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(read__loss)
{
	struct world w = world_new(NULL, 4, 2000000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)(uintptr_t)losses[_i];
	for (uint32_t i = 0; i < 40; i++)
		pair_post(w.p, 1, MROCE_WR_READ, 2, i, w.key[1], w.mem[1] + i * 50000, 50000,
			  w.mem[0] + i * 50000, w.key[0], 0);
	pair_wait(w.p, 1, 40);
	check_status(&w, 1, 0, 40, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static Suite *engine_suite(void)
{
	Suite *s = suite_create("engine");
	TCase *t = tcase_create("operations");

	tcase_add_loop_test(t, write__sizes, 0, (int)NSIZES);
	tcase_add_loop_test(t, write__loss, 0, 4);
	tcase_add_loop_test(t, send__many_in_order, 0, 4);
	tcase_add_loop_test(t, read__loss, 0, 4);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(engine_suite)
