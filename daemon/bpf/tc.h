/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tc.h: the TC programs of one interface. By TCX links, which die with the process; on kernels before
 * 6.6 by netlink filters with a handle and priority of our own, removed by us or by the guardian.
 */
#ifndef BPF_TC_H
#define BPF_TC_H

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>
#include "daemon/port/log.h"
#include "guardian.h"
#include "tables.h"

/* "netlink" forces the fall-back on kernels that have TCX, for tests. */
#define TC_METHOD_ENV "MROCE_TC"

struct tc {
	struct bpf_object *object;
	const char *programs[2]; /* ingress, egress; NULL: none */
	bool borrowed;		 /* the object is somebody else's */
	int links[2];		 /* ingress, egress; -1: by netlink, or none */
	uint32_t ifindex;
	bool netlink;
	bool clsact_is_ours;
};

/* 0 or -errno, explained; nothing is left then. */
int tc_open(struct tc *tc, const char *object_dir, const char *interface, uint32_t ifindex,
	    struct tables *t, struct guardian *g, log_fn log);
/* The same for the egress program of an object that the caller has loaded and keeps. */
int tc_open_post(struct tc *tc, struct bpf_object *object, const char *interface, uint32_t ifindex,
		 struct guardian *g, log_fn log);
void tc_close(struct tc *tc);

/*
 * Removes filters of ours, and the clsact qdisc if it is ours and nobody else uses it. Returns how
 * many things were removed.
 */
int tc_remove(uint32_t ifindex, bool clsact_is_ours, log_fn log);
/* Detaches TCX links of ours, whoever holds them; for `mroce detach`. Returns how many. */
int tc_remove_links(uint32_t ifindex, log_fn log);

#endif
