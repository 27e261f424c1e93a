// SPDX-License-Identifier: BSD-2-Clause
#include "portset.h"

#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "daemon/bpf/pin.h"
#include "daemon/net/ip.h"
#include "portkind.h"
#include "sock_choose.h"

#define RING_MIN 64
#define RING_MAX 32768
#define RING_DEFAULT 4096
#define FRESH_NS 1000000000ULL /* confirm neighbours, check frames, close idle sockets */

struct portset {
	struct portset_config cfg;
	struct engine *engine;
	struct mirror mirror;
	struct watch watch;
	const struct port_kind *kind;
	void *shared; /* the kind's */
	struct port *ports[MROCE_MAX_PORTS];
	uint32_t nports;
	uint32_t next; /* port to be served first */
	int epoll;
	bool listening; /* epoll has the ports' descriptors */
	uint64_t freshened;
	char why[256]; /* this kind of port */
};

/* What the user wrote for one interface. */
struct choice {
	char name[IFNAMSIZ];
	struct ip wanted;
	bool has_wanted;
};

static int parse_choice(const char *text, struct choice *out, log_fn log)
{
	const char *at = strchr(text, '@');
	size_t len = at ? (size_t)(at - text) : strlen(text);

	memset(out, 0, sizeof(*out));
	if (!len || len >= sizeof(out->name)) {
		log(LOG_ERR, "'%s' is not an interface: NAME or NAME@ADDRESS is expected", text);
		return -EINVAL;
	}
	memcpy(out->name, text, len);
	out->has_wanted = at != NULL;
	if (at && ip_parse(at + 1, &out->wanted)) {
		log(LOG_ERR, "'%s': '%s' is not an IPv4 or IPv6 address", text, at + 1);
		return -EINVAL;
	}
	return 0;
}

static int add_choice(struct portset *ps, const struct choice *c)
{
	uint32_t ifindex = if_nametoindex(c->name);

	for (uint32_t i = 0; i < ps->mirror.nifs; i++) {
		if (strcmp(ps->mirror.ifs[i].name, c->name))
			continue;
		ps->cfg.log(LOG_ERR, "%s: named twice", c->name);
		return -EINVAL;
	}
	if (!ifindex) {
		ps->cfg.log(LOG_ERR, "%s: no such interface (`ip link` lists them)", c->name);
		return -ENODEV;
	}
	return mirror_add_interface(&ps->mirror, c->name, ifindex);
}

/* Sockets disturb nobody: the interfaces may be chosen for the user. */
static int choose(struct portset *ps, struct choice choices[MROCE_MAX_PORTS], uint32_t *count)
{
	struct sock_choice found;
	int err = sock_choose(&found);

	if (err) {
		ps->cfg.log(LOG_ERR,
			    "no interface is named, and none is up with an address that others "
			    "could reach: %s",
			    strerror(-err));
		return err;
	}
	for (uint32_t i = 0; i < found.n && !err; i++) {
		ps->cfg.log(LOG_NOTICE, "%s: chosen, since no interface is named and %s",
			    found.names[i],
			    found.by_default_route ? "a default route leads over it"
						   : "it is up and has an address");
		err = parse_choice(found.names[i], &choices[i], ps->cfg.log);
		if (!err)
			err = add_choice(ps, &choices[i]);
		if (err >= 0)
			err = 0;
		*count = i + 1;
	}
	if (found.left_out)
		ps->cfg.log(LOG_WARNING, "%u more interfaces are not used: %u is the limit",
			    found.left_out, MROCE_MAX_PORTS);
	return err;
}

static int read_choices(struct portset *ps, struct choice choices[MROCE_MAX_PORTS], uint32_t *count)
{
	int err = 0;

	*count = 0;
	if (!ps->cfg.interfaces[0] && ps->cfg.port == PORT_SOCKET)
		return choose(ps, choices, count);
	for (uint32_t i = 0; i < MROCE_MAX_PORTS && ps->cfg.interfaces[i] && !err; i++) {
		err = parse_choice(ps->cfg.interfaces[i], &choices[i], ps->cfg.log);
		if (!err)
			err = add_choice(ps, &choices[i]);
		if (err >= 0)
			err = 0;
		*count = i + 1;
	}
	if (!err && !*count) {
		ps->cfg.log(LOG_ERR, "no interface is named: give at least one");
		err = -EINVAL;
	}
	return err;
}

static int check_config(const struct portset_config *cfg)
{
	uint32_t ring = cfg->ring_size;

	if (ring >= RING_MIN && ring <= RING_MAX && !(ring & (ring - 1)))
		return 0;
	cfg->log(LOG_ERR, "ring_size %u: a power of two from %u to %u is expected", ring, RING_MIN,
		 RING_MAX);
	return -EINVAL;
}

/* ---- descriptors to wait for ---- */

static int set_wait(struct portset *ps, int fd, int op)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ps->epoll, op, fd, &event) ? -errno : 0;
}

int portset_listen(struct portset *ps, bool on)
{
	int err = 0, fd;

	if (on == ps->listening)
		return 0;
	for (uint32_t i = 0; i < ps->nports; i++) {
		for (uint32_t n = 0; !err && (fd = ps->kind->descriptor(ps->ports[i], n)) >= 0; n++)
			err = set_wait(ps, fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL);
	}
	ps->listening = on;
	return err;
}

static int gather_descriptors(struct portset *ps)
{
	int err;

	ps->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ps->epoll < 0)
		return -errno;
	err = set_wait(ps, watch_fd(&ps->watch), EPOLL_CTL_ADD);
	return err ? err : portset_listen(ps, true);
}

/* ---- life ---- */

static int open_port(struct portset *ps, const struct choice *c)
{
	struct port_params params = {
		.cfg = &ps->cfg,
		.name = c->name,
		.wanted = c->has_wanted ? &c->wanted : NULL,
		.mif = &ps->mirror.ifs[ps->nports],
		.watch = &ps->watch,
		.engine = ps->engine,
	};
	int err = ps->kind->open(ps->shared, &params, &ps->ports[ps->nports]);

	if (!err)
		ps->nports++;
	return err;
}

static void close_ports(struct portset *ps)
{
	if (ps->shared)
		ps->kind->silence(ps->shared);
	for (uint32_t i = 0; i < ps->nports; i++)
		ps->kind->close(ps->ports[i]);
	ps->nports = 0;
	if (ps->shared)
		ps->kind->dispose(ps->shared);
	ps->shared = NULL;
}

static int open_ports(struct portset *ps, const struct port_kind *kind,
		      const struct choice *choices, uint32_t count)
{
	int err;

	ps->kind = kind;
	err = kind->prepare(&ps->cfg, count, &ps->shared);
	for (uint32_t i = 0; i < count && !err; i++)
		err = open_port(ps, &choices[i]);
	if (err)
		close_ports(ps);
	return err;
}

/* ---- which kind ---- */

/*
 * While AF_XDP is only tried, its errors are no errors: they are told as notices, and the first is kept as
 * the reason. Log functions have no argument of their own, hence static.
 */
static struct {
	log_fn log;
	bool trying;
	char first[256];
} attempt;

__attribute__((format(printf, 2, 3))) static void log_attempt(int level, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (attempt.trying && level <= LOG_ERR) {
		if (!attempt.first[0])
			snprintf(attempt.first, sizeof(attempt.first), "%.255s", text);
		level = LOG_NOTICE;
	}
	attempt.log(level, "%s", text);
}

/* Is it for want of privilege, or of something in kernel or driver? Then sockets may do. */
static bool sockets_may_do(int err)
{
	switch (-err) {
	case EPERM:
	case EACCES:
	case ENOSYS:
	case EINVAL: /* a kernel too old for the programs */
	case EOPNOTSUPP:
	case EAFNOSUPPORT:
	case EPROTONOSUPPORT:
	case ENOBUFS: /* memory that may be locked */ return true;
	}
	return false;
}

static int open_best(struct portset *ps, const struct choice *choices, uint32_t count)
{
	log_fn log = ps->cfg.log;
	int err;

	attempt.log = log;
	attempt.trying = true;
	attempt.first[0] = '\0';
	ps->cfg.log = log_attempt;
	err = open_ports(ps, &port_kind_afxdp, choices, count);
	attempt.trying = false;
	if (!err) {
		snprintf(ps->why, sizeof(ps->why), "port = auto, and AF_XDP can be had");
		return 0;
	}
	ps->cfg.log = log;
	if (!sockets_may_do(err)) {
		log(LOG_ERR, "%s", attempt.first);
		return err;
	}
	log(LOG_WARNING,
	    "AF_XDP cannot be had, so plain UDP sockets are used, which are slower "
	    "(port = auto). The reason: %s",
	    attempt.first);
	snprintf(ps->why, sizeof(ps->why), "port = auto, and no AF_XDP: %.200s", attempt.first);
	return open_ports(ps, &port_kind_socket, choices, count);
}

static int open_wanted(struct portset *ps)
{
	struct choice choices[MROCE_MAX_PORTS];
	uint32_t count;
	int err = read_choices(ps, choices, &count);

	if (!err)
		err = watch_open(&ps->watch, &ps->mirror, ps->cfg.log);
	if (err)
		return err;
	switch (ps->cfg.port) {
	case PORT_AFXDP:
		snprintf(ps->why, sizeof(ps->why), "port = afxdp");
		return open_ports(ps, &port_kind_afxdp, choices, count);
	case PORT_SOCKET:
		snprintf(ps->why, sizeof(ps->why), "port = socket");
		return open_ports(ps, &port_kind_socket, choices, count);
	case PORT_AUTO: return open_best(ps, choices, count);
	}
	return -EINVAL;
}

/* After this nothing can fail any more: the engine keeps pointers to the ports. */
static int join_engine(struct portset *ps)
{
	for (uint32_t i = 0; i < ps->nports; i++) {
		int err = engine_port_add(ps->engine, ps->ports[i]);

		if (err) {
			ps->cfg.log(LOG_ERR, "%s: the engine takes no more ports: %s",
				    ps->ports[i]->name, strerror(-err));
			return err;
		}
	}
	for (uint32_t i = 0; i < ps->nports; i++)
		ps->kind->activate(ps->ports[i], &ps->cfg);
	return 0;
}

static void take_defaults(struct portset_config *cfg)
{
	if (!cfg->udp_port)
		cfg->udp_port = MROCE_UDP_PORT;
	if (!cfg->ring_size)
		cfg->ring_size = RING_DEFAULT;
}

int portset_open(const struct portset_config *cfg, struct engine *e, struct portset **out)
{
	struct portset *ps = calloc(1, sizeof(*ps));
	int err;

	if (!ps)
		return -ENOMEM;
	ps->cfg = *cfg;
	ps->engine = e;
	ps->epoll = -1;
	take_defaults(&ps->cfg);
	mirror_init(&ps->mirror);
	err = check_config(&ps->cfg);
	if (!err) {
		pin_sweep(ps->cfg.log); /* of a daemon that was killed with its guardian */
		err = open_wanted(ps);
	}
	if (!err)
		err = gather_descriptors(ps);
	if (!err)
		err = join_engine(ps);
	if (err) {
		portset_close(&ps);
		return err;
	}
	*out = ps;
	return 0;
}

void portset_close(struct portset **pps)
{
	struct portset *ps = *pps;

	if (!ps)
		return;
	close_ports(ps);
	watch_close(&ps->watch);
	mirror_free(&ps->mirror);
	if (ps->epoll >= 0)
		close(ps->epoll);
	free(ps);
	*pps = NULL;
}

/* ---- work ---- */

uint32_t portset_rx(struct portset *ps, uint64_t now, uint32_t budget)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < ps->nports && total < budget; i++)
		total += ps->kind->rx(ps->ports[(ps->next + i) % ps->nports], now, budget - total);
	ps->next++;
	return total;
}

bool portset_tx(struct portset *ps)
{
	bool left = false;

	for (uint32_t i = 0; i < ps->nports; i++)
		left |= ps->kind->tx(ps->ports[i]);
	return left;
}

int portset_fd(const struct portset *ps)
{
	return ps->epoll;
}

/* An interface that was deleted may come back: by its name, as another one to the kernel. */
static void look_for(struct portset *ps, const struct port *port, struct mirror_if *mif)
{
	uint32_t ifindex = if_nametoindex(mif->name);

	if (!ifindex || ifindex == mif->ifindex || ifindex == mif->again)
		return;
	mif->again = ifindex;
	if (!ps->kind->mendable || !ps->kind->mendable(port)) {
		ps->cfg.log(
			LOG_WARNING,
			"%s: an interface of this name is there again: restart mroced to use it",
			mif->name);
		return;
	}
	ps->cfg.log(LOG_NOTICE, "%s: an interface of this name is there again", mif->name);
	mirror_rebind(mif, ifindex);
	watch_resync(&ps->watch);
}

static void mend(struct portset *ps, uint64_t now)
{
	for (uint32_t i = 0; i < ps->nports; i++) {
		bool listening = ps->listening;

		if (!ps->mirror.ifs[i].exists)
			look_for(ps, ps->ports[i], &ps->mirror.ifs[i]);
		if (!ps->kind->mend || !ps->kind->needs_mending(ps->ports[i]))
			continue;
		portset_listen(ps, false);
		ps->kind->mend(ps->shared, ps->ports[i], &ps->cfg, now);
		portset_listen(ps, listening);
	}
}

void portset_housekeep(struct portset *ps, uint64_t now)
{
	watch_poll(&ps->watch);
	for (uint32_t i = 0; i < ps->nports; i++)
		ps->kind->follow(ps->ports[i], now);
	if (now - ps->freshened < FRESH_NS)
		return;
	ps->freshened = now;
	mend(ps, now);
	for (uint32_t i = 0; i < ps->nports; i++)
		ps->kind->every_second(ps->ports[i], now);
}

void portset_counters(const struct portset *ps, uint64_t out[MROCE_COUNTERS])
{
	memset(out, 0, MROCE_COUNTERS * sizeof(*out));
	ps->kind->shared_counters(ps->shared, out);
	for (uint32_t i = 0; i < ps->nports; i++)
		ps->kind->counters(ps->ports[i], out);
}

void portset_planes(const struct portset *ps, uint32_t *up, uint32_t *all)
{
	*up = 0;
	*all = ps->nports;
	for (uint32_t i = 0; i < ps->nports; i++)
		*up += ps->ports[i]->up;
}

json_t *portset_show(const struct portset *ps)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < ps->nports; i++) {
		json_t *port = ps->kind->show(ps->ports[i]);

		json_object_set_new(port, "kind", json_string(ps->kind->name));
		json_object_set_new(port, "kind_reason", json_string(ps->why));
		json_array_append_new(array, port);
	}
	return array;
}
