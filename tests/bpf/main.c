// SPDX-License-Identifier: BSD-2-Clause
/* bpf_tests: all groups, as TAP. `bpf_tests --speed` prints ns per packet instead. */
#include "bpf_test.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int count, failed;

bool tap(bool good, const char *format, ...)
{
	va_list args;

	printf("%s %d - ", good ? "ok" : "not ok", ++count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	failed += !good;
	return good;
}

void tap_note(const char *format, ...)
{
	va_list args;

	printf("# ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void tap_skip(const char *name, const char *reason)
{
	printf("ok %d - %s # SKIP %s\n", ++count, name, reason);
}

int main(int argc, char **argv)
{
	static struct bed bed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!tap(bed_up(&bed) == 0,
		 "both objects load, on the same maps, beside an AF_XDP socket")) {
		printf("1..%d\n", count);
		return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "--speed")) {
		report_speed(&bed);
	} else {
		test_layout(&bed);
		test_xdp(&bed);
		test_garbage(&bed);
		test_tc(&bed);
		test_mark(&bed);
		test_trace(&bed);
		test_post(&bed);
		test_live(&bed);
	}
	bed_down(&bed);
	printf("1..%d\n", count);
	return failed != 0;
}
