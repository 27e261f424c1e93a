/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a unit test program starts. A test file ends with
 *
 *	static Suite *path_suite(void) { ... }
 *	UNIT_MAIN(path_suite)
 *
 * Results go to standard output as TAP, which tests/run reads. Every test runs in a child process,
 * so a crash fails that test only; CK_FORK=no keeps it in one process for a debugger,
 * CK_RUN_CASE=name runs one test case.
 */
#ifndef MROCE_TESTS_UNIT_H
#define MROCE_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

/* check gives a test 4 s by default: too little on a busy machine under a sanitizer. */
#define UNIT_TIMEOUT_SECONDS "60"

static inline int unit_run(Suite *(*suite)(void))
{
	SRunner *runner;
	int failed;
	int ran;

	setenv("CK_DEFAULT_TIMEOUT", UNIT_TIMEOUT_SECONDS, 0);
	runner = srunner_create(suite());
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	ran = srunner_ntests_run(runner);
	srunner_free(runner);
	return failed || !ran;
}

#define UNIT_MAIN(suite)                \
	int main(void)                  \
	{                               \
		return unit_run(suite); \
	}

#endif
