// SPDX-License-Identifier: BSD-2-Clause
/* The whole engine, two of them in memory: every operation, over good and bad networks. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/cc.h"
#include "pair.h"
#include "unit.h"

#define BOTH (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)

struct world {
	struct pair *p;
	uint8_t *mem[2];
	uint32_t key[2];
	uint64_t size;
};

static struct world world_of(struct pair *p, uint64_t size)
{
	struct world w = { .p = p, .size = size };

	pair_connect(w.p);
	for (int i = 0; i < 2; i++) {
		w.mem[i] = malloc(size);
		for (uint64_t b = 0; b < size; b++)
			w.mem[i][b] = i ? 0 : (uint8_t)pair_rand(w.p);
		w.key[i] = pair_region(w.p, i, w.mem[i], size, BOTH);
	}
	return w;
}

static struct world world_new(const struct engine_config *cfg, uint32_t nports, uint64_t size)
{
	return world_of(pair_new(cfg, nports), size);
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
		pair_post(w.p, 1, MROCE_WR_RECV, 5, i, w.key[1], w.mem[1] + i * len, len, NULL, 0,
			  0);
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

START_TEST(write_imm__takes_a_receive)
{
	struct world w = world_new(NULL, 1, 100000);
	const struct engine_completion *c = w.p->side[1].done;

	pair_post(w.p, 0, MROCE_WR_WRITE_IMM, 1, 9, w.key[0], w.mem[0], 50000, w.mem[1], w.key[1],
		  4711);
	pair_run(w.p, 50000000, NULL);
	ck_assert_uint_eq(w.p->side[0].ndone, 0); /* no receive: it must wait */
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 5, 0, NULL, 0, NULL, 0, 0);
	pair_wait(w.p, 0, 1);
	pair_wait(w.p, 1, 1);
	ck_assert_uint_eq(c->id, 5);
	ck_assert_uint_eq(c->opcode, MROCE_WR_RECV_IMM);
	ck_assert(c->has_imm);
	ck_assert_uint_eq(c->imm, 4711);
	ck_assert_uint_eq(c->length, 50000);
	ck_assert_mem_eq(w.mem[0], w.mem[1], 50000);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(write__wrong_rkey_or_bounds)
{
	struct world w = world_new(NULL, 2, 100000);
	uint8_t *other = calloc(1, 1000);
	uint32_t readonly = pair_region(w.p, 1, other, 1000, MROCE_ACCESS_REMOTE_READ);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)20;
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], 50000, w.mem[1], w.key[1] ^ 1,
		  0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 2, w.key[0], w.mem[0], 50000, w.mem[1] + 60000,
		  w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 3, w.key[0], w.mem[0], 10, other, readonly, 0);
	pair_post(w.p, 0, MROCE_WR_READ, 1, 4, w.key[0], w.mem[0], 10, w.mem[1], w.key[1] ^ 1, 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 5, w.key[0], w.mem[0], 10, w.mem[1], w.key[1], 0);
	pair_wait(w.p, 0, 5);
	check_status(&w, 0, 0, 4, MROCE_E_REMOTE_ACCESS);
	check_status(&w, 0, 4, 1, MROCE_OK);
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_uint_eq(w.p->side[0].done[i].id, i + 1);
	ck_assert_mem_eq(w.mem[0], w.mem[1], 10);
	ck_assert(untouched(w.mem[1], 10, 60000));
	ck_assert(untouched(other, 0, 1000));
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
	free(other);
}
END_TEST

START_TEST(send__longer_than_receive)
{
	struct world w = world_new(NULL, 2, 100000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)20;
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 11, w.key[1], w.mem[1], 20000, NULL, 0, 0);
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 12, w.key[1], w.mem[1] + 20000, 20000, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 1, w.key[0], w.mem[0], 20001, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 2, w.key[0], w.mem[0], 20000, NULL, 0, 0);
	pair_wait(w.p, 0, 2);
	pair_wait(w.p, 1, 2);
	for (int i = 0; i < 2; i++) {
		check_status(&w, i, 0, 1, MROCE_E_LENGTH);
		check_status(&w, i, 1, 1, MROCE_OK);
	}
	ck_assert(untouched(w.mem[1], 0, 20000));
	ck_assert_mem_eq(w.mem[0], w.mem[1] + 20000, 20000);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(local__bad_range_completes_in_order)
{
	struct world w = world_new(NULL, 1, 100000);

	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], 90000, w.mem[1], w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 2, w.key[0], w.mem[0], 100001, w.mem[1], w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 3, w.key[0] + 1, w.mem[0], 10, w.mem[1], w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 4, w.key[0], w.mem[0], 10, w.mem[1], w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_RECV, 1, 5, w.key[0] + 1, w.mem[0], 10, NULL, 0, 0);
	pair_wait(w.p, 0, 5);
	ck_assert_uint_eq(w.p->side[0].done[0].id, 5);
	check_status(&w, 0, 0, 1, MROCE_E_LOCAL_ACCESS);
	for (uint32_t i = 1; i < 5; i++)
		ck_assert_uint_eq(w.p->side[0].done[i].id, i);
	check_status(&w, 0, 1, 1, MROCE_OK);
	check_status(&w, 0, 2, 2, MROCE_E_LOCAL_ACCESS);
	check_status(&w, 0, 4, 1, MROCE_OK);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static bool halfway(struct pair *p)
{
	struct conn_stats st;

	engine_conn_stats(p->side[1].conn, p->now, &st);
	return st.rx_bytes > 500000;
}

/* The sender's memory goes away in the middle of a message. */
START_TEST(local__region_removed_under_way)
{
	struct world w = world_new(NULL, 2, 2000000);
	uint8_t small[10] = { 1, 2, 3 };
	uint32_t key = pair_region(w.p, 0, small, sizeof(small), MROCE_ACCESS_LOCAL);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)20;
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 11, w.key[1], w.mem[1], 2000000, NULL, 0, 0);
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 12, w.key[1], w.mem[1], 2000000, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 1, w.key[0], w.mem[0], 2000000, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 2, w.key[0], w.mem[0], 2000, w.mem[1], w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 3, key, small, sizeof(small), NULL, 0, 0);
	ck_assert(pair_run(w.p, 20000000000ull, halfway));
	ck_assert_int_eq(engine_region_remove(w.p->side[0].engine, NULL, w.key[0]), 0);
	pair_wait(w.p, 0, 3);
	pair_wait(w.p, 1, 2);
	check_status(&w, 0, 0, 2, MROCE_E_LOCAL_ACCESS);
	check_status(&w, 0, 2, 1, MROCE_OK);
	check_status(&w, 1, 0, 1, MROCE_E_REMOTE_ACCESS);
	check_status(&w, 1, 1, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[1], small, sizeof(small));
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Memory goes away under requests that wait: they end at once, and what follows goes on. */
START_TEST(local__region_removed_while_waiting)
{
	struct world w = world_new(NULL, 2, 1000);
	uint8_t small[2][10] = { { 1, 2, 3 }, { 0 } };
	uint32_t key[2];

	for (int i = 0; i < 2; i++)
		key[i] = pair_region(w.p, i, small[i], sizeof(small[i]), MROCE_ACCESS_LOCAL);
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 11, w.key[1], w.mem[1], 1000, NULL, 0, 0);
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 12, key[1], small[1], 10, NULL, 0, 0);
	pair_run(w.p, 1000000, NULL);
	ck_assert_int_eq(engine_region_remove(w.p->side[1].engine, NULL, w.key[1]), 0);
	ck_assert_uint_eq(w.p->side[1].ndone, 1);
	ck_assert_uint_eq(w.p->side[1].done[0].id, 11);
	check_status(&w, 1, 0, 1, MROCE_E_LOCAL_ACCESS);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 1, key[0], small[0], 10, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 2, key[0], small[0], 10, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 3, w.key[0], w.mem[0], 10, NULL, 0, 0);
	pair_wait(w.p, 0, 2);
	pair_wait(w.p, 1, 2);
	check_status(&w, 0, 0, 1, MROCE_E_REMOTE_ACCESS);
	check_status(&w, 0, 1, 1, MROCE_OK);
	check_status(&w, 1, 1, 1, MROCE_OK);
	ck_assert_mem_eq(small[0], small[1], 10);
	ck_assert_int_eq(engine_region_remove(w.p->side[0].engine, NULL, w.key[0]), 0);
	ck_assert_uint_eq(w.p->side[0].ndone, 3);
	check_status(&w, 0, 2, 1, MROCE_E_LOCAL_ACCESS);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* The peer gives up a message that never came, and says it was of a kind that no request makes. */
static enum pair_fate abort_read_response(struct pair *p, int from, struct packet *pk,
					  const struct ip *remote)
{
	uint8_t *body = (uint8_t *)pk->body;

	(void)remote;
	if (from == 0 && pk->type == MROCE_DATA)
		return PAIR_DROP;
	if (from == 0 && pk->type == MROCE_ERROR) {
		body[offsetof(struct mroce_error, op)] = (uint8_t)(uintptr_t)p->fate_arg;
		packet_seal(body - MROCE_HDR_LEN, pk);
	}
	return PAIR_PASS;
}

START_TEST(abort__of_an_impossible_kind)
{
	static const uint8_t ops[] = { MROCE_OP_READ_RESP, MROCE_OP_SEND_IMM + 1, 255 };
	struct world w = world_new(NULL, 2, 2000);

	w.p->fate = abort_read_response;
	w.p->fate_arg = (void *)(uintptr_t)ops[_i];
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], 2000, w.mem[1], w.key[1], 0);
	pair_run(w.p, 1000000, NULL);
	ck_assert_int_eq(engine_region_remove(w.p->side[0].engine, NULL, w.key[0]), 0);
	pair_wait(w.p, 0, 1);
	ck_assert(w.p->side[1].ended);
	ck_assert_int_eq(w.p->side[1].code, MROCE_E_PROTOCOL);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* The receiver's memory goes away in the middle of a message. */
START_TEST(remote__region_removed_under_way)
{
	struct world w = world_new(NULL, 2, 2000000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)20;
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 11, w.key[1], w.mem[1], 2000000, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_SEND, 1, 1, w.key[0], w.mem[0], 2000000, NULL, 0, 0);
	ck_assert(pair_run(w.p, 20000000000ull, halfway));
	ck_assert_int_eq(engine_region_remove(w.p->side[1].engine, NULL, w.key[1]), 0);
	pair_wait(w.p, 0, 1);
	pair_wait(w.p, 1, 1);
	check_status(&w, 0, 0, 1, MROCE_E_REMOTE_ACCESS);
	check_status(&w, 1, 0, 1, MROCE_E_LOCAL_ACCESS);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* The reader's memory, or the responder's, goes away in the middle of a read. */
START_TEST(read__region_removed_under_way)
{
	struct world w = world_new(NULL, 2, 2000000);

	pair_post(w.p, 1, MROCE_WR_READ, 1, 1, w.key[1], w.mem[1], 2000000, w.mem[0], w.key[0], 0);
	pair_post(w.p, 1, MROCE_WR_READ, 1, 2, 0, NULL, 0, NULL, 0, 0);
	ck_assert(pair_run(w.p, 20000000000ull, halfway));
	ck_assert_int_eq(engine_region_remove(w.p->side[_i].engine, NULL, w.key[_i]), 0);
	pair_wait(w.p, 1, 2);
	check_status(&w, 1, 0, 1, _i ? MROCE_E_LOCAL_ACCESS : MROCE_E_REMOTE_ACCESS);
	check_status(&w, 1, 1, 1, MROCE_OK);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* ---- memory that is written late ---- */

struct late_memory {
	uint8_t *mem;
	struct {
		uint64_t offset;
		const void *src;
		uint32_t len;
	} todo[4096];
	uint32_t n, flushes, fail_at, released;
};

static int late_read(void *priv, uint64_t offset, void *dst, uint32_t len)
{
	memcpy(dst, ((struct late_memory *)priv)->mem + offset, len);
	return 0;
}

static int late_write(void *priv, uint64_t offset, const void *src, uint32_t len)
{
	struct late_memory *m = priv;

	m->todo[m->n].offset = offset;
	m->todo[m->n].src = src;
	m->todo[m->n++].len = len;
	return 0;
}

static int late_flush(void *priv)
{
	struct late_memory *m = priv;

	m->flushes++;
	if (m->fail_at && m->flushes >= m->fail_at)
		return -14;
	for (uint32_t i = 0; i < m->n; i++)
		memcpy(m->mem + m->todo[i].offset, m->todo[i].src, m->todo[i].len);
	m->n = 0;
	return 0;
}

static void late_release(void *priv)
{
	((struct late_memory *)priv)->released++;
}

static const struct region_ops late_ops = {
	.read = late_read, .write = late_write, .flush = late_flush, .release = late_release
};

static enum pair_fate messy(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	uint32_t dice = pair_rand(p) % 100;

	(void)from;
	(void)remote;
	if (dice < 5)
		return PAIR_DROP;
	if (dice < 15)
		return PAIR_DUPLICATE;
	if (dice < 25)
		return PAIR_HOLD;
	if (dice < 30 && pk->type == MROCE_DATA)
		return PAIR_CORRUPT;
	if (dice < 35 && packet_has_psn(pk->type))
		return PAIR_SEEN_ONLY;
	return PAIR_PASS;
}

START_TEST(deferred__flush_then_acknowledge)
{
	struct world w = world_new(NULL, 2, 2000000);
	struct late_memory late = { .mem = calloc(1, 2000000), .fail_at = _i ? 50 : 0 };
	struct region_params r = {
		.iova = 0x1000000, .len = 2000000, .access = BOTH, .ops = &late_ops, .priv = &late
	};
	uint32_t key;

	w.p->fate = messy;
	ck_assert_int_eq(engine_region_add(w.p->side[1].engine, &r, &key), 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, (void *)0x1000000, key,
		  0);
	pair_wait(w.p, 0, 1);
	if (_i) {
		check_status(&w, 0, 0, 1, MROCE_E_REMOTE_ACCESS);
	} else {
		check_status(&w, 0, 0, 1, MROCE_OK);
		ck_assert_mem_eq(w.mem[0], late.mem, w.size);
	}
	w.p->fate = NULL;
	check_quiet(&w);
	ck_assert_int_eq(engine_region_remove(w.p->side[1].engine, NULL, key), 0);
	ck_assert_uint_eq(late.released, 1);
	world_free(&w);
	free(late.mem);
}
END_TEST

/* ---- bad networks ---- */

START_TEST(network__everything_at_once)
{
	struct engine_config cfg;
	struct world w;

	engine_config_default(&cfg);
	cfg.first_psn = 0xffffff80u; /* wraps soon */
	cfg.first_msg = 0xfffffff0u;
	w = world_new(&cfg, 4, 3000000);
	w.p->fate = messy;
	for (uint32_t i = 0; i < 300; i++)
		pair_post(w.p, 1, MROCE_WR_RECV, i % 30, i, w.key[1], w.mem[1] + i * 10000, 10000,
			  NULL, 0, 0);
	for (uint32_t i = 0; i < 300; i++)
		pair_post(w.p, 0, MROCE_WR_SEND, i % 30, i, w.key[0], w.mem[0] + i * 10000, 10000,
			  NULL, 0, 0);
	pair_wait(w.p, 0, 300);
	pair_wait(w.p, 1, 300);
	check_status(&w, 0, 0, 300, MROCE_OK);
	check_status(&w, 1, 0, 300, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static enum pair_fate no_acks(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	(void)from;
	(void)remote;
	if (pk->type == MROCE_ACK || pk->type == MROCE_NACK || pk->type == MROCE_POLL)
		return pair_rand(p) % 10 < 7 ? PAIR_DROP : PAIR_PASS;
	return pair_rand(p) % 100 < 5 ? PAIR_DROP : PAIR_PASS;
}

START_TEST(network__acks_and_polls_lost)
{
	struct world w = world_new(NULL, 2, 1000000);

	w.p->fate = no_acks;
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static enum pair_fate plane_0_dead(struct pair *p, int from, struct packet *pk,
				   const struct ip *remote)
{
	(void)p;
	(void)from;
	(void)pk;
	return remote->a[13] == 0 ? PAIR_DROP : PAIR_PASS;
}

START_TEST(path__dead_plane_is_left_and_found_again)
{
	struct world w = world_new(NULL, 4, 4000000);
	struct path_stats st;
	uint64_t start;

	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	ck_assert(pair_run(w.p, 1000000000, halfway));
	w.p->fate = plane_0_dead;
	start = w.p->now;
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	ck_assert_uint_lt(w.p->now - start, 100000000);
	pair_run(w.p, 20000000, NULL);
	engine_path_stats(w.p->side[0].conn, 0, &st);
	ck_assert_uint_eq(st.state, 1);
	ck_assert_uint_ge(st.deaths, 1);
	engine_path_stats(w.p->side[0].conn, 1, &st);
	ck_assert_uint_eq(st.state, 0);
	w.p->fate = NULL;
	pair_run(w.p, 2000000000, NULL);
	for (uint32_t i = 0; i < 8; i++) {
		engine_path_stats(w.p->side[0].conn, i, &st);
		ck_assert_uint_eq(st.state, 0);
	}
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0] + 1, w.size - 1, w.mem[1],
		  w.key[1], 0);
	pair_wait(w.p, 0, 2);
	ck_assert_mem_eq(w.mem[0] + 1, w.mem[1], w.size - 1);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static void set_port(struct world *w, int side, uint32_t port, bool up)
{
	w->p->side[side].ports[port].up = up;
	engine_port_changed(w->p->side[side].engine, &w->p->side[side].ports[port], w->p->now);
}

static void set_room(struct world *w, int side, uint32_t port, uint16_t payload)
{
	w->p->side[side].ports[port].payload_max = payload;
	engine_port_changed(w->p->side[side].engine, &w->p->side[side].ports[port], w->p->now);
}

static uint32_t payload_of(const struct world *w, int side, uint32_t path)
{
	struct path_stats st;

	ck_assert_int_eq(engine_path_stats(w->p->side[side].conn, path, &st), 0);
	return st.payload;
}

static uint32_t chunk_of(const struct world *w, int side)
{
	struct conn_stats st;

	engine_conn_stats(w->p->side[side].conn, w->p->now, &st);
	return st.chunk;
}

/* How often the data of the first connection seen goes on on another path, as long as no window is full. */
#define RUNS_SEEN 64
static struct {
	uint32_t cid, data, changes;
	uint8_t path;
} runs;

static enum pair_fate count_runs(struct pair *p, int from, struct packet *pk,
				 const struct ip *remote)
{
	(void)p;
	(void)remote;
	if (from != 0 || pk->type != MROCE_DATA || (runs.cid && pk->cid != runs.cid) ||
	    runs.data == RUNS_SEEN)
		return PAIR_PASS;
	runs.cid = pk->cid;
	runs.changes += !runs.data++ || pk->path != runs.path;
	runs.path = pk->path;
	return PAIR_PASS;
}

static void write_on(struct world *w, struct conn *c)
{
	struct work_request wr = {
		.opcode = MROCE_WR_WRITE,
		.stream = 1,
		.key = w->key[0],
		.addr = (uintptr_t)w->mem[0],
		.len = w->size,
		.raddr = (uintptr_t)w->mem[1],
		.rkey = w->key[1],
	};

	ck_assert_int_eq(engine_post(c, &wr, w->p->now), 0);
}

static struct conn *second_conn(struct world *w)
{
	struct ip to = w->p->side[1].ports[0].addr;
	struct conn *c;

	ck_assert_int_eq(engine_listen(w->p->side[1].engine, 5, NULL, 1), 0);
	ck_assert_int_eq(engine_connect(w->p->side[0].engine, &to, 5, NULL, NULL, w->p->now, &c), 0);
	pair_run(w->p, 100000000ull, NULL);
	ck_assert_int_eq(w->p->side[0].connected, 2);
	return c;
}

/* One connection: packet by packet. Two that have something to send: runs, on one path of each port at a time. */
START_TEST(path__runs_in_a_crowd)
{
	struct engine_config cfg;
	struct conn *second;
	struct world w;

	engine_config_default(&cfg);
	cfg.cc = &cc_fixed;
	w = world_new(&cfg, 1, 2000000);
	second = second_conn(&w);
	memset(&runs, 0, sizeof(runs));
	w.p->fate = count_runs;
	write_on(&w, w.p->side[0].conn);
	if (_i)
		write_on(&w, second);
	pair_wait(w.p, 0, 1 + (uint32_t)_i);
	ck_assert_uint_eq(runs.data, RUNS_SEEN);
	if (_i)
		ck_assert_uint_le(runs.changes, RUNS_SEEN / 4);
	else
		ck_assert_uint_ge(runs.changes, RUNS_SEEN - 1);
	world_free(&w);
}
END_TEST

#define CROWD_WARM 30
#define CROWD_MESSAGES 40
#define CROWD_SIZE 6000 /* a few packets */
#define CROWD_MORE 5	/* messages of another connection meanwhile */

static struct {
	uint32_t cid, data, polls, split, msg;
	uint8_t path;
} crowd;

/* Of one connection that has one message at a time: questions, and messages that change their path. */
static enum pair_fate count_crowd(struct pair *p, int from, struct packet *pk,
				  const struct ip *remote)
{
	struct mroce_data w;

	(void)p;
	(void)remote;
	if (from != 0 || (crowd.cid && pk->cid != crowd.cid))
		return PAIR_PASS;
	crowd.cid = pk->cid;
	crowd.polls += pk->type == MROCE_POLL;
	if (pk->type != MROCE_DATA)
		return PAIR_PASS;
	memcpy(&w, pk->body, sizeof(w));
	crowd.split += crowd.data++ && w.msg == crowd.msg && pk->path != crowd.path;
	crowd.msg = w.msg;
	crowd.path = pk->path;
	return PAIR_PASS;
}

static void crowd_writes(struct world *w, struct conn *second, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		write_on(w, w->p->side[0].conn);
		for (int k = 0; k < CROWD_MORE; k++)
			write_on(w, second);
		pair_wait(w->p, 0, w->p->side[0].ndone + 1 + CROWD_MORE);
	}
}

/*
 * A message of a few packets goes by one path, and is acknowledged by the peer's daemon without being asked about; once
 * windows have grown to take it.
 */
START_TEST(path__message_in_a_crowd_stays_on_its_path)
{
	struct engine_config cfg;
	struct conn *second;
	struct world w;

	engine_config_default(&cfg);
	w = world_new(&cfg, 1, 2000000);
	second = second_conn(&w);
	w.size = CROWD_SIZE;
	crowd_writes(&w, second, CROWD_WARM);
	memset(&crowd, 0, sizeof(crowd));
	w.p->fate = count_crowd;
	crowd_writes(&w, second, CROWD_MESSAGES);
	ck_assert_uint_ge(crowd.data, CROWD_MESSAGES * 4);
	ck_assert_uint_le(crowd.split, CROWD_MESSAGES / 10);
	ck_assert_uint_le(crowd.polls, CROWD_MESSAGES / 8);
	world_free(&w);
}
END_TEST

static uint32_t rests;

static void count_rest(struct cc *cc, uint32_t window)
{
	(void)cc;
	(void)window;
	rests++;
}

/*
 * A connection that was silent for 20 ms: its windows begin anew, but not if another one kept the port busy, at more than
 * a quarter of its 1 Gbit/s, since then it was only not its turn.
 */
START_TEST(path__rest_is_not_waiting_for_a_turn)
{
	struct engine_config cfg;
	struct cc_ops cc = cc_fixed;
	struct conn *second;
	struct world w;

	engine_config_default(&cfg);
	cc.rest = count_rest;
	cfg.cc = &cc;
	w = world_new(&cfg, 1, 4000000);
	second = second_conn(&w);
	w.size = 50000;
	write_on(&w, w.p->side[0].conn);
	pair_wait(w.p, 0, 1);
	w.size = 4000000;
	if (_i)
		write_on(&w, second);
	pair_run(w.p, 20000000, NULL);
	w.size = 50000;
	rests = 0;
	write_on(&w, w.p->side[0].conn);
	pair_wait(w.p, 0, 2 + (uint32_t)_i);
	if (_i)
		ck_assert_uint_eq(rests, 0);
	else
		ck_assert_uint_gt(rests, 0);
	world_free(&w);
}
END_TEST

/* Path 3 loses a chunk and the question about it; later the chunk is lost that asks for the daemon's ACK. */
static enum pair_fate lose_question(struct pair *p, int from, struct packet *pk,
				    const struct ip *remote)
{
	static const uint8_t types[] = { MROCE_DATA, MROCE_POLL, MROCE_DATA };
	uint32_t *lost = p->fate_arg;

	(void)remote;
	if (from != 0 || *lost == 3 ||
	    (*lost < 2 ? pk->path != 3 : !(pk->flags & MROCE_FLAG_ACK_REQ)))
		return PAIR_PASS;
	ck_assert_uint_eq(pk->type, types[(*lost)++]);
	return PAIR_DROP;
}

/* What siblings sent later has been answered: one need not wait for the PTO to know that a question is lost. */
START_TEST(path__overtaken_question_is_asked_again)
{
	struct engine_config cfg;
	uint32_t lost = 0;
	struct world w;

	engine_config_default(&cfg);
	cfg.cc = &cc_fixed;
	cfg.no_hints = true; /* else daemons are asked instead of trackers */
	cfg.pto_min_ns = 20000000;
	cfg.rto_min_ns = 100000000;
	w = world_new(&cfg, 1, 8 * 1372); /* a chunk for each path */
	for (int i = 0; i < 20; i++) {
		write_on(&w, w.p->side[0].conn);
		pair_run(w.p, 1000000, NULL);
	}
	w.p->fate = lose_question;
	w.p->fate_arg = &lost;
	write_on(&w, w.p->side[0].conn);
	pair_run(w.p, 60000, NULL);
	ck_assert_uint_eq(lost, 2);
	w.size = 3 * 1372;
	write_on(&w, w.p->side[0].conn);
	pair_run(w.p, 3000000, NULL);
	ck_assert_uint_eq(lost, 3);
	ck_assert_uint_eq(w.p->side[0].ndone, 22);
	check_status(&w, 0, 0, 22, MROCE_OK);
	world_free(&w);
}
END_TEST

/* Chunks under way that fit no longer go by the other plane; when that shrinks too, the message is cut anew. */
START_TEST(path__mtu_lowered)
{
	struct world w = world_new(NULL, 2, 4000000);
	uint16_t room = w.p->side[0].ports[0].payload_max;

	pair_run(w.p, 1000000, NULL);
	ck_assert_uint_eq(chunk_of(&w, 0), 1368);
	for (uint32_t round = 0; round < 3; round++) {
		uint8_t op = _i ? MROCE_WR_READ : MROCE_WR_WRITE;
		int side = _i ? 1 : 0; /* whose packets carry the bytes */

		memset(w.mem[1 - side], 0, w.size);
		for (uint32_t b = 0; b < w.size; b++)
			w.mem[side][b] = (uint8_t)pair_rand(w.p);
		pair_post(w.p, 0, op, 1, round, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
		pair_run(w.p, 60000, NULL);
		ck_assert_uint_eq(w.p->side[0].ndone, round);
		if (round < 2)
			set_room(&w, side, 1, (uint16_t)(room / 2 + round * 100));
		if (round == 1) {
			pair_run(w.p, 20000, NULL);
			ck_assert_uint_eq(w.p->side[0].ndone, round);
			set_room(&w, side, 0, room / 3);
		}
		pair_wait(w.p, 0, round + 1);
		check_status(&w, 0, round, 1, MROCE_OK);
		ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
		ck_assert_uint_le(chunk_of(&w, side), room / 2);
	}
	set_room(&w, _i, 0, room);
	set_room(&w, _i, 1, room);
	pair_run(w.p, 10000000, NULL);
	ck_assert_uint_eq(chunk_of(&w, _i), 1368);
	ck_assert(!w.p->side[0].ended && !w.p->side[1].ended);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Packets above a size vanish without a word, on the planes of the mask. */
static struct {
	uint32_t size, planes;
} hole;

static enum pair_fate narrow(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	(void)from;
	if ((uint32_t)MROCE_HDR_LEN + pk->body_len > hole.size && (hole.planes >> remote->a[13] & 1))
		return PAIR_DROP;
	return p->fate_arg && pair_rand(p) % 100 < 5 ? PAIR_DROP : PAIR_PASS;
}

static void write_all(struct world *w, uint32_t id)
{
	pair_post(w->p, 0, MROCE_WR_WRITE, 1, id, w->key[0], w->mem[0], w->size, w->mem[1],
		  w->key[1], 0);
	pair_wait(w->p, 0, id);
	check_status(w, 0, id - 1, 1, MROCE_OK);
	ck_assert_mem_eq(w->mem[0], w->mem[1], w->size);
}

/* From the beginning: nothing larger than what passes is ever cut. */
START_TEST(path__narrow_from_the_beginning)
{
	struct pair *p = pair_new(NULL, 2);
	struct world w;

	hole.size = 1380;
	hole.planes = 2;
	p->fate = narrow;
	p->fate_arg = (void *)(uintptr_t)_i;
	w = world_of(p, 2000000);
	write_all(&w, 1);
	pair_run(p, 300000000ull, NULL);
	ck_assert_uint_eq(payload_of(&w, 0, 0), 80 + 1368);
	ck_assert_uint_eq(payload_of(&w, 0, 1), 1380 - 28);
	ck_assert_uint_eq(chunk_of(&w, 0), 1272);
	ck_assert_ptr_nonnull(strstr(p->side[0].last_log, "vanish"));
	write_all(&w, 2);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Under way, on one plane or on both: found, told, the message arrives, and a new one takes the new size. */
START_TEST(path__becomes_narrow)
{
	struct world w = world_new(NULL, 2, 3000000);

	hole.size = 1300;
	hole.planes = _i ? 3 : 2;
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_run(w.p, 150000, NULL);
	ck_assert_uint_eq(w.p->side[0].ndone, 0);
	w.p->fate = narrow;
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	for (uint32_t id = 2; id < 6 && chunk_of(&w, 0) == 1368; id++)
		write_all(&w, id);
	pair_run(w.p, 500000000ull, NULL);
	ck_assert_uint_le(chunk_of(&w, 0), 1300 - 80);
	ck_assert_ptr_nonnull(strstr(w.p->side[0].last_log, "vanish"));
	/* The network is mended: that is noticed, too. */
	w.p->fate = NULL;
	pair_run(w.p, 40000000000ull, NULL);
	ck_assert_uint_eq(chunk_of(&w, 0), 1368);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Half of everything is lost: that is no question of size. */
START_TEST(path__loss_is_not_narrow)
{
	struct world w = world_new(NULL, 2, 2000000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)(uintptr_t)30;
	for (uint32_t id = 1; id < 4; id++)
		write_all(&w, id);
	ck_assert_uint_eq(chunk_of(&w, 0), 1368);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* The peer's interface has another address: it says so, and the connection goes on. */
START_TEST(path__address_changed)
{
	uint32_t nports = 1 + (uint32_t)_i;
	struct world w = world_new(NULL, nports, 4000000);
	struct path_stats st;
	uint64_t start;

	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_run(w.p, 200000, NULL);
	ck_assert_uint_eq(w.p->side[0].ndone, 0);
	w.p->side[1].ports[0].addr.a[15] += 50;
	engine_port_changed(w.p->side[1].engine, &w.p->side[1].ports[0], w.p->now);
	start = w.p->now;
	pair_wait(w.p, 0, 1);
	printf("# done %llu us after the address had changed\n",
	       (unsigned long long)(w.p->now - start) / 1000);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	pair_run(w.p, 1000000000, NULL);
	for (uint32_t i = 0; engine_path_stats(w.p->side[0].conn, i, &st) == 0; i++) {
		ck_assert_uint_eq(st.state, 0);
		if (st.port == 0)
			ck_assert(ip_equal(&st.remote, &w.p->side[1].ports[0].addr));
	}
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(path__port_down_and_up)
{
	struct world w = world_new(NULL, 2, 4000000);
	struct path_stats st;

	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	ck_assert(pair_run(w.p, 1000000000, halfway));
	set_port(&w, _i, 1, false);
	pair_run(w.p, 1000000, NULL); /* told by PORT_STATUS well before any timeout */
	engine_path_stats(w.p->side[0].conn, 1, &st);
	ck_assert_uint_eq(st.state, 1);
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	set_port(&w, _i, 1, true);
	pair_run(w.p, 20000000, NULL);
	engine_path_stats(w.p->side[0].conn, 1, &st);
	ck_assert_uint_eq(st.state, 0);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static bool ended_0(struct pair *p)
{
	return p->side[0].ended;
}

static bool ended_1(struct pair *p)
{
	return p->side[1].ended;
}

static enum pair_fate none_passes(struct pair *p, int from, struct packet *pk,
				  const struct ip *remote)
{
	(void)p;
	(void)from;
	(void)pk;
	(void)remote;
	return PAIR_DROP;
}

START_TEST(life__peer_vanishes)
{
	struct world w = world_new(NULL, 2, 4000000);

	if (_i)
		pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1],
			  w.key[1], 0);
	pair_post(w.p, 0, MROCE_WR_RECV, 1, 2, w.key[0], w.mem[0], 1000, NULL, 0, 0);
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 2, w.key[1], w.mem[1], 1000, NULL, 0, 0);
	pair_run(w.p, 60000, NULL);
	w.p->fate = none_passes;
	ck_assert(pair_run(w.p, 6000000000ull, ended_0));
	ck_assert(pair_run(w.p, 6000000000ull, ended_1));
	ck_assert_int_eq(w.p->side[0].code, MROCE_E_PEER_GONE);
	ck_assert_uint_eq(w.p->side[0].ndone, _i ? 2 : 1);
	check_status(&w, 0, 0, w.p->side[0].ndone, MROCE_E_PEER_GONE);
	ck_assert_uint_eq(w.p->side[1].ndone, 1);
	ck_assert_uint_ge(w.p->side[0].logs, 1);
	for (int i = 0; i < 2; i++)
		engine_conn_free(&w.p->side[i].conn);
	ck_assert_ptr_null(engine_conn_next(w.p->side[0].engine, NULL));
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(life__close_flushes_and_tells)
{
	struct world w = world_new(NULL, 2, 4000000);

	w.p->fate = lossy;
	w.p->fate_arg = (void *)30;
	pair_post(w.p, 1, MROCE_WR_RECV, 1, 7, w.key[1], w.mem[1], 1000, NULL, 0, 0);
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_run(w.p, 150000, NULL);
	engine_conn_close(w.p->side[0].conn, MROCE_CLOSE_NORMAL, w.p->now);
	ck_assert_uint_eq(w.p->side[0].ndone, 1);
	check_status(&w, 0, 0, 1, MROCE_E_FLUSHED);
	ck_assert_int_eq(pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, 0, NULL, 0, NULL, 0, 0), -ENOTCONN);
	engine_conn_free(&w.p->side[0].conn);
	ck_assert(pair_run(w.p, 3000000000ull, ended_1));
	ck_assert_int_eq(w.p->side[0].ended, 0);
	ck_assert_uint_eq(w.p->side[1].ndone, 1);
	check_status(&w, 1, 0, 1, MROCE_E_PEER_GONE);
	engine_conn_free(&w.p->side[1].conn);
	pair_run(w.p, 4000000000ull, NULL);
	for (int i = 0; i < 2; i++)
		ck_assert_ptr_null(engine_conn_next(w.p->side[i].engine, NULL));
	check_quiet(&w);
	world_free(&w);
}
END_TEST

START_TEST(life__idle_stays_connected)
{
	struct world w = world_new(NULL, 2, 1000);
	uint64_t before;

	w.p->fate = lossy;
	w.p->fate_arg = (void *)10;
	pair_run(w.p, 1000000000ull, NULL);
	before = w.p->packets;
	pair_run(w.p, 60000000000ull, NULL);
	ck_assert_int_eq(w.p->side[0].ended + w.p->side[1].ended, 0);
	ck_assert_uint_lt(w.p->packets - before, 1000);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

static bool refused_0(struct pair *p)
{
	return p->side[0].refused;
}

START_TEST(life__refused)
{
	struct pair *p = pair_new(NULL, 2);
	struct ip to = p->side[1].ports[0].addr, nowhere = to;

	nowhere.a[13] = 99;
	ck_assert_int_eq(engine_connect(p->side[0].engine, &nowhere, 5, NULL, NULL, p->now,
					&p->side[0].conn),
			 -EHOSTUNREACH);
	ck_assert_int_eq(
		engine_connect(p->side[0].engine, &to, 5, NULL, NULL, p->now, &p->side[0].conn), 0);
	if (_i)
		p->fate = none_passes;
	ck_assert(pair_run(p, 10000000000ull, refused_0));
	ck_assert_int_eq(p->side[0].code, _i ? ETIMEDOUT : ECONNREFUSED);
	engine_conn_free(&p->side[0].conn);
	ck_assert_ptr_null(engine_conn_next(p->side[0].engine, NULL));
	pair_free(p);
}
END_TEST

START_TEST(life__many_connections)
{
	struct pair *p = pair_new(NULL, 2);
	struct ip to = p->side[1].ports[0].addr;
	struct conn *c[200];

	p->fate = lossy;
	p->fate_arg = (void *)20;
	ck_assert_int_eq(engine_listen(p->side[1].engine, 5, NULL, 200), 0);
	ck_assert_int_eq(engine_listen(p->side[1].engine, 5, NULL, 200), -EADDRINUSE);
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(
			engine_connect(p->side[0].engine, &to, 5, NULL, NULL, p->now, &c[i]), 0);
	pair_run(p, 4000000000ull, NULL);
	ck_assert_int_eq(p->side[0].connected, 200);
	ck_assert_int_eq(p->side[1].n_accepted, 200);
	ck_assert_int_eq(engine_connect(p->side[0].engine, &to, 5, NULL, NULL, p->now, &c[0]), 0);
	p->fate = NULL;
	pair_run(p, 4000000000ull, NULL);
	ck_assert_int_eq(p->side[0].code, EBUSY);
	pair_free(p);
}
END_TEST

START_TEST(stall__is_reported)
{
	struct world w = world_new(NULL, 1, 1000);

	pair_post(w.p, 0, MROCE_WR_SEND, 1, 1, w.key[0], w.mem[0], 1000, NULL, 0, 0);
	pair_run(w.p, 10000000000ull, NULL);
	ck_assert_uint_ge(w.p->side[0].logs, 1);
	ck_assert_ptr_nonnull(strstr(w.p->side[0].last_log, "posted no receive"));
	world_free(&w);
}
END_TEST

START_TEST(port__full_for_a_while)
{
	struct world w = world_new(NULL, 2, 1000000);

	w.p->port_full = true;
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_run(w.p, 3000000, NULL);
	ck_assert_uint_eq(w.p->side[0].ndone, 0);
	w.p->port_full = false;
	pair_wait(w.p, 0, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Sides that were configured differently agree on what both can do. */
START_TEST(unequal__paths_ports_chunks_streams)
{
	struct engine_config a, b;
	struct conn_stats st;
	struct world w;

	engine_config_default(&a);
	b = a;
	a.paths = 3;
	a.streams = 5;
	a.first_psn = 0xfffffff0u;
	b.paths = 16;
	b.chunk_max = 500;
	b.first_psn = 77;
	w = world_of(pair_new_unequal(&a, &b, _i ? 4 : 1, _i ? 1 : 4), 500000);
	w.p->fate = messy;
	engine_conn_stats(w.p->side[0].conn, w.p->now, &st);
	ck_assert_uint_eq(st.npaths, 3);
	engine_conn_stats(w.p->side[1].conn, w.p->now, &st);
	ck_assert_uint_eq(st.npaths, 16);
	for (int side = 0; side < 2; side++)
		ck_assert_int_eq(pair_post(w.p, side, MROCE_WR_WRITE, 5, 1, 0, NULL, 0, NULL, 0, 0),
				 -EINVAL);
	pair_post(w.p, 0, MROCE_WR_WRITE, 4, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_wait(w.p, 0, 1);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.mem[1][4711] ^= 1;
	pair_post(w.p, 1, MROCE_WR_WRITE, 4, 1, w.key[1], w.mem[1], w.size, w.mem[0], w.key[0], 0);
	pair_wait(w.p, 1, 1);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* A lone small message costs one packet there and one back. */
START_TEST(latency__two_packets_per_message)
{
	struct world w = world_new(NULL, 2, 1000);
	uint64_t before, start;

	pair_run(w.p, 10000000, NULL);
	before = w.p->packets;
	start = w.p->now;
	for (uint32_t i = 0; i < 100; i++) {
		pair_post(w.p, 0, MROCE_WR_WRITE, 0, i, w.key[0], w.mem[0], 64, w.mem[1], w.key[1],
			  0);
		pair_wait(w.p, 0, i + 1);
	}
	ck_assert_uint_le(w.p->packets - before, 100 * 2 + 20);
	ck_assert_uint_le(w.p->now - start, 100 * (2 * w.p->delay_ns + 1000));
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* A long message needs more chunks than may be outstanding at once. */
START_TEST(write__beyond_the_chunk_span)
{
	struct engine_config cfg;
	struct world w;

	engine_config_default(&cfg);
	cfg.chunk_max = 64;
	w = world_new(&cfg, 4, 64 * 20000);
	w.p->fate = messy;
	pair_post(w.p, 0, MROCE_WR_WRITE, 1, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_post(w.p, 1, MROCE_WR_READ, 1, 1, w.key[1], w.mem[1], w.size, w.mem[0], w.key[0], 0);
	pair_wait(w.p, 0, 1);
	pair_wait(w.p, 1, 1);
	check_status(&w, 0, 0, 1, MROCE_OK);
	check_status(&w, 1, 0, 1, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* Few records for a lot of work: slower, never stuck. */
START_TEST(records__scarce)
{
	struct engine_config cfg;
	struct world w;

	engine_config_default(&cfg);
	cfg.letters = 64;
	w = world_new(&cfg, 4, 2000000);
	w.p->fate = messy;
	for (uint32_t i = 0; i < 40; i++)
		pair_post(w.p, 0, MROCE_WR_WRITE, i, i, w.key[0], w.mem[0] + i * 50000, 50000,
			  w.mem[1] + i * 50000, w.key[1], 0);
	pair_wait(w.p, 0, 40);
	check_status(&w, 0, 0, 40, MROCE_OK);
	ck_assert_mem_eq(w.mem[0], w.mem[1], w.size);
	w.p->fate = NULL;
	check_quiet(&w);
	world_free(&w);
}
END_TEST

/* What 1,000 connections take, as the allocator counts it, and their share of the maps. */
START_TEST(conn__memory)
{
	const uint32_t n = 1000,
		       maps = 8 * sizeof(struct mroce_path_rx) + sizeof(struct mroce_conn_entry);
	struct world w = world_new(NULL, 1, 600000);
	struct conn_stats st;
	struct mallinfo2 before, after;
	struct conn *c;
	uint32_t idle, up;

	engine_conn_stats(w.p->side[0].conn, w.p->now, &st);
	pair_run(w.p, 100000000ull, NULL);
	before = mallinfo2();
	engine_unlisten(w.p->side[1].engine, 7);
	ck_assert_int_eq(engine_listen(w.p->side[1].engine, 7, NULL, 2 * n), 0);
	up = (uint32_t)w.p->side[1].n_accepted;
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(engine_connect(w.p->side[0].engine, &w.p->side[1].ports[0].addr, 7,
						NULL, NULL, w.p->now, &c),
				 0);
	for (uint32_t i = 0; i < 100 && (uint32_t)w.p->side[1].n_accepted < up + n; i++)
		pair_run(w.p, 100000000ull, NULL);
	ck_assert_int_eq(w.p->side[1].n_accepted, (int)(up + n));
	after = mallinfo2();
	idle = (uint32_t)((after.uordblks - before.uordblks) / (2 * n)) + maps;
	printf("# idle: %u bytes a connection by the allocator, %u as shown\n", idle, st.memory);
	ck_assert_uint_le(idle, 8192);
	ck_assert_uint_le(st.memory, 8192);
	pair_post(w.p, 0, MROCE_WR_WRITE, 0, 1, w.key[0], w.mem[0], w.size, w.mem[1], w.key[1], 0);
	pair_run(w.p, 30000, NULL);
	engine_conn_stats(w.p->side[0].conn, w.p->now, &st);
	printf("# active, a write of 600000 bytes under way: %u bytes\n", st.memory);
	ck_assert_uint_le(st.memory, 128 * 1024);
	pair_wait(w.p, 0, 1);
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
	tcase_add_test(t, write_imm__takes_a_receive);
	tcase_add_loop_test(t, unequal__paths_ports_chunks_streams, 0, 2);
	tcase_add_test(t, latency__two_packets_per_message);
	tcase_add_test(t, write__beyond_the_chunk_span);
	suite_add_tcase(s, t);
	t = tcase_create("errors");
	tcase_add_test(t, write__wrong_rkey_or_bounds);
	tcase_add_test(t, send__longer_than_receive);
	tcase_add_test(t, local__bad_range_completes_in_order);
	tcase_add_test(t, local__region_removed_under_way);
	tcase_add_test(t, local__region_removed_while_waiting);
	tcase_add_loop_test(t, abort__of_an_impossible_kind, 0, 3);
	tcase_add_test(t, remote__region_removed_under_way);
	tcase_add_loop_test(t, read__region_removed_under_way, 0, 2);
	tcase_add_loop_test(t, deferred__flush_then_acknowledge, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("networks");
	tcase_add_test(t, network__everything_at_once);
	tcase_add_test(t, network__acks_and_polls_lost);
	tcase_add_test(t, path__dead_plane_is_left_and_found_again);
	tcase_add_loop_test(t, path__port_down_and_up, 0, 2);
	tcase_add_loop_test(t, path__runs_in_a_crowd, 0, 2);
	tcase_add_test(t, path__message_in_a_crowd_stays_on_its_path);
	tcase_add_loop_test(t, path__rest_is_not_waiting_for_a_turn, 0, 2);
	tcase_add_test(t, path__overtaken_question_is_asked_again);
	tcase_add_loop_test(t, path__mtu_lowered, 0, 2);
	tcase_add_loop_test(t, path__narrow_from_the_beginning, 0, 2);
	tcase_add_loop_test(t, path__becomes_narrow, 0, 2);
	tcase_add_test(t, path__loss_is_not_narrow);
	tcase_add_loop_test(t, path__address_changed, 0, 2);
	tcase_add_test(t, port__full_for_a_while);
	tcase_add_test(t, records__scarce);
	suite_add_tcase(s, t);
	t = tcase_create("life");
	tcase_add_loop_test(t, life__peer_vanishes, 0, 2);
	tcase_add_test(t, life__close_flushes_and_tells);
	tcase_add_test(t, life__idle_stays_connected);
	tcase_add_loop_test(t, life__refused, 0, 2);
	tcase_add_test(t, life__many_connections);
	tcase_add_test(t, conn__memory);
	tcase_add_test(t, stall__is_reported);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(engine_suite)
