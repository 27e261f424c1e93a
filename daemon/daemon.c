/* SPDX-License-Identifier: BSD-2-Clause */
/* daemon.c: the struct that holds everything. */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "core/cc.h"
#include "daemon/client.h"
#include "daemon/events.h"
#include "daemon/journal.h"

#define MS 1000000ull

const struct port_driver port_driver_real = {
	.rx = portset_rx,
	.tx = portset_tx,
	.fd = portset_fd,
	.listen = portset_listen,
	.housekeep = portset_housekeep,
	.counters = portset_counters,
	.show = portset_show,
	.planes = portset_planes,
};

_Static_assert(CONFIG_KEY_LEN == ENGINE_KEY_LEN, "one key");

uint64_t daemon_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int make_engine(struct daemon *d)
{
	const struct config *c = d->cfg;
	struct engine_config e;
	char error[512];
	int key;

	engine_config_default(&e);
	e.paths = c->paths;
	e.cc = cc_find(c->cc);
	e.no_hints = !c->hints;
	e.tries = c->tries;
	e.silence_ns = c->silence_ms * MS;
	e.handshake_ns = c->handshake_ms * MS;
	e.keepalive_ns = c->keepalive_ms * MS;
	e.stall_ns = c->stall_ms * MS;
	e.cookies_above = c->cookies_above;
	key = config_psk(c, e.psk, error, sizeof(error));
	if (key < 0)
		return journal_error(key, "%s", error);
	e.authenticated = key > 0;
	if (getrandom(&e.seed, sizeof(e.seed), 0) != sizeof(e.seed) ||
	    getrandom(e.seed_more, sizeof(e.seed_more), 0) != sizeof(e.seed_more))
		return journal_error(-EIO, "getrandom: %s", strerror(errno));
	d->engine = engine_new(&e, &daemon_engine_ops, d);
	sodium_memzero(&e, sizeof(e));
	return d->engine ? 0 : journal_error(-ENOMEM, "no memory for the engine's tables");
}

int daemon_new(const struct config *cfg, struct daemon **out)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	d->cfg = cfg;
	d->lock = d->spare = d->listener.fd = d->signals.fd = d->port_watch.fd = -1;
	d->now = d->started = d->measured_at = daemon_clock();
	d->connect_deadline = UINT64_MAX;
	TAILQ_INIT(&d->clients);
	TAILQ_INIT(&d->dirty);
	/* An application that closes its end of a pipe must not end us. */
	signal(SIGPIPE, SIG_IGN);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	err = d->epoll < 0 ? journal_error(-errno, "epoll: %s", strerror(errno)) : make_engine(d);
	if (err) {
		daemon_free(&d);
		return err;
	}
	*out = d;
	return 0;
}

void daemon_free(struct daemon **dp)
{
	struct daemon *d = *dp;

	*dp = NULL;
	if (!d)
		return;
	control_close(d);
	while (!TAILQ_EMPTY(&d->clients)) {
		struct client *c = TAILQ_FIRST(&d->clients);

		client_free(&c);
	}
	engine_free(&d->engine);
	if (d->signals.fd >= 0)
		close(d->signals.fd);
	if (d->epoll >= 0)
		close(d->epoll);
	free(d->graves);
	free(d);
}

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Packets are taken by the next turn anyway; netlink messages by the housekeeping. */
static void on_ports(struct watch *w, uint32_t events)
{
	(void)events;
	container_of(w, struct daemon, port_watch)->port_woken = true;
}

void daemon_set_ports(struct daemon *d, const struct port_driver *driver, struct portset *ps)
{
	d->driver = driver;
	d->ports = ps;
	d->port_watch = (struct watch){ on_ports, driver->fd(ps) };
	daemon_watch(d, &d->port_watch, EPOLLIN);
}

int daemon_watch(struct daemon *d, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	return epoll_ctl(d->epoll, EPOLL_CTL_ADD, w->fd, &e) ? -errno : 0;
}

void daemon_unwatch(struct daemon *d, struct watch *w)
{
	epoll_ctl(d->epoll, EPOLL_CTL_DEL, w->fd, NULL);
}

void daemon_bury(struct daemon *d, struct conn *conn, bool close, enum mroce_close_code code)
{
	engine_conn_set_cookie(conn, NULL);
	if (d->ngraves == d->graves_room) {
		uint32_t room = d->graves_room ? 2 * d->graves_room : 64;
		struct grave *graves = realloc(d->graves, room * sizeof(*graves));

		if (!graves) {
			journal(LOG_ERR, "no memory: connection %#x stays allocated",
				engine_conn_id(conn));
			return;
		}
		d->graves = graves;
		d->graves_room = room;
	}
	d->graves[d->ngraves++] = (struct grave){ conn, close, code };
}
