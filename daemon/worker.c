/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worker.c: the loop. While there is work it polls and never sleeps; when there was none for a while it asks
 * everybody to ring and sleeps in epoll until the engine's next deadline.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>
#include "daemon/client.h"
#include "daemon/journal.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

/* Packets of one turn: short enough that requests and control messages do not wait long. */
#define RX_BUDGET 256
/* A port that gave so many has more; up to so many are taken in one turn. */
#define RX_MORE 64
#define RX_MAX 1024
#define TX_BUDGET 64
/* Requests of one application in one turn. */
#define SUBMIT_BUDGET 64
#define EPOLL_EVENTS 64
#define HOUSEKEEP_NS (10 * MS)
/* Busy for so long: packets need not wake anybody. */
#define LISTEN_OFF_NS (1 * MS)
/* At most so often when woken by netlink or packets. */
#define HOUSEKEEP_WOKEN_NS (1 * MS)
/* Under load, control sockets are looked at so often. */
#define CONTROL_NS (1 * MS)
#define IDLE_WAKE_NS (1 * SEC)
#define FAREWELL_NS (300 * MS)
/* The kernel rounds sleeps up by this; its default of 50 us would be a quarter of an RTT. */
#define TIMER_SLACK_NS 1000

/* ---- one turn ---- */

static void publish(struct daemon *d)
{
	struct client *c;

	while ((c = TAILQ_FIRST(&d->dirty)))
		client_publish(c);
}

static uint32_t submit(struct daemon *d)
{
	struct client *c;
	uint32_t n = 0;

	TAILQ_FOREACH(c, &d->clients, link)
		if (c->rings && !c->broken)
			n += client_submit(c, SUBMIT_BUDGET);
	return n;
}

static void dig_graves(struct daemon *d)
{
	/* Closing may end other things, which come to the end of the list. */
	for (uint32_t i = 0; i < d->ngraves; i++) {
		struct grave g = d->graves[i];

		if (g.close)
			engine_conn_close(g.conn, g.code, d->now);
		engine_conn_free(&g.conn);
	}
	d->ngraves = 0;
}

static void free_broken(struct daemon *d)
{
	struct client *c;
	struct client *next;

	if (!d->client_broken)
		return;
	d->client_broken = false;
	for (c = TAILQ_FIRST(&d->clients); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->broken)
			client_free(&c);
	}
}

static void housekeep(struct daemon *d)
{
	if (d->now - d->housekept < (d->port_woken ? HOUSEKEEP_WOKEN_NS : HOUSEKEEP_NS))
		return;
	d->housekept = d->now;
	d->port_woken = false;
	d->driver->housekeep(d->ports, d->now);
}

/*
 * What has come is read before timers run: answers that lie unread in a ring look like losses, and
 * asking again makes the ring longer.
 */
static uint32_t receive(struct daemon *d)
{
	uint32_t work = 0, n;

	do {
		n = d->driver->rx(d->ports, d->now, RX_BUDGET);
		d->rx_packets += n;
		publish(d);
		d->rx_packets += n;
		work += n;
	} while (n >= RX_MORE && work < RX_MAX);
	return work;
}

uint32_t worker_turn(struct daemon *d)
{
	uint32_t work;

	d->now = daemon_clock();
	work = receive(d);
	work += submit(d);
	work += engine_run(d->engine, d->now, TX_BUDGET);
	work += d->driver->tx(d->ports);
	control_expire(d);
	dig_graves(d);
	free_broken(d);
	work += !TAILQ_EMPTY(&d->dirty);
	publish(d);
	housekeep(d);
	return work;
}

/* ---- waiting ---- */

/* Nanoseconds where the system call is known. Valgrind and old seccomp filters know only milliseconds. */
static int wait_epoll(struct daemon *d, struct epoll_event *events, uint64_t ns)
{
	struct timespec timeout = { (time_t)(ns / SEC), (long)(ns % SEC) };
	int n = epoll_pwait2(d->epoll, events, EPOLL_EVENTS, &timeout, NULL);

	if (n >= 0 || (errno != ENOSYS && errno != EPERM))
		return n;
	return epoll_wait(d->epoll, events, EPOLL_EVENTS, (int)((ns + MS - 1) / MS));
}

void worker_wait(struct daemon *d, uint64_t ns)
{
	struct epoll_event events[EPOLL_EVENTS];
	int n = wait_epoll(d, events, ns);

	for (int i = 0; i < n; i++) {
		struct watch *w = events[i].data.ptr;

		w->ready(w, events[i].events);
	}
	/* What was asked may have closed connections or contexts. */
	dig_graves(d);
	free_broken(d);
	publish(d);
}

/* Asks all applications to ring. False: one has rung meanwhile. */
static bool ask_for_doorbells(struct daemon *d)
{
	struct client *c;
	bool quiet = true;

	TAILQ_FOREACH(c, &d->clients, link)
		if (c->rings && !c->broken && client_sleep(c))
			quiet = false;
	return quiet;
}

static void stop_doorbells(struct daemon *d)
{
	struct client *c;

	TAILQ_FOREACH(c, &d->clients, link)
		if (c->rings)
			client_awake(c);
}

static uint64_t sleep_limit(struct daemon *d)
{
	uint64_t at = engine_deadline(d->engine, d->now);
	uint64_t limit = IDLE_WAKE_NS;

	if (d->connect_deadline < at)
		at = d->connect_deadline;
	if (d->watchdog_ns && d->watchdog_ns / 2 < limit)
		limit = d->watchdog_ns / 2;
	if (at <= d->now)
		return 0;
	return at - d->now < limit ? at - d->now : limit;
}

static void nap(struct daemon *d)
{
	uint64_t limit = sleep_limit(d);
	uint64_t before;

	if (limit == 0)
		return;
	before = daemon_clock();
	if (d->driver->listen(d->ports, true))
		limit = MS; /* not woken by packets: look for them */
	if (ask_for_doorbells(d) && !d->client_broken)
		worker_wait(d, limit);
	stop_doorbells(d);
	d->now = daemon_clock();
	d->woken_at = d->now;
	d->slept_ns += d->now - before;
}

/* ---- the loop ---- */

static void on_signal(struct watch *w, uint32_t events)
{
	struct daemon *d = (struct daemon *)((char *)w - offsetof(struct daemon, signals));
	struct signalfd_siginfo info;

	(void)events;
	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		if (d->reload)
			d->reload(d);
		return;
	}
	journal(LOG_INFO, "stopping: %s", strsignal((int)info.ssi_signo));
	d->stop = true;
}

int worker_signals(struct daemon *d)
{
	sigset_t set;
	int err;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->signals = (struct watch){ on_signal, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) };
	err = d->signals.fd < 0 ? -errno : daemon_watch(d, &d->signals, EPOLLIN);
	return err ? journal_error(err, "signalfd: %s", strerror(-err)) : 0;
}

static void feed_watchdog(struct daemon *d)
{
	if (!d->watchdog_ns || d->now - d->watchdog_fed < d->watchdog_ns / 4)
		return;
	d->watchdog_fed = d->now;
	sd_notify(0, "WATCHDOG=1");
}

static void measure(struct daemon *d)
{
	uint64_t span = d->now - d->measured_at;

	if (span < SEC)
		return;
	d->busy_ratio = d->slept_ns < span ? 1.0 - (double)d->slept_ns / (double)span : 0;
	d->slept_ns = 0;
	d->measured_at = d->now;
	notify_status(d, span);
}

static void idle(struct daemon *d)
{
	if (d->now >= d->busy_until) {
		nap(d);
		return;
	}
	/* Applications, the other daemon and the kernel's packet work may share this CPU. */
	sched_yield();
	if (d->now - d->watched >= 10 * US) {
		d->watched = d->now;
		worker_wait(d, 0);
	}
}

void worker_run(struct daemon *d)
{
	uint64_t usec;

	if (sd_watchdog_enabled(0, &usec) > 0)
		d->watchdog_ns = usec * US;
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	while (!d->stop) {
		if (worker_turn(d)) {
			d->busy_until = d->now + d->cfg->spin_us * US;
			if (d->now - d->woken_at >= LISTEN_OFF_NS)
				d->driver->listen(d->ports, false);
			if (d->now - d->watched >= CONTROL_NS) {
				d->watched = d->now;
				worker_wait(d, 0);
			}
		} else {
			idle(d);
		}
		feed_watchdog(d);
		measure(d);
	}
}

void worker_farewell(struct daemon *d)
{
	uint64_t limit = daemon_clock() + FAREWELL_NS;
	struct engine_stats stats;

	for (struct client *c = TAILQ_FIRST(&d->clients); c; c = TAILQ_NEXT(c, link))
		client_close_connections(c, MROCE_CLOSE_SHUTDOWN);
	/* The engine keeps a closed connection until the peer has heard of it. */
	for (;;) {
		if (!worker_turn(d))
			worker_wait(d, 100 * US);
		engine_stats(d->engine, &stats);
		if (stats.conns == 0 || d->now >= limit)
			return;
	}
}
