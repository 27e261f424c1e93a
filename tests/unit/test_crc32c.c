// SPDX-License-Identifier: BSD-2-Clause
/* crc32c.h against the vectors of RFC 3720, the definition bit by bit, and ISA-L. */
#include "unit.h"
#include <mroce/crc32c.h>
#include <endian.h>
#include <isa-l/crc.h>
#include <stdint.h>
#include <string.h>

#define BYTES_MAX 256

/* As the BPF programs use it: whole words, finished by inversion. */
static uint32_t by_words(const uint8_t *bytes, size_t len)
{
	uint32_t crc = CRC32C_INIT, word;

	for (size_t i = 0; i < len; i += 4) {
		memcpy(&word, bytes + i, 4);
		crc = crc32c_word(crc, le32toh(word));
	}
	return ~crc;
}

static uint32_t by_bits(const uint8_t *bytes, size_t len)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ CRC32C_POLY : crc >> 1;
	}
	return ~crc;
}

static uint32_t by_isal(uint8_t *bytes, size_t len)
{
	return ~crc32_iscsi(bytes, (int)len, CRC32C_INIT);
}

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint8_t random_byte(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint8_t)(random_state >> 32);
}

START_TEST(crc32c_word__vectors_of_rfc_3720)
{
	uint8_t bytes[32];

	memset(bytes, 0, sizeof(bytes));
	ck_assert_uint_eq(by_words(bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	ck_assert_uint_eq(by_words(bytes, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	ck_assert_uint_eq(by_words(bytes, 32), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	ck_assert_uint_eq(by_words(bytes, 32), 0x113fdb5c);
}
END_TEST

START_TEST(crc32c_word__every_table_entry_is_used_and_right)
{
	uint8_t bytes[4];

	for (int place = 0; place < 4; place++) {
		for (int value = 0; value < 256; value++) {
			memset(bytes, 0x5a, sizeof(bytes));
			bytes[place] = (uint8_t)value;
			ck_assert_uint_eq(by_words(bytes, 4), by_bits(bytes, 4));
		}
	}
}
END_TEST

START_TEST(crc32c_word__random_buffers_agree_with_bits_and_isal)
{
	uint8_t bytes[BYTES_MAX];

	for (int round = 0; round < 2000; round++) {
		size_t len = (size_t)(round % (BYTES_MAX / 4) + 1) * 4;

		for (size_t i = 0; i < len; i++)
			bytes[i] = random_byte();
		ck_assert_uint_eq(by_words(bytes, len), by_bits(bytes, len));
		ck_assert_uint_eq(by_words(bytes, len), by_isal(bytes, len));
	}
}
END_TEST

/* What the header check relies on: no flip of one or two bits of 32 bytes goes unseen. */
START_TEST(crc32c_word__flipped_bits_change_it)
{
	uint8_t bytes[32];
	uint32_t good;

	for (int i = 0; i < 32; i++)
		bytes[i] = random_byte();
	good = by_words(bytes, 32);
	for (int a = 0; a < 256; a++) {
		for (int b = a; b < 256; b++) {
			bytes[a / 8] ^= (uint8_t)(1 << a % 8);
			if (b != a)
				bytes[b / 8] ^= (uint8_t)(1 << b % 8);
			ck_assert_uint_ne(by_words(bytes, 32), good);
			bytes[a / 8] ^= (uint8_t)(1 << a % 8);
			if (b != a)
				bytes[b / 8] ^= (uint8_t)(1 << b % 8);
		}
	}
	ck_assert_uint_eq(by_words(bytes, 32), good);
}
END_TEST

static Suite *crc32c_suite(void)
{
	Suite *suite = suite_create("crc32c");
	TCase *tcase = tcase_create("word");

	tcase_add_test(tcase, crc32c_word__vectors_of_rfc_3720);
	tcase_add_test(tcase, crc32c_word__every_table_entry_is_used_and_right);
	tcase_add_test(tcase, crc32c_word__random_buffers_agree_with_bits_and_isal);
	tcase_add_test(tcase, crc32c_word__flipped_bits_change_it);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(crc32c_suite)
