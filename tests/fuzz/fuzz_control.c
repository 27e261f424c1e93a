/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control side: an application that says and writes whatever the input tells, to a daemon that lives as long as
 * the fuzzer. Keys and handles that it was given may be used again, or nothing would be reached.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../unit/loop_driver.h"
#include "common/abi.h"
#include "common/ctl.h"
#include "daemon/client.h"
#include "daemon/journal.h"

#define ARENA 65536
#define STEPS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum step {
	STEP_MESSAGE,
	STEP_GARBAGE,
	STEP_REQUEST,
	STEP_INDICES,
	STEP_TURN,
	STEPS,
};

/* What the fuzzed application knows. */
struct app {
	int sock;
	struct abi_rings *rings;
	uint32_t key, handle;
};

/* The daemon may write here; a region anywhere else could hold the fuzzer itself. */
static uint8_t arena[ARENA];
static struct config cfg;
static struct daemon *d;

struct input {
	const uint8_t *p;
	size_t left;
};

static void take(struct input *in, void *out, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(out, 0, n);
	memcpy(out, in->p, have);
	in->p += have;
	in->left -= have;
}

static uint8_t take_byte(struct input *in)
{
	uint8_t b;

	take(in, &b, 1);
	return b;
}

static void start(void)
{
	if (d)
		return;
	config_init(&cfg);
	cfg.regions = 16;
	if (daemon_new(&cfg, &d))
		abort();
	daemon_set_ports(d, &loop_driver, (struct portset *)loop_port_new(d->engine));
}

static void read_answers(struct app *a)
{
	struct abi_msg msg;
	int fds[CTL_MAX_FDS];

	while (ctl_recv(a->sock, &msg, fds) == 0) {
		if (msg.type == ABI_HELLO && msg.status == 0 && !a->rings) {
			a->rings = mmap(NULL, sizeof(*a->rings), PROT_READ | PROT_WRITE, MAP_SHARED,
					fds[ABI_FD_RINGS], 0);
			if (a->rings == MAP_FAILED)
				abort();
		}
		if (msg.answer && msg.status == 0 &&
		    (msg.type == ABI_MR_SHARED || msg.type == ABI_MR_INPLACE))
			a->key = msg.mr.key;
		if (msg.type == ABI_CONNECT || msg.type == ABI_EV_ACCEPTED)
			a->handle = msg.conn.handle;
		ctl_close_fds(fds);
	}
}

static int some_memfd(uint8_t how)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (how & 4) ? 100 : ARENA))
		abort();
	if (how & 8)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	return fd;
}

static void say(struct app *a, struct input *in)
{
	struct abi_msg msg;
	uint8_t how = take_byte(in);
	int fd = (how & 2) ? some_memfd(how) : -1;

	take(in, &msg, 64);
	memset((uint8_t *)&msg + 64, take_byte(in), sizeof(msg) - 64);
	msg.magic = ABI_MAGIC;
	msg.type = how & 0x80 ? msg.type : msg.type % (ABI_MONITOR + 1);
	if (msg.type == ABI_MR_INPLACE) {
		msg.mr.addr = (uintptr_t)arena;
		msg.mr.len %= ARENA + 1;
	} else if (msg.type == ABI_MR_FREE && how & 1) {
		msg.mr.key = a->key;
	} else if ((msg.type == ABI_CLOSE || msg.type == ABI_TAKEN) && how & 1) {
		msg.conn.handle = a->handle;
	} else if (msg.type == ABI_CONNECT && how & 1) {
		memset(msg.conn.ip, 0, 16);
		memcpy(msg.conn.ip + 10, "\xff\xff\x7f\0\0\1", 6);
		msg.conn.service %= 4;
	} else if (msg.type == ABI_LISTEN) {
		msg.conn.service %= 4;
	} else if (msg.type == ABI_HELLO && how & 1) {
		msg.answer = 0;
		msg.hello.version = ABI_VERSION;
	}
	if (how & 0x40)
		msg.answer = 0;
	ctl_send(a->sock, &msg, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void garbage(struct app *a, struct input *in)
{
	uint8_t bytes[256];
	size_t n = take_byte(in);

	take(in, bytes, n);
	if (n)
		(void)!send(a->sock, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void request(struct app *a, struct input *in)
{
	uint8_t how = take_byte(in);
	struct abi_sqe e;

	take(in, &e, sizeof(e));
	if (!a->rings)
		return;
	if (how & 1)
		e.handle = a->handle;
	if (how & 2) {
		e.key = a->key;
		e.rkey = a->key;
	}
	if (how & 4) {
		e.addr = e.raddr = (uintptr_t)arena + e.addr % ARENA;
		e.len %= ARENA;
	}
	a->rings->sq[a->rings->sq_tail % ABI_SQ_ENTRIES] = e;
	a->rings->sq_tail++;
}

static void indices(struct app *a, struct input *in)
{
	uint8_t which = take_byte(in);
	uint32_t value;

	take(in, &value, sizeof(value));
	if (!a->rings)
		return;
	switch (which % 4) {
	case 0: a->rings->sq_tail = value; break;
	case 1: a->rings->cq_head = value; break;
	case 2: a->rings->cq_head = a->rings->cq_tail; break;
	case 3: a->rings->app_asleep = value; break;
	}
}

static void turn(void)
{
	worker_wait(d, 0);
	worker_turn(d);
	worker_turn(d);
}

static void step(struct app *a, struct input *in)
{
	switch ((enum step)(take_byte(in) % STEPS)) {
	case STEP_MESSAGE: say(a, in); break;
	case STEP_GARBAGE: garbage(a, in); break;
	case STEP_REQUEST: request(a, in); break;
	case STEP_INDICES: indices(a, in); break;
	case STEP_TURN:
	case STEPS: break;
	}
	turn();
	read_answers(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct app a = { 0 };
	struct client *c;
	int pair[2];

	start();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		abort();
	if (control_adopt(d, pair[1], &c))
		abort();
	a.sock = pair[0];
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&a, &in);
	if (a.rings)
		munmap(a.rings, sizeof(*a.rings));
	close(a.sock);
	for (int i = 0; i < 100 && !TAILQ_EMPTY(&d->clients); i++)
		turn();
	/* The next input must find nothing of this one. */
	if (!TAILQ_EMPTY(&d->clients) || d->quotas)
		abort();
	return 0;
}
