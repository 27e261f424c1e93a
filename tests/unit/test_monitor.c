/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners to events: slow ones, many, ones that leave. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>
#include <jansson.h>
#include "common/ctl.h"
#include "daemon/monitor.h"
#include "unit.h"

#define FLOOD 20000

static struct config cfg;
static struct daemon *d;

static void setup(void)
{
	config_init(&cfg);
	ck_assert_int_eq(daemon_new(&cfg, &d), 0);
}

static void teardown(void)
{
	daemon_free(&d);
	config_free(&cfg);
}

static struct engine_note note(void)
{
	struct engine_note n = { .kind = NOTE_PATH_DEAD,
				 .conn_id = 0x12340001,
				 .service = 77,
				 .path = 3,
				 .reason = PATH_NO_ANSWER };

	n.peer.a[15] = 1;
	return n;
}

static void happen(uint32_t times)
{
	struct engine_note n = note();

	for (uint32_t i = 0; i < times; i++)
		monitor_note(d, LOG_NOTICE, &n, "conn 0x12340001: path 3 \"left\"");
}

/* NULL: nothing is there. */
static json_t *next(int fd)
{
	char text[4096];
	ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
	json_t *o;

	if (n <= 0)
		return NULL;
	o = json_loadb(text, (size_t)n, 0, NULL);
	ck_assert_ptr_nonnull(o);
	return o;
}

static const char *text_of(json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t number_of(json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void expect(int fd, const char *event)
{
	json_t *o = next(fd);

	ck_assert_ptr_nonnull(o);
	ck_assert_str_eq(text_of(o, "event"), event);
	json_decref(o);
}

static int listener(uid_t uid)
{
	int fd;

	ck_assert_int_eq(monitor_new(d, uid, &fd), 0);
	expect(fd, "start");
	return fd;
}

START_TEST(note__has_its_facts)
{
	int fd = listener(5);
	json_t *o;

	happen(1);
	o = next(fd);
	ck_assert_ptr_nonnull(o);
	ck_assert_str_eq(text_of(o, "event"), "path_dead");
	ck_assert_str_eq(text_of(o, "conn"), "0x12340001");
	ck_assert_str_eq(text_of(o, "peer"), "::1");
	ck_assert_str_eq(text_of(o, "reason"), path_reason_text(PATH_NO_ANSWER));
	ck_assert_str_eq(text_of(o, "text"), "conn 0x12340001: path 3 \"left\"");
	ck_assert_int_eq(number_of(o, "path"), 3);
	ck_assert_int_eq(number_of(o, "number"), 1);
	ck_assert_int_eq(number_of(o, "level"), LOG_NOTICE);
	json_decref(o);
	ck_assert_ptr_null(next(fd));
	close(fd);
}
END_TEST

/* Nobody reads: nothing waits, little is kept, and what is lost is told before anything else. */
START_TEST(slow_reader__is_told_how_many_it_lost)
{
	int fd = listener(5);
	json_int_t seen = 0, lost = 0;
	uint64_t begun = daemon_clock();
	json_t *o;

	happen(FLOOD);
	ck_assert_uint_lt(daemon_clock() - begun, 5000000000ull);
	while ((o = next(fd))) {
		ck_assert_str_eq(text_of(o, "event"), "path_dead");
		ck_assert_int_eq(number_of(o, "number"), ++seen);
		json_decref(o);
	}
	ck_assert_int_gt(seen, 50);
	ck_assert_int_lt(seen, FLOOD);
	/* Told as soon as there is room, without another event. */
	worker_wait(d, 0);
	o = next(fd);
	ck_assert_ptr_nonnull(o);
	ck_assert_str_eq(text_of(o, "event"), "lost");
	lost = number_of(o, "count");
	json_decref(o);
	ck_assert_int_eq(seen + lost, FLOOD);
	happen(1);
	o = next(fd);
	ck_assert_int_eq(number_of(o, "number"), FLOOD + 1);
	json_decref(o);
	worker_wait(d, 0);
	ck_assert_ptr_null(next(fd));
	close(fd);
}
END_TEST

/* The loss is told by the next event, before epoll sees enough room: it must not go on to say that there is. */
START_TEST(slow_reader__leaves_the_worker_in_peace)
{
	struct epoll_event event;
	int fd = listener(5);
	json_t *o;

	happen(FLOOD);
	for (int i = 0; i < 8; i++) {
		o = next(fd);
		ck_assert_ptr_nonnull(o);
		json_decref(o);
	}
	happen(1);
	while ((o = next(fd)))
		json_decref(o);
	worker_wait(d, 0);
	ck_assert_int_eq(epoll_wait(d->epoll, &event, 1, 0), 0);
	close(fd);
}
END_TEST

START_TEST(slow_reader__costs_others_nothing)
{
	int slow = listener(5), quick = listener(6);

	for (int i = 0; i < 3000; i++) {
		happen(1);
		expect(quick, "path_dead");
	}
	close(slow);
	close(quick);
}
END_TEST

START_TEST(listeners__are_few)
{
	int fds[MONITORS_MAX], n = 0, extra;

	for (uid_t uid = 0; uid < MONITORS_MAX / MONITORS_OF_USER; uid++) {
		for (int i = 0; i < MONITORS_OF_USER; i++)
			fds[n++] = listener(uid);
		ck_assert_int_eq(monitor_new(d, uid, &extra), -EDQUOT);
	}
	ck_assert_int_eq(monitor_new(d, 999, &extra), -EDQUOT);
	/* Who leaves makes room. */
	close(fds[0]);
	worker_wait(d, 0);
	fds[0] = listener(0);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	happen(3);
	worker_wait(d, 0);
	ck_assert(LIST_EMPTY(&d->monitors));
}
END_TEST

START_TEST(end__is_told)
{
	int fd = listener(5);

	monitor_free_all(d);
	expect(fd, "stop");
	ck_assert_int_eq(recv(fd, (char[8]){ 0 }, 8, MSG_DONTWAIT), 0);
	close(fd);
}
END_TEST

static Suite *monitor_suite(void)
{
	Suite *s = suite_create("monitor");
	TCase *tc = tcase_create("monitor");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, note__has_its_facts);
	tcase_add_test(tc, slow_reader__is_told_how_many_it_lost);
	tcase_add_test(tc, slow_reader__leaves_the_worker_in_peace);
	tcase_add_test(tc, slow_reader__costs_others_nothing);
	tcase_add_test(tc, listeners__are_few);
	tcase_add_test(tc, end__is_told);
	suite_add_tcase(s, tc);
	return s;
}

UNIT_MAIN(monitor_suite)
