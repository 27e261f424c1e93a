/* SPDX-License-Identifier: BSD-2-Clause */
/* tolerance.c: the streams' defaults, the lists of what is missing, deadlines that follow a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "client/client.h"

/* ---- defaults ---- */

const struct mroce_tolerance *client_tolerance(const struct mroce_conn *c, uint32_t stream)
{
	return c->tolerance && stream < CLIENT_STREAMS ? c->tolerance[stream] : NULL;
}

void client_tolerance_free(struct mroce_conn *c)
{
	for (uint32_t i = 0; c->tolerance && i < CLIENT_STREAMS; i++)
		free(c->tolerance[i]);
	free(c->tolerance);
	c->tolerance = NULL;
}

int mroce_stream_tolerance(struct mroce_conn *conn, uint32_t stream,
			   const struct mroce_tolerance *tol)
{
	struct mroce_tolerance *copy = NULL;

	if (stream >= CLIENT_STREAMS)
		return client_fail(conn->m, -EINVAL, "stream %u: streams are 0 to %d", stream,
				   CLIENT_STREAMS - 1);
	if (tol && tol->max_missing > 1000000)
		return client_fail(conn->m, -EINVAL,
				   "max_missing %u: parts per million, at most 1000000",
				   tol->max_missing);
	if (!conn->tolerance)
		conn->tolerance = calloc(CLIENT_STREAMS, sizeof(struct mroce_tolerance *));
	if (tol)
		copy = malloc(sizeof(*copy));
	if (!conn->tolerance || (tol && !copy)) {
		free(copy);
		return client_fail(conn->m, -ENOMEM, "stream %u: no memory for its tolerance",
				   stream);
	}
	if (tol)
		*copy = *tol;
	free(conn->tolerance[stream]);
	conn->tolerance[stream] = copy;
	return 0;
}

/* ---- what is missing ---- */

void client_gaps_forget(struct mroce *m)
{
	m->gaps_first += m->ngaps;
	m->ngaps = 0;
}

void client_gaps_keep(struct mroce *m, const struct mroce_gaps *gaps, struct mroce_completion *out)
{
	out->missing_key = m->gaps_first - 1; /* stale */
	out->missing_ranges = gaps_ranges(gaps, NULL, 0);
	if (m->ngaps == m->gaps_room) {
		uint32_t room = m->gaps_room ? 2 * m->gaps_room : 16;
		struct mroce_gaps *more = realloc(m->gaps, room * sizeof(*more));

		if (!more)
			return;
		m->gaps = more;
		m->gaps_room = room;
	}
	out->missing_key = m->gaps_first + m->ngaps;
	m->gaps[m->ngaps++] = *gaps;
}

int mroce_missing(struct mroce *m, const struct mroce_completion *c, struct mroce_range *out, int n)
{
	if (n < 0)
		return client_fail(m, -EINVAL, "missing: room for %d ranges", n);
	if (!c->missing_ranges)
		return 0;
	if (c->missing_key - m->gaps_first >= m->ngaps)
		return client_fail(m, -ESTALE,
				   "the list of what is missing is gone: ask before the next poll");
	return (int)gaps_ranges(&m->gaps[c->missing_key - m->gaps_first], out, (uint32_t)n);
}

/* ---- deadlines that follow a stream ---- */

#define SAMPLES 64
#define SAMPLES_MIN 8

struct mroce_deadline {
	uint32_t percentile, headroom, min_us, max_us;
	uint32_t noted;
	uint64_t sample[SAMPLES];
};

int mroce_deadline_new(uint32_t percentile, uint32_t headroom, uint32_t min_us, uint32_t max_us,
		       struct mroce_deadline **out)
{
	struct mroce_deadline *d;

	if (!percentile || percentile > 100 || headroom > 1000 || !max_us || min_us > max_us)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->percentile = percentile;
	d->headroom = headroom;
	d->min_us = min_us;
	d->max_us = max_us;
	*out = d;
	return 0;
}

void mroce_deadline_free(struct mroce_deadline **d)
{
	free(*d);
	*d = NULL;
}

void mroce_deadline_note(struct mroce_deadline *d, uint64_t took_us)
{
	d->sample[d->noted++ % SAMPLES] = took_us < UINT32_MAX ? took_us : UINT32_MAX;
	if (d->noted == 2 * SAMPLES) /* never back below SAMPLES */
		d->noted = SAMPLES;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

uint32_t mroce_deadline_us(const struct mroce_deadline *d)
{
	uint32_t n = d->noted < SAMPLES ? d->noted : SAMPLES;
	uint64_t sorted[SAMPLES], us;

	if (n < SAMPLES_MIN)
		return d->max_us;
	memcpy(sorted, d->sample, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_size);
	us = sorted[(n * d->percentile + 99) / 100 - 1];
	us += us * d->headroom / 100;
	us = us < d->min_us ? d->min_us : us;
	return us < d->max_us ? (uint32_t)us : d->max_us;
}
