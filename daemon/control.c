/* SPDX-License-Identifier: BSD-2-Clause */
/* control.c: what applications ask through their sockets. Nothing here waits, nothing sent is trusted. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
#include "common/ctl.h"
#include "daemon/client.h"
#include "daemon/journal.h"
#include "daemon/monitor.h"

#define BACKLOG_MAX 1024
#define MIB (1024ull * 1024)

/* ---- answers ---- */

static struct abi_msg answer_to(const struct abi_msg *question)
{
	struct abi_msg msg = {
		.magic = ABI_MAGIC, .type = question->type, .answer = 1, .id = question->id
	};

	return msg;
}

static void answer(struct client *c, struct abi_msg *msg)
{
	client_send(c, msg, NULL, 0);
}

__attribute__((format(printf, 4, 5))) static void refuse(struct client *c,
							 const struct abi_msg *question, int err,
							 const char *fmt, ...)
{
	struct abi_msg msg = answer_to(question);
	va_list args;

	msg.status = err;
	va_start(args, fmt);
	vsnprintf(msg.text, sizeof(msg.text), fmt, args);
	va_end(args);
	answer(c, &msg);
}

/* ---- the context ---- */

static void on_hello(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	int out[ABI_HELLO_FDS];
	int err;

	(void)fds;
	if (c->rings) {
		refuse(c, q, -EALREADY, "this socket has a context already");
		return;
	}
	if (q->hello.version != ABI_VERSION) {
		refuse(c, q, -EPROTO,
		       "libmroce speaks version %u to mroced, this mroced (%s) speaks %d",
		       q->hello.version, MROCE_VERSION, ABI_VERSION);
		return;
	}
	if (c->quota->contexts >= c->d->cfg->contexts) {
		refuse(c, q, -EDQUOT, "user %u has %u contexts already, see [quota] contexts",
		       c->uid, c->quota->contexts);
		return;
	}
	err = client_rings_open(c, out);
	if (err) {
		refuse(c, q, err, "mroced cannot make the rings: %s", strerror(-err));
		return;
	}
	c->quota->contexts++;
	c->d->nclients++;
	msg.hello.version = ABI_VERSION;
	msg.hello.sq_entries = ABI_SQ_ENTRIES;
	msg.hello.cq_entries = ABI_CQ_ENTRIES;
	msg.hello.ring_bytes = sizeof(*c->rings);
	client_send(c, &msg, out, ABI_HELLO_FDS);
	for (int i = 0; i < ABI_HELLO_FDS; i++)
		close(out[i]);
}

/* ---- regions ---- */

#define ACCESS_ALL (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)

/* True: refused. */
static bool region_refused(struct client *c, const struct abi_msg *q)
{
	struct quota *u = c->quota;
	uint64_t limit = c->d->cfg->memory_mib * MIB;

	if (q->mr.len == 0 || q->mr.addr + q->mr.len < q->mr.addr || q->mr.access & ~ACCESS_ALL)
		refuse(c, q, -EINVAL, "region of %llu bytes at %#llx with access %#x",
		       (unsigned long long)q->mr.len, (unsigned long long)q->mr.addr, q->mr.access);
	else if (u->regions >= c->d->cfg->regions)
		refuse(c, q, -EDQUOT, "user %u has %u regions already, see [quota] regions", c->uid,
		       u->regions);
	else if (q->mr.len > limit || u->bytes > limit - q->mr.len)
		refuse(c, q, -EDQUOT,
		       "user %u would have more than %u MiB in regions, see [quota] "
		       "memory_mib",
		       c->uid, c->d->cfg->memory_mib);
	else
		return false;
	return true;
}

/* Hands a region to the engine. *r becomes the client's if it worked. */
static int region_take(struct client *c, const struct region_params *p, struct region *r)
{
	int err = engine_region_add(c->d->engine, p, &r->key);

	if (err) {
		p->ops->release(p->priv);
		return err;
	}
	r->len = p->len;
	TAILQ_INSERT_TAIL(&c->regions, r, link);
	c->quota->regions++;
	c->quota->bytes += r->len;
	return 0;
}

static void region_ask(struct client *c, const struct abi_msg *q,
		       int (*make)(struct client *c, int fd, struct region_params *p,
				   struct region *r, const char **why),
		       int fd)
{
	struct region_params p = {
		.owner = c, .iova = q->mr.addr, .len = q->mr.len, .access = q->mr.access
	};
	struct abi_msg msg = answer_to(q);
	const char *why = NULL;
	struct region *r;
	int err;

	if (region_refused(c, q))
		return;
	r = calloc(1, sizeof(*r));
	err = r ? make(c, fd, &p, r, &why) : -ENOMEM;
	if (!err)
		err = region_take(c, &p, r);
	if (err) {
		refuse(c, q, err, "region of %llu bytes: %s", (unsigned long long)q->mr.len,
		       why ? why : strerror(-err));
		free(r);
		return;
	}
	msg.mr = q->mr;
	msg.mr.key = r->key;
	answer(c, &msg);
}

static int make_shared(struct client *c, int fd, struct region_params *p, struct region *r,
		       const char **why)
{
	(void)c;
	(void)r;
	return region_shared(fd, p->len, p, why);
}

static int make_inplace(struct client *c, int fd, struct region_params *p, struct region *r,
			const char **why)
{
	int err = 0;

	(void)fd;
	if (c->pid <= 0) {
		*why = "mroced cannot see the process (other pid namespace); use mroce_alloc()";
		return -EOPNOTSUPP;
	}
	if (!c->process)
		err = process_open(c->pid, c->process_watch.fd, c->uid, &c->process);
	if (err) {
		*why = "mroced may not reach the memory of the process (it has changed its user or "
		       "is "
		       "not dumpable, or mroced lacks CAP_SYS_PTRACE); use mroce_alloc()";
		return err;
	}
	return region_inplace(c->process, p, &r->inplace);
}

static void on_mr_shared(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	if (fds[0] < 0)
		refuse(c, q, -EBADF, "ABI_MR_SHARED without a descriptor");
	else
		region_ask(c, q, make_shared, fds[0]);
}

static void on_mr_inplace(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	(void)fds;
	region_ask(c, q, make_inplace, -1);
}

static struct region *find_region(struct client *c, uint32_t key)
{
	struct region *r;

	TAILQ_FOREACH(r, &c->regions, link)
		if (r->key == key)
			return r;
	return NULL;
}

static void on_mr_free(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	struct region *r = find_region(c, q->mr.key);

	(void)fds;
	if (!r) {
		refuse(c, q, -ENOENT, "no region with key %#x", q->mr.key);
		return;
	}
	TAILQ_REMOVE(&c->regions, r, link);
	if (r->inplace)
		region_inplace_revoke(r->inplace);
	engine_region_remove(c->d->engine, c, r->key);
	c->quota->regions--;
	c->quota->bytes -= r->len;
	free(r);
	answer(c, &msg);
}

/* ---- connections ---- */

static void on_listen(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	struct listening *l;
	int err;

	(void)fds;
	if (q->conn.service == 0 || q->conn.backlog == 0 || q->conn.backlog > BACKLOG_MAX) {
		refuse(c, q, -EINVAL, "listen: service %u, backlog %u", q->conn.service,
		       q->conn.backlog);
		return;
	}
	if (c->quota->services >= c->d->cfg->services) {
		refuse(c, q, -EDQUOT,
		       "user %u listens for %u services already, see [quota] services", c->uid,
		       c->quota->services);
		return;
	}
	l = calloc(1, sizeof(*l));
	err = l ? engine_listen(c->d->engine, q->conn.service, c, q->conn.backlog) : -ENOMEM;
	if (err) {
		free(l);
		refuse(c, q, err, "service %u: %s", q->conn.service,
		       err == -EADDRINUSE ? "another application of this host listens for it"
					  : strerror(-err));
		return;
	}
	l->service = q->conn.service;
	LIST_INSERT_HEAD(&c->listening, l, link);
	c->quota->services++;
	answer(c, &msg);
}

static struct listening *find_listening(struct client *c, uint32_t service)
{
	struct listening *l;

	LIST_FOREACH(l, &c->listening, link)
		if (l->service == service)
			return l;
	return NULL;
}

static void on_unlisten(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	struct listening *l = find_listening(c, q->conn.service);

	(void)fds;
	if (!l) {
		refuse(c, q, -ENOENT, "not listening for service %u", q->conn.service);
		return;
	}
	engine_unlisten(c->d->engine, l->service);
	LIST_REMOVE(l, link);
	c->quota->services--;
	free(l);
	answer(c, &msg);
}

static void on_connect(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct daemon *d = c->d;
	struct slot *s;
	struct ip remote;
	int err;

	(void)fds;
	if (q->conn.service == 0) {
		refuse(c, q, -EINVAL, "connect: service must not be 0");
		return;
	}
	s = client_slot_new(c);
	if (!s) {
		refuse(c, q, -EDQUOT, "user %u has %u connections already, see [quota] connections",
		       c->uid, c->quota->connections);
		return;
	}
	memcpy(remote.a, q->conn.ip, sizeof(remote.a));
	s->state = SLOT_CONNECTING;
	s->request = q->id;
	err = engine_connect(d->engine, &remote, q->conn.service, c, s, d->now, &s->conn);
	if (err) {
		client_slot_free(&s);
		refuse(c, q, err, "connect: %s",
		       err == -EHOSTUNREACH ? "no interface of mroced has a route to the address"
					    : strerror(-err));
		return;
	}
	if (q->conn.timeout_ms == 0)
		return;
	s->deadline = d->now + q->conn.timeout_ms * 1000000ull;
	if (s->deadline < d->connect_deadline)
		d->connect_deadline = s->deadline;
}

static void give_up_connect(struct slot **sp)
{
	struct slot *s = *sp;
	struct client *c = s->client;
	struct abi_msg q = { .magic = ABI_MAGIC, .type = ABI_CONNECT, .id = s->request };

	engine_conn_set_cookie(s->conn, NULL);
	engine_conn_close(s->conn, MROCE_CLOSE_NORMAL, c->d->now);
	engine_conn_free(&s->conn);
	client_slot_free(sp);
	refuse(c, &q, -ETIMEDOUT, "connect: no answer from the peer");
}

void control_expire(struct daemon *d)
{
	struct client *c;

	if (d->now < d->connect_deadline)
		return;
	d->connect_deadline = UINT64_MAX;
	TAILQ_FOREACH(c, &d->clients, link)
		for (uint32_t i = 0; i < c->nslots; i++) {
			struct slot *s = c->slots[i];

			if (!s || s->state != SLOT_CONNECTING || !s->conn)
				continue;
			if (d->now >= s->deadline)
				give_up_connect(&s);
			else if (s->deadline < d->connect_deadline)
				d->connect_deadline = s->deadline;
		}
}

static void on_close(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct slot *s = client_slot(c, q->conn.handle);
	struct abi_msg msg = answer_to(q);

	(void)fds;
	if (!s || s->state == SLOT_CONNECTING) {
		refuse(c, q, -ENOENT, "no connection %#x in this context", q->conn.handle);
		return;
	}
	if (s->conn) {
		/* Its requests end now, as flushed: libmroce needs these completions to reuse its records. */
		engine_conn_close(s->conn, MROCE_CLOSE_NORMAL, c->d->now);
		engine_conn_set_cookie(s->conn, NULL);
		engine_conn_free(&s->conn);
	}
	client_slot_free(&s);
	answer(c, &msg);
}

static void on_taken(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct slot *s = client_slot(c, q->conn.handle);

	(void)fds;
	if (!s || s->state != SLOT_WAITING)
		return;
	s->state = SLOT_OPEN;
	engine_conn_taken(s->conn);
}

/* ---- show ---- */

static int text_to_memfd(const char *text, size_t bytes)
{
	int fd = memfd_create("mroce-show", MFD_CLOEXEC);
	size_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < bytes) {
		ssize_t n = write(fd, text + done, bytes - done);

		if (n <= 0) {
			close(fd);
			return -EIO;
		}
		done += (size_t)n;
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void on_show(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	char what[sizeof(q->show.what) + 1] = "";
	char *text;
	int fd;

	(void)fds;
	memcpy(what, q->show.what, sizeof(q->show.what));
	text = show_text(c->d, what, q->show.conn_id);
	if (!text) {
		refuse(c, q, -EINVAL,
		       "show: unknown object; known are all, port, conn, path, stream, "
		       "counters, config, errors");
		return;
	}
	msg.show.bytes = strlen(text);
	fd = text_to_memfd(text, strlen(text));
	free(text);
	if (fd < 0) {
		refuse(c, q, fd, "show: %s", strerror(-fd));
		return;
	}
	client_send(c, &msg, &fd, 1);
	close(fd);
}

static void on_monitor(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	struct abi_msg msg = answer_to(q);
	int fd, err;

	(void)fds;
	err = monitor_new(c->d, c->uid, &fd);
	if (err) {
		refuse(c, q, err, "monitor: %s",
		       err == -EDQUOT ? "too many listen to events already" : strerror(-err));
		return;
	}
	client_send(c, &msg, &fd, 1);
	close(fd);
}

/* ---- messages in ---- */

static const struct {
	void (*handle)(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS]);
	bool stranger; /* may come before HELLO */
} handlers[] = {
	[ABI_HELLO] = { on_hello, true },
	[ABI_MR_SHARED] = { on_mr_shared, false },
	[ABI_MR_INPLACE] = { on_mr_inplace, false },
	[ABI_MR_FREE] = { on_mr_free, false },
	[ABI_LISTEN] = { on_listen, false },
	[ABI_UNLISTEN] = { on_unlisten, false },
	[ABI_CONNECT] = { on_connect, false },
	[ABI_CLOSE] = { on_close, false },
	[ABI_TAKEN] = { on_taken, false },
	[ABI_SHOW] = { on_show, true },
	[ABI_MONITOR] = { on_monitor, true },
};

static void handle(struct client *c, const struct abi_msg *q, int fds[CTL_MAX_FDS])
{
	if (q->answer || q->type >= sizeof(handlers) / sizeof(handlers[0]) ||
	    !handlers[q->type].handle)
		refuse(c, q, -EPROTO, "message of unknown type %u", q->type);
	else if (!c->rings && !handlers[q->type].stranger)
		refuse(c, q, -EPROTO, "message of type %u before ABI_HELLO", q->type);
	else
		handlers[q->type].handle(c, q, fds);
}

void control_serve(struct client *c, uint32_t budget)
{
	for (uint32_t i = 0; i < budget && !c->broken && STAILQ_EMPTY(&c->outgoing); i++) {
		struct abi_msg q;
		int fds[CTL_MAX_FDS];
		int err = ctl_recv(c->socket.fd, &q, fds);

		if (err == -EAGAIN)
			return;
		if (err) {
			client_break(c,
				     err == -EPIPE ? "it has gone" : "what it says is no message");
			return;
		}
		handle(c, &q, fds);
		ctl_close_fds(fds);
	}
}

int control_adopt(struct daemon *d, int fd, struct client **out)
{
	return client_new(d, fd, out);
}
