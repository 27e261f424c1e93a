/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h: aligned columns: cells are added row by row, widths follow from them. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 20

struct table {
	const char *const *heads; /* NULL-terminated; a head starting with '>' aligns right */
	size_t columns;
	char **cells;
	size_t count, room;
};

void table_start(struct table *t, const char *const *heads);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints and frees; nothing at all if there are no rows. */
void table_end(struct table *t, FILE *out);

#endif
