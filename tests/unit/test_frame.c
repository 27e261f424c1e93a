// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include "daemon/net/ip.h"
#include "daemon/port/frame.h"

#define PORT 4797

static struct frame_template t;
static uint8_t frame[2048];

static struct ip ip_of(const char *text)
{
	struct ip ip;

	ck_assert_int_eq(ip_parse(text, &ip), 0);
	return ip;
}

/* Builds a frame with `len` bytes of payload; returns its length. */
static uint32_t build(const char *src, const char *dst, uint16_t sport, uint32_t len)
{
	struct frame_ends ends = {
		.src_mac = { 2, 0, 0, 0, 0, 1 },
		.dst_mac = { 2, 0, 0, 0, 0, 2 },
		.src = ip_of(src),
		.dst = ip_of(dst),
		.dport = PORT,
	};

	frame_template_init(&t, &ends);
	frame_fill(&t, frame, sport, len);
	for (uint32_t i = 0; i < len; i++)
		frame[t.len + i] = (uint8_t)i;
	return t.len + len;
}

/* A header with a right checksum sums to 0xffff. */
static uint32_t ipv4_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < FRAME_IPV4_LEN; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

START_TEST(frame_fill__ipv4_checksum_is_right_at_every_length)
{
	for (uint32_t len = 0; len < 1500; len += 7) {
		build("10.1.2.3", "192.168.255.254", (uint16_t)(len * 37), len);
		ck_assert_uint_eq(ipv4_sum(frame + FRAME_ETH_LEN), 0xffff);
	}
}
END_TEST

START_TEST(frame_fill__says_ect0_df_and_no_udp_checksum)
{
	build("10.1.2.3", "10.1.2.4", 50000, 100);
	ck_assert_uint_eq(frame[12] << 8 | frame[13], 0x0800);
	ck_assert_uint_eq(frame[15], FRAME_ECT0);
	ck_assert_uint_eq(frame_get16(frame + 14 + 6), 0x4000);
	ck_assert_uint_eq(frame_get16(frame + 14 + 20 + 6), 0);
	build("fd00::1", "fd00::2", 50000, 100);
	ck_assert_uint_eq(frame[12] << 8 | frame[13], 0x86dd);
	ck_assert_uint_eq((frame[14] & 15) << 4 | frame[15] >> 4, FRAME_ECT0);
	ck_assert_uint_eq(frame_get16(frame + 14 + 40 + 6), 0);
}
END_TEST

static void check_round_trip(const char *src, const char *dst)
{
	uint32_t len = build(src, dst, 51515, 300);
	struct frame_payload p;
	struct ip want = ip_of(src);

	ck_assert_int_eq(frame_parse(frame, len, PORT, &p), 0);
	ck_assert_uint_eq(p.len, 300);
	ck_assert_ptr_eq(p.data, frame + t.len);
	ck_assert_uint_eq(p.sport, 51515);
	ck_assert(ip_equal(&p.remote, &want));
	/* padding after the IP packet is not payload */
	ck_assert_int_eq(frame_parse(frame, len + 18, PORT, &p), 0);
	ck_assert_uint_eq(p.len, 300);
}

START_TEST(frame_parse__round_trip)
{
	check_round_trip("10.1.2.3", "10.1.2.4");
	check_round_trip("fd00::1", "fd00::2");
}
END_TEST

START_TEST(frame_parse__vlan_tag)
{
	uint32_t len = build("10.1.2.3", "10.1.2.4", 51515, 40);
	struct frame_payload p;

	memmove(frame + 16, frame + 12, len - 12);
	frame_put16(frame + 12, 0x8100);
	frame_put16(frame + 14, 7);
	ck_assert_int_eq(frame_parse(frame, len + 4, PORT, &p), 0);
	ck_assert_uint_eq(p.len, 40);
	ck_assert_ptr_eq(p.data, frame + t.len + 4);
	/* A second one around it, and one too many. */
	memmove(frame + 16, frame + 12, len - 12 + 4);
	frame_put16(frame + 12, 0x88a8);
	ck_assert_int_eq(frame_parse(frame, len + 8, PORT, &p), 0);
	ck_assert_uint_eq(p.len, 40);
	ck_assert_ptr_eq(p.data, frame + t.len + 8);
	memmove(frame + 16, frame + 12, len - 12 + 8);
	ck_assert_int_eq(frame_parse(frame, len + 12, PORT, &p), -EPROTO);
}
END_TEST

START_TEST(frame_parse__every_truncation_is_refused)
{
	static const char *const ends[][2] = { { "10.1.2.3", "10.1.2.4" },
					       { "fd00::1", "fd00::2" } };
	struct frame_payload p;

	for (int v = 0; v < 2; v++) {
		uint32_t len = build(ends[v][0], ends[v][1], 51515, 60);

		/* exactly sized memory, so that a sanitizer sees a read beyond it */
		for (uint32_t cut = 0; cut < len; cut++) {
			uint8_t *copy = malloc(cut ? cut : 1);

			memcpy(copy, frame, cut);
			ck_assert_int_eq(frame_parse(copy, cut, PORT, &p), -EPROTO);
			free(copy);
		}
	}
}
END_TEST

START_TEST(frame_parse__what_is_not_ours_is_refused)
{
	static const struct {
		int at, value;
	} changes[] = {
		{ 12, 0x86 },	       /* type */
		{ 14, 0x55 },	       /* IP version */
		{ 14, 0x44 },	       /* header shorter than 20 bytes */
		{ 14, 0x4f },	       /* options that are not there: UDP elsewhere */
		{ 20, 0x20 },	       /* more fragments */
		{ 21, 0x01 },	       /* fragment offset */
		{ 23, 6 },	       /* TCP */
		{ 14 + 20 + 2, 0xff }, /* port */
		{ 14 + 20 + 4, 0xff }, /* UDP length beyond the packet */
	};
	struct frame_payload p;

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		uint32_t len = build("10.1.2.3", "10.1.2.4", 51515, 60);

		frame[changes[i].at] = (uint8_t)changes[i].value;
		ck_assert_msg(frame_parse(frame, len, PORT, &p) == -EPROTO, "change %zu", i);
	}
}
END_TEST

START_TEST(frame_parse__udp_length_below_its_header_is_refused)
{
	uint32_t len = build("10.1.2.3", "10.1.2.4", 51515, 60);
	struct frame_payload p;

	frame_put16(frame + 14 + 20 + 4, 7);
	ck_assert_int_eq(frame_parse(frame, len, PORT, &p), -EPROTO);
}
END_TEST

START_TEST(frame_parse__random_bytes_never_leave_the_frame)
{
	struct frame_payload p;
	uint32_t rnd = 1;

	for (int i = 0; i < 200000; i++) {
		uint32_t len = build(i & 1 ? "10.1.2.3" : "fd00::1", i & 1 ? "10.1.2.4" : "fd00::2",
				     1, 20);
		uint8_t *copy = malloc(len);

		memcpy(copy, frame, len);
		for (int change = 0; change < 3; change++) {
			rnd = rnd * 1664525 + 1013904223;
			copy[12 + (rnd >> 8) % (len - 12)] = (uint8_t)(rnd >> 24);
		}
		if (frame_parse(copy, len, PORT, &p) == 0)
			ck_assert(p.data >= copy && p.data + p.len <= copy + len);
		free(copy);
	}
}
END_TEST

START_TEST(ip_parse__texts)
{
	struct ip ip;
	char text[IPTEXT_MAX];

	ip = ip_of("192.0.2.1");
	ck_assert(ip_is_v4(&ip));
	ck_assert_str_eq(ip_text(&ip, text), "192.0.2.1");
	ip = ip_of("2001:db8::1");
	ck_assert(!ip_is_v4(&ip));
	ck_assert_str_eq(ip_text(&ip, text), "2001:db8::1");
	ck_assert_int_eq(ip_parse("host", &ip), -EINVAL);
	ck_assert_int_eq(ip_parse("", &ip), -EINVAL);
}
END_TEST

static Suite *frame_suite(void)
{
	Suite *suite = suite_create("frame");
	TCase *tc = tcase_create("frame");

	tcase_add_test(tc, frame_fill__ipv4_checksum_is_right_at_every_length);
	tcase_add_test(tc, frame_fill__says_ect0_df_and_no_udp_checksum);
	tcase_add_test(tc, frame_parse__round_trip);
	tcase_add_test(tc, frame_parse__vlan_tag);
	tcase_add_test(tc, frame_parse__every_truncation_is_refused);
	tcase_add_test(tc, frame_parse__what_is_not_ours_is_refused);
	tcase_add_test(tc, frame_parse__udp_length_below_its_header_is_refused);
	tcase_add_test(tc, frame_parse__random_bytes_never_leave_the_frame);
	tcase_add_test(tc, ip_parse__texts);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(frame_suite)
