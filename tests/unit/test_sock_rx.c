// SPDX-License-Identifier: BSD-2-Clause
/* The receiving sockets of a socket port: how many there are, and that each path stays with one. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "unit.h"
#include "daemon/port/sock.h"

#define PORT 50456
#define FLOWS 64
#define PER_FLOW 8

static struct sock s;
static struct mirror_if mif;
static char last[512];

__attribute__((format(printf, 2, 3))) static void listen_to(int level, const char *fmt, ...)
{
	va_list args;

	(void)level;
	va_start(args, fmt);
	vsnprintf(last, sizeof(last), fmt, args);
	va_end(args);
}

/* A loopback address of this process alone: the same test may run twice at the same time. */
static const char *own_address(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "127.%d.%d.77", getpid() >> 8 & 255, getpid() & 255);
	return text;
}

static void setup(void)
{
	s.log = listen_to;
	s.mif = &mif;
	s.udp_port = PORT;
	s.receive_room = 200000;
	s.epoll = epoll_create1(EPOLL_CLOEXEC);
	strcpy(s.port.name, "lo");
	ck_assert_int_eq(ip_parse(own_address(), &s.addrs[0].addr), 0);
}

static void teardown(void)
{
	sock_doors_close(&s.addrs[0]);
	close(s.epoll);
}

START_TEST(sock_doors_open__small_buffers_many_doors)
{
	ck_assert_int_eq(sock_doors_open(&s, &s.addrs[0]), 0);
	ck_assert_uint_eq(s.addrs[0].ndoors, SOCK_DOORS);
}
END_TEST

START_TEST(sock_doors_open__somebody_has_the_port)
{
	int fd = sock_make(false, "lo", 0), on = 1;

	/* Even somebody who would share it. */
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	ck_assert_int_eq(sock_bind(fd, &s.addrs[0].addr, PORT, 0), 0);
	ck_assert_int_eq(sock_doors_open(&s, &s.addrs[0]), -EADDRINUSE);
	ck_assert_uint_eq(s.addrs[0].ndoors, 0);
	ck_assert(strstr(last, "50456"));
	ck_assert(strstr(last, "already running"));
	close(fd);
}
END_TEST

START_TEST(sock_doors_open__again_after_close)
{
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(sock_doors_open(&s, &s.addrs[0]), 0);
		sock_doors_close(&s.addrs[0]);
		ck_assert_uint_eq(s.addrs[0].ndoors, 0);
	}
}
END_TEST

static void send_flow(uint16_t sport)
{
	int fd = sock_make(false, "lo", 0);
	struct sock_addr to;

	ck_assert_int_eq(sock_bind(fd, &s.addrs[0].addr, sport, 0), 0);
	sock_addr_set(&to, &s.addrs[0].addr, PORT, 0);
	for (int i = 0; i < PER_FLOW; i++)
		ck_assert_int_eq(sendto(fd, "x", 1, 0, &to.any, to.len), 1);
	close(fd);
}

/* Empties a door; notes by which flows came. Returns how many packets there were. */
static int drain(const struct sock_door *door, int index, int came_by[FLOWS])
{
	struct sock_addr from;
	char byte;
	int n;

	for (n = 0;; n++) {
		int flow;

		from.len = sizeof(from.v6);
		if (recvfrom(door->fd, &byte, 1, MSG_DONTWAIT, &from.any, &from.len) != 1)
			return n;
		flow = sock_addr_port(&from.any) - (PORT + 1);
		ck_assert_int_ge(flow, 0);
		ck_assert_int_lt(flow, FLOWS);
		ck_assert(came_by[flow] < 0 || came_by[flow] == index);
		came_by[flow] = index;
	}
}

START_TEST(sock_doors__a_flow_stays_with_one_door)
{
	int came_by[FLOWS], total = 0, used = 0;

	memset(came_by, -1, sizeof(came_by));
	ck_assert_int_eq(sock_doors_open(&s, &s.addrs[0]), 0);
	for (int i = 0; i < FLOWS; i++)
		send_flow((uint16_t)(PORT + 1 + i));
	for (uint32_t i = 0; i < s.addrs[0].ndoors; i++) {
		int n = drain(&s.addrs[0].doors[i], (int)i, came_by);

		total += n;
		used += n != 0;
	}
	ck_assert_int_eq(total, FLOWS * PER_FLOW);
	ck_assert_int_gt(used, 1);
}
END_TEST

static Suite *sock_rx_suite(void)
{
	Suite *suite = suite_create("sock_rx");
	TCase *tc = tcase_create("doors");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, sock_doors_open__small_buffers_many_doors);
	tcase_add_test(tc, sock_doors_open__somebody_has_the_port);
	tcase_add_test(tc, sock_doors_open__again_after_close);
	tcase_add_test(tc, sock_doors__a_flow_stays_with_one_door);
	suite_add_tcase(suite, tc);
	return suite;
}

UNIT_MAIN(sock_rx_suite)
