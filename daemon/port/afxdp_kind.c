// SPDX-License-Identifier: BSD-2-Clause
/* AF_XDP ports as portset.c sees them. */
#include <errno.h>
#include <stdlib.h>
#include "afxdp.h"
#include "daemon/bpf/guardian.h"
#include "daemon/bpf/load.h"
#include "portkind.h"

struct afxdp_shared {
	struct tables tables; /* of the programs that we load ourselves */
	struct guardian guardian;
};

static int prepare(const struct portset_config *cfg, uint32_t ports, void **out)
{
	struct afxdp_shared *s = calloc(1, sizeof(*s));
	int err;

	(void)ports;
	if (!s)
		return -ENOMEM;
	tables_init(&s->tables);
	guardian_init(&s->guardian);
	err = load_prepare(true, cfg->log);
	if (err == -EPERM && cfg->port == PORT_AFXDP)
		cfg->log(LOG_ERR, "or use plain UDP sockets, which are slower and need no "
				  "capability: --port socket, or port = socket");
	if (err) {
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

static void dispose(void *shared)
{
	struct afxdp_shared *s = shared;

	guardian_release(&s->guardian);
	tables_close(&s->tables);
	free(s);
}

static void silence(void *shared)
{
	struct afxdp_shared *s = shared;

	if (tables_present(&s->tables))
		tables_silence(&s->tables);
}

/* The tables of an adopted program go with its interface, and with them what connections have in them. */
static bool mendable(const struct port *port)
{
	return !((const struct afxdp *)port->priv)->attach.adopted;
}

static bool needs_mending(const struct port *port)
{
	return mendable(port) && afxdp_needs_mending(port->priv);
}

static void mend(void *shared, struct port *port, const struct portset_config *cfg, uint64_t now)
{
	struct afxdp_shared *s = shared;
	struct afxdp *a = port->priv;
	struct portset_config fixed = *cfg;
	struct afxdp_params params = {
		.cfg = &fixed,
		.name = a->mif->called,
		.wanted = a->address_wanted ? &a->wanted : NULL,
		.ring_size = cfg->ring_size,
		.mif = a->mif,
		.watch = a->routes.watch,
		.shared = &s->tables,
		.guardian = &s->guardian,
		.engine = a->engine,
		.again = true,
	};

	/* The engine holds on to the tables that this port had, and they are those of our own programs. */
	fixed.adopt = false;
	afxdp_mend(a, &params, now);
}

static int open_port(void *shared, const struct port_params *p, struct port **out)
{
	struct afxdp_shared *s = shared;
	struct afxdp_params params = {
		.cfg = p->cfg,
		.name = p->name,
		.wanted = p->wanted,
		.ring_size = p->cfg->ring_size,
		.mif = p->mif,
		.watch = p->watch,
		.shared = &s->tables,
		.guardian = &s->guardian,
		.engine = p->engine,
	};
	struct afxdp *a = calloc(1, sizeof(*a));
	int err = a ? afxdp_open(a, &params) : -ENOMEM;

	if (err) {
		free(a);
		return err;
	}
	*out = &a->port;
	return 0;
}

static void activate(struct port *port, const struct portset_config *cfg)
{
	afxdp_activate(port->priv, cfg);
}

static void close_port(struct port *port)
{
	struct afxdp *a = port->priv;

	afxdp_close(a);
	free(a);
}

static int descriptor(const struct port *port, uint32_t i)
{
	const struct afxdp *a = port->priv;

	if (i == 0)
		return a->door.fd;
	return i <= a->queues ? a->xsks[i - 1].fd : -1;
}

static uint32_t rx(struct port *port, uint64_t now, uint32_t budget)
{
	return afxdp_rx(port->priv, now, budget);
}

static bool tx(struct port *port)
{
	return afxdp_tx(port->priv);
}

static void follow(struct port *port, uint64_t now)
{
	afxdp_follow(port->priv, now);
}

/* Confirms neighbours; in debug builds looks for frames that are lost. */
static void every_second(struct port *port, uint64_t now)
{
	struct afxdp *a = port->priv;

	route_keep_fresh(&a->routes, now);
#ifdef MROCE_DEBUG
	for (uint32_t q = 0; q < a->queues; q++) {
		if (!xsk_check(&a->xsks[q], a->log))
			abort();
	}
#endif
}

static void shared_counters(const void *shared, uint64_t out[MROCE_COUNTERS])
{
	tables_counters(&((const struct afxdp_shared *)shared)->tables, out);
}

static void counters(const struct port *port, uint64_t out[MROCE_COUNTERS])
{
	tables_counters(&((const struct afxdp *)port->priv)->attach.own, out);
}

static json_t *show(const struct port *port)
{
	return afxdp_show(port->priv);
}

const struct port_kind port_kind_afxdp = {
	.name = "afxdp",
	.prepare = prepare,
	.dispose = dispose,
	.silence = silence,
	.open = open_port,
	.activate = activate,
	.close = close_port,
	.descriptor = descriptor,
	.rx = rx,
	.tx = tx,
	.follow = follow,
	.every_second = every_second,
	.mendable = mendable,
	.needs_mending = needs_mending,
	.mend = mend,
	.shared_counters = shared_counters,
	.counters = counters,
	.show = show,
};
