// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <stdlib.h>
#include "core/twin.h"
#include "unit.h"

#define CID 0x77770005u
#define TOKEN 0xabcdef01u

static struct port port;
static uint8_t reply[TWIN_REPLY_MAX];
static uint32_t reply_len;

static void setup(void)
{
	port.conns = calloc(MROCE_MAX_CONNS, sizeof(*port.conns));
	ck_assert_int_eq(posix_memalign((void **)&port.paths, 64,
					MROCE_MAX_CONNS * MROCE_MAX_PATHS * sizeof(*port.paths)),
			 0);
	port.conns[5] = (struct mroce_conn_entry){
		.cid = CID, .token = TOKEN, .peer_cid = 0x1234, .peer_token = 0x5678, .npaths = 4
	};
	for (int p = 0; p < MROCE_MAX_PATHS; p++)
		track_reset(&port.paths[5 * MROCE_MAX_PATHS + p], 0xfffffffe);
}

static void teardown(void)
{
	free(port.conns);
	free(port.paths);
}

static int give(uint8_t type, uint32_t psn, struct packet change)
{
	uint8_t buf[MROCE_HDR_LEN];
	struct packet p = { .type = type,
			    .path = 2,
			    .cid = CID,
			    .token = TOKEN,
			    .psn = psn,
			    .una = 0xfffffffe,
			    .ts = 42 };

	if (change.cid)
		p.cid = change.cid;
	if (change.token)
		p.token = change.token;
	if (change.path)
		p.path = change.path;
	packet_seal(buf, &p);
	return twin_rx(&port, buf, sizeof(buf), false, 0, reply, &reply_len);
}

#define SAME ((struct packet){ 0 })

START_TEST(twin__drops)
{
	ck_assert_int_eq(give(MROCE_DATA, 0, (struct packet){ .cid = CID + 1 }),
			 -MROCE_DROP_NO_CONN);
	ck_assert_int_eq(give(MROCE_DATA, 0, (struct packet){ .cid = CID + 0x10000 }),
			 -MROCE_DROP_NO_CONN);
	ck_assert_int_eq(give(MROCE_DATA, 0, (struct packet){ .token = 1 }), -MROCE_DROP_TOKEN);
	ck_assert_int_eq(give(MROCE_DATA, 0, (struct packet){ .path = 4 }), -MROCE_DROP_PATH);
	ck_assert_int_eq(give(MROCE_ACK, 0, (struct packet){ .path = 16 }), -MROCE_DROP_PATH);
	ck_assert_int_eq(give(MROCE_ACK, 0, (struct packet){ .path = 15 }), TWIN_DELIVER);
	ck_assert_int_eq(give(MROCE_HELLO, 0, (struct packet){ .cid = 9 }), TWIN_SETUP);
	ck_assert_int_eq(give(MROCE_DATA, 0xfffffffe + 256, SAME), -MROCE_DROP_AHEAD);
}
END_TEST

static struct mroce_ack parse_reply(uint8_t type)
{
	struct mroce_ack a;
	struct packet p;

	ck_assert_uint_eq(reply_len, MROCE_ACK_LEN);
	ck_assert_int_eq(packet_parse(reply, reply_len, &p), 0);
	ck_assert(packet_body_ok(&p));
	ck_assert_uint_eq(p.type, type);
	ck_assert_uint_eq(p.cid, 0x1234);
	ck_assert_uint_eq(p.token, 0x5678);
	ck_assert_uint_eq(p.path, 2);
	memcpy(&a, p.body, sizeof(a));
	ck_assert_uint_eq(ntohl(a.echo_ts), 42);
	return a;
}

START_TEST(twin__gap_is_delivered_and_nacked)
{
	struct mroce_ack a;

	ck_assert_int_eq(give(MROCE_DATA, 0xfffffffe, SAME), TWIN_DELIVER);
	ck_assert_uint_eq(reply_len, 0);
	ck_assert_int_eq(give(MROCE_DATA, 0xfffffffe, SAME), -MROCE_DROP_DUPLICATE);
	ck_assert_int_eq(give(MROCE_DATA, 1, SAME), TWIN_DELIVER); /* ffffffff and 0 are missing */
	a = parse_reply(MROCE_NACK);
	ck_assert_uint_eq(ntohl(a.base), 0xfffffffe);
	ck_assert_uint_eq(ntohl(a.highest), 1);
	ck_assert_int_eq(give(MROCE_DATA, 0, SAME), TWIN_DELIVER);
	ck_assert_uint_eq(reply_len, 0);
}
END_TEST

START_TEST(twin__poll_and_probe)
{
	struct packet p;

	ck_assert_int_eq(give(MROCE_POLL, 3, SAME), TWIN_DONE);
	ck_assert_uint_eq(ntohl(parse_reply(MROCE_ACK).highest), 2);
	ck_assert_int_eq(give(MROCE_PROBE, 3, SAME), TWIN_DONE);
	ck_assert_uint_eq(reply_len, MROCE_HDR_LEN);
	ck_assert_int_eq(packet_parse(reply, reply_len, &p), 0);
	ck_assert_uint_eq(p.type, MROCE_PROBE_REPLY);
	ck_assert_uint_eq(p.cid, 0x1234);
}
END_TEST

static Suite *twin_suite(void)
{
	Suite *s = suite_create("twin");
	TCase *t = tcase_create("twin");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, twin__drops);
	tcase_add_test(t, twin__gap_is_delivered_and_nacked);
	tcase_add_test(t, twin__poll_and_probe);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(twin_suite)
