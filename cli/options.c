// SPDX-License-Identifier: BSD-2-Clause
/* options.c: parses by an option table and prints it. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <string.h>
#include "cmd.h"
#include "options.h"
#include "units.h"

#define OPT_MAX 40
/* getopt's value of entry i: letters are below, so the two cannot be mixed up. */
#define OPT_BASE 1000

static bool want_help;
static bool want_version;

static const struct opt common_opts[] = {
	{ 0, "socket", "PATH", "control socket of mroced", OPT_STRING, &cli.socket, 0, 0 },
	{ 'h', "help", NULL, "print this and exit", OPT_FLAG, &want_help, 0, 0 },
	{ 'V', "version", NULL, "print the version and exit", OPT_FLAG, &want_version, 0, 0 },
};

static const struct opt json_opt = { 'j', "json", NULL, "print JSON", OPT_FLAG, &cli.json, 0, 0 };

/* The table's own options and the common ones in one list. */
static int collect(const struct opt_table *table, const struct opt *list[OPT_MAX])
{
	const struct opt *o;
	int n = 0;

	for (o = table->opts; o && o->name && n < OPT_MAX - 4; o++)
		list[n++] = o;
	if (table->json)
		list[n++] = &json_opt;
	for (size_t i = 0; i < sizeof(common_opts) / sizeof(common_opts[0]); i++)
		list[n++] = &common_opts[i];
	return n;
}

static void print_option(const struct opt *o, FILE *out)
{
	char left[48];
	int len;

	len = o->letter ? snprintf(left, sizeof(left), "  -%c, --%s", o->letter, o->name)
			: snprintf(left, sizeof(left), "      --%s", o->name);
	if (o->arg)
		snprintf(left + len, sizeof(left) - len, " %s", o->arg);
	fprintf(out, "%-27s %s\n", left, o->help);
}

void opt_usage(const struct opt_table *table, FILE *out)
{
	const struct opt *list[OPT_MAX];
	int n = collect(table, list);
	const char *form = table->args;
	const char *head = "Usage:";

	while (form) {
		const char *end = strchrnul(form, '\n');

		fprintf(out, "%s %s %.*s\n", head, table->command, (int)(end - form), form);
		head = "      ";
		form = *end ? end + 1 : NULL;
	}
	fprintf(out, "%s\n\n", table->about);
	for (int i = 0; i < n; i++)
		print_option(list[i], out);
}

int opt_misuse(const struct opt_table *table, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", table->command);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "; see %s --help\n", table->command);
	return EXIT_USAGE;
}

static bool take_number(const struct opt *o, const char *text, uint64_t *value)
{
	int err = o->kind == OPT_SIZE ? parse_size(text, value) : parse_number(text, value);

	return !err && *value >= o->min && *value <= o->max;
}

static int bad_value(const struct opt_table *table, const struct opt *o, const char *text)
{
	const char *unit = o->kind == OPT_SIZE	    ? " bytes, also as 64K, 1M, 1G"
			   : o->kind == OPT_SECONDS ? " seconds, also as 10ms"
						    : "";

	opt_misuse(table, "--%s '%s': give %llu to %llu%s", o->name, text,
		   (unsigned long long)o->min, (unsigned long long)o->max, unit);
	return -EINVAL;
}

static int take(const struct opt_table *table, const struct opt *o, const char *text)
{
	double seconds;
	uint64_t number;

	switch (o->kind) {
	case OPT_FLAG: *(bool *)o->value = true; return 0;
	case OPT_STRING: *(const char **)o->value = text; return 0;
	case OPT_NUMBER:
	case OPT_SIZE:
		if (!take_number(o, text, &number))
			return bad_value(table, o, text);
		*(uint64_t *)o->value = number;
		return 0;
	case OPT_SECONDS:
		if (parse_seconds(text, &seconds) || seconds < o->min || seconds > o->max)
			return bad_value(table, o, text);
		*(double *)o->value = seconds;
		return 0;
	}
	return -EINVAL;
}

static void fill_getopt(const struct opt *const list[], int n, char *letters, struct option *longs)
{
	for (int i = 0; i < n; i++) {
		longs[i] = (struct option){ list[i]->name, list[i]->arg ? 1 : 0, NULL,
					    OPT_BASE + i };
		if (!list[i]->letter)
			continue;
		*letters++ = list[i]->letter;
		if (list[i]->arg)
			*letters++ = ':';
	}
	*letters = '\0';
}

static const struct opt *by_value(const struct opt *const list[], int n, int value)
{
	if (value >= OPT_BASE)
		return list[value - OPT_BASE];
	for (int i = 0; i < n; i++)
		if (list[i]->letter == value)
			return list[i];
	return NULL;
}

static void complain(const struct opt_table *table, int value, char **argv)
{
	const char *what = value == ':' ? "needs an argument" : "is not an option here";

	/* A bad letter is in optopt; a bad long option is the argument just passed. */
	if (optopt && optopt < OPT_BASE)
		opt_misuse(table, "-%c %s", optopt, what);
	else
		opt_misuse(table, "%s %s", argv[optind - 1], what);
}

static enum opt_result parse(const struct opt_table *table, int argc, char **argv, int *operands,
			     const char *mode)
{
	const struct opt *list[OPT_MAX];
	struct option longs[OPT_MAX + 1] = { 0 };
	char letters[2 * OPT_MAX + 4];
	int n = collect(table, list);
	int value;

	want_help = want_version = false;
	strcpy(letters, mode);
	fill_getopt(list, n, letters + strlen(mode), longs);
	optind = 0;
	opterr = 0;
	while ((value = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct opt *o = value == '?' || value == ':' ? NULL : by_value(list, n, value);

		if (!o)
			return complain(table, value, argv), OPT_BAD;
		if (take(table, o, optarg))
			return OPT_BAD;
	}
	if (want_help)
		return opt_usage(table, stdout), OPT_DONE;
	if (want_version)
		return puts("mroce " MROCE_VERSION), OPT_DONE;
	*operands = optind;
	return OPT_GO;
}

enum opt_result opt_parse(const struct opt_table *table, int argc, char **argv, int *operands)
{
	return parse(table, argc, argv, operands, ":");
}

enum opt_result opt_parse_leading(const struct opt_table *table, int argc, char **argv,
				  int *operands)
{
	return parse(table, argc, argv, operands, "+:");
}
