// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>
#include "core/crc.h"
#include "core/packet.h"
#include "unit.h"

static uint32_t crc_bit_at_a_time(const uint8_t *p, uint32_t len)
{
	uint32_t crc = 0xffffffff;

	while (len--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

START_TEST(crc__like_its_definition)
{
	uint8_t buf[600];

	ck_assert_uint_eq(crc32c("123456789", 9), 0xe3069283u);
	for (uint32_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 131 + i / 7);
	for (uint32_t len = 0; len < sizeof(buf); len++)
		ck_assert_uint_eq(crc32c(buf, len), crc_bit_at_a_time(buf, len));
}
END_TEST

static void make(uint8_t *buf, uint8_t type, uint16_t body_len)
{
	struct packet p = { .type = type,
			    .flags = 1,
			    .path = 3,
			    .epoch = 0xfff1,
			    .body_len = body_len,
			    .cid = 0x11223344,
			    .token = 0x55667788,
			    .psn = 0xfffffffe,
			    .una = 0xfffffff0,
			    .ts = 99 };

	packet_seal(buf, &p);
}

START_TEST(packet__round_trip_at_any_address)
{
	uint8_t buf[200];
	struct packet p;

	for (uint32_t at = 0; at < 8; at++) {
		memset(buf, (int)at, sizeof(buf));
		make(buf + at, MROCE_DATA, 50);
		ck_assert_int_eq(packet_parse(buf + at, MROCE_HDR_LEN + 50, &p), 0);
		ck_assert_uint_eq(p.type, MROCE_DATA);
		ck_assert_uint_eq(p.path, 3);
		ck_assert_uint_eq(p.epoch, 0xfff1);
		ck_assert_uint_eq(p.cid, 0x11223344);
		ck_assert_uint_eq(p.token, 0x55667788);
		ck_assert_uint_eq(p.psn, 0xfffffffe);
		ck_assert_uint_eq(p.una, 0xfffffff0);
		ck_assert_uint_eq(p.ts, 99);
		ck_assert_uint_eq(p.body_len, 50);
		ck_assert(packet_body_ok(&p));
		buf[at + MROCE_HDR_LEN + 49] ^= 1;
		ck_assert(!packet_body_ok(&p));
	}
}
END_TEST

START_TEST(packet__every_flipped_bit_is_found)
{
	uint8_t buf[MROCE_HDR_LEN + 20] = { 0 };
	struct packet p;

	make(buf, MROCE_CREDIT, 20);
	for (uint32_t bit = 0; bit < sizeof(buf) * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert(packet_parse(buf, sizeof(buf), &p) || !packet_body_ok(&p));
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (uint32_t len = 0; len < sizeof(buf); len++)
		ck_assert_int_eq(packet_parse(buf, len, &p), -MROCE_DROP_TRUNCATED);
	ck_assert_int_eq(packet_parse(buf, sizeof(buf), &p), 0);
}
END_TEST

START_TEST(packet__version_and_type)
{
	uint8_t buf[MROCE_HDR_LEN] = { 0 };
	struct packet p;

	make(buf, MROCE_TYPE_MAX, 0);
	ck_assert_int_eq(packet_parse(buf, sizeof(buf), &p), -MROCE_DROP_TYPE);
	make(buf, 0, 0);
	ck_assert_int_eq(packet_parse(buf, sizeof(buf), &p), -MROCE_DROP_TYPE);
	make(buf, MROCE_POLL, 0);
	buf[0] = 9;
	ck_assert_int_eq(packet_parse(buf, sizeof(buf), &p), -MROCE_DROP_VERSION);
}
END_TEST

static Suite *packet_suite(void)
{
	Suite *s = suite_create("packet");
	TCase *t = tcase_create("packet");

	tcase_add_test(t, crc__like_its_definition);
	tcase_add_test(t, packet__round_trip_at_any_address);
	tcase_add_test(t, packet__every_flipped_bit_is_found);
	tcase_add_test(t, packet__version_and_type);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(packet_suite)
