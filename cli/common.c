// SPDX-License-Identifier: BSD-2-Clause
/* common.c: messages, signals and the clock, for every subcommand. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include "cmd.h"

struct cli_globals cli;
volatile sig_atomic_t cli_stop;

static void say(const char *fmt, va_list args)
{
	/* A progress bar may stand on the line. */
	fflush(stdout);
	fputs("mroce: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

int fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	return EXIT_FAILURE;
}

void warn_user(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
}

static void on_signal(int number)
{
	cli_stop = number;
}

void signals_catch(void)
{
	/* Without SA_RESTART, so that a sleeping call returns at once. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double clock_seconds(void)
{
	return clock_ns() / 1e9;
}
