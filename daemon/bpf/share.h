/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share.h: an interface shared with XDP programs of others, by libxdp's dispatcher: one program that calls
 * those attached one after the other. It stays when its makers die, so the guardian takes ours out.
 */
#ifndef BPF_SHARE_H
#define BPF_SHARE_H

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>
#include "daemon/port/log.h"

#define SHARE_DISPATCHER "xdp_dispatcher"

/* The id of our program behind the dispatcher of an interface; 0: none, or it cannot be seen. */
uint32_t share_find(uint32_t ifindex);
/* Can this process, on this kernel, share? 0 or -errno, explained. */
int share_possible(const char *interface, log_fn log);
/*
 * Loads the object and attaches its program beside those that are there. -EOPNOTSUPP: not in this mode.
 * 0 or -errno.
 */
int share_attach(struct bpf_object *object, uint32_t ifindex, bool generic);
/* Takes our program out; the others stay. 1: done; 0: there was none; -errno. */
int share_detach(uint32_t ifindex);
/* What libxdp keeps of interfaces and dispatchers that are gone. */
void share_clean(uint32_t ifindex);

#endif
