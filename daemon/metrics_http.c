/* SPDX-License-Identifier: BSD-2-Clause */
/* metrics_http.c: the thread that answers, and how it gets its snapshot from the worker. */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "daemon/journal.h"
#include "daemon/metrics.h"

/* Who asks more often gets the same again. */
#define FRESH_NS 200000000ull
#define PATIENCE_S 2
#define CONNECTIONS_MAX 16
#define IDLE_SECONDS 10
#define BACKLOG 16

/* Who may touch the snapshot. */
enum hand {
	HAND_IDLE,   /* the thread */
	HAND_WANTED, /* the worker */
	HAND_FILLED, /* the thread */
};

struct metrics {
	struct watch bell;
	struct daemon *d;
	struct MHD_Daemon *http;
	int listener;
	char *unlink_path;
	_Atomic int hand;
	sem_t filled;
	struct metrics_snapshot snapshot;
	/* the thread's own */
	char *text;
	size_t len;
	uint64_t text_at;
};

/* ---- where ---- */

static bool unix_address(const char *text, struct metrics_address *out)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&out->sa;

	if (strlen(text) >= sizeof(sun->sun_path))
		return false;
	sun->sun_family = AF_UNIX;
	strcpy(sun->sun_path, text);
	out->len = sizeof(*sun);
	return true;
}

static bool port_number(const char *text, in_port_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*port = htons((uint16_t)n);
	return *text >= '0' && *text <= '9' && !*end && n > 0 && n <= UINT16_MAX;
}

static bool tcp_address(const char *host, const char *port, struct metrics_address *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&out->sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&out->sa;
	char bare[INET6_ADDRSTRLEN];
	size_t len = strlen(host);

	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		out->len = sizeof(*in);
		return port_number(port, &in->sin_port);
	}
	if (len < 3 || host[0] != '[' || host[len - 1] != ']' || len - 2 >= sizeof(bare))
		return false;
	memcpy(bare, host + 1, len - 2);
	bare[len - 2] = '\0';
	if (inet_pton(AF_INET6, bare, &in6->sin6_addr) != 1)
		return false;
	in6->sin6_family = AF_INET6;
	out->len = sizeof(*in6);
	return port_number(port, &in6->sin6_port);
}

bool metrics_address(const char *text, struct metrics_address *out)
{
	const char *colon = strrchr(text, ':');
	char host[64];

	memset(out, 0, sizeof(*out));
	if (*text == '/')
		return unix_address(text, out);
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return false;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	return tcp_address(host, colon + 1, out);
}

static bool is_local(const struct metrics_address *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;

	switch (a->sa.ss_family) {
	case AF_INET: return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	}
	return true;
}

/* ---- the worker's part ---- */

static void on_bell(struct watch *w, uint32_t events)
{
	struct metrics *m = (struct metrics *)((char *)w - offsetof(struct metrics, bell));
	uint64_t times;

	(void)events;
	if (read(w->fd, &times, sizeof(times)) != sizeof(times) ||
	    atomic_load(&m->hand) != HAND_WANTED)
		return;
	metrics_take(m->d, &m->snapshot);
	atomic_store(&m->hand, HAND_FILLED);
	sem_post(&m->filled);
}

/* ---- the thread's part ---- */

static bool wait_filled(struct metrics *m)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += PATIENCE_S;
	while (atomic_load(&m->hand) != HAND_FILLED)
		if (sem_timedwait(&m->filled, &limit) && errno != EINTR)
			return false;
	return true;
}

/* False: the worker did not come to it. What it owes is taken at the next request. */
static bool refresh(struct metrics *m)
{
	uint64_t one = 1;

	if (m->text && daemon_clock() - m->text_at < FRESH_NS)
		return true;
	if (atomic_load(&m->hand) != HAND_WANTED) {
		atomic_store(&m->hand, HAND_WANTED);
		if (write(m->bell.fd, &one, sizeof(one)) != sizeof(one))
			return false;
	}
	if (!wait_filled(m))
		return false;
	free(m->text);
	m->text = metrics_text(&m->snapshot, &m->len);
	m->text_at = daemon_clock();
	atomic_store(&m->hand, HAND_IDLE);
	return m->text;
}

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned int status,
			     const char *type, const char *text, size_t len)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(len, (void *)text,
								 MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned int status, const char *text)
{
	return reply(connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **state)
{
	struct metrics *m = arg;

	(void)version;
	(void)upload;
	(void)state;
	/* A body is read and forgotten. */
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD are understood\n");
	if (!strcmp(url, "/"))
		return say(connection, MHD_HTTP_OK, "mroced " MROCE_VERSION ": see /metrics\n");
	if (strcmp(url, "/metrics"))
		return say(connection, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
	if (!refresh(m))
		return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			   "the worker of mroced does not answer\n");
	return reply(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", m->text,
		     m->len);
}

/* ---- start and stop ---- */

static int open_listener(struct metrics *m, const char *text)
{
	struct metrics_address a;
	int one = 1, err;

	if (!metrics_address(text, &a))
		return -EINVAL;
	m->listener = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->listener < 0)
		return -errno;
	if (a.sa.ss_family == AF_UNIX) {
		struct stat st;

		/* Left by one that was killed: the daemon's own lock keeps a second one away. */
		if (!lstat(text, &st) && S_ISSOCK(st.st_mode))
			unlink(text);
	} else {
		setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	}
	if (bind(m->listener, (struct sockaddr *)&a.sa, a.len))
		return -errno;
	if (a.sa.ss_family == AF_UNIX) {
		m->unlink_path = strdup(text);
		if (chmod(text, 0660))
			return -errno;
	}
	err = listen(m->listener, BACKLOG) ? -errno : 0;
	if (!err && !is_local(&a))
		journal(LOG_NOTICE,
			"metrics: %s is no loopback address: who reaches it can read them", text);
	return err;
}

static int start(struct metrics *m, const char *text)
{
	int err = open_listener(m, text);

	if (err)
		return err;
	m->bell = (struct watch){ on_bell, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	err = m->bell.fd < 0 ? -errno : daemon_watch(m->d, &m->bell, EPOLLIN);
	if (err)
		return err;
	/* One thread. */
	m->http = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL,
				   on_request, m, MHD_OPTION_LISTEN_SOCKET, m->listener,
				   MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS_MAX,
				   MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)IDLE_SECONDS,
				   MHD_OPTION_END);
	return m->http ? 0 : -EAGAIN;
}

int metrics_open(struct daemon *d, struct metrics **out)
{
	const char *text = d->cfg->metrics;
	struct metrics *m;
	int err;

	*out = NULL;
	if (!text)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->d = d;
	m->bell.fd = m->listener = -1;
	sem_init(&m->filled, 0, 0);
	err = start(m, text);
	if (err) {
		metrics_close(&m);
		return journal_error(err, "metrics on %s: %s", text, strerror(-err));
	}
	journal(LOG_INFO, "metrics on %s%s", *text == '/' ? "" : "http://", text);
	*out = m;
	return 0;
}

void metrics_close(struct metrics **mp)
{
	struct metrics *m = *mp;

	*mp = NULL;
	if (!m)
		return;
	/* It may just wait for us. */
	if (atomic_load(&m->hand) == HAND_WANTED) {
		metrics_take(m->d, &m->snapshot);
		atomic_store(&m->hand, HAND_FILLED);
		sem_post(&m->filled);
	}
	if (m->http)
		MHD_stop_daemon(m->http); /* closes the listener */
	else if (m->listener >= 0)
		close(m->listener);
	if (m->unlink_path)
		unlink(m->unlink_path);
	if (m->bell.fd >= 0) {
		daemon_unwatch(m->d, &m->bell);
		close(m->bell.fd);
	}
	sem_destroy(&m->filled);
	free(m->unlink_path);
	free(m->text);
	free(m);
}
