// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/core/handshake.c and auth.c against those who mean no good: floods, forgeries, replays, guesses.
 * test_engine.c has set-ups between friends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include "pair.h"
#include "unit.h"

#define SERVICE 7
#define SECOND 1000000000ull
#define HELLO_LEN (MROCE_HDR_LEN + sizeof(struct mroce_hello))
#define KEPT 256

/* What side `from` sent for set-up, as it was seen on the wire. */
static struct {
	uint8_t data[MROCE_HDR_LEN + sizeof(struct mroce_hello)];
	uint32_t len;
	uint8_t type;
	int from;
} kept[KEPT];
static uint32_t nkept;

static void keep_packet(int from, const struct packet *pk)
{
	uint32_t len = MROCE_HDR_LEN + pk->body_len;

	if (nkept == KEPT)
		return;
	memcpy(kept[nkept].data, pk->body - MROCE_HDR_LEN, len);
	kept[nkept].len = len;
	kept[nkept].type = pk->type;
	kept[nkept++].from = from;
}

static bool is_setup(const struct packet *pk)
{
	return pk->type == MROCE_HELLO || pk->type == MROCE_ACCEPT || pk->type == MROCE_READY;
}

static enum pair_fate keep_all(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	(void)p;
	(void)remote;
	if (is_setup(pk))
		keep_packet(from, pk);
	return PAIR_PASS;
}

/* The first READY, or all, are lost. */
static enum pair_fate lose_ready(struct pair *p, int from, struct packet *pk,
				 const struct ip *remote)
{
	keep_all(p, from, pk, remote);
	return pk->type == MROCE_READY ? PAIR_DROP : PAIR_PASS;
}

static struct engine_config config(int key)
{
	struct engine_config cfg;

	engine_config_default(&cfg);
	nkept = 0;
	cfg.authenticated = key != 0;
	memset(cfg.psk, key, sizeof(cfg.psk));
	return cfg;
}

static uint64_t reason(const struct pair *p, int side, int number)
{
	struct engine_stats st;

	engine_stats(p->side[side].engine, &st);
	return st.reasons[number];
}

static struct engine_stats stats(const struct pair *p, int side)
{
	struct engine_stats st;

	engine_stats(p->side[side].engine, &st);
	return st;
}

static void give(struct pair *p, int side, const void *data, uint32_t len, const struct ip *from)
{
	struct rx_info info = { .remote = *from, .sport = MROCE_UDP_PORT };

	engine_rx(p->side[side].engine, &p->side[side].ports[0], data, len, &info, p->now);
	engine_rx_flush(p->side[side].engine, p->now);
}

static const uint8_t *first(uint8_t type, int from, uint32_t skip)
{
	for (uint32_t i = 0; i < nkept; i++) {
		if (kept[i].type == type && kept[i].from == from && !skip--)
			return kept[i].data;
	}
	ck_abort_msg("no such packet was seen");
	return NULL;
}

static struct mroce_hello body_of(const uint8_t *packet)
{
	struct mroce_hello h;

	memcpy(&h, packet + MROCE_HDR_LEN, sizeof(h));
	return h;
}

static void seal(uint8_t *data, uint8_t type, const struct mroce_hello *h)
{
	struct packet pk = { .type = type, .body_len = sizeof(*h) };

	memcpy(data + MROCE_HDR_LEN, h, sizeof(*h));
	packet_seal(data, &pk);
}

static struct ip forged(uint32_t n)
{
	struct ip ip = { { [10] = 0xff, [11] = 0xff, 172, 16 } };

	ip.a[14] = (uint8_t)(n >> 8);
	ip.a[15] = (uint8_t)n;
	return ip;
}

static void start_connect(struct pair *p)
{
	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 128), 0);
	ck_assert_int_eq(engine_connect(p->side[0].engine, &p->side[1].ports[0].addr, SERVICE, NULL,
					NULL, p->now, &p->side[0].conn),
			 0);
}

static bool refused(struct pair *p)
{
	return p->side[0].refused;
}

static bool accepted(struct pair *p)
{
	return p->side[0].connected && p->side[1].n_accepted;
}

/* ---- cookies ---- */

START_TEST(hello__cookie_before_state)
{
	struct engine_config cfg = config(0);
	struct pair *p;

	cfg.cookies_above = 0;
	p = pair_new(&cfg, 1);
	p->fate = keep_all;
	pair_connect(p);
	ck_assert_uint_eq(reason(p, 1, MROCE_COUNT_TX_COOKIE), 1);
	ck_assert_int_eq(ntohs(body_of(first(MROCE_ACCEPT, 1, 0)).status), MROCE_ACCEPT_COOKIE);
	ck_assert_uint_eq(stats(p, 1).half_open, 0);
	pair_free(p);
}
END_TEST

static uint32_t answers, answer_bytes, longest_answer;

static enum pair_fate count_answers(struct pair *p, int from, struct packet *pk,
				    const struct ip *remote)
{
	(void)p;
	(void)remote;
	if (from != 1 || !is_setup(pk))
		return PAIR_PASS;
	answers++;
	answer_bytes += MROCE_HDR_LEN + pk->body_len;
	if ((uint32_t)MROCE_HDR_LEN + pk->body_len > longest_answer)
		longest_answer = MROCE_HDR_LEN + pk->body_len;
	return PAIR_PASS;
}

static struct mroce_hello plain_hello(uint32_t n)
{
	struct mroce_hello h = { .version_min = 1,
				 .version_max = 1,
				 .service = htonl(SERVICE),
				 .cid = htonl(n + 1),
				 .token = htonl(5),
				 .nonce = 0x1234567800000000ull + n,
				 .chunk = htons(1000),
				 .paths = 8,
				 .ports = 1,
				 .streams = htonl(1) };

	memcpy(h.port[0].addr, forged(n).a, 16);
	h.port[0].addr[12] = 10;
	h.port[0].addr[13] = 0;
	return h;
}

START_TEST(hello__flood)
{
	struct engine_config cfg = config(0);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t data[HELLO_LEN];

	answers = answer_bytes = longest_answer = 0;
	p->fate = count_answers;
	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 512), 0);
	for (uint32_t n = 0; n < 20000; n++) {
		struct mroce_hello h = plain_hello(n);
		struct ip from = forged(n);

		seal(data, MROCE_HELLO, &h);
		give(p, 1, data, sizeof(data), &from);
	}
	ck_assert_uint_eq(stats(p, 1).half_open, cfg.cookies_above);
	ck_assert_uint_eq(stats(p, 1).conns, cfg.cookies_above);
	/* Somebody honest comes through. */
	ck_assert_int_eq(engine_connect(p->side[0].engine, &p->side[1].ports[0].addr, SERVICE, NULL,
					NULL, p->now, &p->side[0].conn),
			 0);
	ck_assert(pair_run(p, SECOND, accepted));
	/* In the end nothing is left, and nobody got more than was sent in his name. */
	pair_run(p, 10 * SECOND, NULL);
	ck_assert_uint_eq(stats(p, 1).half_open, 0);
	ck_assert_uint_eq(stats(p, 1).conns, 1);
	ck_assert_uint_le(answers, 20000 + 8);
	ck_assert_uint_le(longest_answer, HELLO_LEN);
	ck_assert_uint_lt(answer_bytes, 20000 * HELLO_LEN / 2);
	pair_free(p);
}
END_TEST

START_TEST(hello__unproven_get_half_a_backlog)
{
	struct engine_config cfg = config(0);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t data[HELLO_LEN];

	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 8), 0);
	for (uint32_t n = 0; n < 100; n++) {
		struct mroce_hello h = plain_hello(n);
		struct ip from = forged(n);

		seal(data, MROCE_HELLO, &h);
		give(p, 1, data, sizeof(data), &from);
	}
	ck_assert_uint_eq(stats(p, 1).half_open, 4);
	ck_assert_int_eq(engine_connect(p->side[0].engine, &p->side[1].ports[0].addr, SERVICE, NULL,
					NULL, p->now, &p->side[0].conn),
			 0);
	ck_assert(pair_run(p, SECOND, accepted));
	pair_free(p);
}
END_TEST

/* A cookie is good for one address, nonce, service and connection id, and for a while. */
START_TEST(cookie__bound)
{
	struct engine_config cfg = config(0);
	struct pair *p;
	uint8_t data[HELLO_LEN];
	struct mroce_hello h, changed;
	struct ip other = forged(1);

	cfg.cookies_above = 0;
	p = pair_new(&cfg, 1);
	p->fate = keep_all;
	start_connect(p);
	pair_run(p, 50000, NULL); /* HELLO, cookie, HELLO under way */
	h = body_of(first(MROCE_HELLO, 0, 1));
	pair_free(p);
	p = pair_new(&cfg, 1); /* the same seed, so the same keys */
	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 128), 0);
	for (int i = 0; i < 5; i++) {
		changed = h;
		changed.nonce ^= i == 0;
		changed.service ^= i == 1 ? htonl(1) : 0;
		changed.cid ^= i == 2 ? htonl(1) : 0;
		changed.cookie[7] ^= i == 3;
		seal(data, MROCE_HELLO, &changed);
		give(p, 1, data, sizeof(data), i == 4 ? &other : &p->side[0].ports[0].addr);
		ck_assert_uint_eq(stats(p, 1).conns, 0);
	}
	ck_assert_uint_eq(reason(p, 1, MROCE_DROP_COOKIE), 4); /* a service nobody has needs none */
	pair_free(p);
}
END_TEST

START_TEST(cookie__gets_old)
{
	static const uint64_t ages[] = { 5 * SECOND, 25 * SECOND };
	struct engine_config cfg = config(0);
	uint8_t data[HELLO_LEN];

	cfg.cookies_above = 0;
	cfg.handshake_ns = SECOND / 10;
	for (int i = 0; i < 2; i++) {
		struct pair *p = pair_new(&cfg, 1);

		nkept = 0;
		p->now += 100 * SECOND;
		p->fate = keep_all;
		start_connect(p);
		pair_run(p, 50000, NULL);
		memcpy(data, first(MROCE_HELLO, 0, 1), sizeof(data));
		p->fate = lose_ready;
		p->now += ages[i];
		pair_run(p, 0, NULL);
		engine_run(p->side[1].engine, p->now, 64);
		give(p, 1, data, sizeof(data), &p->side[0].ports[0].addr);
		ck_assert_uint_eq(reason(p, 1, MROCE_DROP_COOKIE), (uint64_t)i);
		pair_free(p);
	}
}
END_TEST

/* ---- keys ---- */

static enum pair_fate lossy(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	(void)from;
	(void)pk;
	(void)remote;
	return pair_rand(p) % 100 < 30 ? PAIR_DROP : PAIR_PASS;
}

START_TEST(key__same)
{
	struct engine_config cfg = config(1);
	uint8_t *mem[2] = { malloc(100000), calloc(1, 100000) };
	struct pair *p = pair_new(&cfg, 2);
	uint32_t key[2];

	p->rng += (uint32_t)_i;
	p->fate = lossy;
	pair_connect(p);
	memset(mem[0], 7, 100000);
	for (int i = 0; i < 2; i++)
		key[i] = pair_region(p, i, mem[i], 100000,
				     MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ);
	pair_post(p, 0, MROCE_WR_WRITE, 0, 1, key[0], mem[0], 100000, mem[1], key[1], 0);
	pair_wait(p, 0, 1);
	ck_assert_mem_eq(mem[0], mem[1], 100000);
	pair_free(p);
	free(mem[0]);
	free(mem[1]);
}
END_TEST

/* Keys of initiator and responder, and what the responder counts. */
static const struct {
	int key[2], reason;
} strangers[] = {
	{ { 1, 2 }, MROCE_DROP_AUTH_WRONG },
	{ { 0, 2 }, MROCE_DROP_AUTH_MISSING },
	{ { 1, 0 }, MROCE_DROP_AUTH_WRONG },
};

START_TEST(key__other)
{
	struct engine_config cfg0 = config(strangers[_i].key[0]),
			     cfg1 = config(strangers[_i].key[1]);
	struct pair *p = pair_new_unequal(&cfg0, &cfg1, 1, 1);

	start_connect(p);
	ck_assert(pair_run(p, 6 * SECOND, refused));
	ck_assert_int_eq(p->side[0].code, EKEYREJECTED);
	ck_assert_uint_eq(stats(p, 1).conns, 0);
	ck_assert_uint_gt(reason(p, 1, strangers[_i].reason), 0);
	ck_assert_uint_eq(p->side[1].logs, 1); /* however often it tried */
	ck_assert_ptr_nonnull(strstr(p->side[1].last_log, "10.0.0.1"));
	pair_free(p);
}
END_TEST

/* READY is lost for a while: only READY, not the use of ids that anybody can read, makes a connection. */
START_TEST(key__letters_do_not_confirm)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t mem[64] = { 1 }, to[64] = { 0 };
	uint32_t key[2];

	p->fate = lose_ready;
	start_connect(p);
	pair_run(p, SECOND / 2, NULL);
	ck_assert_int_eq(p->side[0].connected, 1);
	key[0] = pair_region(p, 0, mem, sizeof(mem), 0);
	key[1] = pair_region(p, 1, to, sizeof(to), MROCE_ACCESS_REMOTE_WRITE);
	pair_post(p, 0, MROCE_WR_WRITE, 0, 1, key[0], mem, sizeof(mem), to, key[1], 0);
	pair_run(p, SECOND / 2, NULL);
	ck_assert_int_eq(p->side[1].n_accepted, 0);
	ck_assert_uint_eq(to[0], 0);
	p->fate = NULL;
	ck_assert(pair_run(p, SECOND, accepted));
	pair_wait(p, 0, 1);
	ck_assert_mem_eq(mem, to, sizeof(to));
	pair_free(p);
}
END_TEST

/* A set-up that worked, played back: at once, when the connection is over, and to a daemon started anew. */
START_TEST(key__replay)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);
	uint32_t n;

	p->fate = keep_all;
	pair_connect(p);
	n = nkept;
	p->fate = NULL;
	for (uint32_t i = 0; i < n; i++)
		give(p, !kept[i].from, kept[i].data, kept[i].len,
		     &p->side[kept[i].from].ports[0].addr);
	pair_run(p, SECOND, NULL);
	ck_assert_int_eq(p->side[1].n_accepted, 1);
	ck_assert_uint_eq(stats(p, 1).conns, 1);
	for (int i = 0; i < 2; i++) {
		engine_conn_close(p->side[i].conn, MROCE_CLOSE_NORMAL, p->now);
		engine_conn_free(&p->side[i].conn);
	}
	pair_run(p, 6 * SECOND, NULL);
	ck_assert_uint_eq(stats(p, 1).conns, 0);
	for (int again = 0; again < 2; again++) {
		for (uint32_t i = 0; i < n; i++) {
			give(p, !kept[i].from, kept[i].data, kept[i].len,
			     &p->side[kept[i].from].ports[0].addr);
			pair_run(p, SECOND / 100, NULL);
		}
		ck_assert_int_eq(p->side[1].n_accepted, 1);
		p->now += 30 * SECOND; /* and once the cookie is too old */
	}
	pair_run(p, 6 * SECOND, NULL);
	ck_assert_int_eq(p->side[1].n_accepted, 1);
	ck_assert_uint_eq(stats(p, 1).conns, 0);
	pair_free(p);
}
END_TEST

/* Any byte of READY changed, or a body of another type in its place: no connection. */
START_TEST(key__forged_ready)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t data[HELLO_LEN], good[HELLO_LEN];
	struct mroce_hello h;

	p->fate = lose_ready;
	start_connect(p);
	pair_run(p, SECOND / 10, NULL);
	memcpy(good, first(MROCE_READY, 0, 0), sizeof(good));
	for (uint32_t i = 0; i < sizeof(h); i++) {
		memcpy(data, good, sizeof(data));
		data[MROCE_HDR_LEN + i] ^= (uint8_t)(1 << i % 8);
		h = body_of(data);
		seal(data, MROCE_READY, &h);
		give(p, 1, data, sizeof(data), &p->side[0].ports[0].addr);
		ck_assert_int_eq(p->side[1].n_accepted, 0);
	}
	h = body_of(first(MROCE_ACCEPT, 1, 1));
	seal(data, MROCE_READY, &h);
	give(p, 1, data, sizeof(data), &p->side[0].ports[0].addr);
	ck_assert_int_eq(p->side[1].n_accepted, 0);
	give(p, 1, good, sizeof(good), &p->side[0].ports[0].addr);
	ck_assert_int_eq(p->side[1].n_accepted, 1);
	pair_free(p);
}
END_TEST

static enum pair_fate lose_all(struct pair *p, int from, struct packet *pk, const struct ip *remote)
{
	keep_all(p, from, pk, remote);
	return PAIR_DROP;
}

/* Its own HELLO comes back to the initiator, as if the peer had sent it: it must not connect to itself. */
START_TEST(key__reflected)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);

	ck_assert_int_eq(engine_listen(p->side[0].engine, SERVICE, NULL, 16), 0);
	p->fate = lose_all;
	start_connect(p);
	for (uint32_t done = 0, turns = 0; turns < 20; turns++) {
		pair_run(p, SECOND / 10, NULL);
		for (; done < nkept; done++)
			give(p, 0, kept[done].data, kept[done].len, &p->side[1].ports[0].addr);
	}
	ck_assert_int_eq(p->side[0].connected + p->side[0].n_accepted, 0);
	ck_assert_uint_gt(reason(p, 0, MROCE_DROP_AUTH_TARGET), 0);
	ck_assert_uint_eq(stats(p, 0).half_open, 0);
	pair_free(p);
}
END_TEST

START_TEST(key__guesses)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t data[HELLO_LEN];
	struct mroce_hello h;

	answers = answer_bytes = longest_answer = 0;
	p->fate = count_answers;
	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 16), 0);
	for (uint32_t n = 0; n < 5000; n++) {
		struct ip from = forged(n % 10);

		h = plain_hello(n);
		h.features = htonl(MROCE_F_AUTH);
		memcpy(h.to, p->side[1].ports[0].addr.a, sizeof(h.to));
		for (uint32_t i = 0; i < sizeof(h.mac); i++)
			h.mac[i] = (uint8_t)pair_rand(p);
		seal(data, MROCE_HELLO, &h);
		give(p, 1, data, sizeof(data), &from);
	}
	ck_assert_uint_eq(reason(p, 1, MROCE_DROP_AUTH_WRONG), 5000);
	ck_assert_uint_eq(stats(p, 1).conns, 0);
	ck_assert_uint_le(p->side[1].logs, 10);
	ck_assert_uint_eq(longest_answer, MROCE_HDR_LEN + MROCE_HELLO_SHORT);
	pair_free(p);
}
END_TEST

/* Who sends refusals in the peer's name cannot keep hosts with a key from connecting. */
START_TEST(key__forged_refusals)
{
	struct engine_config cfg = config(1);
	struct pair *p = pair_new(&cfg, 1);
	uint8_t data[MROCE_HDR_LEN + MROCE_HELLO_SHORT];
	struct packet pk = { .type = MROCE_ACCEPT, .body_len = MROCE_HELLO_SHORT };
	struct mroce_hello h;

	p->fate = keep_all;
	start_connect(p);
	engine_run(p->side[0].engine, p->now, 1);
	for (uint16_t status = 0; status < 8; status++) {
		h = body_of(first(MROCE_HELLO, 0, 0));
		h.status = htons(status);
		memcpy(data + MROCE_HDR_LEN, &h, MROCE_HELLO_SHORT);
		packet_seal(data, &pk);
		give(p, 0, data, sizeof(data), &p->side[1].ports[0].addr);
	}
	ck_assert_int_eq(p->side[0].refused, 0);
	ck_assert(pair_run(p, SECOND, accepted));
	pair_free(p);
}
END_TEST

static Suite *handshake_suite(void)
{
	Suite *s = suite_create("handshake");
	TCase *cookies = tcase_create("cookies"), *keys = tcase_create("keys");

	tcase_add_test(cookies, hello__cookie_before_state);
	tcase_add_test(cookies, hello__flood);
	tcase_add_test(cookies, hello__unproven_get_half_a_backlog);
	tcase_add_test(cookies, cookie__bound);
	tcase_add_test(cookies, cookie__gets_old);
	suite_add_tcase(s, cookies);
	tcase_add_loop_test(keys, key__same, 0, 20);
	tcase_add_loop_test(keys, key__other, 0, 3);
	tcase_add_test(keys, key__letters_do_not_confirm);
	tcase_add_test(keys, key__replay);
	tcase_add_test(keys, key__forged_ready);
	tcase_add_test(keys, key__reflected);
	tcase_add_test(keys, key__guesses);
	tcase_add_test(keys, key__forged_refusals);
	suite_add_tcase(s, keys);
	return s;
}

UNIT_MAIN(handshake_suite)
