// SPDX-License-Identifier: BSD-2-Clause
/* samples.c: measured values. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"

int samples_add(struct samples *s, double value)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 1024;
		double *values = realloc(s->values, room * sizeof(*values));

		if (!values)
			return -ENOMEM;
		s->values = values;
		s->room = room;
	}
	s->values[s->count++] = value;
	return 0;
}

void samples_free(struct samples *s)
{
	free(s->values);
	memset(s, 0, sizeof(*s));
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_percentile(const double *sorted, size_t count, double percent)
{
	/* The small term keeps 99.9 % of 1000 from being rank 1000 by rounding. */
	size_t rank = (size_t)ceil(percent / 100 * count - 1e-9);

	return sorted[rank ? rank - 1 : 0];
}

void samples_summarise(struct samples *s, struct samples_summary *out)
{
	double sum = 0;
	double squares = 0;

	memset(out, 0, sizeof(*out));
	if (!s->count)
		return;
	qsort(s->values, s->count, sizeof(*s->values), by_size);
	for (size_t i = 0; i < s->count; i++)
		sum += s->values[i];
	out->count = s->count;
	out->avg = sum / s->count;
	for (size_t i = 0; i < s->count; i++)
		squares += (s->values[i] - out->avg) * (s->values[i] - out->avg);
	out->stdev = sqrt(squares / s->count);
	out->min = s->values[0];
	out->max = s->values[s->count - 1];
	out->typical = samples_percentile(s->values, s->count, 50);
	out->p99 = samples_percentile(s->values, s->count, 99);
	out->p999 = samples_percentile(s->values, s->count, 99.9);
}
