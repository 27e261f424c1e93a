// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "unit.h"
#include "daemon/port/sock_addr.h"
#include "daemon/port/sock_pool.h"

#define PORT 50123

static struct sock_pool pool;
static struct ip local;
static int messages;
static char last[512];

__attribute__((format(printf, 2, 3))) static void listen_to(int level, const char *fmt, ...)
{
	va_list args;

	(void)level;
	va_start(args, fmt);
	vsnprintf(last, sizeof(last), fmt, args);
	va_end(args);
	messages++;
}

/* A loopback address of this process alone: the same test may run twice at the same time. */
static const char *own_address(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "127.%d.%d.77", getpid() >> 8 & 255, getpid() & 255);
	return text;
}

static void open_pool(const char *address, uint32_t limit)
{
	struct sock_pool_params params = { .interface = "lo", .limit = limit, .log = listen_to };

	ck_assert_int_eq(ip_parse(address, &local), 0);
	params.addr = local;
	ck_assert_int_eq(sock_pool_open(&pool, &params), 0);
}

static void setup(void)
{
	open_pool(own_address(), SOCK_POOL_SIZE);
}

static void teardown(void)
{
	sock_pool_close(&pool);
}

static uint16_t bound_to(int fd)
{
	struct sock_addr a = { .len = sizeof(a.v6) };

	ck_assert_int_eq(getsockname(fd, &a.any, &a.len), 0);
	return sock_addr_port(&a.any);
}

/* Somebody else's socket. */
static int stranger(uint16_t udp_port)
{
	int fd = sock_make(false, "lo", 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(sock_bind(fd, &local, udp_port, 0), 0);
	return fd;
}

START_TEST(sock_pool_get__binds_the_port_asked_for)
{
	struct sock_out *o = sock_pool_get(&pool, PORT);

	ck_assert_ptr_nonnull(o);
	ck_assert_uint_eq(bound_to(o->fd), PORT);
	ck_assert_uint_eq(o->real, PORT);
	ck_assert_int_eq(messages, 0);
}
END_TEST

START_TEST(sock_pool_get__the_same_port_is_the_same_socket)
{
	struct sock_out *o = sock_pool_get(&pool, PORT);

	ck_assert_ptr_eq(sock_pool_get(&pool, PORT), o);
	ck_assert_ptr_ne(sock_pool_get(&pool, PORT + 1), o);
	ck_assert_uint_eq(pool.n, 2);
}
END_TEST

START_TEST(sock_pool_get__another_programs_port_is_left_to_it)
{
	int fd = stranger(PORT);
	struct sock_out *o = sock_pool_get(&pool, PORT);

	ck_assert_ptr_nonnull(o);
	ck_assert_uint_ne(bound_to(o->fd), PORT);
	ck_assert_uint_eq(bound_to(o->fd), o->real);
	ck_assert_uint_eq(pool.moved, 1);
	/* And so from now on, in one place. */
	ck_assert_ptr_eq(sock_pool_get(&pool, PORT), o);
	ck_assert_uint_eq(pool.moved, 1);
	ck_assert(strstr(last, "50123"));
	close(fd);
}
END_TEST

START_TEST(sock_pool_get__port_zero_gets_some_port)
{
	struct sock_out *o = sock_pool_get(&pool, 0);

	ck_assert_ptr_nonnull(o);
	ck_assert_uint_ge(bound_to(o->fd), 49152);
}
END_TEST

START_TEST(sock_pool_get__beyond_the_limit_sockets_are_shared)
{
	sock_pool_close(&pool);
	open_pool(own_address(), 4);
	for (uint16_t i = 0; i < 100; i++) {
		struct sock_out *o = sock_pool_get(&pool, PORT + i);

		ck_assert_ptr_nonnull(o);
		ck_assert_int_ge(o->fd, 0);
		ck_assert_ptr_eq(sock_pool_get(&pool, PORT + i), o);
	}
	ck_assert_uint_eq(pool.n, 4);
	ck_assert_uint_eq(pool.shared, 2 * 96);
}
END_TEST

START_TEST(sock_pool_get__a_full_pool_is_never_overrun)
{
	for (uint32_t i = 0; i < 3 * SOCK_POOL_SIZE; i++)
		ck_assert_ptr_nonnull(sock_pool_get(&pool, (uint16_t)(49152 + 7 * i)));
	ck_assert_uint_le(pool.n, SOCK_POOL_SIZE);
	/* Bounded probing leaves few places empty. */
	ck_assert_uint_ge(pool.n, SOCK_POOL_SIZE * 9 / 10);
}
END_TEST

START_TEST(sock_pool_get__without_descriptors_those_open_must_do)
{
	struct sock_out *o = sock_pool_get(&pool, PORT);
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)o->fd + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ptr_eq(sock_pool_get(&pool, PORT + 1), o);
	ck_assert_uint_eq(pool.limit, 1);
	ck_assert_int_eq(messages, 1);
	sock_pool_get(&pool, PORT + 2);
	ck_assert_int_eq(messages, 1); /* said once */
}
END_TEST

START_TEST(sock_pool_get__an_address_that_is_not_ours)
{
	sock_pool_close(&pool);
	open_pool("192.0.2.1", SOCK_POOL_SIZE);
	ck_assert_ptr_null(sock_pool_get(&pool, PORT));
	ck_assert_uint_eq(pool.limit, SOCK_POOL_SIZE);
}
END_TEST

START_TEST(sock_pool_age__closes_what_is_not_used)
{
	struct sock_out *used = sock_pool_get(&pool, PORT);

	for (uint16_t i = 1; i < 20; i++)
		sock_pool_get(&pool, PORT + i);
	for (int second = 0; second < 100; second++) {
		sock_pool_age(&pool);
		ck_assert_ptr_eq(sock_pool_get(&pool, PORT), used);
	}
	ck_assert_uint_eq(pool.n, 1);
	ck_assert_uint_eq(bound_to(used->fd), PORT);
	/* Their places and ports can be had again. */
	for (uint16_t i = 1; i < 20; i++)
		ck_assert_uint_eq(sock_pool_get(&pool, PORT + i)->real, PORT + i);
	ck_assert_uint_eq(pool.n, 20);
}
END_TEST

START_TEST(sock_pool_age__waits_for_packets_in_the_queue)
{
	struct sock_out *o = sock_pool_get(&pool, PORT);

	o->waiting = 1;
	for (int second = 0; second < 100; second++)
		sock_pool_age(&pool);
	ck_assert_uint_eq(pool.n, 1);
	o->waiting = 0;
	sock_pool_age(&pool);
	ck_assert_uint_eq(pool.n, 0);
}
END_TEST

START_TEST(sock_out__takes_in_nothing)
{
	struct sock_out *o = sock_pool_get(&pool, PORT);
	int fd = stranger(PORT + 1);
	struct sock_addr to;
	char byte = 1;

	sock_addr_set(&to, &local, PORT, 0);
	ck_assert_int_eq(sendto(fd, &byte, 1, 0, &to.any, to.len), 1);
	ck_assert_int_lt(recv(o->fd, &byte, 1, MSG_DONTWAIT), 0);
	ck_assert_int_eq(errno, EAGAIN);
	close(fd);
}
END_TEST

/* The ECN field of what arrives, by the kernel's word. */
static int ecn_of_next(int fd)
{
	uint8_t control[64] __attribute__((aligned(8)));
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };

	ck_assert_int_eq(recvmsg(fd, &msg, 0), 1);
	ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&msg));
	return *CMSG_DATA(CMSG_FIRSTHDR(&msg)) & 3;
}

static void send_and_look(const char *address, int level, int name)
{
	struct sock_addr to;
	struct sock_out *o;
	int on = 1, fd;

	sock_pool_close(&pool);
	open_pool(address, SOCK_POOL_SIZE);
	fd = sock_make(!ip_is_v4(&local), "lo", 0);
	ck_assert_int_eq(setsockopt(fd, level, name, &on, sizeof(on)), 0);
	ck_assert_int_eq(sock_bind(fd, &local, PORT + 1, 0), 0);
	o = sock_pool_get(&pool, PORT);
	ck_assert_ptr_nonnull(o);
	sock_addr_set(&to, &local, PORT + 1, 0);
	ck_assert_int_eq(sendto(o->fd, "x", 1, 0, &to.any, to.len), 1);
	ck_assert_int_eq(ecn_of_next(fd), 2);
	close(fd);
}

START_TEST(sock_out__sends_ect0_ipv4)
{
	send_and_look(own_address(), IPPROTO_IP, IP_RECVTOS);
}
END_TEST

START_TEST(sock_out__sends_ect0_ipv6)
{
	/* A host without IPv6 has no such address. */
	if (access("/proc/net/if_inet6", F_OK))
		return;
	send_and_look("::1", IPPROTO_IPV6, IPV6_RECVTCLASS);
}
END_TEST

static Suite *sock_pool_suite(void)
{
	Suite *suite = suite_create("sock_pool");
	TCase *tc = tcase_create("sock_pool");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, sock_pool_get__binds_the_port_asked_for);
	tcase_add_test(tc, sock_pool_get__the_same_port_is_the_same_socket);
	tcase_add_test(tc, sock_pool_get__another_programs_port_is_left_to_it);
	tcase_add_test(tc, sock_pool_get__port_zero_gets_some_port);
	tcase_add_test(tc, sock_pool_get__beyond_the_limit_sockets_are_shared);
	tcase_add_test(tc, sock_pool_get__a_full_pool_is_never_overrun);
	tcase_add_test(tc, sock_pool_get__without_descriptors_those_open_must_do);
	tcase_add_test(tc, sock_pool_get__an_address_that_is_not_ours);
	tcase_add_test(tc, sock_pool_age__closes_what_is_not_used);
	tcase_add_test(tc, sock_pool_age__waits_for_packets_in_the_queue);
	tcase_add_test(tc, sock_out__takes_in_nothing);
	tcase_add_test(tc, sock_out__sends_ect0_ipv4);
	tcase_add_test(tc, sock_out__sends_ect0_ipv6);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(sock_pool_suite)
