// SPDX-License-Identifier: BSD-2-Clause
/* table.c: aligned columns. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "table.h"

void table_start(struct table *t, const char *const *heads)
{
	memset(t, 0, sizeof(*t));
	t->heads = heads;
	while (heads[t->columns])
		t->columns++;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list args;
	char *text;

	if (t->count == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		char **cells = realloc(t->cells, room * sizeof(*cells));

		if (!cells)
			abort();
		t->cells = cells;
		t->room = room;
	}
	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		abort();
	va_end(args);
	t->cells[t->count++] = text;
}

static bool to_the_right(const struct table *t, size_t column)
{
	return t->heads[column][0] == '>';
}

static const char *head(const struct table *t, size_t column)
{
	return t->heads[column] + to_the_right(t, column);
}

static int width(const struct table *t, size_t column)
{
	size_t widest = strlen(head(t, column));

	for (size_t i = column; i < t->count; i += t->columns)
		if (strlen(t->cells[i]) > widest)
			widest = strlen(t->cells[i]);
	return (int)widest;
}

static void print_cell(const struct table *t, size_t column, int wide, const char *text, FILE *out)
{
	bool last = column + 1 == t->columns;

	if (to_the_right(t, column))
		fprintf(out, "%*s", wide, text);
	else
		fprintf(out, "%-*s", last ? 0 : wide, text);
	fputs(last ? "\n" : "  ", out);
}

void table_end(struct table *t, FILE *out)
{
	int widths[TABLE_COLUMNS_MAX];

	for (size_t c = 0; c < t->columns; c++)
		widths[c] = width(t, c);
	for (size_t c = 0; t->count && c < t->columns; c++)
		print_cell(t, c, widths[c], head(t, c), out);
	for (size_t i = 0; i < t->count; i++)
		print_cell(t, i % t->columns, widths[i % t->columns], t->cells[i], out);
	for (size_t i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
	t->count = t->room = 0;
}
