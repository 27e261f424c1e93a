/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.h: a subcommand's options as a table, from which both the parser and the usage text are
 * made, so that they cannot disagree. Every table gets --socket, -h and -V for nothing.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum opt_kind {
	OPT_FLAG,    /* bool */
	OPT_NUMBER,  /* uint64_t between min and max */
	OPT_SIZE,    /* uint64_t between min and max; K, M, G, T are powers of 1024 */
	OPT_SECONDS, /* double, min .. max seconds; suffixes us, ms, s, m */
	OPT_STRING,  /* const char * */
};

struct opt {
	char letter;	  /* 0: none */
	const char *name; /* long form; NULL ends the table */
	const char *arg;  /* what stands for the argument in the usage; NULL for a flag */
	const char *help;
	enum opt_kind kind;
	void *value; /* set when the option is given, left alone otherwise */
	uint64_t min, max;
};

struct opt_table {
	const char *command; /* as typed, "mroce perf" */
	const char *args;    /* operands, one form a line; each is printed after the command */
	const char *about;   /* one or more sentences */
	const struct opt *opts;
	bool json; /* takes -j */
};

enum opt_result {
	OPT_GO,	  /* *operands is the index of the first operand in argv */
	OPT_DONE, /* -h or -V was answered: exit 0 */
	OPT_BAD,  /* explained on standard error: exit 2 */
};

/* Operands and options may be mixed; argv is reordered so that operands come last. */
enum opt_result opt_parse(const struct opt_table *table, int argc, char **argv, int *operands);
/* Stops at the first operand: for what stands before the subcommand. */
enum opt_result opt_parse_leading(const struct opt_table *table, int argc, char **argv,
				  int *operands);
void opt_usage(const struct opt_table *table, FILE *out);
/* Says what is wrong with the operands and where to read more; returns EXIT_USAGE. */
int opt_misuse(const struct opt_table *table, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
