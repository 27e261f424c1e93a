/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * region_inplace.c: memory that an application registered where it is. Reads go ahead 64 KiB in a few
 * places at once, writes are gathered and done with one system call for each batch of packets.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
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

/* Writes that wait for the flush. */
struct gather {
	uint32_t n;
	int error; /* of a flush that was forced by a full list */
	struct iovec local[GATHER_MAX];
	struct iovec remote[GATHER_MAX];
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

int process_open(pid_t pid, struct process **out)
{
	char path[32];
	struct process *p;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	p = malloc(sizeof(*p));
	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	*p = (struct process){ .pid = pid, .memory = fd, .users = 1 };
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

/*
 * 0; -ESRCH: the application has taken the region back; -EOWNERDEAD: its address space is gone.
 *
 * process_vm_*() go by the process id alone. The open /proc/PID/mem belongs to one address space for good, so
 * that an exec or a reused id is seen here, before each system call that moves data.
 */
static int same_memory(const struct inplace *r)
{
	uint8_t byte;
	ssize_t n;

	if (r->revoked)
		return -ESRCH;
	n = pread(r->process->memory, &byte, 1, (off_t)r->addr);
	if (n == 1)
		return 0;
	/* End of file: nobody uses the address space any more. An error: these addresses are not mapped in it. */
	return n == 0 ? -EOWNERDEAD : -EFAULT;
}

static int move(const struct inplace *r, bool to_process, const struct iovec *local,
		const struct iovec *remote, uint32_t n, size_t *moved)
{
	ssize_t bytes;
	int err = same_memory(r);

	if (err)
		return err;
	bytes = to_process ? process_vm_writev(r->process->pid, local, n, remote, n, 0)
			   : process_vm_readv(r->process->pid, local, n, remote, n, 0);
	if (bytes < 0) /* ESRCH: it has died since */
		return errno == ESRCH ? -EOWNERDEAD : -errno;
	*moved = (size_t)bytes;
	return 0;
}

/* ---- reading ---- */

/* At least `need` bytes of `want`. */
static int fetch(struct inplace *r, uint64_t offset, void *dst, uint32_t need, uint32_t want,
		 uint32_t *got)
{
	struct iovec local = { dst, want };
	struct iovec remote = { (void *)(uintptr_t)(r->addr + offset), want };
	size_t moved;
	int err = move(r, false, &local, &remote, 1, &moved);

	if (err)
		return err;
	if (moved < need)
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

static int write_gathered(struct inplace *r)
{
	struct gather *g = r->gather;
	size_t expected = 0;
	size_t moved;
	uint32_t n = g->n;
	int err;

	for (uint32_t i = 0; i < n; i++)
		expected += g->local[i].iov_len;
	g->n = 0;
	err = move(r, true, g->local, g->remote, n, &moved);
	if (err)
		return err;
	return moved == expected ? 0 : -EFAULT;
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
	g->local[g->n] = (struct iovec){ (void *)src, len };
	g->remote[g->n++] = (struct iovec){ (void *)(uintptr_t)(r->addr + offset), len };
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
