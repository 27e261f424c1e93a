/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "daemon/journal.h"

#define LINE_MAX_BYTES 1024

static int max_level = LOG_INFO;
static bool under_systemd;
static uint64_t counts[LOG_DEBUG + 1];

void journal_init(bool verbose)
{
	max_level = verbose ? LOG_DEBUG : LOG_INFO;
	under_systemd = getenv("JOURNAL_STREAM") != NULL;
}

static void line(int level, const char *fmt, va_list args)
{
	char text[LINE_MAX_BYTES];

	counts[level & LOG_PRIMASK]++;
	if (level > max_level)
		return;
	vsnprintf(text, sizeof(text), fmt, args);
	/* In one call, so that lines of several daemons on one terminal stay whole. */
	if (under_systemd)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "mroced: %s%s\n",
			level <= LOG_ERR       ? "error: "
			: level == LOG_WARNING ? "warning: "
					       : "",
			text);
}

void journal_counts(uint64_t out[LOG_DEBUG + 1])
{
	memcpy(out, counts, sizeof(counts));
}

void journal(int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(level, fmt, args);
	va_end(args);
}

int journal_error(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line(LOG_ERR, fmt, args);
	va_end(args);
	return err;
}
