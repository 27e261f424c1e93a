/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include "common/iptext.h"
#include "daemon/journal.h"
#include "daemon/monitor.h"

/* Some hundred records, whatever the system's default is. */
#define QUEUE_BYTES 262144

struct monitor {
	struct watch watch;
	struct daemon *d;
	uid_t uid;
	uint64_t lost; /* records since the last that went */
	LIST_ENTRY(monitor) link;
};

static void want(struct monitor *m, uint32_t events)
{
	struct epoll_event e = { .events = events | EPOLLRDHUP, .data.ptr = &m->watch };

	epoll_ctl(m->d->epoll, EPOLL_CTL_MOD, m->watch.fd, &e);
}

static bool send_text(const struct monitor *m, const char *text)
{
	return send(m->watch.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static json_t *record(struct daemon *d, const char *event)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return json_pack("{s:s,s:I,s:f}", "event", event, "number", (json_int_t)d->note_number,
			 "time", (double)t.tv_sec + (double)(t.tv_nsec / 1000) / 1e6);
}

/* The object is used up. */
static char *text_of(json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(16)) : NULL;

	json_decref(o);
	return text;
}

/* False: still no room. */
static bool tell_lost(struct monitor *m)
{
	json_t *o = record(m->d, "lost");
	char *text;
	bool sent;

	json_object_set_new(o, "count", json_integer((json_int_t)m->lost));
	text = text_of(o);
	sent = text && send_text(m, text);
	free(text);
	if (sent)
		m->lost = 0;
	return sent;
}

static void deliver(struct monitor *m, const char *text)
{
	if (text && (!m->lost || tell_lost(m)) && send_text(m, text))
		return;
	/* If it has gone its watch says so. */
	if (!m->lost++)
		want(m, EPOLLOUT);
}

static void monitor_free(struct monitor **mp)
{
	struct monitor *m = *mp;

	*mp = NULL;
	daemon_unwatch(m->d, &m->watch);
	close(m->watch.fd);
	LIST_REMOVE(m, link);
	free(m);
}

static void on_ready(struct watch *w, uint32_t events)
{
	struct monitor *m = (struct monitor *)((char *)w - offsetof(struct monitor, watch));

	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
		monitor_free(&m);
		return;
	}
	/* An event in between may have told of the loss already. */
	if (!m->lost || tell_lost(m))
		want(m, 0);
}

static void add_connection(json_t *o, const struct engine_note *n)
{
	char peer[IPTEXT_MAX];

	json_object_set_new(o, "conn", json_sprintf("0x%08x", n->conn_id));
	json_object_set_new(o, "peer", json_string(iptext(n->peer.a, peer)));
	json_object_set_new(o, "service", json_integer(n->service));
}

static json_t *describe(struct daemon *d, int level, const struct engine_note *n, const char *line)
{
	json_t *o = record(d, note_name(n->kind));

	json_object_set_new(o, "level", json_integer(level));
	if (n->conn_id)
		add_connection(o, n);
	if (n->path >= 0)
		json_object_set_new(o, "path", json_integer(n->path));
	if (n->port)
		json_object_set_new(o, "port", json_string(n->port->name));
	if (n->reason)
		json_object_set_new(o, "reason", json_string(path_reason_text(n->reason)));
	if (n->kind == NOTE_STALL) {
		json_object_set_new(o, "stream", json_integer(n->stream));
		json_object_set_new(o, "msg", json_integer(n->msg));
	}
	json_object_set_new(o, "text", json_string(line));
	return o;
}

void monitor_note(struct daemon *d, int level, const struct engine_note *n, const char *line)
{
	struct monitor *m;
	char *text;

	d->note_number++;
	if (LIST_EMPTY(&d->monitors))
		return;
	text = text_of(describe(d, level, n, line));
	LIST_FOREACH(m, &d->monitors, link)
		deliver(m, text);
	free(text);
}

static bool too_many(const struct daemon *d, uid_t uid)
{
	const struct monitor *m;
	int all = 0, own = 0;

	LIST_FOREACH(m, &d->monitors, link) {
		all++;
		own += m->uid == uid;
	}
	return all >= MONITORS_MAX || own >= MONITORS_OF_USER;
}

static void greet(struct monitor *m)
{
	json_t *o = record(m->d, "start");
	char *text;

	json_object_set_new(o, "version", json_string(MROCE_VERSION));
	json_object_set_new(o, "pid", json_integer(getpid()));
	text = text_of(o);
	deliver(m, text);
	free(text);
}

int monitor_new(struct daemon *d, uid_t uid, int *fd)
{
	int pair[2], bytes = QUEUE_BYTES, err;
	struct monitor *m;

	if (too_many(d, uid))
		return -EDQUOT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	m = calloc(1, sizeof(*m));
	err = m ? 0 : -ENOMEM;
	if (m) {
		*m = (struct monitor){ .watch = { on_ready, pair[0] }, .d = d, .uid = uid };
		err = daemon_watch(d, &m->watch, EPOLLRDHUP);
	}
	if (err) {
		free(m);
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	LIST_INSERT_HEAD(&d->monitors, m, link);
	greet(m);
	*fd = pair[1];
	return 0;
}

void monitor_free_all(struct daemon *d)
{
	struct monitor *m;
	char *text;

	if (LIST_EMPTY(&d->monitors))
		return;
	text = text_of(record(d, "stop"));
	while ((m = LIST_FIRST(&d->monitors))) {
		deliver(m, text);
		monitor_free(&m);
	}
	free(text);
}
