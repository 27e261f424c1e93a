/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd.h: what every subcommand shares: the table of commands, the global options, how to say that
 * something failed, and when to stop.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define EXIT_USAGE 2

/* Services that `mroce` itself listens on unless told otherwise. */
#define SERVICE_FILES 7001
#define SERVICE_PERF 7002

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc,
		   char **argv); /* argv[0] is the command's name; returns the exit status */
};

struct cli_globals {
	const char *socket; /* NULL: the library's default */
	bool json;
};

extern struct cli_globals cli;
extern const struct command cli_commands[]; /* ends with a NULL name */

/* Writes "mroce: ..." to standard error and returns EXIT_FAILURE. */
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, for something that does not end the command. */
void warn_user(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Set by SIGINT and SIGTERM once signals_catch() was called. A second signal kills. */
extern volatile sig_atomic_t cli_stop;
void signals_catch(void);

uint64_t clock_ns(void);
double clock_seconds(void);

int cmd_show(int argc, char **argv);
int cmd_monitor(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_send(int argc, char **argv);
int cmd_recv(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_ping(int argc, char **argv);
int cmd_collective(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_detach(int argc, char **argv);

#endif
