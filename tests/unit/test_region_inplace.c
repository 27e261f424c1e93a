// SPDX-License-Identifier: BSD-2-Clause
/* Memory of another process: only ever of the one, and of the program, that registered it. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "daemon/region.h"
#include "unit.h"

#define BYTES 4096
/* No program has anything there by itself. */
#define PLACE ((uint8_t *)0x200000000000)

struct peer {
	pid_t pid;
	int pidfd;
	int tell, hear;
};

static void put_memory(void)
{
	void *p = mmap(PLACE, BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != PLACE)
		_exit(1);
	memset(p, 0x5a, BYTES);
}

/* Shares the memory and lives on when the process that made it executes another program. */
static int keep_memory(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!arg)
		pause();
	return 0;
}

static void be_peer(int hear, int tell, uid_t uid)
{
	static uint8_t stack[65536] __attribute__((aligned(64)));
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	put_memory();
	if (uid && (setresuid(uid, uid, uid) || prctl(PR_SET_DUMPABLE, 1)))
		_exit(1);
	if (write(tell, "", 1) != 1 || read(hear, &byte, 1) != 1)
		_exit(1);
	if (byte == 'k' && clone(keep_memory, stack + sizeof(stack), CLONE_VM, NULL) < 0)
		_exit(1);
	if (byte == 'd')
		prctl(PR_SET_DUMPABLE, 0);
	else
		execl("/bin/sh", "sh", "-c", "echo; read x", (char *)NULL);
	if (write(tell, "", 1) != 1 || read(hear, &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

static struct peer peer_start(uid_t uid)
{
	struct peer p;
	int down[2], up[2];
	char byte;

	ck_assert(!pipe(down) && !pipe(up));
	p.pid = fork();
	ck_assert_int_ge(p.pid, 0);
	if (p.pid == 0) {
		/* For the program that is executed. */
		dup2(down[0], 0);
		dup2(up[1], 1);
		close(down[1]);
		close(up[0]);
		be_peer(0, 1, uid);
	}
	close(down[0]);
	close(up[1]);
	p.tell = down[1];
	p.hear = up[0];
	p.pidfd = (int)syscall(SYS_pidfd_open, p.pid, 0);
	ck_assert_int_ge(p.pidfd, 0);
	ck_assert_int_eq(read(p.hear, &byte, 1), 1);
	return p;
}

static void peer_do(const struct peer *p, char what)
{
	char byte;

	ck_assert_int_eq(write(p->tell, &what, 1), 1);
	ck_assert_int_eq(read(p->hear, &byte, 1), 1);
}

static void peer_end(struct peer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->pidfd);
	close(p->tell);
	close(p->hear);
}

static struct region_params register_place(struct process *process)
{
	struct region_params params = { .iova = (uintptr_t)PLACE, .len = BYTES };
	struct inplace *r;

	ck_assert_int_eq(region_inplace(process, &params, &r), 0);
	return params;
}

static int write_now(struct region_params *r, const void *src, uint32_t len)
{
	int err = r->ops->write(r->priv, 0, src, len);

	return err ? err : r->ops->flush(r->priv);
}

START_TEST(inplace__read_and_write)
{
	struct peer peer = peer_start(0);
	struct region_params r;
	struct process *process;
	uint8_t buf[BYTES];

	ck_assert_int_eq(process_open(peer.pid, peer.pidfd, getuid(), &process), 0);
	r = register_place(process);
	ck_assert_int_eq(r.ops->read(r.priv, 0, buf, BYTES), 0);
	ck_assert_uint_eq(buf[BYTES - 1], 0x5a);
	ck_assert_int_eq(write_now(&r, "new", 3), 0);
	ck_assert_int_eq(r.ops->read(r.priv, 0, buf, 3), 0);
	ck_assert_mem_eq(buf, "new", 3);
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	ck_assert_int_eq(r.ops->read(r.priv, 0, buf, BYTES), -EOWNERDEAD);
	ck_assert_int_eq(write_now(&r, "new", 3), -EOWNERDEAD);
	r.ops->release(r.priv);
	process_put(&process);
	peer_end(&peer);
}
END_TEST

/* 'e': its memory ends with the exec; 'k': another process keeps it. Neither leads into the new program. */
START_TEST(inplace__exec_of_another_program)
{
	static const char how[] = { 'e', 'k' };
	struct peer peer = peer_start(0);
	struct region_params r;
	struct process *process;
	uint8_t buf[16] = { 0 };
	int expected = how[_i] == 'k' ? 0 : -EOWNERDEAD;

	ck_assert_int_eq(process_open(peer.pid, peer.pidfd, getuid(), &process), 0);
	r = register_place(process);
	peer_do(&peer, how[_i]);
	ck_assert_int_eq(r.ops->read(r.priv, 0, buf, sizeof(buf)), expected);
	ck_assert_int_eq(write_now(&r, buf, sizeof(buf)), expected);
	if (!expected)
		ck_assert_uint_eq(buf[0], 0x5a);
	r.ops->release(r.priv);
	process_put(&process);
	peer_end(&peer);
}
END_TEST

START_TEST(open__of_somebody_else)
{
	struct peer peer = peer_start(getuid() ? 0 : 65534);
	uid_t uid = getuid() ? getuid() : 65534;
	struct process *process;

	ck_assert_int_eq(process_open(peer.pid, peer.pidfd, uid + 1, &process), -EPERM);
	ck_assert_int_eq(process_open(peer.pid, -1, uid, &process), -ESRCH);
	ck_assert_int_eq(process_open(peer.pid, peer.pidfd, uid, &process), 0);
	process_put(&process);
	/* As after exec of a setuid program. */
	peer_do(&peer, 'd');
	if (!getuid())
		ck_assert_int_eq(process_open(peer.pid, peer.pidfd, uid, &process), -EPERM);
	peer_end(&peer);
}
END_TEST

/* The number of the process that connected has passed to another one. */
START_TEST(open__number_used_again)
{
	struct peer peer = peer_start(0);
	struct peer later = peer_start(0);
	struct process *process;

	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	ck_assert_int_eq(process_open(later.pid, peer.pidfd, getuid(), &process), -ESRCH);
	ck_assert_int_eq(process_open(peer.pid, peer.pidfd, getuid(), &process), -ESRCH);
	peer_end(&peer);
	peer_end(&later);
}
END_TEST

static Suite *inplace_suite(void)
{
	Suite *s = suite_create("region_inplace");
	TCase *t = tcase_create("inplace");

	tcase_add_test(t, inplace__read_and_write);
	tcase_add_loop_test(t, inplace__exec_of_another_program, 0, 2);
	tcase_add_test(t, open__of_somebody_else);
	tcase_add_test(t, open__number_used_again);
	suite_add_tcase(s, t);
	return s;
}

UNIT_MAIN(inplace_suite)
