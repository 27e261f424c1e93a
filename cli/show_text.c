// SPDX-License-Identifier: BSD-2-Clause
/* show_text.c: the daemon's JSON as tables for people. A key that is missing prints as "-". */
#include <stdio.h>
#include <string.h>
#include "json.h"
#include "show.h"
#include "table.h"
#include "units.h"

/* Numbers, strings and booleans alike, into buf if need be. */
static const char *any(const json_t *o, const char *key, char buf[UNIT_TEXT])
{
	const json_t *v = json_object_get(o, key);

	if (json_is_string(v))
		return json_string_value(v);
	if (json_is_boolean(v))
		return json_is_true(v) ? "yes" : "no";
	if (!json_is_number(v))
		return "-";
	snprintf(buf, UNIT_TEXT, "%.15g", json_number_value(v));
	return buf;
}

/* Words, as of a setting that may be given several times. */
static void cell_list(struct table *t, const json_t *list)
{
	char text[256] = "";
	json_t *word;
	size_t i, used = 0;

	json_array_foreach(list, i, word)
	{
		if (json_is_string(word) && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 i ? " " : "", json_string_value(word));
	}
	table_cell(t, "%s", text);
}

static void cell_any(struct table *t, const json_t *o, const char *key)
{
	const json_t *value = json_object_get(o, key);
	char buf[UNIT_TEXT];

	if (json_is_array(value)) {
		cell_list(t, value);
		return;
	}
	table_cell(t, "%s", any(o, key, buf));
}

static void cells_any(struct table *t, const json_t *o, const char *const *keys)
{
	for (; *keys; keys++)
		cell_any(t, o, *keys);
}

static void cell_bytes(struct table *t, const json_t *o, const char *key)
{
	char buf[UNIT_TEXT];

	table_cell(t, "%s", format_bytes(buf, (uint64_t)json_num(o, key)));
}

/* ---- daemon ---- */

/* Of a connection, or of the daemon since it was started; nothing if nobody stated a tolerance. */
static void print_tolerance(const char *indent, const json_t *o)
{
	double complete = json_num(o, "tolerant_complete"),
	       forgiven = json_num(o, "tolerant_forgiven"),
	       over = json_num(o, "tolerant_over_bound");
	char missing[UNIT_TEXT];

	if (complete + forgiven + over > 0)
		printf("%stolerant: complete:%.0f forgiven:%.0f over_bound:%.0f missing %s\n",
		       indent, complete, forgiven, over,
		       format_bytes(missing, (uint64_t)json_num(o, "tolerant_missing_bytes")));
}

void show_daemon(const json_t *d)
{
	char up[UNIT_TEXT], a[UNIT_TEXT], b[UNIT_TEXT], c[UNIT_TEXT];

	printf("mroced %s, pid %s, up %s, socket %s\n", json_str(d, "version"), any(d, "pid", a),
	       format_span(up, json_num(d, "uptime_s")), json_str(d, "socket"));
	printf("  clients %s, wire version %s, congestion control %s, busy %.1f %%\n",
	       any(d, "clients", b), any(d, "wire_version", c), json_str(d, "cc"),
	       100 * json_num(d, "busy_ratio"));
	print_tolerance("  ", d);
}

/* ---- ports ---- */

static bool is_up(const json_t *port)
{
	const json_t *up = json_object_get(port, "up");

	return json_is_true(up) || json_number_value(up) != 0;
}

static void port_row(struct table *t, const json_t *p)
{
	static const char *const front[] = { "port", "name", "addr", NULL };
	static const char *const back[] = { "mode",	  "attach",	  "prog_id",
					    "queues",	  "rx_packets",	  "tx_packets",
					    "rx_dropped", "rx_ring_full", "fill_ring_empty",
					    NULL };
	char buf[UNIT_TEXT];

	cells_any(t, p, front);
	table_cell(t, "%s", is_up(p) ? "up" : "DOWN");
	cell_any(t, p, "mtu");
	table_cell(t, "%s",
		   json_num(p, "speed_mbps") > 0 ? format_rate(buf, json_num(p, "speed_mbps") * 1e6)
						 : "-");
	cells_any(t, p, back);
}

static void print_neighbours(const json_t *port)
{
	const json_t *n;
	size_t i;

	json_array_foreach(json_object_get(port, "neighbours"), i, n)
		printf("  %s: neighbour %s %s %s\n", json_str(port, "name"), json_str(n, "addr"),
		       json_str(n, "mac"), json_str(n, "state"));
}

static void print_frames(const json_t *port)
{
	const json_t *f = json_object_get(port, "frames");

	if (!json_is_object(f))
		return;
	printf("  %s: frames total %.0f free %.0f fill %.0f rx %.0f tx %.0f completion %.0f held "
	       "%.0f\n",
	       json_str(port, "name"), json_num(f, "total"), json_num(f, "free"),
	       json_num(f, "fill"), json_num(f, "rx"), json_num(f, "tx"), json_num(f, "completion"),
	       json_num(f, "held"));
}

/* Socket ports only. */
static void print_picker(const json_t *port)
{
	if (json_object_get(port, "paths_by"))
		printf("  %s: paths are picked by the %s (%s), letters %.0f, returned %.0f\n",
		       json_str(port, "name"), json_str(port, "paths_by"),
		       json_str(port, "paths_reason"), json_num(port, "letters"),
		       json_num(port, "letters_returned"));
}

static void port_table(const json_t *list)
{
	static const char *const heads[] = { ">PORT",	 "NAME",       "ADDRESS",     "STATE",
					     ">MTU",	 ">SPEED",     "MODE",	      "ATTACH",
					     ">PROG",	 ">QUEUES",    ">RX-PKT",     ">TX-PKT",
					     ">RX-DROP", ">RING-FULL", ">FILL-EMPTY", NULL };
	struct table t;
	const json_t *p;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, p) port_row(&t, p);
	table_end(&t, stdout);
}

void show_ports(const json_t *list)
{
	const json_t *p;
	size_t i;

	port_table(list);
	json_array_foreach(list, i, p)
	{
		print_frames(p);
		print_picker(p);
		print_neighbours(p);
	}
}

/* ---- connections: two lines each, as `ss -i` ---- */

static void print_conn(const json_t *c)
{
	char tx[UNIT_TEXT], rx[UNIT_TEXT], age[UNIT_TEXT];

	printf("%s %s peer %s service %.0f pid %.0f uid %.0f\n", json_str(c, "id"),
	       json_str(c, "state"), json_str(c, "peer"), json_num(c, "service"),
	       json_num(c, "owner_pid"), json_num(c, "owner_uid"));
	printf("\t tx %s in %.0f msgs rx %s in %.0f msgs paths:%.0f streams:%.0f queued:%.0f "
	       "repairs:%.0f spurious:%.0f dup_chunks:%.0f heard %s ago\n",
	       format_bytes(tx, (uint64_t)json_num(c, "tx_bytes")), json_num(c, "tx_messages"),
	       format_bytes(rx, (uint64_t)json_num(c, "rx_bytes")), json_num(c, "rx_messages"),
	       json_num(c, "paths"), json_num(c, "streams"), json_num(c, "queued_requests"),
	       json_num(c, "repairs"), json_num(c, "spurious_repairs"),
	       json_num(c, "duplicate_chunks"),
	       format_span(age, json_num(c, "last_heard_us") / 1e6));
	print_tolerance("\t ", c);
}

void show_conns(const json_t *list)
{
	const json_t *c;
	size_t i;

	json_array_foreach(list, i, c) print_conn(c);
}

struct path_sum {
	unsigned int up, all;
	double cwnd, in_flight, srtt_min, srtt_max, rtos, deaths;
};

static void add_path(struct path_sum *sum, const json_t *p)
{
	double srtt = json_num(p, "srtt_us");

	sum->all++;
	if (strcmp(json_str(p, "state"), "dead") != 0)
		sum->up++;
	sum->cwnd += json_num(p, "cwnd");
	sum->in_flight += json_num(p, "in_flight");
	sum->rtos += json_num(p, "rtos");
	sum->deaths += json_num(p, "deaths");
	if (sum->all == 1 || srtt < sum->srtt_min)
		sum->srtt_min = srtt;
	if (srtt > sum->srtt_max)
		sum->srtt_max = srtt;
}

static void print_path_sum(const json_t *conn, const json_t *paths)
{
	struct path_sum sum = { 0 };
	const json_t *p;
	size_t i;

	json_array_foreach(paths, i, p) if (!strcmp(json_str(p, "conn"), json_str(conn, "id")))
		add_path(&sum, p);
	if (sum.all)
		printf("\t paths up:%u/%u cwnd:%.0f in_flight:%.0f srtt:%.0f..%.0fus rtos:%.0f "
		       "deaths:%.0f\n",
		       sum.up, sum.all, sum.cwnd, sum.in_flight, sum.srtt_min, sum.srtt_max,
		       sum.rtos, sum.deaths);
}

/* ---- paths, streams ---- */

void show_paths(const json_t *list)
{
	static const char *const heads[] = { "CONN",	 ">PATH",    ">PORT",	"REMOTE",
					     ">SPORT",	 "STATE",    "REASON",	">CWND",
					     ">INFL",	 ">SRTT-US", ">MIN-US", ">TX-PKT",
					     ">REPAIRS", ">SPUR",    ">RTOS",	">NACKS",
					     ">DEATHS",	 ">MOVES",   ">MTU",	">RX-PKT",
					     ">RX-GAPS", ">REORD",   NULL };
	static const char *const keys[] = { "conn",	  "path",
					    "port",	  "remote",
					    "sport",	  "state",
					    "reason",	  "cwnd",
					    "in_flight",  "srtt_us",
					    "min_rtt_us", "tx_packets",
					    "repairs",	  "spurious",
					    "rtos",	  "nacks",
					    "deaths",	  "moves",
					    "mtu",	  "rx_packets",
					    "rx_gaps",	  "reorder_tolerance",
					    NULL };
	struct table t;
	const json_t *p;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, p) cells_any(&t, p, keys);
	table_end(&t, stdout);
}

void show_streams(const json_t *list)
{
	static const char *const heads[] = { "CONN",	 ">STREAM",  ">TX-QUEUED",   ">TX-NEXT",
					     ">TX-DONE", ">RX-NEXT", ">RECV-POSTED", ">RECV-TAKEN",
					     ">CREDIT",	 ">TX",	     ">RX",	     NULL };
	static const char *const keys[] = { "conn",	   "stream",	  "tx_queued",
					    "tx_next_msg", "tx_done_msg", "rx_next_msg",
					    "recv_posted", "recv_taken",  "credit",
					    NULL };
	struct table t;
	const json_t *s;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, s)
	{
		cells_any(&t, s, keys);
		cell_bytes(&t, s, "tx_bytes");
		cell_bytes(&t, s, "rx_bytes");
	}
	table_end(&t, stdout);
}

/* ---- counters, configuration ---- */

static void counter_table(const json_t *list, bool drops_only)
{
	static const char *const heads[] = { "NAME",	">NUMBER", "KIND", ">KERNEL",
					     ">ENGINE", "MEANING", NULL };
	static const char *const keys[] = { "name",   "number", "kind", "kernel",
					    "engine", "text",	NULL };
	struct table t;
	const json_t *c;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, c)
	{
		bool zero = json_num(c, "kernel") + json_num(c, "engine") <= 0;

		if (drops_only && (zero || strcmp(json_str(c, "kind"), "drop")))
			continue;
		cells_any(&t, c, keys);
	}
	table_end(&t, stdout);
}

void show_counters(const json_t *list)
{
	counter_table(list, false);
}

void show_config(const json_t *list)
{
	static const char *const heads[] = { "KEY", "VALUE", "ORIGIN", NULL };
	static const char *const keys[] = { "key", "value", "origin", NULL };
	struct table t;
	const json_t *c;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, c) cells_any(&t, c, keys);
	table_end(&t, stdout);
}

void show_errors(const json_t *list)
{
	static const char *const heads[] = { "LEVEL", ">COUNT", ">FIRST", ">LAST", "LAST TEXT", NULL };
	char first[UNIT_TEXT], last[UNIT_TEXT];
	struct table t;
	const json_t *e;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, e)
	{
		table_cell(&t, "%s", json_str(e, "level"));
		table_cell(&t, "%.0f", json_num(e, "count"));
		table_cell(&t, "%s ago", format_span(first, json_num(e, "first_s")));
		table_cell(&t, "%s ago", format_span(last, json_num(e, "last_s")));
		table_cell(&t, "%s", json_str(e, "text"));
	}
	table_end(&t, stdout);
}

/* ---- summary ---- */

void show_summary(const json_t *root)
{
	const json_t *conns = json_object_get(root, "connections");
	const json_t *paths = json_object_get(root, "paths");
	const json_t *c;
	size_t i;

	show_daemon(json_object_get(root, "daemon"));
	putchar('\n');
	port_table(json_object_get(root, "ports"));
	printf("\n%zu connection%s\n", json_array_size(conns),
	       json_array_size(conns) == 1 ? "" : "s");
	json_array_foreach(conns, i, c)
	{
		print_conn(c);
		print_path_sum(c, paths);
	}
	putchar('\n');
	counter_table(json_object_get(root, "counters"), true);
}
