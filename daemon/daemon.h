/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.h: the rooms of mroced and who calls whom. One thread does everything: worker.c turns the wheel
 * (packets in, requests in, engine, packets out, completions out), control.c takes in applications,
 * client.c is one application's context, region_*.c its memory, show.c what `mroce show` prints.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <jansson.h>
#include "core/engine.h"
#include "daemon/config.h"
#include "daemon/port/portset.h"

struct client;
struct daemon;
struct monitor;

/* Something in the epoll set. */
struct watch {
	void (*ready)(struct watch *w, uint32_t events);
	int fd;
};

/* The ports as the worker uses them: portset.h, or what a unit test has in its place. */
struct port_driver {
	uint32_t (*rx)(struct portset *ps, uint64_t now, uint32_t budget);
	bool (*tx)(struct portset *ps);
	int (*fd)(const struct portset *ps);
	int (*listen)(struct portset *ps, bool on);
	void (*housekeep)(struct portset *ps, uint64_t now);
	void (*counters)(const struct portset *ps, uint64_t out[MROCE_COUNTERS]);
	json_t *(*show)(const struct portset *ps);
	void (*planes)(const struct portset *ps, uint32_t *up, uint32_t *all);
};

extern const struct port_driver port_driver_real;

/* A connection that the engine is to forget as soon as it may be called again. */
struct grave {
	struct conn *conn;
	bool close; /* it still works: close it first */
	enum mroce_close_code code;
};

struct daemon {
	const struct config *cfg;
	struct engine *engine;
	const struct port_driver *driver;
	struct portset *ports;
	struct watch port_watch, listener, signals;
	int epoll;
	int lock;  /* held while we own the socket's path */
	int spare; /* given up for a moment when descriptors run out, to refuse who knocks */
	TAILQ_HEAD(client_list, client) clients;
	struct client_list dirty; /* completions written and not yet published */
	uint32_t nclients;	  /* with rings */
	uint32_t nsockets;
	bool client_broken; /* at least one waits to be freed */
	struct grave *graves;
	uint32_t ngraves, graves_room;
	struct quota *quotas; /* uthash, by uid */
	LIST_HEAD(monitor_list, monitor) monitors;
	uint64_t note_number; /* events so far */
	uint64_t now;
	uint64_t started;
	uint64_t connect_deadline; /* of the connect that gives up first */
	uint64_t housekept;
	uint64_t watched; /* last look at epoll under load */
	uint64_t busy_until, woken_at;
	uint64_t watchdog_ns, watchdog_fed;
	uint64_t slept_ns, measured_at; /* of the current second */
	double busy_ratio;		/* of the last whole one */
	bool port_woken;
	bool stop;
	void (*reload)(struct daemon *d);     /* reads the configuration anew; NULL: cannot */
	uint64_t rx_packets, told_rx_packets; /* so far, and when systemd was told last */
	char told[160];			      /* what systemd was told last */
};

/* daemon.c */
/* Makes the engine and everything but ports and control socket. */
int daemon_new(const struct config *cfg, struct daemon **out);
void daemon_free(struct daemon **d);
void daemon_set_ports(struct daemon *d, const struct port_driver *driver, struct portset *ps);
int daemon_watch(struct daemon *d, struct watch *w, uint32_t events);
void daemon_unwatch(struct daemon *d, struct watch *w);
/* Remembers to free (and close) a connection: safe inside the engine's callbacks. */
void daemon_bury(struct daemon *d, struct conn *conn, bool close, enum mroce_close_code code);
uint64_t daemon_clock(void);

/* worker.c */
/* SIGTERM and SIGINT stop the loop, SIGHUP calls reload(). Call before any thread is made. */
int worker_signals(struct daemon *d);
/* One turn without sleeping. Returns how much there was to do. */
uint32_t worker_turn(struct daemon *d);
/* Waits at most so long for sockets, doorbells and packets, and serves the sockets. */
void worker_wait(struct daemon *d, uint64_t ns);
/* Turns until daemon.stop, then takes leave of peers. */
void worker_run(struct daemon *d);
/* Peers are told that this host goes away; waits until they know, or a moment. */
void worker_farewell(struct daemon *d);

/* notify.c: what systemd is told. Nothing happens without it. */
void notify_ready(struct daemon *d);
/* Numbers for `systemctl status`; span: nanoseconds since the last call. */
void notify_status(struct daemon *d, uint64_t span);
void notify_reloading(void);
void notify_stopping(void);

/* control.c */
/* Listens on cfg->socket. Explains failures. */
int control_open(struct daemon *d);
/* Removes the socket. Clients are left alone. */
void control_close(struct daemon *d);
/* A client on a connected socket, which becomes its property. */
int control_adopt(struct daemon *d, int fd, struct client **out);
/* Handles at most `budget` messages of a client. Called when its socket is readable. */
void control_serve(struct client *c, uint32_t budget);
/* Connects whose time is over. */
void control_expire(struct daemon *d);

/* show.c */
/* JSON text for ABI_SHOW, malloc()ed. NULL: unknown `what`. */
char *show_text(struct daemon *d, const char *what, uint32_t conn_id);

#endif
