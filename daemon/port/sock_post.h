/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock_post.h: letters of a socket port that the TC program puts into envelopes, where BPF may be loaded. Where
 * not, the engine does it, and the reason is kept to be shown.
 */
#ifndef PORT_SOCK_POST_H
#define PORT_SOCK_POST_H

#include <stdbool.h>
#include "daemon/bpf/pin.h"
#include "daemon/bpf/post.h"
#include "portset.h"

#define SOCK_WHY_MAX 200

struct sock;

/* What all ports share. */
struct sock_post_shared {
	struct post post;
	bool open;
	char why[SOCK_WHY_MAX]; /* it is not open */
};

/* A port's. */
struct sock_post {
	struct tc tc;
	struct post_office office;
	bool attached;
	struct pins pins;	/* from the port's making on, as all that is closed */
	char why[SOCK_WHY_MAX]; /* it is, or is not */
};

void sock_post_prepare(struct sock_post_shared *shared, const struct portset_config *cfg);
void sock_post_dispose(struct sock_post_shared *shared);
void sock_post_silence(struct sock_post_shared *shared);
void sock_post_counters(const struct sock_post_shared *shared, uint64_t out[MROCE_COUNTERS]);

/* Attaches the program to the port's interface, if it can be had. */
void sock_post_open(struct sock *s);
void sock_post_close(struct sock *s);
/* From now on the engine may hand over letters. */
void sock_post_activate(struct sock *s, const struct portset_config *cfg);
/* Who picks paths, as shown: "TC program" or "daemon". */
const char *sock_post_picker(const struct sock *s);

#endif
