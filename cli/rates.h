/* SPDX-License-Identifier: BSD-2-Clause */
/* rates.h: what changed between two descriptions of the daemon, per second. */
#ifndef CLI_RATES_H
#define CLI_RATES_H

#include <jansson.h>

/*
 * before, now: what link_show("all") gave, `seconds` apart. A new object with "interval_s", "daemon", "ports",
 * "connections" (busiest first) and "paths"; what was not there before counts from 0. The caller's.
 */
json_t *rates_between(const json_t *before, const json_t *now, double seconds);

#endif
