/* SPDX-License-Identifier: BSD-2-Clause */
/* context.c: opening and closing the link to the daemon, texts of errors. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "client/client.h"
#include "common/ring.h"

#define SPIN_ENV "MROCE_SPIN_US"
#define SPIN_DEFAULT_US 20
#define SPIN_MAX_US 1000000

/* Why mroce_open() failed: there is no context to keep it in. */
static __thread char open_error[sizeof(((struct mroce *)0)->error)];

int client_fail(struct mroce *m, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(m ? m->error : open_error, sizeof(open_error), fmt, args);
	va_end(args);
	return err;
}

uint64_t client_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t client_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : client_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

int client_ms_left(uint64_t deadline)
{
	uint64_t now;
	uint64_t ms;

	if (deadline == UINT64_MAX)
		return -1;
	now = client_now_ns();
	if (now >= deadline)
		return 0;
	ms = (deadline - now + 999999) / 1000000;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static uint64_t spin_from_env(void)
{
	const char *text = getenv(SPIN_ENV);
	char *end;
	unsigned long us;

	if (!text || !*text)
		return SPIN_DEFAULT_US * 1000;
	us = strtoul(text, &end, 10);
	if (*end || us > SPIN_MAX_US)
		return SPIN_DEFAULT_US * 1000;
	return us * 1000;
}

static struct mroce *context_new(void)
{
	struct mroce *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->sock = m->doorbell = m->wake = m->event = -1;
	TAILQ_INIT(&m->free_requests);
	TAILQ_INIT(&m->conns);
	TAILQ_INIT(&m->listeners);
	TAILQ_INIT(&m->mrs);
	m->requests = calloc(CLIENT_REQUESTS, sizeof(*m->requests));
	if (!m->requests) {
		free(m);
		return NULL;
	}
	for (uint32_t i = 0; i < CLIENT_REQUESTS; i++)
		TAILQ_INSERT_TAIL(&m->free_requests, &m->requests[i], link);
	m->spin_ns = m->spin_now = spin_from_env();
	return m;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void context_free(struct mroce *m)
{
	if (m->rings)
		munmap(m->rings, m->ring_bytes);
	close_fd(m->event);
	close_fd(m->wake);
	close_fd(m->doorbell);
	close_fd(m->sock);
	free(m->requests);
	free(m->gaps);
	free(m);
}

static int map_rings(struct mroce *m, const struct abi_msg *answer, int fd)
{
	struct stat st;
	void *p;

	if (answer->hello.sq_entries != ABI_SQ_ENTRIES ||
	    answer->hello.cq_entries != ABI_CQ_ENTRIES ||
	    answer->hello.ring_bytes < sizeof(*m->rings) || fstat(fd, &st) ||
	    (uint64_t)st.st_size < sizeof(*m->rings))
		return client_fail(m, -EPROTO,
				   "mroced's rings have another layout: library and daemon "
				   "are of different versions, restart what is older");
	p = mmap(NULL, sizeof(*m->rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return client_fail(m, -errno, "mapping the rings: %s", strerror(errno));
	m->rings = p;
	m->ring_bytes = sizeof(*m->rings);
	m->sq_tail = ring_load(&m->rings->sq_tail);
	m->cq_head = ring_load(&m->rings->cq_head);
	return 0;
}

static int make_event_fd(struct mroce *m)
{
	struct epoll_event sock = { .events = EPOLLIN };
	struct epoll_event wake = { .events = EPOLLIN };

	m->event = epoll_create1(EPOLL_CLOEXEC);
	if (m->event < 0 || epoll_ctl(m->event, EPOLL_CTL_ADD, m->sock, &sock) ||
	    epoll_ctl(m->event, EPOLL_CTL_ADD, m->wake, &wake))
		return client_fail(m, -errno, "making the event descriptor: %s", strerror(errno));
	return 0;
}

static int hello(struct mroce *m)
{
	struct abi_msg msg = client_msg(ABI_HELLO);
	int fds[CTL_MAX_FDS];
	int err;

	msg.hello.version = ABI_VERSION;
	err = client_call(m, &msg, -1, fds, client_deadline(CLIENT_ANSWER_MS));
	if (err)
		return err;
	m->doorbell = ctl_take_fd(fds, ABI_FD_DOORBELL);
	m->wake = ctl_take_fd(fds, ABI_FD_WAKE);
	if (fds[ABI_FD_RINGS] < 0 || m->doorbell < 0 || m->wake < 0)
		err = client_fail(m, -EPROTO,
				  "mroced's answer carries too few descriptors (limit of "
				  "open files? see ulimit -n)");
	if (!err)
		err = map_rings(m, &msg, fds[ABI_FD_RINGS]);
	ctl_close_fds(fds);
	return err ? err : make_event_fd(m);
}

static int explain_connect(const char *path, int err)
{
	switch (err) {
	case -ENOENT: return client_fail(NULL, err, "%s does not exist: is mroced running?", path);
	case -ECONNREFUSED:
		return client_fail(NULL, err, "%s: nobody listens: mroced has died, start it again",
				   path);
	case -EACCES: return client_fail(NULL, err, "%s: no permission to write to it", path);
	}
	return client_fail(NULL, err, "%s: %s", path, strerror(-err));
}

int mroce_open(const char *socket, struct mroce **out)
{
	const char *path = ctl_socket_path(socket);
	struct mroce *m = context_new();
	int err;

	if (!m)
		return client_fail(NULL, -ENOMEM, "no memory for a context");
	m->sock = ctl_connect(path, CLIENT_ANSWER_MS);
	if (m->sock < 0) {
		err = explain_connect(path, m->sock);
		context_free(m);
		return err;
	}
	err = hello(m);
	if (err) {
		client_fail(NULL, err, "%s: %s", path, m->error);
		context_free(m);
		return err;
	}
	*out = m;
	return 0;
}

void mroce_close(struct mroce **mp)
{
	struct mroce *m = *mp;

	*mp = NULL;
	if (!m)
		return;
	/* One by one, so that the daemon has let go of all memory when this returns. */
	while (!TAILQ_EMPTY(&m->listeners)) {
		struct mroce_listener *l = TAILQ_FIRST(&m->listeners);

		mroce_listener_free(&l);
	}
	while (!TAILQ_EMPTY(&m->conns)) {
		struct mroce_conn *c = TAILQ_FIRST(&m->conns);

		mroce_conn_close(&c);
	}
	while (!TAILQ_EMPTY(&m->mrs)) {
		struct mroce_mr *mr = TAILQ_FIRST(&m->mrs);

		mroce_mr_free(&mr);
	}
	context_free(m);
}

int mroce_fd(const struct mroce *m)
{
	return m->event;
}

const char *mroce_last_error(const struct mroce *m)
{
	return m ? m->error : open_error;
}

const char *mroce_status_text(enum mroce_status status)
{
	switch (status) {
	case MROCE_OK: return "success";
	case MROCE_E_FLUSHED: return "not done: the connection was closed before";
	case MROCE_E_REMOTE_ACCESS: return "the peer's region does not allow it";
	case MROCE_E_LOCAL_ACCESS: return "the own region does not allow it";
	case MROCE_E_LENGTH: return "message longer than the receive it met";
	case MROCE_E_PEER_GONE: return "the peer closed, died or cannot be reached";
	case MROCE_E_PROTOCOL: return "the peer broke the protocol";
	case MROCE_E_DAEMON: return "the local mroced is gone";
	case MROCE_E_LOSS: return "at its deadline more was missing than was tolerated";
	}
	return "unknown status";
}
