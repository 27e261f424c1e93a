// SPDX-License-Identifier: BSD-2-Clause
/* What callers ask for: services to listen on, connections to open, requests to post, questions. */
#include <stdlib.h>
#include <syslog.h>
#include "core/internal.h"

struct listener *listener_find(const struct engine *e, uint32_t service)
{
	uint32_t at = hash_mix(service, 0, 0) & e->services.mask;

	for (struct hnode *n = e->services.heads[at]; n; n = n->next) {
		struct listener *l = container_of(n, struct listener, hash);

		if (l->service == service)
			return l;
	}
	return NULL;
}

int engine_listen(struct engine *e, uint32_t service, void *owner, uint32_t backlog)
{
	struct listener *l;

	if (!service)
		return -EINVAL;
	if (listener_find(e, service))
		return -EADDRINUSE;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->service = service;
	l->owner = owner;
	l->backlog = backlog ? backlog : 1;
	LIST_INSERT_HEAD(&e->listeners, l, link);
	hash_add(&e->services, hash_mix(service, 0, 0), &l->hash);
	return 0;
}

void engine_unlisten(struct engine *e, uint32_t service)
{
	struct listener *l = listener_find(e, service);

	if (!l)
		return;
	hash_del(&e->services, hash_mix(service, 0, 0), &l->hash);
	LIST_REMOVE(l, link);
	free(l);
}

int engine_connect(struct engine *e, const struct ip *remote, uint32_t service, void *owner,
		   void *cookie, uint64_t now, struct conn **out)
{
	bool reachable = false;
	struct conn *c;

	e->now = now;
	for (uint32_t i = 0; i < e->nports; i++)
		reachable |= e->ports[i]->ops->reachable(e->ports[i], remote);
	if (!reachable)
		return -EHOSTUNREACH;
	c = conn_new(e, owner, service);
	if (!c)
		return -ENOSPC;
	c->cookie = cookie;
	c->peer = *remote;
	c->is_initiator = c->held_by_caller = true;
	handshake_start(c);
	*out = c;
	return 0;
}

/* ---- ports: what was learned about them ---- */

static bool status_waits(const struct conn *c, const struct port *port)
{
	const struct letter *l;

	STAILQ_FOREACH(l, &c->control, link)
		if (l->type == MROCE_PORT_STATUS && l->number == port->index)
			return true;
	return false;
}

static void tell_port_status(struct conn *c, const struct port *port)
{
	struct letter *l;

	if (c->state != CONN_OPEN || status_waits(c, port))
		return;
	l = letter_new(c, MROCE_PORT_STATUS);
	if (!l)
		return;
	l->number = port->index;
	letter_control(c, l);
}

uint32_t port_serials(const struct engine *e)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < e->nports; i++)
		sum += e->ports[i]->serial;
	return sum;
}

void conn_tell_ports(struct conn *c)
{
	if (c->ports_told == port_serials(c->e))
		return;
	for (uint32_t i = 0; i < c->e->nports; i++)
		tell_port_status(c, c->e->ports[i]);
}

/* True: the path was in use and is not any more. */
static bool path_port_changed(struct path *p)
{
	bool used = !p->dead;

	if (!p->port->up && used) {
		path_die(p, PATH_PORT_DOWN);
		return true;
	}
	if (p->port->up && !used)
		path_probe_soon(p);
	else if (used)
		mtu_changed(p);
	return false;
}

void engine_port_changed(struct engine *e, struct port *port, uint64_t now)
{
	uint32_t left = 0, conns = 0;

	e->now = now;
	port->serial++;
	for (uint32_t slot = 0; slot < e->cfg.max_conns; slot++) {
		struct conn *c = e->conns[slot];
		uint32_t before = left;

		if (!c || !c->paths || (c->state != CONN_OPEN && c->state != CONN_CLOSING))
			continue;
		for (uint32_t i = 0; i < c->npaths; i++) {
			if (c->paths[i].port == port)
				left += path_port_changed(&c->paths[i]);
		}
		conns += left != before;
		tell_port_status(c, port);
	}
	if (left)
		engine_log(e, LOG_NOTICE,
			   "%s went down: %u paths of %u connections left it, their letters go by "
			   "other ports",
			   port->name, left, conns);
}

/* ---- getters ---- */

void engine_conn_set_cookie(struct conn *c, void *cookie)
{
	c->cookie = cookie;
}

void *engine_conn_cookie(const struct conn *c)
{
	return c->cookie;
}

void *engine_conn_owner(const struct conn *c)
{
	return c->owner;
}

uint32_t engine_conn_id(const struct conn *c)
{
	return c->id;
}

const struct ip *engine_conn_peer(const struct conn *c)
{
	return &c->peer;
}

int engine_post(struct conn *c, const struct work_request *wr, uint64_t now)
{
	struct engine *e = c->e;
	struct stream *s;
	int err;

	e->now = now;
	if (c->state != CONN_OPEN)
		return -ENOTCONN;
	if (wr->stream >= e->cfg.streams || wr->stream >= c->peer_streams ||
	    wr->opcode < MROCE_WR_SEND || wr->opcode > MROCE_WR_RECV || wr->len > MROCE_MSG_MAX)
		return -EINVAL;
	pool_reserve(&e->stream_pool, 1);
	s = stream_get(c, wr->stream);
	if (!s)
		return -EAGAIN;
	c->queued++; /* before: a request may complete while it is being posted */
	err = wr->opcode == MROCE_WR_RECV ? stream_post_recv(s, wr) : txmsg_post(s, wr);
	if (err)
		c->queued--;
	else
		conn_watch(c);
	return err;
}
