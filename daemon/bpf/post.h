/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.h: the program that puts letters into envelopes (mroce/post.h), for socket ports: loaded once, attached to
 * the egress of each interface, its maps in our memory.
 */
#ifndef BPF_POST_H
#define BPF_POST_H

#include <bpf/libbpf.h>
#include "core/port.h"
#include "guardian.h"
#include "tables.h"
#include "tc.h"

struct post {
	struct bpf_object *object;
	struct tables tables; /* configuration and counters */
	struct post_tables letters;
	struct guardian guardian;
};

/* 0 or -errno, explained; nothing is left then. The program passes everything until it is activated. */
int post_open(struct post *p, const char *object_dir, log_fn log);
/* After the ports' TC programs have been closed. */
void post_close(struct post *p);
void post_activate(struct post *p, uint16_t udp_port);
/* Nothing more is put into envelopes. */
void post_silence(struct post *p);
/* 0 or -errno, explained. */
int post_attach(struct post *p, struct tc *tc, const char *interface, uint32_t ifindex, log_fn log);

#endif
