// SPDX-License-Identifier: BSD-2-Clause
/* units.c: numbers with units. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "units.h"

/* Like strtoull(), but takes neither signs nor leading blanks. */
static int leading_number(const char *text, uint64_t *out, const char **end)
{
	unsigned long long value;
	char *stop;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &stop, strncasecmp(text, "0x", 2) ? 10 : 16);
	if (errno)
		return -ERANGE;
	*out = value;
	*end = stop;
	return 0;
}

int parse_number(const char *text, uint64_t *out)
{
	const char *end;
	uint64_t value;
	int err;

	err = leading_number(text, &value, &end);
	if (err)
		return err;
	if (*end)
		return -EINVAL;
	*out = value;
	return 0;
}

static int size_shift(const char *suffix)
{
	static const char letters[] = "KMGT";
	const char *at;

	if (!*suffix || !strcasecmp(suffix, "B"))
		return 0;
	at = strchr(letters, toupper((unsigned char)*suffix));
	if (!at)
		return -1;
	suffix++;
	if (*suffix && strcasecmp(suffix, "B") && strcasecmp(suffix, "iB"))
		return -1;
	return 10 * (int)(at - letters + 1);
}

int parse_size(const char *text, uint64_t *out)
{
	const char *end;
	uint64_t value;
	int shift;
	int err;

	err = leading_number(text, &value, &end);
	if (err)
		return err;
	shift = size_shift(end);
	if (shift < 0)
		return -EINVAL;
	if (value > UINT64_MAX >> shift)
		return -ERANGE;
	*out = value << shift;
	return 0;
}

int parse_seconds(const char *text, double *out)
{
	static const struct {
		const char *suffix;
		double factor;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "us", 1e-6 }, { "m", 60 } };
	double value;
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return -EINVAL;
	if (!strncasecmp(text, "0x", 2))
		return -EINVAL;
	value = strtod(text, &end);
	if (end == text || !isfinite(value))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix))
			continue;
		*out = value * units[i].factor;
		return 0;
	}
	return -EINVAL;
}

char *format_bytes(char *buf, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = bytes / 1024.0;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(buf, UNIT_TEXT, "%u B", (unsigned int)bytes);
		return buf;
	}
	while (value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	snprintf(buf, UNIT_TEXT, value < 100 ? "%.2f %s" : "%.0f %s", value, units[i]);
	return buf;
}

char *format_rate(char *buf, double bits)
{
	static const char *const units[] = { "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s" };
	size_t i = 0;

	while (bits >= 1000 && i + 1 < sizeof(units) / sizeof(units[0])) {
		bits /= 1000;
		i++;
	}
	snprintf(buf, UNIT_TEXT, bits < 100 && i ? "%.2f %s" : "%.0f %s", bits, units[i]);
	return buf;
}

char *format_clock(char *buf, double seconds)
{
	unsigned long s;

	if (!(seconds >= 0 && seconds < 360000)) {
		snprintf(buf, UNIT_TEXT, "-:--");
		return buf;
	}
	s = (unsigned long)(seconds + 0.5);
	if (s < 3600)
		snprintf(buf, UNIT_TEXT, "%lu:%02lu", s / 60, s % 60);
	else
		snprintf(buf, UNIT_TEXT, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	return buf;
}

char *format_span(char *buf, double seconds)
{
	unsigned long minutes = seconds < 1e12 ? (unsigned long)(seconds / 60) : 0;

	if (seconds < 1e-3)
		snprintf(buf, UNIT_TEXT, "%.0f us", seconds * 1e6);
	else if (seconds < 1)
		snprintf(buf, UNIT_TEXT, "%.1f ms", seconds * 1e3);
	else if (seconds < 120)
		snprintf(buf, UNIT_TEXT, "%.1f s", seconds);
	else if (minutes < 60 * 48)
		snprintf(buf, UNIT_TEXT, "%lu h %lu min", minutes / 60, minutes % 60);
	else
		snprintf(buf, UNIT_TEXT, "%lu days", minutes / 60 / 24);
	return buf;
}

char *format_count(char *buf, uint64_t count)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	char *to = buf;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return buf;
}
