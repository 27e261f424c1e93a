/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pin.h: maps and programs of a port, pinned so that `bpftool` finds them by name:
 *
 *	/sys/fs/bpf/mroce/v<MROCE_MAP_SCHEMA>/netns-<inode of the namespace>/<interface>/<map or program>
 *
 * <interface> is the name by which it is configured, so a renamed one keeps its folder; a dot in it, which
 * bpffs refuses, is written as a colon, which no interface has in its name.
 *
 * Pins outlive processes. Whether their daemon lives is told by a lock (flock) on the folder, which goes
 * with the process: what nobody holds is swept by the guardian, by any daemon that starts, and by
 * `mroce detach`. Only files that are called mroce_*, and folders that are empty then, are ever removed.
 *
 * Pins are for those who look: a daemon that cannot have them says so and works without.
 */
#ifndef BPF_PIN_H
#define BPF_PIN_H

#include <bpf/libbpf.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "daemon/port/log.h"
#include "guardian.h"

#define PIN_BPFFS "/sys/fs/bpf"
#define PIN_ROOT PIN_BPFFS "/mroce"
#define PIN_PATH_MAX 160

struct pins {
	bool wanted;
	int fd;			 /* the folder, locked; -1: nothing is pinned */
	char path[PIN_PATH_MAX]; /* of it */
	char why[320];		 /* nothing is pinned */
	log_fn log;
};

/* On PIN_BPFFS. */
bool pin_bpffs_mounted(void);

/* why: nothing is, until it is opened; NULL: nothing shall be. */
void pin_init(struct pins *p, const char *why, log_fn log);
/*
 * Makes the folder of an interface, empty. again: while the daemon works, so wait for others 10 ms at
 * most, not 1 s. If it cannot be had,
 * warns with the remedy, and the calls below do nothing.
 */
void pin_open(struct pins *p, const char *interface, bool again, struct guardian *g);
/* Pins programs and maps of a loaded object, those of a program that others attached. */
void pin_object(struct pins *p, const struct bpf_object *object);
void pin_program(struct pins *p, uint32_t prog_id);
/* Removes the pins and their folder; may be called at any time after pin_init(). */
void pin_close(struct pins *p, const char *why);
/* Sets "pins", the folder, and "pins_reason", why there is none; both are null if none shall be. */
void pin_show(const struct pins *p, json_t *port);

/* Removes the pins that no living daemon holds, in all network namespaces. Returns how many folders. */
int pin_sweep(log_fn log);
/* Those of an interface of this network namespace, whoever holds them. Returns how many folders. */
int pin_remove(const char *interface, log_fn log);
/* Calls tell() with each folder of pins that no living daemon holds. */
void pin_each_stale(void (*tell)(void *ctx, const char *path), void *ctx);

#endif
