// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>
#include "core/chunkset.h"
#include "unit.h"

START_TEST(chunkset__few)
{
	struct chunkset s;

	ck_assert(!chunkset_needs_words(64));
	ck_assert(chunkset_needs_words(65));
	chunkset_init(&s, 64, NULL);
	for (uint32_t i = 64; i-- > 0;) {
		ck_assert(!chunkset_has(&s, i));
		ck_assert_int_eq(chunkset_add(&s, i), 0);
		ck_assert_int_eq(chunkset_add(&s, i), -EEXIST);
		ck_assert(chunkset_has(&s, i));
		ck_assert_uint_eq(s.base, i ? 0 : 64);
	}
	ck_assert_int_eq(chunkset_add(&s, 64), -ERANGE);
	ck_assert_int_eq(chunkset_add(&s, 3), -EEXIST);
}
END_TEST

START_TEST(chunkset__span_counts_from_the_lowest_missing)
{
	uint64_t words[CHUNKSET_WORDS];
	struct chunkset s;

	memset(words, 0xff, sizeof(words));
	chunkset_init(&s, 100000, words);
	ck_assert_int_eq(chunkset_add(&s, MROCE_CHUNK_SPAN), -ERANGE);
	ck_assert_int_eq(chunkset_add(&s, MROCE_CHUNK_SPAN - 1), 0);
	ck_assert_int_eq(chunkset_add(&s, 0), 0);
	ck_assert_uint_eq(s.base, 1);
	ck_assert_int_eq(chunkset_add(&s, MROCE_CHUNK_SPAN), 0);
	ck_assert_int_eq(chunkset_add(&s, MROCE_CHUNK_SPAN), -EEXIST);
	ck_assert_int_eq(chunkset_add(&s, MROCE_CHUNK_SPAN + 1), -ERANGE);
	ck_assert(!chunkset_has(&s, 1));
	ck_assert(chunkset_has(&s, MROCE_CHUNK_SPAN));
}
END_TEST

/* Against a plain array, in a window as senders keep it. */
START_TEST(chunkset__like_an_array)
{
	enum { N = 50000 };
	static uint8_t plain[N];
	uint64_t words[CHUNKSET_WORDS];
	uint32_t base = 0, x = 2463534242u + (uint32_t)_i;
	struct chunkset s;

	memset(plain, 0, sizeof(plain));
	chunkset_init(&s, N, words);
	while (base < N) {
		uint32_t chunk;

		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		chunk = x % 4 ? base + x / 4 % 3 : base + x / 4 % MROCE_CHUNK_SPAN;
		if (chunk >= N) {
			ck_assert_int_eq(chunkset_add(&s, chunk), -ERANGE);
			continue;
		}
		ck_assert_int_eq(chunkset_has(&s, chunk), plain[chunk]);
		ck_assert_int_eq(chunkset_add(&s, chunk), plain[chunk] ? -EEXIST : 0);
		plain[chunk] = 1;
		while (base < N && plain[base])
			base++;
		ck_assert_uint_eq(s.base, base);
	}
}
END_TEST

static Suite *chunkset_suite(void)
{
	Suite *s = suite_create("chunkset");
	TCase *t = tcase_create("chunkset");

	tcase_add_test(t, chunkset__few);
	tcase_add_test(t, chunkset__span_counts_from_the_lowest_missing);
	tcase_add_loop_test(t, chunkset__like_an_array, 0, 4);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(chunkset_suite)
