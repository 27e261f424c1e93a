// SPDX-License-Identifier: BSD-2-Clause
#include "sock_post.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "daemon/bpf/load.h"
#include "sock.h"

/*
 * That BPF cannot be had is no error here: the first complaint is kept as the reason. Log functions have no
 * argument of their own, hence static.
 */
static char complaint[SOCK_WHY_MAX];

__attribute__((format(printf, 2, 3))) static void note_complaint(int level, const char *fmt, ...)
{
	va_list args;

	if (level > LOG_ERR || complaint[0])
		return;
	va_start(args, fmt);
	vsnprintf(complaint, sizeof(complaint), fmt, args);
	va_end(args);
}

static int complain(char why[SOCK_WHY_MAX], int err)
{
	snprintf(why, SOCK_WHY_MAX, "%s", complaint[0] ? complaint : strerror(-err));
	return err;
}

void sock_post_prepare(struct sock_post_shared *shared, const struct portset_config *cfg)
{
	int err;

	if (!cfg->handover) {
		snprintf(shared->why, sizeof(shared->why), "handover = no");
		return;
	}
	complaint[0] = '\0';
	err = post_open(&shared->post, cfg->object_dir, note_complaint);
	shared->open = !err;
	if (err)
		complain(shared->why, err);
}

void sock_post_dispose(struct sock_post_shared *shared)
{
	if (shared->open)
		post_close(&shared->post);
	shared->open = false;
}

void sock_post_silence(struct sock_post_shared *shared)
{
	if (shared->open)
		post_silence(&shared->post);
}

void sock_post_counters(const struct sock_post_shared *shared, uint64_t out[MROCE_COUNTERS])
{
	if (shared->open)
		tables_counters(&shared->post.tables, out);
}

/* ---- one port ---- */

static int attach(struct sock *s)
{
	struct sock_post_shared *shared = &s->shared->post;
	int err;

	if (!shared->open) {
		snprintf(s->post.why, sizeof(s->post.why), "%s", shared->why);
		return -EOPNOTSUPP;
	}
	complaint[0] = '\0';
	err = post_attach(&shared->post, &s->post.tc, s->port.name, s->mif->ifindex, note_complaint);
	return err ? complain(s->post.why, err) : 0;
}

/* The one program's maps are pinned for each interface that has it. */
static void open_pins(struct sock *s)
{
	struct post *post = &s->shared->post.post;

	pin_open(&s->post.pins, s->mif->name, false, &post->guardian);
	pin_object(&s->post.pins, post->object);
}

void sock_post_open(struct sock *s)
{
	struct sock_post *p = &s->post;

	p->attached = !attach(s);
	if (p->attached)
		snprintf(p->why, sizeof(p->why), "attached by a %s",
			 p->tc.netlink ? "TC filter" : "TCX link");
	s->log(LOG_INFO, "%s: paths are picked by the %s: %s", s->port.name,
	       p->attached ? "TC program" : "daemon", p->why);
	if (p->attached && p->pins.wanted)
		open_pins(s);
}

void sock_post_close(struct sock *s)
{
	s->port.post = NULL;
	pin_close(&s->post.pins, "the interface is not in use");
	if (s->post.attached)
		tc_close(&s->post.tc);
	s->post.attached = false;
}

void sock_post_activate(struct sock *s, const struct portset_config *cfg)
{
	struct post *post = &s->shared->post.post;

	if (!s->post.attached)
		return;
	if (cfg->mark)
		tables_mark(&post->tables, s->port.index, s->mif->ifindex, s->port.speed);
	post_activate(post, cfg->udp_port);
	s->post.office.tables = &post->letters;
	s->port.post = &s->post.office;
}

const char *sock_post_picker(const struct sock *s)
{
	return s->post.attached && s->now >= s->post.office.off_until ? "TC program" : "daemon";
}
