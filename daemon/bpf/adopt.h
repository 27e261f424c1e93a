/* SPDX-License-Identifier: BSD-2-Clause */
/* adopt.h: what XDP program does an interface have, and can we work with it? */
#ifndef BPF_ADOPT_H
#define BPF_ADOPT_H

#include <stdbool.h>
#include <stdint.h>
#include "daemon/port/log.h"
#include "tables.h"

struct adopt_found {
	uint32_t prog_id; /* 0: no program; of ours behind a dispatcher, if it is there */
	uint32_t link_id; /* 0: attached by netlink (`ip link`) */
	bool generic;
	bool ours;     /* named mroce_xdp */
	bool shared;   /* libxdp's dispatcher is attached, with ours behind it or without */
	char name[16]; /* empty: may not be looked at (needs CAP_SYS_ADMIN) */
};

/* 0 or -errno. */
int adopt_find(uint32_t ifindex, struct adopt_found *out);
/*
 * Takes the maps of a program that `ip link` attached: *t mapped, *xsks the fd of its XSKMAP.
 * 0 or -errno, explained.
 */
int adopt_maps(const struct adopt_found *found, const char *interface, struct tables *t, int *xsks,
	       log_fn log);
/* Any map of that program by its name: a descriptor, -ENOENT, or -errno. */
int adopt_map(uint32_t prog_id, const char *wanted);

/*
 * Calls each() with the descriptor, which stays ours, and the name of that program, then of all its maps, until
 * it returns an error. 0 or -errno.
 */
int adopt_each(uint32_t prog_id, int (*each)(void *ctx, int fd, const char *name), void *ctx);

#endif
