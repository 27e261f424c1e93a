/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabricctl: errors, and numbers as people write them. Functions return 0 or -EINVAL.
 */
#ifndef MROCE_TESTS_FABRIC_CTL_PARSE_H
#define MROCE_TESTS_FABRIC_CTL_PARSE_H

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("fabric: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return -EINVAL;
}

static int parse_number(const char *opt, const char *text, double min, double max, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (*end == '%')
		end++;
	if (end == text || *end || !(v >= min && v <= max))
		return fail("--%s %s: want a number from %g to %g", opt, text, min, max);
	*out = v;
	return 0;
}

static int parse_u32(const char *opt, const char *text, __u32 min, __u32 max, __u32 *out)
{
	double v;

	if (parse_number(opt, text, min, max, &v))
		return -EINVAL;
	if (v != floor(v))
		return fail("--%s %s: want a whole number", opt, text);
	*out = v;
	return 0;
}

static __u32 probability(double percent)
{
	return percent >= 100 ? FAB_ALWAYS : (__u32)(percent / 100 * 4294967296.0);
}

static double percent_of(__u32 p)
{
	return p == FAB_ALWAYS ? 100 : round(p / 4294967296.0 * 1e8) / 1e6;
}

static int parse_percent(const char *opt, const char *text, __u32 *out)
{
	double v;

	if (parse_number(opt, text, 0, 100, &v))
		return -EINVAL;
	*out = probability(v);
	return 0;
}

/* As tc writes them: 1gbit, 100mbit, 500kbit; "none" is 0. */
static int parse_rate(const char *text, __u64 *out)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = { { "gbit", 1e9 }, { "mbit", 1e6 }, { "kbit", 1e3 }, { "bit", 1 } };
	char *end;
	double v = strtod(text, &end);

	if (!strcmp(text, "none")) {
		*out = 0;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (end == text || strcmp(end, units[i].unit))
			continue;
		v *= units[i].factor;
		if (v < 1e5 || v > 1e11)
			break;
		*out = v;
		return 0;
	}
	return fail(
		"--rate %s: want something like 1gbit, 200mbit or 500kbit (100kbit to 100gbit), "
		"or none",
		text);
}

static int parse_delay(const char *text, double *us)
{
	char *end;
	double v = strtod(text, &end);

	if (!strcmp(text, "none") || (end != text && !strcmp(end, "us"))) {
		*us = v;
	} else if (end != text && !strcmp(end, "ms")) {
		*us = v * 1000;
	} else {
		return fail("--delay %s: want something like 500us or 2ms, or none", text);
	}
	return *us >= 0 && *us <= 1e6 ? 0 : fail("--delay %s: want at most 1000ms", text);
}

static int parse_size(const char *opt, const char *text, __u64 *out)
{
	char *end;
	double v = strtod(text, &end);

	if (*end == 'k' || *end == 'K')
		v *= 1024, end++;
	else if (*end == 'm' || *end == 'M')
		v *= 1024 * 1024, end++;
	if (end == text || *end || v < 0 || v > 1e9)
		return fail("--%s %s: want bytes, like 65536, 300k or 1m", opt, text);
	*out = v;
	return 0;
}

#endif
