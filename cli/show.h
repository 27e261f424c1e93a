/* SPDX-License-Identifier: BSD-2-Clause */
/* show.h: the tables of `mroce show`; each takes an array as the daemon gives it. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <jansson.h>

void show_daemon(const json_t *daemon);
void show_ports(const json_t *list);
void show_conns(const json_t *list);
void show_paths(const json_t *list);
void show_streams(const json_t *list);
void show_counters(const json_t *list);
void show_config(const json_t *list);
void show_errors(const json_t *list);

/*
 * Counters of the kernel's programs out of their maps, without the daemon: {interfaces, counters}, a new
 * reference. 0, -ENOENT (no program of ours on any interface), -EPERM and others, explained on standard error.
 */
int show_maps_read(json_t **out);
/* All of the daemon's answer, in short. */
void show_summary(const json_t *root);

#endif
