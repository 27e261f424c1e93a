// SPDX-License-Identifier: BSD-2-Clause
#include "portset.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "afxdp.h"
#include "daemon/bpf/guardian.h"
#include "daemon/bpf/load.h"

#define RING_MIN 64
#define RING_MAX 32768
#define RING_DEFAULT 4096
#define FRESH_NS 1000000000ULL /* confirm neighbours, check frames */

struct portset {
	struct portset_config cfg;
	struct engine *engine;
	struct mirror mirror;
	struct watch watch;
	struct tables shared;
	struct guardian guardian;
	struct afxdp *ports; /* fixed array: the engine holds pointers into it */
	uint32_t nports;
	uint32_t next; /* port to be served first */
	int epoll;
	uint64_t freshened;
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

static int read_choices(struct portset *ps, struct choice choices[MROCE_MAX_PORTS], uint32_t *count)
{
	int err = 0;

	*count = 0;
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

static int wait_for(struct portset *ps, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ps->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int gather_descriptors(struct portset *ps)
{
	int err;

	ps->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ps->epoll < 0)
		return -errno;
	err = wait_for(ps, watch_fd(&ps->watch));
	for (uint32_t i = 0; i < ps->nports && !err; i++) {
		struct afxdp *a = &ps->ports[i];

		err = wait_for(ps, a->door.fd);
		for (uint32_t q = 0; q < a->queues && !err; q++)
			err = wait_for(ps, a->xsks[q].fd);
	}
	return err;
}

/* ---- life ---- */

static int open_port(struct portset *ps, const struct choice *c)
{
	struct afxdp_params params = {
		.cfg = &ps->cfg,
		.name = c->name,
		.wanted = c->has_wanted ? &c->wanted : NULL,
		.ring_size = ps->cfg.ring_size,
		.mif = &ps->mirror.ifs[ps->nports],
		.watch = &ps->watch,
		.shared = &ps->shared,
		.guardian = &ps->guardian,
		.engine = ps->engine,
	};
	int err = afxdp_open(&ps->ports[ps->nports], &params);

	if (!err)
		ps->nports++;
	return err;
}

static int open_ports(struct portset *ps)
{
	struct choice choices[MROCE_MAX_PORTS];
	uint32_t count;
	int err = read_choices(ps, choices, &count);

	if (!err)
		err = watch_open(&ps->watch, &ps->mirror, ps->cfg.log);
	for (uint32_t i = 0; i < count && !err; i++)
		err = open_port(ps, &choices[i]);
	if (!err)
		err = gather_descriptors(ps);
	return err;
}

/* After this nothing can fail any more: the engine keeps pointers to the ports. */
static int join_engine(struct portset *ps)
{
	for (uint32_t i = 0; i < ps->nports; i++) {
		int err = engine_port_add(ps->engine, &ps->ports[i].port);

		if (err) {
			ps->cfg.log(LOG_ERR, "%s: the engine takes no more ports: %s",
				    ps->ports[i].port.name, strerror(-err));
			return err;
		}
	}
	for (uint32_t i = 0; i < ps->nports; i++)
		afxdp_activate(&ps->ports[i], &ps->cfg);
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
	ps->ports = calloc(MROCE_MAX_PORTS, sizeof(*ps->ports));
	ps->cfg = *cfg;
	ps->engine = e;
	ps->epoll = -1;
	take_defaults(&ps->cfg);
	mirror_init(&ps->mirror);
	tables_init(&ps->shared);
	guardian_init(&ps->guardian);
	err = ps->ports ? check_config(&ps->cfg) : -ENOMEM;
	if (!err)
		err = load_prepare(cfg->log);
	if (!err)
		err = open_ports(ps);
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
	if (tables_present(&ps->shared))
		tables_silence(&ps->shared);
	for (uint32_t i = 0; i < ps->nports; i++)
		afxdp_close(&ps->ports[i]);
	guardian_release(&ps->guardian);
	tables_close(&ps->shared);
	watch_close(&ps->watch);
	mirror_free(&ps->mirror);
	if (ps->epoll >= 0)
		close(ps->epoll);
	free(ps->ports);
	free(ps);
	*pps = NULL;
}

/* ---- work ---- */

uint32_t portset_rx(struct portset *ps, uint64_t now, uint32_t budget)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < ps->nports && total < budget; i++)
		total += afxdp_rx(&ps->ports[(ps->next + i) % ps->nports], now, budget - total);
	ps->next++;
	return total;
}

bool portset_tx(struct portset *ps)
{
	bool left = false;

	for (uint32_t i = 0; i < ps->nports; i++)
		left |= afxdp_tx(&ps->ports[i]);
	return left;
}

int portset_fd(const struct portset *ps)
{
	return ps->epoll;
}

static void every_second(struct portset *ps, uint64_t now)
{
	for (uint32_t i = 0; i < ps->nports; i++)
		route_keep_fresh(&ps->ports[i].routes, now);
#ifdef MROCE_DEBUG
	for (uint32_t i = 0; i < ps->nports; i++) {
		for (uint32_t q = 0; q < ps->ports[i].queues; q++) {
			if (!xsk_check(&ps->ports[i].xsks[q], ps->cfg.log))
				abort();
		}
	}
#endif
}

void portset_housekeep(struct portset *ps, uint64_t now)
{
	watch_poll(&ps->watch);
	for (uint32_t i = 0; i < ps->nports; i++)
		afxdp_follow(&ps->ports[i], now);
	if (now - ps->freshened < FRESH_NS)
		return;
	ps->freshened = now;
	every_second(ps, now);
}

void portset_counters(const struct portset *ps, uint64_t out[MROCE_COUNTERS])
{
	memset(out, 0, MROCE_COUNTERS * sizeof(*out));
	tables_counters(&ps->shared, out);
	for (uint32_t i = 0; i < ps->nports; i++)
		tables_counters(&ps->ports[i].attach.own, out);
}

json_t *portset_show(const struct portset *ps)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < ps->nports; i++)
		json_array_append_new(array, afxdp_show(&ps->ports[i]));
	return array;
}
