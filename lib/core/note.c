// SPDX-License-Identifier: BSD-2-Clause
/* What happens to connections, paths and ports, with its facts beside the line for people. */
#include <stdio.h>
#include <syslog.h>
#include "core/internal.h"

const char *note_name(enum note_kind kind)
{
	switch (kind) {
	case NOTE_CONN_UP: return "conn_up";
	case NOTE_CONN_DOWN: return "conn_down";
	case NOTE_PATH_DEAD: return "path_dead";
	case NOTE_PATH_BACK: return "path_back";
	case NOTE_PATH_MOVED: return "path_moved";
	case NOTE_PORT_UP: return "port_up";
	case NOTE_PORT_DOWN: return "port_down";
	case NOTE_STALL: return "stall";
	case NOTE_KINDS: break;
	}
	return "?";
}

static void tell(struct engine *e, int level, const struct engine_note *n, const char *fmt,
		 va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	e->notes[n->kind]++;
	if (e->ops->note)
		e->ops->note(e->ctx, level, n, line);
	else if (e->ops->log && level < LOG_DEBUG)
		e->ops->log(e->ctx, level, line);
}

static struct engine_note note_of(const struct conn *c, enum note_kind kind)
{
	struct engine_note n = {
		.kind = kind, .conn_id = c->id, .service = c->service, .peer = c->peer, .path = -1
	};

	return n;
}

static const char *end_text(enum mroce_status status)
{
	switch (status) {
	case MROCE_E_FLUSHED: return "closed here";
	case MROCE_E_PEER_GONE: return "closed by the peer, or the peer is gone";
	case MROCE_E_PROTOCOL: return "protocol broken";
	case MROCE_E_LOCAL_ACCESS: return "its application died";
	default: return "ended";
	}
}

static void conn_tell(const struct conn *c, enum note_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void conn_tell(const struct conn *c, enum note_kind kind, const char *fmt, ...)
{
	struct engine_note n = note_of(c, kind);
	va_list ap;

	va_start(ap, fmt);
	tell(c->e, LOG_DEBUG, &n, fmt, ap);
	va_end(ap);
}

void note_conn_up(const struct conn *c)
{
	char peer[IPTEXT_MAX];

	conn_tell(c, NOTE_CONN_UP, "conn 0x%08x: up, %s %s, service %u", c->id,
		  c->is_initiator ? "to" : "from", ip_text(&c->peer, peer), c->service);
}

void note_conn_down(const struct conn *c, enum mroce_status status)
{
	char peer[IPTEXT_MAX];

	conn_tell(c, NOTE_CONN_DOWN, "conn 0x%08x: down, %s %s, service %u: %s", c->id,
		  c->is_initiator ? "to" : "from", ip_text(&c->peer, peer), c->service,
		  end_text(status));
}

void note_path(const struct path *p, enum note_kind kind, int level, const char *fmt, ...)
{
	struct engine_note n = note_of(p->conn, kind);
	va_list ap;

	n.path = p->index;
	n.port = p->port;
	n.reason = kind == NOTE_PATH_BACK ? PATH_FINE : p->reason;
	va_start(ap, fmt);
	tell(p->conn->e, level, &n, fmt, ap);
	va_end(ap);
}

void note_stall(const struct conn *c, uint32_t stream, uint32_t msg, const char *fmt, ...)
{
	struct engine_note n = note_of(c, NOTE_STALL);
	va_list ap;

	n.stream = stream;
	n.msg = msg;
	va_start(ap, fmt);
	tell(c->e, LOG_WARNING, &n, fmt, ap);
	va_end(ap);
}

static void port_tell(struct engine *e, const struct port *port, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void port_tell(struct engine *e, const struct port *port, const char *fmt, ...)
{
	struct engine_note n = { .kind = port->up ? NOTE_PORT_UP : NOTE_PORT_DOWN,
				 .port = port,
				 .path = -1 };
	va_list ap;

	va_start(ap, fmt);
	tell(e, LOG_DEBUG, &n, fmt, ap);
	va_end(ap);
}

void note_port(struct engine *e, const struct port *port)
{
	uint32_t bit = 1u << port->index;

	if (!(e->ports_down & bit) == port->up)
		return;
	e->ports_down ^= bit;
	port_tell(e, port, "port %u (%s): %s", port->index, port->name, port->up ? "up" : "down");
}
