/* SPDX-License-Identifier: BSD-2-Clause */
/* units.h: numbers with units, in from the command line and out to people. */
#ifndef CLI_UNITS_H
#define CLI_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Decimal or 0x. 0, -EINVAL, -ERANGE; *out untouched on failure, here and below. */
int parse_number(const char *text, uint64_t *out);
/* "4096", "64K", "1M", "2GiB": powers of 1024. */
int parse_size(const char *text, uint64_t *out);
/* "2", "0.5", "10ms", "50us", "3s", "2m" */
int parse_seconds(const char *text, double *out);

#define UNIT_TEXT 32
/* Each writes at most UNIT_TEXT bytes into buf and returns it. */
char *format_bytes(char *buf, uint64_t bytes);	      /* "1.50 GiB" */
char *format_rate(char *buf, double bits_per_second); /* "9.41 Gbit/s" */
char *format_clock(char *buf, double seconds);	      /* "0:07", "1:02:03" */
char *format_span(char *buf, double seconds);	      /* "35 us", "1.2 ms", "3.0 s", "2 h 5 min" */
char *format_count(char *buf, uint64_t count);	      /* "1,234,567" */

#endif
