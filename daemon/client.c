/* SPDX-License-Identifier: BSD-2-Clause */
/* client.c: life of a context, its messages out, its table of connections. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "common/ctl.h"
#include "common/ring.h"
#include "daemon/client.h"
#include "daemon/journal.h"

/* No honest application gets here: requests are not read while answers wait, and events are bounded by
 * the number of connections. */
#define OUTGOING_MAX (4 * MROCE_MAX_CONNS)
#define MESSAGES_PER_TURN 16
#define SLOTS_FIRST 16
#define SLOTS_MAX 65536

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static void on_socket(struct watch *w, uint32_t events)
{
	struct client *c = container_of(w, struct client, socket);

	if (c->broken)
		return;
	if (events & EPOLLOUT)
		client_send_queued(c);
	/* Nothing is read from it while answers wait: these events would come again and again. */
	if (!STAILQ_EMPTY(&c->outgoing)) {
		if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			client_break(c, "it has hung up without reading its answers");
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		control_serve(c, MESSAGES_PER_TURN);
}

/* Of Linux 6.5; not in the headers of Debian 12. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* The process has ended, though a child may still hold its socket. */
static void on_process(struct watch *w, uint32_t events)
{
	struct client *c = container_of(w, struct client, process_watch);

	(void)events;
	client_break(c, "its process has ended");
}

/* The very process that connected; on older kernels the one that has its number now. */
static int peer_process(const struct client *c)
{
	socklen_t size = sizeof(int);
	int fd;

	if (getsockopt(c->socket.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
		return fd;
	return errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, c->pid, 0) : -1;
}

static void watch_process(struct client *c)
{
	int fd = peer_process(c);

	/* Of another pid namespace, or gone already: then the socket must do. */
	if (fd < 0)
		return;
	c->process_watch = (struct watch){ on_process, fd };
	if (daemon_watch(c->d, &c->process_watch, EPOLLIN)) {
		close(fd);
		c->process_watch.fd = -1;
	}
}

int client_new(struct daemon *d, int fd, struct client **out)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);
	struct client *c;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		return -errno;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->d = d;
	c->pid = cred.pid;
	c->uid = cred.uid;
	c->wake = c->doorbell.fd = c->process_watch.fd = -1;
	c->socket = (struct watch){ on_socket, fd };
	LIST_INIT(&c->listening);
	TAILQ_INIT(&c->regions);
	STAILQ_INIT(&c->outgoing);
	c->quota = quota_get(&d->quotas, c->uid);
	if (!c->quota || daemon_watch(d, &c->socket, EPOLLIN | EPOLLRDHUP)) {
		quota_put(&d->quotas, &c->quota);
		free(c);
		return -ENOMEM;
	}
	if (c->pid > 0)
		watch_process(c);
	c->quota->sockets++;
	d->nsockets++;
	TAILQ_INSERT_TAIL(&d->clients, c, link);
	*out = c;
	return 0;
}

/* ---- leaving ---- */

void client_close_connections(struct client *c, enum mroce_close_code code)
{
	for (uint32_t i = 0; i < c->nslots; i++) {
		struct slot *s = c->slots[i];

		if (!s)
			continue;
		if (s->conn) {
			/* Nobody is there to be told. */
			engine_conn_set_cookie(s->conn, NULL);
			engine_conn_close(s->conn, code, c->d->now);
			engine_conn_free(&s->conn);
		}
		client_slot_free(&s);
	}
}

static void end_listening(struct client *c)
{
	struct listening *l;

	while ((l = LIST_FIRST(&c->listening))) {
		engine_unlisten(c->d->engine, l->service);
		LIST_REMOVE(l, link);
		c->quota->services--;
		free(l);
	}
}

static void remove_regions(struct client *c)
{
	struct region *r;

	while ((r = TAILQ_FIRST(&c->regions))) {
		TAILQ_REMOVE(&c->regions, r, link);
		if (r->inplace)
			region_inplace_revoke(r->inplace);
		c->quota->regions--;
		c->quota->bytes -= r->len;
		engine_region_remove(c->d->engine, c, r->key);
		free(r);
	}
}

static void drop_outgoing(struct client *c)
{
	struct outgoing *o;

	while ((o = STAILQ_FIRST(&c->outgoing))) {
		STAILQ_REMOVE_HEAD(&c->outgoing, link);
		free(o);
	}
}

static void close_watch(struct daemon *d, struct watch *w)
{
	if (w->fd < 0)
		return;
	daemon_unwatch(d, w);
	close(w->fd);
	w->fd = -1;
}

void client_free(struct client **cp)
{
	struct client *c = *cp;
	struct daemon *d;

	*cp = NULL;
	if (!c)
		return;
	d = c->d;
	c->broken = true;
	end_listening(c);
	client_close_connections(c, MROCE_CLOSE_APP_DIED);
	free(c->slots);
	free(c->generations);
	remove_regions(c);
	process_put(&c->process);
	drop_outgoing(c);
	if (c->is_dirty)
		TAILQ_REMOVE(&d->dirty, c, dirty_link);
	if (c->rings) {
		d->nclients--;
		c->quota->contexts--;
	}
	client_rings_close(c);
	close_watch(d, &c->process_watch);
	close_watch(d, &c->socket);
	c->quota->sockets--;
	d->nsockets--;
	quota_put(&d->quotas, &c->quota);
	TAILQ_REMOVE(&d->clients, c, link);
	free(c);
}

void client_break(struct client *c, const char *why)
{
	if (c->broken)
		return;
	journal(LOG_DEBUG, "application %d (uid %u): closing its context: %s", c->pid, c->uid, why);
	c->broken = true;
	c->d->client_broken = true;
}

/* ---- messages out ---- */

static void want_writable(struct client *c, bool wanted)
{
	/* While answers wait, no questions are taken. */
	struct epoll_event e = { .events = wanted ? EPOLLOUT | EPOLLRDHUP : EPOLLIN | EPOLLRDHUP,
				 .data.ptr = &c->socket };

	epoll_ctl(c->d->epoll, EPOLL_CTL_MOD, c->socket.fd, &e);
}

static void sent(struct client *c, const struct abi_msg *msg)
{
	if (!msg->answer && c->rings)
		ring_store(&c->rings->events, ++c->events);
}

static void enqueue(struct client *c, const struct abi_msg *msg)
{
	struct outgoing *o = c->noutgoing < OUTGOING_MAX ? malloc(sizeof(*o)) : NULL;

	if (!o) {
		client_break(c, "it does not read what it is told");
		return;
	}
	o->msg = *msg;
	if (STAILQ_EMPTY(&c->outgoing))
		want_writable(c, true);
	STAILQ_INSERT_TAIL(&c->outgoing, o, link);
	c->noutgoing++;
}

void client_send(struct client *c, const struct abi_msg *msg, const int *fds, int nfds)
{
	int err;

	if (c->broken)
		return;
	err = STAILQ_EMPTY(&c->outgoing) ? ctl_send(c->socket.fd, msg, fds, nfds) : -EAGAIN;
	if (!err)
		sent(c, msg);
	else if (err == -EAGAIN && nfds == 0)
		enqueue(c, msg);
	else
		client_break(c, err == -EPIPE ? "it has gone" : "it cannot be answered");
}

void client_send_event(struct client *c, const struct abi_msg *msg)
{
	/* What was completed before is to be seen before. */
	if (c->is_dirty && c->rings)
		client_publish(c);
	client_send(c, msg, NULL, 0);
}

void client_send_queued(struct client *c)
{
	struct outgoing *o;

	while ((o = STAILQ_FIRST(&c->outgoing))) {
		int err = ctl_send(c->socket.fd, &o->msg, NULL, 0);

		if (err == -EAGAIN)
			return;
		if (err) {
			client_break(c, "it has gone");
			return;
		}
		sent(c, &o->msg);
		STAILQ_REMOVE_HEAD(&c->outgoing, link);
		c->noutgoing--;
		free(o);
	}
	want_writable(c, false);
}

/* ---- connections ---- */

static bool grow_slots(struct client *c)
{
	uint32_t n = c->nslots ? 2 * c->nslots : SLOTS_FIRST;
	struct slot **slots;
	uint16_t *generations;

	if (n > SLOTS_MAX)
		return false;
	slots = realloc(c->slots, n * sizeof(*slots));
	if (slots)
		c->slots = slots;
	generations = realloc(c->generations, n * sizeof(*generations));
	if (generations)
		c->generations = generations;
	if (!slots || !generations)
		return false;
	memset(slots + c->nslots, 0, (n - c->nslots) * sizeof(*slots));
	memset(generations + c->nslots, 0, (n - c->nslots) * sizeof(*generations));
	c->free_hint = c->nslots;
	c->nslots = n;
	return true;
}

static bool find_free_slot(struct client *c, uint32_t *out)
{
	for (uint32_t i = 0; i < c->nslots; i++) {
		uint32_t at = (c->free_hint + i) % c->nslots;

		if (!c->slots[at]) {
			*out = at;
			return true;
		}
	}
	return false;
}

struct slot *client_slot_new(struct client *c)
{
	struct slot *s;
	uint32_t at;

	if (c->quota->connections >= c->d->cfg->connections)
		return NULL;
	if (!find_free_slot(c, &at) && (!grow_slots(c) || !find_free_slot(c, &at)))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	/* Generations 1 to 65535, so that no handle is 0. */
	if (++c->generations[at] == 0)
		c->generations[at] = 1;
	c->free_hint = at + 1;
	s->client = c;
	s->handle = (uint32_t)c->generations[at] << 16 | at;
	s->deadline = UINT64_MAX;
	c->slots[at] = s;
	c->quota->connections++;
	return s;
}

struct slot *client_slot(struct client *c, uint32_t handle)
{
	uint32_t at = handle & 0xffff;
	struct slot *s = at < c->nslots ? c->slots[at] : NULL;

	return s && s->handle == handle ? s : NULL;
}

void client_slot_free(struct slot **sp)
{
	struct slot *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	s->client->slots[s->handle & 0xffff] = NULL;
	s->client->quota->connections--;
	free(s);
}
