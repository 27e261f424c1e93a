// SPDX-License-Identifier: BSD-2-Clause
/* Numbers with units, percentiles, progress lines, tables and option tables of `mroce`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/cmd.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/samples.h"
#include "cli/table.h"
#include "cli/units.h"
#include "unit.h"

static uint64_t size_of(const char *text)
{
	uint64_t value = 12345;

	ck_assert_int_eq(parse_size(text, &value), 0);
	return value;
}

static double seconds_of(const char *text)
{
	double value = -1;

	ck_assert_int_eq(parse_seconds(text, &value), 0);
	return value;
}

START_TEST(parse_size__units)
{
	ck_assert_uint_eq(size_of("0"), 0);
	ck_assert_uint_eq(size_of("4096"), 4096);
	ck_assert_uint_eq(size_of("64K"), 65536);
	ck_assert_uint_eq(size_of("64k"), 65536);
	ck_assert_uint_eq(size_of("64KiB"), 65536);
	ck_assert_uint_eq(size_of("64KB"), 65536);
	ck_assert_uint_eq(size_of("7B"), 7);
	ck_assert_uint_eq(size_of("1M"), 1u << 20);
	ck_assert_uint_eq(size_of("1G"), 1u << 30);
	ck_assert_uint_eq(size_of("2T"), 2ull << 40);
	ck_assert_uint_eq(size_of("0x10"), 16);
}
END_TEST

START_TEST(parse_size__refuses)
{
	static const char *const bad[] = { "",	  "K",	  "-1",	 "+1",	  " 1", "1X",
					   "1KX", "1.5K", "1 K", "1KiBx", "0x", "ten" };
	uint64_t value = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(parse_size(bad[i], &value) == -EINVAL, "'%s'", bad[i]);
	ck_assert_int_eq(parse_size("18446744073709551616", &value), -ERANGE);
	ck_assert_int_eq(parse_size("18014398509481984K", &value), -ERANGE);
	ck_assert_uint_eq(value, 77);
	ck_assert_uint_eq(size_of("16777215T"), 16777215ull << 40);
}
END_TEST

START_TEST(parse_number__takes_no_unit)
{
	uint64_t value = 77;

	ck_assert_int_eq(parse_number("12", &value), 0);
	ck_assert_uint_eq(value, 12);
	ck_assert_int_eq(parse_number("12K", &value), -EINVAL);
	ck_assert_int_eq(parse_number("-3", &value), -EINVAL);
	ck_assert_uint_eq(value, 12);
}
END_TEST

START_TEST(parse_seconds__units)
{
	double value = 77;

	ck_assert_double_eq_tol(seconds_of("2"), 2, 1e-9);
	ck_assert_double_eq_tol(seconds_of("0.5"), 0.5, 1e-9);
	ck_assert_double_eq_tol(seconds_of(".5s"), 0.5, 1e-9);
	ck_assert_double_eq_tol(seconds_of("10ms"), 0.01, 1e-9);
	ck_assert_double_eq_tol(seconds_of("50us"), 50e-6, 1e-12);
	ck_assert_double_eq_tol(seconds_of("2m"), 120, 1e-9);
	ck_assert_int_eq(parse_seconds("inf", &value), -EINVAL);
	ck_assert_int_eq(parse_seconds("1e999", &value), -EINVAL);
	ck_assert_int_eq(parse_seconds("-1", &value), -EINVAL);
	ck_assert_int_eq(parse_seconds("0x10", &value), -EINVAL);
	ck_assert_int_eq(parse_seconds("1h", &value), -EINVAL);
	ck_assert_int_eq(parse_seconds(".", &value), -EINVAL);
	ck_assert_double_eq(value, 77);
}
END_TEST

START_TEST(format__units)
{
	char buf[UNIT_TEXT];

	ck_assert_str_eq(format_bytes(buf, 0), "0 B");
	ck_assert_str_eq(format_bytes(buf, 1023), "1023 B");
	ck_assert_str_eq(format_bytes(buf, 1536), "1.50 KiB");
	ck_assert_str_eq(format_bytes(buf, 512ull << 20), "512 MiB");
	ck_assert_str_eq(format_bytes(buf, UINT64_MAX), "16.00 EiB");
	ck_assert_str_eq(format_rate(buf, 0), "0 bit/s");
	ck_assert_str_eq(format_rate(buf, 9.41e9), "9.41 Gbit/s");
	ck_assert_str_eq(format_rate(buf, 250e6), "250 Mbit/s");
	ck_assert_str_eq(format_clock(buf, 7), "0:07");
	ck_assert_str_eq(format_clock(buf, 3723), "1:02:03");
	ck_assert_str_eq(format_clock(buf, -1), "-:--");
	ck_assert_str_eq(format_clock(buf, 1e18), "-:--");
	ck_assert_str_eq(format_span(buf, 35e-6), "35 us");
	ck_assert_str_eq(format_span(buf, 7500), "2 h 5 min");
	ck_assert_str_eq(format_count(buf, 0), "0");
	ck_assert_str_eq(format_count(buf, 999), "999");
	ck_assert_str_eq(format_count(buf, 1234567), "1,234,567");
	ck_assert_str_eq(format_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
}
END_TEST

START_TEST(samples__percentiles)
{
	struct samples s = { 0 };
	struct samples_summary sum;

	/* 1000 .. 1: unsorted on purpose */
	for (int i = 1000; i >= 1; i--)
		ck_assert_int_eq(samples_add(&s, i), 0);
	samples_summarise(&s, &sum);
	ck_assert_uint_eq(sum.count, 1000);
	ck_assert_double_eq(sum.min, 1);
	ck_assert_double_eq(sum.max, 1000);
	ck_assert_double_eq(sum.typical, 500);
	ck_assert_double_eq(sum.p99, 990);
	ck_assert_double_eq(sum.p999, 999);
	ck_assert_double_eq_tol(sum.avg, 500.5, 1e-9);
	ck_assert_double_eq_tol(sum.stdev, 288.675, 1e-3);
	samples_free(&s);
}
END_TEST

START_TEST(samples__one_and_none)
{
	struct samples s = { 0 };
	struct samples_summary sum;

	samples_summarise(&s, &sum);
	ck_assert_uint_eq(sum.count, 0);
	ck_assert_double_eq(sum.p999, 0);
	samples_add(&s, 42);
	samples_summarise(&s, &sum);
	ck_assert_double_eq(sum.min, 42);
	ck_assert_double_eq(sum.typical, 42);
	ck_assert_double_eq(sum.p999, 42);
	ck_assert_double_eq(sum.stdev, 0);
	samples_free(&s);
}
END_TEST

START_TEST(progress__line_fits_and_tells)
{
	char line[256];

	progress_line(line, sizeof(line), 1ull << 29, 1ull << 30, 1e9, 100);
	ck_assert_uint_lt(strlen(line), 100);
	ck_assert_ptr_nonnull(strstr(line, " 50 %"));
	ck_assert_ptr_nonnull(strstr(line, "512 MiB of 1.00 GiB"));
	ck_assert_ptr_nonnull(strstr(line, "1.00 Gbit/s"));
	ck_assert_ptr_nonnull(strstr(line, "ETA 0:04"));
	ck_assert_ptr_nonnull(strstr(line, "=>"));
	ck_assert_int_eq(line[0], '[');
}
END_TEST

START_TEST(progress__narrow_unknown_and_more_than_expected)
{
	char line[256];

	progress_line(line, sizeof(line), 10, 100, 0, 0);
	ck_assert_int_ne(line[0], '[');
	ck_assert_ptr_nonnull(strstr(line, "ETA -:--"));
	progress_line(line, sizeof(line), 200, 100, 1e6, 0);
	ck_assert_ptr_nonnull(strstr(line, "100 %"));
	progress_line(line, sizeof(line), 0, 0, 0, 200);
	ck_assert_ptr_nonnull(strstr(line, "100 %"));
	for (int width = 0; width < 300; width++)
		progress_line(line, sizeof(line), 50, 100, 1e6, width);
}
END_TEST

START_TEST(table__columns_line_up)
{
	static const char *const heads[] = { "NAME", ">N", "TEXT", NULL };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct table t;

	table_start(&t, heads);
	table_end(&t, out);
	fflush(out);
	ck_assert_uint_eq(len, 0);
	table_start(&t, heads);
	table_cell(&t, "a");
	table_cell(&t, "%d", 12345);
	table_cell(&t, "x");
	table_cell(&t, "longer");
	table_cell(&t, "%d", 7);
	table_cell(&t, "y");
	table_end(&t, out);
	fclose(out);
	ck_assert_str_eq(text, "NAME        N  TEXT\n"
			       "a       12345  x\n"
			       "longer      7  y\n");
	free(text);
}
END_TEST

/* ---- option tables ---- */

static bool flag;
static uint64_t number, size;
static double seconds;
static const char *word;

static const struct opt opts[] = {
	{ 'f', "flag", NULL, "a flag", OPT_FLAG, &flag, 0, 0 },
	{ 'n', "number", "N", "a number", OPT_NUMBER, &number, 1, 10 },
	{ 0, "size", "SIZE", "a size", OPT_SIZE, &size, 0, 1 << 20 },
	{ 't', "time", "SECONDS", "a time", OPT_SECONDS, &seconds, 1, 60 },
	{ 'w', "word", "WORD", "a word", OPT_STRING, &word, 0, 0 },
	{ 0 },
};

static const struct opt_table options = { "mroce test", "[OPTIONS] X\n-f", "Tests.", opts, true };

#define PARSE(...)                                                                           \
	({                                                                                   \
		char *argv_[] = { "test", __VA_ARGS__, NULL };                               \
		opt_parse(&options, sizeof(argv_) / sizeof(argv_[0]) - 1, argv_, &operands); \
	})

START_TEST(options__all_kinds)
{
	int operands = -1;

	ck_assert_int_eq(PARSE("x", "-f", "-n", "3", "--size=64K", "-t10", "--word", "hi", "-j", "y"),
			 OPT_GO);
	ck_assert(flag);
	ck_assert_uint_eq(number, 3);
	ck_assert_uint_eq(size, 65536);
	ck_assert_double_eq(seconds, 10);
	ck_assert_str_eq(word, "hi");
	ck_assert(cli.json);
	/* Operands come last, wherever they stood. */
	ck_assert_int_eq(operands, 9);
}
END_TEST

START_TEST(options__refusals_leave_values_alone)
{
	int operands = -1;

	number = 5;
	ck_assert_int_eq(PARSE("-n", "0"), OPT_BAD);
	ck_assert_int_eq(PARSE("-n", "11"), OPT_BAD);
	ck_assert_int_eq(PARSE("-n", "x"), OPT_BAD);
	ck_assert_int_eq(PARSE("-n"), OPT_BAD);
	ck_assert_int_eq(PARSE("--size", "2M"), OPT_BAD);
	ck_assert_int_eq(PARSE("-t", "0.5"), OPT_BAD);
	ck_assert_int_eq(PARSE("-z"), OPT_BAD);
	ck_assert_int_eq(PARSE("--nothing"), OPT_BAD);
	ck_assert_int_eq(PARSE("--flag=yes"), OPT_BAD);
	ck_assert_uint_eq(number, 5);
	ck_assert_int_eq(operands, -1);
	/* And the next parse is not confused by those before. */
	ck_assert_int_eq(PARSE("-n", "7", "a"), OPT_GO);
	ck_assert_uint_eq(number, 7);
}
END_TEST

START_TEST(options__leading_stops_at_the_command)
{
	char *argv[] = { "mroce", "--socket", "/x", "show", "-f", NULL };
	int operands = -1;

	ck_assert_int_eq(opt_parse_leading(&options, 5, argv, &operands), OPT_GO);
	ck_assert_int_eq(operands, 3);
	ck_assert_str_eq(cli.socket, "/x");
	ck_assert(!flag);
}
END_TEST

START_TEST(options__usage_names_every_option)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	opt_usage(&options, out);
	fclose(out);
	ck_assert_ptr_nonnull(
		strstr(text, "Usage: mroce test [OPTIONS] X\n       mroce test -f\n"));
	for (const struct opt *o = opts; o->name; o++) {
		ck_assert_msg(strstr(text, o->name) != NULL, "%s", o->name);
		ck_assert_msg(strstr(text, o->help) != NULL, "%s", o->help);
	}
	ck_assert_ptr_nonnull(strstr(text, "-j, --json"));
	ck_assert_ptr_nonnull(strstr(text, "--socket PATH"));
	free(text);
}
END_TEST

static Suite *cli_units_suite(void)
{
	Suite *suite = suite_create("cli_units");
	TCase *units = tcase_create("units");
	TCase *option = tcase_create("options");

	tcase_add_test(units, parse_size__units);
	tcase_add_test(units, parse_size__refuses);
	tcase_add_test(units, parse_number__takes_no_unit);
	tcase_add_test(units, parse_seconds__units);
	tcase_add_test(units, format__units);
	tcase_add_test(units, samples__percentiles);
	tcase_add_test(units, samples__one_and_none);
	tcase_add_test(units, progress__line_fits_and_tells);
	tcase_add_test(units, progress__narrow_unknown_and_more_than_expected);
	tcase_add_test(units, table__columns_line_up);
	suite_add_tcase(suite, units);
	tcase_add_test(option, options__all_kinds);
	tcase_add_test(option, options__refusals_leave_values_alone);
	tcase_add_test(option, options__leading_stops_at_the_command);
	tcase_add_test(option, options__usage_names_every_option);
	suite_add_tcase(suite, option);
	return suite;
}

UNIT_MAIN(cli_units_suite)
