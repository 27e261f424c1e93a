/* SPDX-License-Identifier: BSD-2-Clause */
/* figure.h: arithmetic that scen_cc.c and figures.c share. */
#ifndef TESTS_SIM_FIGURE_H
#define TESTS_SIM_FIGURE_H

#include <stdlib.h>
#include "sim.h"

/* Per data packet: our headers, UDP, IPv4, Ethernet and its gap. */
#define FIGURE_HEADERS (36 + 44 + 66)

/* How long all planes together need for so many bytes of messages. */
static inline double wire_ns(const struct sim_config *c, uint64_t bytes)
{
	double chunk = (double)((c->mtu - 28 - 80) & ~7u);

	return (double)bytes * (chunk + FIGURE_HEADERS) / chunk * 8e3 / c->rate_mbps / c->planes;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* (sum x)^2 / (n sum x^2): 1 if all have the same. */
static inline double jain(const double *x, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += x[i];
		squares += x[i] * x[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

/* Packets that the switch had no room for on their way to a host. */
static inline uint64_t overflows(const struct sim *s, uint32_t host)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->hosts[host]->nports; i++)
		sum += s->hosts[host]->ports[i].down.overflowed;
	return sum;
}

/* As long as it is after the first burst: the switch's queue is full, and the hosts take their time. */
static inline uint64_t two_round_trips(const struct sim *s)
{
	uint64_t queue = s->cfg.queue_bytes * 8000 / s->cfg.rate_mbps;

	return 2 * (2 * s->cfg.delay_ns + s->cfg.wake_ns + s->cfg.jitter_ns + queue);
}

#endif
