// SPDX-License-Identifier: BSD-2-Clause
/* report.c: lines of `mroce doctor`. */
#include <stdarg.h>
#include <stdio.h>
#include "cmd.h"
#include "report.h"

static const char *word(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_OK: return "OK";
	case VERDICT_WARN: return "WARN";
	case VERDICT_FAIL: return "FAIL";
	}
	return "?";
}

void report_start(struct report *r)
{
	*r = (struct report){ .checks = json_array() };
}

static void print(enum verdict verdict, const char *name, const char *text, const char *mend)
{
	printf("%-4s  %-20s %s\n", word(verdict), name, text);
	if (mend && *mend)
		printf("      %-20s -> %s\n", "", mend);
}

void report_line(struct report *r, enum verdict verdict, const char *name, const char *mend,
		 const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	r->warnings += verdict == VERDICT_WARN;
	r->failures += verdict == VERDICT_FAIL;
	if (!cli.json)
		print(verdict, name, text, mend);
	json_array_append_new(r->checks,
			      json_pack("{s:s, s:s, s:s, s:s}", "status", word(verdict), "name",
					name, "text", text, "mend", mend ? mend : ""));
}

int report_end(struct report *r)
{
	int status = r->failures ? EXIT_FAILURE : EXIT_SUCCESS;

	if (cli.json) {
		json_t *root = json_pack("{s:O, s:i, s:i}", "checks", r->checks, "warnings",
					 (int)r->warnings, "failures", (int)r->failures);

		json_dumpf(root, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(root);
	} else {
		printf("\n%u failure%s, %u warning%s\n", r->failures, r->failures == 1 ? "" : "s",
		       r->warnings, r->warnings == 1 ? "" : "s");
	}
	json_decref(r->checks);
	return status;
}
