/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors that come again and again, and how they are counted. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "daemon/journal.h"
#include "unit.h"

static int saved, file;

static void setup(void)
{
	char path[] = "/tmp/mroce-journal.XXXXXX";

	unsetenv("JOURNAL_STREAM");
	journal_init(false);
	file = mkstemp(path);
	unlink(path);
	fflush(stderr);
	saved = dup(STDERR_FILENO);
	dup2(file, STDERR_FILENO);
}

static void teardown(void)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(file);
}

static int lines(void)
{
	char text[65536];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	int count = 0;

	for (ssize_t i = 0; i < n; i++)
		count += text[i] == '\n';
	return count;
}

START_TEST(warning__same_text_is_written_once)
{
	uint64_t counts[LOG_DEBUG + 1];

	for (int i = 0; i < 1000; i++)
		journal(LOG_WARNING, "the disk is full");
	ck_assert_int_eq(lines(), 1);
	journal_counts(counts);
	ck_assert_uint_eq(counts[LOG_WARNING], 1000);
}
END_TEST

/* Another connection is news, but not another kind of error. */
START_TEST(warning__numbers_make_other_lines_but_no_other_error)
{
	json_t *list;

	for (unsigned int i = 0; i < 10; i++)
		journal(LOG_WARNING, "conn 0x%08x: peer 10.0.0.%u stalled for %u ms",
			0xab000000 + i, i, 3000 + i);
	journal_error(-5, "p1: no such thing");
	ck_assert_int_eq(lines(), 11);
	list = journal_errors();
	ck_assert_uint_eq(json_array_size(list), 2);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 0), "count")), 10);
	ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "text")),
			 "conn 0xab000009: peer 10.0.0.9 stalled for 3009 ms");
	ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "level")),
			 "error");
	json_decref(list);
}
END_TEST

START_TEST(notice__is_always_written)
{
	for (int i = 0; i < 5; i++)
		journal(LOG_NOTICE, "p1: up");
	journal(LOG_DEBUG, "nobody sees this");
	ck_assert_int_eq(lines(), 5);
}
END_TEST

START_TEST(errors__are_bounded)
{
	char text[8192];
	json_t *list;

	/* Words, not numbers, so that each is a kind of its own; and one longer than any line. */
	for (int i = 0; i < 1000; i++) {
		char word[4] = { (char)('h' + i % 10), (char)('h' + i / 10 % 10),
				 (char)('h' + i / 100), 0 };

		journal(LOG_WARNING, "trouble with %s", word);
	}
	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	journal(LOG_ERR, "%s", text);
	list = journal_errors();
	ck_assert_uint_eq(json_array_size(list), 64);
	json_decref(list);
}
END_TEST

static Suite *journal_suite(void)
{
	Suite *s = suite_create("journal");
	TCase *tc = tcase_create("journal");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, warning__same_text_is_written_once);
	tcase_add_test(tc, warning__numbers_make_other_lines_but_no_other_error);
	tcase_add_test(tc, notice__is_always_written);
	tcase_add_test(tc, errors__are_bounded);
	suite_add_tcase(s, tc);
	return s;
}

UNIT_MAIN(journal_suite)
