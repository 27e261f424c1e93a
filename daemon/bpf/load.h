/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h: takes our BPF objects to the kernel. What is pinned, pin.h sees to. */
#ifndef BPF_LOAD_H
#define BPF_LOAD_H

#include <bpf/libbpf.h>
#include "daemon/port/log.h"
#include "tables.h"

#define BPF_XDP_PROGRAM "mroce_xdp"
#define BPF_TC_INGRESS_PROGRAM "mroce_tc_ingress"
#define BPF_TC_EGRESS_PROGRAM "mroce_tc_egress"
#define BPF_POST_PROGRAM "mroce_tc_post"
#define BPF_KERNEL_NEEDED "6.1"

/* Lifts the limit of locked memory, checks capabilities: for AF_XDP, or TC programs alone. 0 or -EPERM, explained. */
int load_prepare(bool afxdp, log_fn log);
/* What libbpf and the verifier said since the last load that went well; then it is forgotten. */
void load_tell(log_fn log);
/*
 * Loads the object for one interface; dir NULL: the one built in. The tables are shared: made by
 * the first load, reused by all others. 0 or -errno, explained.
 */
int load_xdp(const char *dir, struct tables *t, const char *interface, struct bpf_object **out,
	     log_fn log);
/*
 * The same, but loaded and attached beside programs of others; see share.h. The mode is native unless
 * generic.
 */
int load_xdp_shared(const char *dir, struct tables *t, const char *interface, uint32_t ifindex,
		    bool generic, struct bpf_object **out, log_fn log);
int load_tc(const char *dir, struct tables *t, const char *interface, struct bpf_object **out,
	    log_fn log);
/* The object that puts letters into envelopes, with maps of its own. */
int load_post(const char *dir, struct bpf_object **out, log_fn log);
/* fd of a program of a loaded object, or -ENOENT. */
int load_program_fd(const struct bpf_object *object, const char *name);

#endif
