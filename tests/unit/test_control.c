/* SPDX-License-Identifier: BSD-2-Clause */
/* The control socket against applications that do it wrong. After each, an honest one is served. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include "common/ctl.h"
#include "common/ring.h"
#include "mroce.h"
#include "loop_daemon.h"

#define WAIT_MS 20000

static struct loop_daemon daemon_process;
static int sock;

/* A context made by hand. */
struct raw {
	int fds[CTL_MAX_FDS];
	struct abi_rings *rings;
};

static void setup(void)
{
	loop_daemon_init(&daemon_process);
	daemon_process.cfg.contexts = 8;
	loop_daemon_start(&daemon_process);
	sock = ctl_connect(daemon_process.socket, WAIT_MS);
	ck_assert_int_ge(sock, 0);
}

/* Whatever was done to it, it must serve others. */
static void check_service(void)
{
	struct mroce *m;
	struct mroce_mr *mr;
	int err = mroce_open(daemon_process.socket, &m);

	ck_assert_msg(err == 0, "%s", mroce_last_error(NULL));
	ck_assert_int_eq(mroce_alloc(m, 4096, MROCE_ACCESS_LOCAL, &mr), 0);
	mroce_close(&m);
}

static void teardown(void)
{
	check_service();
	close(sock);
	loop_daemon_stop(&daemon_process);
}

static struct abi_msg message(uint16_t type, uint32_t id)
{
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = type, .id = id };

	return msg;
}

static struct abi_msg answer(int fds[CTL_MAX_FDS])
{
	struct abi_msg msg;
	int ignored[CTL_MAX_FDS];
	int err;

	ck_assert_int_eq(ctl_wait(sock, POLLIN, WAIT_MS), 0);
	err = ctl_recv(sock, &msg, fds ? fds : ignored);
	ck_assert_int_eq(err, 0);
	if (!fds)
		ctl_close_fds(ignored);
	return msg;
}

static struct abi_msg ask(struct abi_msg msg, int fd)
{
	ck_assert_int_eq(ctl_send(sock, &msg, &fd, fd >= 0), 0);
	return answer(NULL);
}

static void expect_hangup(void)
{
	struct abi_msg msg;
	int fds[CTL_MAX_FDS];
	int err;

	do {
		ck_assert_msg(ctl_wait(sock, POLLIN, WAIT_MS) == 0, "the daemon did not hang up");
		err = ctl_recv(sock, &msg, fds);
		ctl_close_fds(fds);
	} while (err == 0);
	ck_assert_int_eq(err, -EPIPE);
}

static struct raw hello(void)
{
	struct abi_msg msg = message(ABI_HELLO, 1);
	struct raw r;

	msg.hello.version = ABI_VERSION;
	ck_assert_int_eq(ctl_send(sock, &msg, NULL, 0), 0);
	msg = answer(r.fds);
	ck_assert_int_eq(msg.status, 0);
	r.rings = mmap(NULL, sizeof(*r.rings), PROT_READ | PROT_WRITE, MAP_SHARED,
		       r.fds[ABI_FD_RINGS], 0);
	ck_assert_ptr_ne(r.rings, MAP_FAILED);
	return r;
}

/* ---- messages ---- */

START_TEST(message__garbage_is_hung_up_on)
{
	static const uint8_t garbage[400];
	static const size_t sizes[] = { 1,
					15,
					16,
					sizeof(struct abi_msg) - 1,
					sizeof(struct abi_msg),
					sizeof(struct abi_msg) + 1,
					sizeof(garbage) };

	ck_assert_int_eq(send(sock, garbage, sizes[_i], 0), (ssize_t)sizes[_i]);
	expect_hangup();
}
END_TEST

START_TEST(message__unknown_types_are_refused)
{
	for (uint32_t type = 0; type < 65536; type += type < 200 ? 1 : 997) {
		struct abi_msg msg = message((uint16_t)type, type + 5);

		if (type >= ABI_HELLO && type <= ABI_MONITOR)
			continue;
		msg = ask(msg, -1);
		ck_assert_int_eq(msg.status, -EPROTO);
		ck_assert_uint_eq(msg.id, type + 5);
	}
}
END_TEST

START_TEST(message__before_hello)
{
	for (uint16_t type = ABI_MR_SHARED; type < ABI_SHOW; type++)
		ck_assert_int_eq(ask(message(type, type), -1).status, -EPROTO);
}
END_TEST

START_TEST(hello__other_version)
{
	struct abi_msg msg = message(ABI_HELLO, 1);

	msg.hello.version = ABI_VERSION + 1;
	msg = ask(msg, -1);
	ck_assert_int_eq(msg.status, -EPROTO);
	ck_assert_ptr_nonnull(strstr(msg.text, "version"));
}
END_TEST

START_TEST(hello__twice)
{
	struct abi_msg msg = message(ABI_HELLO, 2);

	hello();
	msg.hello.version = ABI_VERSION;
	ck_assert_int_eq(ask(msg, -1).status, -EALREADY);
}
END_TEST

START_TEST(message__numbers_that_name_nothing)
{
	struct abi_msg msg;

	hello();
	msg = message(ABI_MR_FREE, 1);
	msg.mr.key = 12345;
	ck_assert_int_eq(ask(msg, -1).status, -ENOENT);
	msg = message(ABI_CLOSE, 2);
	msg.conn.handle = 0xffffffff;
	ck_assert_int_eq(ask(msg, -1).status, -ENOENT);
	msg = message(ABI_UNLISTEN, 3);
	msg.conn.service = 9;
	ck_assert_int_eq(ask(msg, -1).status, -ENOENT);
	msg = message(ABI_LISTEN, 4);
	msg.conn.service = 9;
	msg.conn.backlog = UINT32_MAX;
	ck_assert_int_eq(ask(msg, -1).status, -EINVAL);
	msg = message(ABI_MR_INPLACE, 5);
	msg.mr.addr = UINT64_MAX - 10;
	msg.mr.len = 100;
	ck_assert_int_eq(ask(msg, -1).status, -EINVAL);
}
END_TEST

/* ---- descriptors ---- */

static struct abi_msg register_fd(int fd, uint64_t len)
{
	struct abi_msg msg = message(ABI_MR_SHARED, 7);

	msg.mr.addr = 0x10000;
	msg.mr.len = len;
	return ask(msg, fd);
}

static int make_memfd(unsigned int flags, off_t size, int seals)
{
	int fd = memfd_create("test", flags);

	ck_assert_int_eq(ftruncate(fd, size), 0);
	if (seals)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

START_TEST(mr_shared__wrong_descriptors)
{
	int pipes[2];
	struct abi_msg msg;

	hello();
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(register_fd(-1, 4096).status, -EBADF);
	ck_assert_int_eq(register_fd(pipes[0], 4096).status, -EINVAL);
	ck_assert_int_eq(register_fd(open("/dev/zero", O_RDWR), 4096).status, -EINVAL);
	msg = register_fd(make_memfd(MFD_ALLOW_SEALING, 4096, 0), 4096);
	ck_assert_int_eq(msg.status, -EINVAL);
	ck_assert_ptr_nonnull(strstr(msg.text, "F_SEAL_SHRINK"));
	ck_assert_int_eq(register_fd(make_memfd(0, 4096, 0), 4096).status, -EINVAL);
	msg = register_fd(make_memfd(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK), 4097);
	ck_assert_int_eq(msg.status, -EINVAL);
	ck_assert_ptr_nonnull(strstr(msg.text, "smaller"));
	msg = register_fd(make_memfd(MFD_ALLOW_SEALING | MFD_HUGETLB, 2 << 20, F_SEAL_SHRINK), 4096);
	ck_assert_int_eq(msg.status, -EINVAL);
	ck_assert_ptr_nonnull(strstr(msg.text, "huge pages"));
	ck_assert_int_lt(
		register_fd(make_memfd(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK | F_SEAL_WRITE), 4096)
			.status,
		0);
	ck_assert_int_eq(
		register_fd(make_memfd(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK), UINT64_MAX).status,
		-EINVAL);
	ck_assert_int_eq(
		register_fd(make_memfd(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK), 4096).status, 0);
}
END_TEST

static int count_fds_of(pid_t pid)
{
	char command[64];
	FILE *f;
	int n = -1;

	snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", pid);
	f = popen(command, "r");
	ck_assert_int_eq(fscanf(f, "%d", &n), 1);
	pclose(f);
	return n;
}

/* With the fixture's own socket among them: an answer shows that it was taken in. */
static int count_fds_at_rest(void)
{
	ck_assert_int_eq(ask(message(ABI_LISTEN, 1), -1).status, -EPROTO);
	return count_fds_of(daemon_process.pid);
}

START_TEST(message__descriptors_nobody_asked_for)
{
	int before = count_fds_at_rest();
	int zero = open("/dev/zero", O_RDONLY);
	int fds[CTL_MAX_FDS] = { zero, zero, zero, zero };

	for (uint32_t i = 0; i < 200; i++) {
		struct abi_msg msg = message(ABI_LISTEN, i);

		ck_assert_int_eq(ctl_send(sock, &msg, fds, CTL_MAX_FDS), 0);
		ck_assert_int_eq(answer(NULL).status, -EPROTO);
	}
	/* The last are closed after the answer. */
	for (int i = 0; i < 1000 && count_fds_of(daemon_process.pid) != before; i++)
		usleep(10000);
	ck_assert_int_eq(count_fds_of(daemon_process.pid), before);
}
END_TEST

START_TEST(context__leaves_no_descriptor)
{
	int before = count_fds_at_rest();

	for (int i = 0; i < 50; i++) {
		struct mroce *m;
		struct mroce_mr *mr;
		char buf[64];
		int err;

		/* The context before may not be gone yet: its place counts. */
		while ((err = mroce_open(daemon_process.socket, &m)) == -EDQUOT)
			usleep(1000);
		ck_assert_int_eq(err, 0);
		ck_assert_int_eq(mroce_reg(m, buf, sizeof(buf), 0, &mr), 0);
		ck_assert_int_eq(mroce_alloc(m, 4096, 0, &mr), 0);
		mroce_close(&m);
	}
	for (int i = 0; i < 1000 && count_fds_of(daemon_process.pid) != before; i++)
		usleep(10000);
	ck_assert_int_eq(count_fds_of(daemon_process.pid), before);
}
END_TEST

/* ---- too many, too slow ---- */

START_TEST(socket__more_than_a_user_may_have)
{
	int socks[200];
	int hung_up = 0;

	for (int i = 0; i < 200; i++)
		socks[i] = ctl_connect(daemon_process.socket, WAIT_MS);
	for (int i = 0; i < 200; i++) {
		struct pollfd p = { .fd = socks[i], .events = POLLIN };

		/* 8 contexts and 64 others are allowed, one of them is the fixture's. */
		if (i >= 71)
			hung_up += poll(&p, 1, WAIT_MS) == 1;
		else
			ck_assert_int_eq(poll(&p, 1, 0), 0);
	}
	ck_assert_int_ge(hung_up, 129);
	for (int i = 0; i < 200; i++)
		close(socks[i]);
	/* It takes the daemon a moment to see them go. */
	for (int i = 0; i < 1000 && count_fds_of(daemon_process.pid) > 50; i++)
		usleep(10000);
}
END_TEST

START_TEST(answer__not_read)
{
	struct abi_msg msg = message(ABI_LISTEN, 1);
	int sent = 0;

	/* Ask until the daemon stops listening to us; it must never wait for us. */
	while (ctl_send(sock, &msg, NULL, 0) == 0 || ctl_wait(sock, POLLOUT, 200) == 0)
		ck_assert_msg(++sent < 100000, "the daemon takes questions without end");
	ck_assert_int_gt(sent, 1);
	check_service();
	/* And it goes on when we read. */
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(answer(NULL).status, -EPROTO);
}
END_TEST

/* It asks, does not read, and says that it will not ask again: no event of its socket ever goes away. */
START_TEST(answer__not_read_and_half_closed)
{
	struct abi_msg msg = message(ABI_LISTEN, 1);
	int before;

	while (ctl_send(sock, &msg, NULL, 0) == 0 || ctl_wait(sock, POLLOUT, 200) == 0)
		;
	before = count_fds_of(daemon_process.pid);
	ck_assert_int_eq(shutdown(sock, SHUT_WR), 0);
	for (int i = 0; i < 500 && count_fds_of(daemon_process.pid) >= before; i++)
		usleep(10000);
	ck_assert_int_lt(count_fds_of(daemon_process.pid), before);
}
END_TEST

/* ---- rings ---- */

START_TEST(rings__tail_out_of_range)
{
	struct raw r = hello();

	ring_store(&r.rings->sq_tail, ABI_SQ_ENTRIES + 1);
	ck_assert_int_eq(write(r.fds[ABI_FD_DOORBELL], &(uint64_t){ 1 }, 8), 8);
	expect_hangup();
}
END_TEST

START_TEST(rings__head_out_of_range)
{
	struct raw r = hello();

	ring_store(&r.rings->cq_head, 0x80000000u);
	for (uint32_t i = 0; i < ABI_SQ_ENTRIES; i++)
		r.rings->sq[i].handle = i;
	/* None of these handles exists, so each is completed at once; then the head is looked at. */
	for (uint32_t tail = 0;; tail += ABI_SQ_ENTRIES) {
		time_t limit = time(NULL) + WAIT_MS / 1000;

		ring_store(&r.rings->sq_tail, tail + ABI_SQ_ENTRIES);
		ck_assert_int_eq(write(r.fds[ABI_FD_DOORBELL], &(uint64_t){ 1 }, 8), 8);
		while (ring_load(&r.rings->sq_head) != tail + ABI_SQ_ENTRIES &&
		       time(NULL) < limit && ctl_wait(sock, POLLIN, 1) != 0)
			;
		if (ctl_wait(sock, POLLIN, 0) == 0)
			break;
		ck_assert_uint_lt(tail, 4 * ABI_SQ_ENTRIES);
	}
	expect_hangup();
}
END_TEST

START_TEST(rings__random_contents)
{
	struct raw r = hello();
	uint32_t x = 1;

	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t *p = (uint32_t *)r.rings->sq; p < (uint32_t *)r.rings->cq; p++)
			*p = x = x * 1664525 + 1013904223;
		ring_store(&r.rings->cq_head, ring_load(&r.rings->cq_tail));
		ring_store(&r.rings->sq_tail, ring_load(&r.rings->sq_head) + x % ABI_SQ_ENTRIES);
		if (write(r.fds[ABI_FD_DOORBELL], &(uint64_t){ 1 }, 8) != 8)
			break;
	}
}
END_TEST

/* The doorbell and the pipe are shared descriptions: the application must not be able to stop the daemon by
 * changing them. */
START_TEST(doorbell__cannot_block_the_daemon)
{
	struct raw r = hello();
	uint64_t count;

	fcntl(r.fds[ABI_FD_DOORBELL], F_SETFL, 0);
	fcntl(r.fds[ABI_FD_WAKE], F_SETFL, 0);
	for (int i = 0; i < 100; i++) {
		eventfd_write(r.fds[ABI_FD_DOORBELL], 1);
		ck_assert_int_eq(read(r.fds[ABI_FD_DOORBELL], &count, sizeof(count)), sizeof(count));
	}
	/* Wake-ups are never read: the pipe fills. */
	for (uint32_t i = 0; i < 70000; i++) {
		ring_sleep(&r.rings->app_asleep);
		r.rings->cq_head = r.rings->cq_tail;
		ring_store(&r.rings->sq_tail, r.rings->sq_tail + 1);
		if (ring_must_wake(&r.rings->daemon_asleep))
			eventfd_write(r.fds[ABI_FD_DOORBELL], 1);
		while (r.rings->sq_tail - ring_load(&r.rings->sq_head) > 100)
			sched_yield();
	}
}
END_TEST

/* ---- ownership of the socket ---- */

START_TEST(open__second_daemon_is_refused)
{
	struct loop_daemon second = daemon_process;
	int status;

	second.pid = fork();
	if (second.pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(3);
		loop_daemon_main(&second, STDOUT_FILENO);
	}
	ck_assert_int_eq(waitpid(second.pid, &status, 0), second.pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
END_TEST

START_TEST(open__stale_socket_is_replaced)
{
	loop_daemon_kill(&daemon_process);
	ck_assert_int_eq(access(daemon_process.socket, F_OK), 0);
	loop_daemon_start(&daemon_process);
}
END_TEST

/* ---- show ---- */

static json_t *show(const char *what)
{
	struct abi_msg msg = message(ABI_SHOW, 3);
	int fds[CTL_MAX_FDS];
	json_t *o;

	strcpy(msg.show.what, what);
	ck_assert_int_eq(ctl_send(sock, &msg, NULL, 0), 0);
	msg = answer(fds);
	ck_assert_int_eq(msg.status, 0);
	ck_assert_int_ge(fds[0], 0);
	o = json_loadfd(fds[0], 0, NULL);
	ck_assert_ptr_nonnull(o);
	ctl_close_fds(fds);
	return o;
}

START_TEST(show__all_objects)
{
	static const char *const keys[] = { "daemon",  "ports",	   "connections", "paths",
					    "streams", "counters", "config" };
	struct mroce *m;
	struct mroce_listener *l;
	struct mroce_conn *c;
	json_t *o;

	ck_assert_int_eq(mroce_open(daemon_process.socket, &m), 0);
	ck_assert_int_eq(mroce_listen(m, 3, 1, &l), 0);
	ck_assert_int_eq(mroce_connect(m, LOOP_ADDRESS, 3, WAIT_MS, &c), 0);
	o = show("all");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		ck_assert_msg(json_object_get(o, keys[i]), "no %s", keys[i]);
	ck_assert_uint_eq(json_array_size(json_object_get(o, "connections")), 2);
	ck_assert_uint_ge(json_array_size(json_object_get(o, "paths")), 16);
	ck_assert_int_eq(
		json_integer_value(json_object_get(
			json_array_get(json_object_get(o, "connections"), 0), "owner_pid")),
		getpid());
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(o, "daemon"), "clients")), 1);
	json_decref(o);
	o = show("counters");
	ck_assert_ptr_null(json_object_get(o, "paths"));
	ck_assert_uint_gt(json_array_size(json_object_get(o, "counters")), 20);
	json_decref(o);
	mroce_close(&m);
}
END_TEST

START_TEST(show__unknown_object)
{
	struct abi_msg msg = message(ABI_SHOW, 3);

	memset(msg.show.what, 'x', sizeof(msg.show.what));
	ck_assert_int_eq(ask(msg, -1).status, -EINVAL);
}
END_TEST

static Suite *control_suite(void)
{
	Suite *suite = suite_create("control");
	TCase *tcase = tcase_create("control");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, message__garbage_is_hung_up_on, 0, 7);
	tcase_add_test(tcase, message__unknown_types_are_refused);
	tcase_add_test(tcase, message__before_hello);
	tcase_add_test(tcase, hello__other_version);
	tcase_add_test(tcase, hello__twice);
	tcase_add_test(tcase, message__numbers_that_name_nothing);
	tcase_add_test(tcase, mr_shared__wrong_descriptors);
	tcase_add_test(tcase, message__descriptors_nobody_asked_for);
	tcase_add_test(tcase, context__leaves_no_descriptor);
	tcase_add_test(tcase, socket__more_than_a_user_may_have);
	tcase_add_test(tcase, answer__not_read);
	tcase_add_test(tcase, answer__not_read_and_half_closed);
	tcase_add_test(tcase, rings__tail_out_of_range);
	tcase_add_test(tcase, rings__head_out_of_range);
	tcase_add_test(tcase, rings__random_contents);
	tcase_add_test(tcase, doorbell__cannot_block_the_daemon);
	tcase_add_test(tcase, open__second_daemon_is_refused);
	tcase_add_test(tcase, open__stale_socket_is_replaced);
	tcase_add_test(tcase, show__all_objects);
	tcase_add_test(tcase, show__unknown_object);
	suite_add_tcase(suite, tcase);
	return suite;
}

UNIT_MAIN(control_suite)
