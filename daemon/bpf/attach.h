/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attach.h: the XDP program of one interface: loaded and attached by us with a bpf_link that dies with
 * the process; or put beside others' programs behind libxdp's dispatcher; or adopted from `ip link` or
 * `xdp-loader`.
 */
#ifndef BPF_ATTACH_H
#define BPF_ATTACH_H

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>
#include "daemon/port/log.h"
#include "tables.h"

struct attach_params {
	const char *interface;
	uint32_t ifindex;
	const char *object_dir;
	bool allow_generic, adopt, share;
	bool again; /* while the daemon works: wait for nothing */
};

struct attach {
	struct bpf_object *object; /* NULL if adopted */
	int link;		   /* -1 if adopted */
	int xsks;		   /* fd of the XSKMAP */
	uint32_t prog_id;
	bool adopted, generic;
	uint32_t shared_on;    /* the interface on which we share a dispatcher; 0: we do not */
	struct tables *tables; /* the shared ones, or own */
	struct tables own;
};

/* Passes everything until the tables are activated. 0 or -errno, explained; nothing is left then. */
int attach_open(struct attach *a, const struct attach_params *p, struct tables *shared, log_fn log);
void attach_close(struct attach *a);

#endif
