/* SPDX-License-Identifier: BSD-2-Clause */
/* samples.h: measured values and what perftest says of them. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <stddef.h>

struct samples {
	double *values;
	size_t count, room;
};

struct samples_summary {
	size_t count;
	double min, max, typical /* median */, avg, stdev, p99, p999;
};

/* 0 or -ENOMEM */
int samples_add(struct samples *s, double value);
void samples_free(struct samples *s);
/* Sorts. All zero if there are none. */
void samples_summarise(struct samples *s, struct samples_summary *out);
/* Nearest rank; percent 0 < p <= 100; values sorted, count > 0. */
double samples_percentile(const double *sorted, size_t count, double percent);

#endif
