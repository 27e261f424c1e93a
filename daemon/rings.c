/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rings.c: requests in, completions out, through memory that the application can write at any time.
 * So every value is read once, and checked before use.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "common/ring.h"
#include "daemon/client.h"

/* The doorbell is watched edge-triggered and never read: an application could make the read block. */
static void on_doorbell(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
}

static int make_rings(struct client *c)
{
	int fd = memfd_create("mroce-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*c->rings)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(fd);
		return -errno;
	}
	p = mmap(NULL, sizeof(*c->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		close(fd);
		return -errno;
	}
	c->rings = p;
	return fd;
}

static int make_doorbell(struct client *c)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	c->doorbell = (struct watch){ on_doorbell, fd };
	err = daemon_watch(c->d, &c->doorbell, EPOLLIN | EPOLLET);
	if (err) {
		close(fd);
		c->doorbell.fd = -1;
		return err;
	}
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int client_rings_open(struct client *c, int fds[ABI_HELLO_FDS])
{
	int pipes[2];
	int err = 0;

	fds[ABI_FD_RINGS] = make_rings(c);
	fds[ABI_FD_DOORBELL] = make_doorbell(c);
	fds[ABI_FD_WAKE] = -EMFILE;
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) == 0) {
		fds[ABI_FD_WAKE] = pipes[0];
		c->wake = pipes[1];
	}
	for (int i = 0; i < ABI_HELLO_FDS; i++)
		if (fds[i] < 0)
			err = fds[i];
	if (!err)
		return 0;
	for (int i = 0; i < ABI_HELLO_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	client_rings_close(c);
	return err;
}

void client_rings_close(struct client *c)
{
	if (c->rings)
		munmap(c->rings, sizeof(*c->rings));
	c->rings = NULL;
	if (c->doorbell.fd >= 0) {
		daemon_unwatch(c->d, &c->doorbell);
		close(c->doorbell.fd);
		c->doorbell.fd = -1;
	}
	if (c->wake >= 0)
		close(c->wake);
	c->wake = -1;
}

/* ---- requests ---- */

/* Completions that the ring has no room for. */
static bool refresh_cq_head(struct client *c)
{
	uint32_t head = ring_load(&c->rings->cq_head);

	if (c->cq_tail - head > ABI_CQ_ENTRIES) {
		client_break(c, "its completion ring's head is nowhere in the ring");
		return false;
	}
	c->cq_head = head;
	return true;
}

static bool room_for_completion(struct client *c)
{
	if (c->owed + (c->cq_tail - c->cq_head) < ABI_CQ_ENTRIES)
		return true;
	return refresh_cq_head(c) && c->owed + (c->cq_tail - c->cq_head) < ABI_CQ_ENTRIES;
}

static uint32_t requests_waiting(struct client *c)
{
	uint32_t n = ring_load(&c->rings->sq_tail) - c->sq_head;

	if (n <= ABI_SQ_ENTRIES)
		return n;
	client_break(c, "its submission ring's tail is nowhere in the ring");
	return 0;
}

static void complete_here(struct client *c, const struct abi_sqe *e, enum mroce_status status)
{
	struct engine_completion done = {
		.id = e->id, .stream = e->stream, .opcode = e->opcode, .status = (uint8_t)status
	};

	client_complete(c, e->handle, &done);
}

/* Posted to a connection that has ended, or that the application or our own farewell has closed meanwhile. */
static enum mroce_status status_of_end(const struct client *c, const struct slot *s)
{
	if (s && s->state == SLOT_ENDED)
		return (enum mroce_status)s->ended;
	return c->d->stop ? MROCE_E_DAEMON : MROCE_E_FLUSHED;
}

/* False: no record free in the engine, come back later. */
static bool submit_one(struct client *c, const struct abi_sqe *e,
		       const struct mroce_tolerance *tolerance)
{
	struct slot *s = client_slot(c, e->handle);
	struct work_request wr = { .id = e->id,
				   .opcode = e->opcode,
				   .stream = e->stream,
				   .key = e->key,
				   .addr = e->addr,
				   .len = e->len,
				   .raddr = e->raddr,
				   .rkey = e->rkey,
				   .imm = e->imm,
				   .tolerance = e->tolerant ? tolerance : NULL };
	int err;

	c->owed++;
	/* SLOT_WAITING too: the ring is faster than the message that says the connection was taken. */
	if (!s || !s->conn || s->state == SLOT_CONNECTING) {
		complete_here(c, e, status_of_end(c, s));
		return true;
	}
	err = engine_post(s->conn, &wr, c->d->now);
	if (err == -EAGAIN)
		c->owed--;
	else if (err == -ENOTCONN)
		complete_here(c, e, MROCE_E_FLUSHED);
	else if (err)
		complete_here(c, e, MROCE_E_LOCAL_ACCESS);
	return err != -EAGAIN;
}

uint32_t client_submit(struct client *c, uint32_t budget)
{
	uint32_t waiting = requests_waiting(c);
	uint32_t n;

	c->full = c->stuck = false;
	for (n = 0; n < waiting && n < budget; n++) {
		/* A copy: what is checked must be what is used. */
		struct abi_sqe e;
		struct mroce_tolerance t;
		uint32_t at = c->sq_head & (ABI_SQ_ENTRIES - 1);

		memcpy(&e, &c->rings->sq[at], sizeof(e));
		if (e.tolerant)
			memcpy(&t, &c->rings->tolerance[at], sizeof(t));
		__asm__ volatile("" ::: "memory");
		c->full = !room_for_completion(c);
		c->stuck = !c->full && !submit_one(c, &e, &t);
		if (c->full || c->stuck)
			break;
		c->sq_head++;
	}
	if (n)
		ring_store(&c->rings->sq_head, c->sq_head);
	return n;
}

/* ---- completions ---- */

void client_complete(struct client *c, uint32_t handle, const struct engine_completion *e)
{
	struct abi_cqe *cqe;

	if (c->broken || !c->rings)
		return;
	if (c->owed)
		c->owed--;
	/* Room was kept for it; only an application that moves its head backwards gets here. */
	if (c->cq_tail - c->cq_head >= ABI_CQ_ENTRIES &&
	    (!refresh_cq_head(c) || c->cq_tail - c->cq_head >= ABI_CQ_ENTRIES)) {
		client_break(c, "its completion ring overflowed");
		return;
	}
	cqe = &c->rings->cq[c->cq_tail++ & (ABI_CQ_ENTRIES - 1)];
	cqe->id = e->id;
	cqe->length = e->length;
	cqe->handle = handle;
	cqe->stream = e->stream;
	cqe->imm = e->imm;
	cqe->opcode = e->opcode;
	cqe->status = e->status;
	cqe->has_imm = e->has_imm;
	cqe->missing = e->missing;
	cqe->has_gaps = e->gaps != NULL;
	if (e->gaps)
		c->rings->gaps[cqe - c->rings->cq] = *e->gaps;
	if (!c->is_dirty) {
		c->is_dirty = true;
		TAILQ_INSERT_TAIL(&c->d->dirty, c, dirty_link);
	}
}

void client_publish(struct client *c)
{
	if (c->is_dirty)
		TAILQ_REMOVE(&c->d->dirty, c, dirty_link);
	c->is_dirty = false;
	ring_store(&c->rings->cq_tail, c->cq_tail);
	/* A full pipe wakes as well as one byte. */
	if (ring_must_wake(&c->rings->app_asleep) && write(c->wake, "", 1) < 0 && errno != EAGAIN)
		client_break(c, "its wake-up pipe broke");
}

/* ---- sleeping ---- */

bool client_sleep(struct client *c)
{
	ring_sleep(&c->rings->daemon_asleep);
	/* Records get free only inside the engine, after which there is another turn anyway. */
	if (requests_waiting(c) == 0 || c->stuck)
		return false;
	return !c->full || room_for_completion(c);
}

void client_awake(struct client *c)
{
	ring_awake(&c->rings->daemon_asleep);
}
