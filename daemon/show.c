/* SPDX-License-Identifier: BSD-2-Clause */
/* show.c: what `mroce show` prints, as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include "common/iptext.h"
#include "core/reasons.h"
#include "daemon/client.h"
#include "daemon/journal.h"

#define NS_PER_US 1000
#define NS_PER_S 1000000000ull

static json_t *hex(uint32_t id)
{
	return json_sprintf("0x%08x", id);
}

static json_t *address(const struct ip *ip)
{
	char text[IPTEXT_MAX];

	return json_string(iptext(ip->a, text));
}

static void add_tolerance(json_t *o, const struct tolerance_stats *st)
{
	json_object_set_new(o, "tolerant_complete", json_integer((json_int_t)st->complete));
	json_object_set_new(o, "tolerant_forgiven", json_integer((json_int_t)st->forgiven));
	json_object_set_new(o, "tolerant_over_bound", json_integer((json_int_t)st->over));
	json_object_set_new(o, "tolerant_missing_bytes", json_integer((json_int_t)st->missing));
}

static json_t *show_daemon(struct daemon *d)
{
	struct engine_stats st;
	json_t *o = json_pack("{s:s,s:i,s:I,s:s,s:i,s:i,s:s,s:f}", "version", MROCE_VERSION, "pid",
			      getpid(), "uptime_s",
			      (json_int_t)((daemon_clock() - d->started) / NS_PER_S), "socket",
			      d->cfg->socket, "clients", (int)d->nclients, "wire_version",
			      MROCE_WIRE_VERSION, "cc", d->cfg->cc, "busy_ratio", d->busy_ratio);

	engine_stats(d->engine, &st);
	add_tolerance(o, &st.tolerance);
	return o;
}

static json_t *show_ports(struct daemon *d, uint32_t conn_id)
{
	(void)conn_id;
	return d->driver->show(d->ports);
}

static const char *state_name(const struct slot *s, const struct conn_stats *st)
{
	(void)st;
	if (!s)
		return "closing";
	switch (s->state) {
	case SLOT_CONNECTING: return "connecting";
	case SLOT_WAITING:
	case SLOT_OPEN: return "up";
	case SLOT_ENDED: break;
	}
	return "ended";
}

static json_t *show_conn(const struct daemon *d, struct conn *conn)
{
	const struct slot *s = engine_conn_cookie(conn);
	struct conn_stats st;
	json_t *o;

	engine_conn_stats(conn, d->now, &st);
	o = json_pack(
		"{s:o,s:o,s:I,s:s,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}",
		"id", hex(st.id), "peer", address(engine_conn_peer(conn)), "service",
		(json_int_t)st.service, "state", state_name(s, &st), "owner_pid",
		s ? s->client->pid : 0, "owner_uid", s ? (int)s->client->uid : 0, "paths",
		(json_int_t)st.npaths, "streams", (json_int_t)st.streams, "tx_bytes",
		(json_int_t)st.tx_bytes, "rx_bytes", (json_int_t)st.rx_bytes, "tx_messages",
		(json_int_t)st.tx_msgs, "rx_messages", (json_int_t)st.rx_msgs, "repairs",
		(json_int_t)st.repairs, "spurious_repairs", (json_int_t)st.spurious,
		"duplicate_chunks", (json_int_t)st.dup_letters, "queued_requests",
		(json_int_t)st.queued_requests, "last_heard_us",
		(json_int_t)(st.last_heard_ns / NS_PER_US), "memory_bytes", (json_int_t)st.memory,
		"chunk", (json_int_t)st.chunk);
	add_tolerance(o, &st.tolerance);
	return o;
}

static const char *path_state_name(const struct path_stats *st)
{
	switch ((enum path_state)st->state) {
	case PATH_UP: return st->steered ? "steered" : "up";
	case PATH_DEAD: return "dead";
	case PATH_LEAVING: return "leaving";
	}
	return "?";
}

static json_t *show_path(uint32_t conn_id, uint32_t path, const struct path_stats *st)
{
	json_t *o = json_pack("{s:o,s:i,s:i,s:o,s:i,s:i,s:s,s:s}", "conn", hex(conn_id), "path",
			      (int)path, "port", st->port, "remote", address(&st->remote), "sport",
			      st->sport, "epoch", st->epoch, "state", path_state_name(st), "reason",
			      path_reason_text(st->reason));
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "cwnd", st->cwnd },
		{ "in_flight", st->in_flight },
		{ "next", st->next },
		{ "una", st->una },
		{ "srtt_us", st->srtt_ns / NS_PER_US },
		{ "rttvar_us", st->rttvar_ns / NS_PER_US },
		{ "min_rtt_us", st->min_rtt_ns / NS_PER_US },
		{ "tx_packets", st->tx_packets },
		{ "tx_bytes", st->tx_bytes },
		{ "repairs", st->repairs },
		{ "spurious", st->spurious },
		{ "rtos", st->rtos },
		{ "ptos", st->ptos },
		{ "acks", st->acks },
		{ "nacks", st->nacks },
		{ "ce_bytes", st->ce_bytes },
		{ "deaths", st->deaths },
		{ "mtu", st->mtu },
		{ "moves", st->moves },
		{ "rx_packets", st->rx_packets },
		{ "rx_late", st->rx_late },
		{ "rx_duplicate", st->rx_duplicate },
		{ "rx_gaps", st->rx_gaps },
		{ "rx_ahead", st->rx_ahead },
		{ "rx_missed", st->rx_missed },
		{ "reorder_tolerance", st->reorder_tolerance },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(o, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	return o;
}

static json_t *show_stream(uint32_t conn_id, const struct stream_stats *st)
{
	return json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "conn", hex(conn_id),
			 "stream", (json_int_t)st->stream, "tx_queued", (json_int_t)st->tx_queued,
			 "tx_next_msg", (json_int_t)st->tx_next_msg, "tx_done_msg",
			 (json_int_t)st->tx_done_msg, "rx_next_msg", (json_int_t)st->rx_next_msg,
			 "recv_posted", (json_int_t)st->recv_posted, "recv_taken",
			 (json_int_t)st->recv_taken, "credit", (json_int_t)st->credit, "tx_bytes",
			 (json_int_t)st->tx_bytes, "rx_bytes", (json_int_t)st->rx_bytes);
}

/* Calls `one` for each connection that is asked for. */
static json_t *each_conn(struct daemon *d, uint32_t conn_id,
			 void (*one)(struct daemon *d, struct conn *conn, json_t *list))
{
	json_t *list = json_array();
	struct conn *conn = NULL;

	while ((conn = engine_conn_next(d->engine, conn)))
		if (!conn_id || engine_conn_id(conn) == conn_id)
			one(d, conn, list);
	return list;
}

static void add_conn(struct daemon *d, struct conn *conn, json_t *list)
{
	json_array_append_new(list, show_conn(d, conn));
}

static void add_paths(struct daemon *d, struct conn *conn, json_t *list)
{
	struct path_stats st;

	(void)d;
	for (uint32_t p = 0; engine_path_stats(conn, p, &st) == 0; p++)
		json_array_append_new(list, show_path(engine_conn_id(conn), p, &st));
}

static void add_streams(struct daemon *d, struct conn *conn, json_t *list)
{
	const struct stream *at = NULL;
	struct stream_stats st;

	(void)d;
	while (engine_stream_stats(conn, &at, &st) == 0)
		json_array_append_new(list, show_stream(engine_conn_id(conn), &st));
}

static json_t *show_conns(struct daemon *d, uint32_t conn_id)
{
	return each_conn(d, conn_id, add_conn);
}

static json_t *show_paths(struct daemon *d, uint32_t conn_id)
{
	return each_conn(d, conn_id, add_paths);
}

static json_t *show_streams(struct daemon *d, uint32_t conn_id)
{
	return each_conn(d, conn_id, add_streams);
}

static json_t *show_counters(struct daemon *d, uint32_t conn_id)
{
	uint64_t kernel[MROCE_COUNTERS] = { 0 };
	struct engine_stats engine;
	json_t *list = json_array();

	(void)conn_id;
	d->driver->counters(d->ports, kernel);
	engine_stats(d->engine, &engine);
	for (size_t i = 0; i < nreasons; i++) {
		int n = reasons[i].number;

		json_array_append_new(
			list, json_pack("{s:s,s:i,s:s,s:I,s:I,s:s}", "name", reasons[i].name,
					"number", n, "kind", reasons[i].kind, "kernel",
					(json_int_t)kernel[n], "engine",
					(json_int_t)engine.reasons[n], "text", reasons[i].text));
	}
	return list;
}

static json_t *show_config(struct daemon *d, uint32_t conn_id)
{
	(void)conn_id;
	return config_show(d->cfg);
}

static json_t *show_errors(struct daemon *d, uint32_t conn_id)
{
	(void)d;
	(void)conn_id;
	return journal_errors();
}

static const struct {
	const char *what, *key;
	json_t *(*show)(struct daemon *d, uint32_t conn_id);
} objects[] = {
	{ "port", "ports", show_ports },	   { "conn", "connections", show_conns },
	{ "path", "paths", show_paths },	   { "stream", "streams", show_streams },
	{ "counters", "counters", show_counters }, { "config", "config", show_config },
	{ "errors", "errors", show_errors },
};

char *show_text(struct daemon *d, const char *what, uint32_t conn_id)
{
	bool all = strcmp(what, "all") == 0;
	json_t *o = json_object();
	bool found = all;
	char *text;

	json_object_set_new(o, "daemon", show_daemon(d));
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		if (!all && strcmp(what, objects[i].what) != 0)
			continue;
		json_object_set_new(o, objects[i].key, objects[i].show(d, conn_id));
		found = true;
	}
	text = found ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	return text;
}
