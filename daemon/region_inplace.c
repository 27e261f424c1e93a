/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_inplace.c: memory that an application registered where it is. Reads go ahead 64 KiB in a few
 * places at once, writes wait for the end of a batch of packets.
 *
 * All goes through /proc/PID/mem, opened once. It belongs to one address space for good. process_vm_readv()
 * and process_vm_writev() go by the process id: behind that the application can put another address space,
 * by exec of a program with more rights than it has itself, and we would read and write that for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "daemon/region.h"

#define AHEAD_BYTES 65536u
/* Messages of the same region that are read at the same time. */
#define AHEAD_PLACES 4
#define GATHER_MAX 128

/* Bytes [start, end) of the region are in buf. The next read in order begins at next, start <= next <= end. */
struct ahead {
	uint64_t start, next, end;
	uint64_t used; /* when: for replacing the oldest */
	bool known;
	uint8_t *buf;
};

struct waiting {
	const void *src;
	uint64_t offset;
	uint32_t len;
};

/* Writes that wait for the flush. */
struct gather {
	uint32_t n;
	int error; /* of a flush that was forced by a full list */
	struct waiting write[GATHER_MAX];
};

struct inplace {
	struct process *process;
	uint64_t addr;
	uint64_t len;
	bool revoked;
	uint64_t uses;
	struct ahead ahead[AHEAD_PLACES];
	struct gather *gather; /* made at the first write */
};

/* ---- processes ---- */

/*
 * Is what we have opened memory of whom we think? Asked afterwards: the id may have passed to another
 * process, or the process to a program that runs with other rights. The owner of /proc/PID/mem is root
 * also for a program of the same user that nobody may look into (setuid, setgid, not dumpable).
 */
static int is_theirs(const char *path, int pidfd, uid_t uid)
{
	struct pollfd alive = { .fd = pidfd, .events = POLLIN };
	struct stat st;

	if (stat(path, &st))
		return -ESRCH;
	if (st.st_uid != uid)
		return -EPERM;
	return poll(&alive, 1, 0) == 0 ? 0 : -ESRCH;
}

int process_open(pid_t pid, int pidfd, uid_t uid, struct process **out)
{
	char path[32];
	struct process *p;
	int fd;
	int err;

	if (pidfd < 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = is_theirs(path, pidfd, uid);
	p = err ? NULL : malloc(sizeof(*p));
	if (!p) {
		close(fd);
		return err ? err : -ENOMEM;
	}
	*p = (struct process){ .memory = fd, .users = 1 };
	*out = p;
	return 0;
}

void process_put(struct process **pp)
{
	struct process *p = *pp;

	*pp = NULL;
	if (!p || --p->users)
		return;
	close(p->memory);
	free(p);
}

/* 0; -ESRCH: the application has taken the region back; -EOWNERDEAD: its address space is gone; -EFAULT. */
static int outcome(ssize_t moved)
{
	if (moved > 0)
		return 0;
	/* End of file: nobody uses the address space any more. An error: these addresses are not mapped in it. */
	return moved == 0 ? -EOWNERDEAD : -EFAULT;
}

/* ---- reading ---- */

/* At least `need` bytes of `want`. */
static int fetch(struct inplace *r, uint64_t offset, void *dst, uint32_t need, uint32_t want,
		 uint32_t *got)
{
	ssize_t moved;
	int err;

	if (r->revoked)
		return -ESRCH;
	moved = pread(r->process->memory, dst, want, (off_t)(r->addr + offset));
	err = outcome(moved);
	if (err)
		return err;
	if ((size_t)moved < need)
		return -EFAULT;
	*got = (uint32_t)moved;
	return 0;
}

static struct ahead *find_place(struct inplace *r, uint64_t offset)
{
	for (int i = 0; i < AHEAD_PLACES; i++) {
		struct ahead *a = &r->ahead[i];

		if (a->known && offset >= a->start && offset <= a->end)
			return a;
	}
	return NULL;
}

static struct ahead *oldest_place(struct inplace *r)
{
	struct ahead *oldest = &r->ahead[0];

	for (int i = 1; i < AHEAD_PLACES; i++)
		if (r->ahead[i].used < oldest->used)
			oldest = &r->ahead[i];
	return oldest;
}

/*
 * A read out of order (the first of a message, or a repair) takes only what it needs, and notes where the
 * next would be in order; from that one on we read ahead.
 */
static int read_alone(struct inplace *r, uint64_t offset, void *dst, uint32_t len)
{
	struct ahead *a = oldest_place(r);
	uint32_t got;

	a->known = true;
	a->used = ++r->uses;
	a->start = a->next = a->end = offset + len;
	return fetch(r, offset, dst, len, len, &got);
}

static int refill(struct inplace *r, struct ahead *a, uint64_t offset, uint32_t need)
{
	uint64_t left = r->len - offset;
	uint32_t want = left < AHEAD_BYTES ? (uint32_t)left : AHEAD_BYTES;
	uint32_t got;
	int err;

	a->known = false;
	if (!a->buf)
		a->buf = malloc(AHEAD_BYTES);
	if (!a->buf)
		return -ENOMEM;
	err = fetch(r, offset, a->buf, need, want, &got);
	if (err)
		return err;
	a->known = true;
	a->start = a->next = offset;
	a->end = offset + got;
	return 0;
}

static int inplace_read(void *priv, uint64_t offset, void *dst, uint32_t len)
{
	struct inplace *r = priv;
	struct ahead *a = find_place(r, offset);
	int err;

	if (r->revoked)
		return -ESRCH;
	if (!a || len > AHEAD_BYTES)
		return read_alone(r, offset, dst, len);
	a->used = ++r->uses;
	if (len > a->end - offset) {
		err = refill(r, a, offset, len);
		if (err)
			return err;
	}
	memcpy(dst, a->buf + (offset - a->start), len);
	a->next = offset + len;
	return 0;
}

static void inplace_fresh(void *priv)
{
	struct inplace *r = priv;

	/* Places stay: a message that is being read goes on in order, with fresh bytes. */
	for (int i = 0; i < AHEAD_PLACES; i++)
		r->ahead[i].start = r->ahead[i].end = r->ahead[i].next;
}

/* ---- writing ---- */

static int write_one(const struct inplace *r, const struct waiting *w)
{
	ssize_t moved = pwrite(r->process->memory, w->src, w->len, (off_t)(r->addr + w->offset));
	int err = outcome(moved);

	return !err && (size_t)moved != w->len ? -EFAULT : err;
}

static int write_gathered(struct inplace *r)
{
	struct gather *g = r->gather;
	int err = r->revoked ? -ESRCH : 0;

	for (uint32_t i = 0; i < g->n && !err; i++)
		err = write_one(r, &g->write[i]);
	g->n = 0;
	return err;
}

static int inplace_write(void *priv, uint64_t offset, const void *src, uint32_t len)
{
	struct inplace *r = priv;
	struct gather *g;

	if (r->revoked)
		return -ESRCH;
	if (len == 0)
		return 0;
	if (!r->gather)
		r->gather = calloc(1, sizeof(*r->gather));
	g = r->gather;
	if (!g)
		return -ENOMEM;
	if (g->n == GATHER_MAX) {
		int err = write_gathered(r);

		if (err)
			g->error = err;
	}
	g->write[g->n++] = (struct waiting){ src, offset, len };
	return 0;
}

/* An error may be that of any write since the last flush: which of them arrived is not known. */
static int inplace_flush(void *priv)
{
	struct inplace *r = priv;
	struct gather *g = r->gather;
	int earlier;
	int err;

	if (!g)
		return 0;
	earlier = g->error;
	g->error = 0;
	err = g->n ? write_gathered(r) : 0;
	return earlier ? earlier : err;
}

/* ---- life ---- */

static void inplace_release(void *priv)
{
	struct inplace *r = priv;

	for (int i = 0; i < AHEAD_PLACES; i++)
		free(r->ahead[i].buf);
	free(r->gather);
	process_put(&r->process);
	free(r);
}

static const struct region_ops inplace_ops = {
	.read = inplace_read,
	.write = inplace_write,
	.flush = inplace_flush,
	.fresh = inplace_fresh,
	.release = inplace_release,
};

int region_inplace(struct process *process, struct region_params *params, struct inplace **out)
{
	struct inplace *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->addr = params->iova;
	r->len = params->len;
	r->process = process;
	process->users++;
	params->base = NULL;
	params->ops = &inplace_ops;
	params->priv = r;
	*out = r;
	return 0;
}

void region_inplace_revoke(struct inplace *r)
{
	r->revoked = true;
}
