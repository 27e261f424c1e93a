// SPDX-License-Identifier: BSD-2-Clause
/*
 * A peer that holds valid tokens and talks nonsense: packets of a running connection with bits changed and both
 * CRCs made right again. Nothing may crash, nothing may be written outside the region, and every request
 * still ends.
 */
#include <stdlib.h>
#include "pair.h"
#include "unit.h"

#define SIZE 300000
#define GUARD 4096

static void mutate(struct pair *p, uint8_t *data, uint32_t len)
{
	uint8_t was[24];
	uint32_t n = 1 + pair_rand(p) % 3;
	struct packet pk;

	memcpy(was, data, sizeof(was));
	while (n--) {
		/* Mostly numbers of the body's head; sometimes anything behind cid and token. */
		uint32_t at = pair_rand(p) % 2 ? MROCE_HDR_LEN + pair_rand(p) % 48
					       : pair_rand(p) % len;

		if (at >= len || (at >= 4 && at < 12))
			continue;
		data[at] ^= (uint8_t)(pair_rand(p) % 4 ? 1u << pair_rand(p) % 8 : pair_rand(p));
	}
	pk = (struct packet){
		.type = data[1] % MROCE_TYPE_MAX,
		.flags = data[2],
		.path = data[3] % 17,
		.epoch = (uint16_t)(data[12] << 8 | data[13]),
		.body_len = (uint16_t)(len - MROCE_HDR_LEN),
		.cid = (uint32_t)data[4] << 24 | data[5] << 16 | data[6] << 8 | data[7],
		.token = (uint32_t)data[8] << 24 | data[9] << 16 | data[10] << 8 | data[11],
		.psn = (uint32_t)data[16] << 24 | data[17] << 16 | data[18] << 8 | data[19],
		.una = (uint32_t)data[20] << 24 | data[21] << 16 | data[22] << 8 | data[23],
		.ts = 1,
	};
	packet_seal(data, &pk);
}

static enum pair_fate sometimes(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	uint8_t *data = (uint8_t *)pk->body - MROCE_HDR_LEN;

	(void)from;
	(void)remote;
	if (packet_is_setup(pk->type) && pair_rand(p) % 2)
		return PAIR_PASS;
	if (pair_rand(p) % 8 == 0)
		mutate(p, data, MROCE_HDR_LEN + pk->body_len);
	return pair_rand(p) % 20 ? PAIR_PASS : PAIR_DROP;
}

START_TEST(mutate__bits_with_valid_crcs)
{
	struct engine_config cfg;
	uint8_t *mem[2];
	uint32_t key[2], posted[2] = { 0, 0 };
	struct pair *p;

	engine_config_default(&cfg);
	cfg.stall_ns = 100000000;
	p = pair_new(&cfg, 2);
	pair_connect(p);
	p->rng = 77 + (uint32_t)_i;
	for (int i = 0; i < 2; i++) {
		mem[i] = malloc(SIZE + 2 * GUARD);
		memset(mem[i], 0x5a, SIZE + 2 * GUARD);
		key[i] = pair_region(p, i, mem[i] + GUARD, SIZE, 3);
	}
	p->fate = sometimes;
	for (uint32_t n = 0; n < 40; n++) {
		for (int i = 0; i < 2; i++) {
			uint8_t op = (uint8_t)(MROCE_WR_SEND + pair_rand(p) % 5);
			uint64_t len = pair_rand(p) % 6000;

			posted[i] += !pair_post(p, i, op, n % 5, n, key[i], mem[i] + GUARD, len,
						mem[!i] + GUARD, key[!i], 7);
			posted[i] += !pair_post(p, i, MROCE_WR_RECV, n % 5, n, key[i],
						mem[i] + GUARD + 10000, 6000, NULL, 0, 0);
		}
		pair_run(p, 300000, NULL);
	}
	pair_run(p, 500000000, NULL);
	for (int i = 0; i < 2; i++) {
		if (!p->side[i].ended)
			engine_conn_close(p->side[i].conn, MROCE_CLOSE_NORMAL, p->now);
		ck_assert_uint_eq(p->side[i].ndone, posted[i]);
		for (uint32_t b = 0; b < GUARD; b++) {
			ck_assert_uint_eq(mem[i][b], 0x5a);
			ck_assert_uint_eq(mem[i][GUARD + SIZE + b], 0x5a);
		}
	}
	for (int i = 0; i < 2; i++)
		engine_conn_free(&p->side[i].conn);
	p->fate = NULL;
	pair_run(p, 10000000000ull, NULL);
	for (int i = 0; i < 2; i++)
		ck_assert_ptr_null(engine_conn_next(p->side[i].engine, NULL));
	pair_free(p);
	free(mem[0]);
	free(mem[1]);
}
END_TEST

static Suite *mutate_suite(void)
{
	Suite *s = suite_create("mutate");
	TCase *t = tcase_create("mutate");

	tcase_add_loop_test(t, mutate__bits_with_valid_crcs, 0, 40);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(mutate_suite)
