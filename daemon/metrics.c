/* SPDX-License-Identifier: BSD-2-Clause */
/* metrics.c: what is measured, and how Prometheus reads it. docs/metrics.md lists it; a test compares the two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/reasons.h"
#include "daemon/journal.h"
#include "daemon/metrics.h"

#define NS 1e9

/* ---- the worker's part ---- */

static struct metrics_number number_of(const json_t *port, const char *key)
{
	const json_t *v = json_object_get(port, key);
	struct metrics_number n = { json_is_integer(v), (uint64_t)json_integer_value(v) };

	return n;
}

static void take_port(const json_t *o, struct metrics_port *p)
{
	const char *name = json_string_value(json_object_get(o, "name"));

	snprintf(p->name, sizeof(p->name), "%s", name ? name : "?");
	p->up = json_is_true(json_object_get(o, "up"));
	p->mtu = (uint32_t)number_of(o, "mtu").value;
	p->speed_mbps = (uint32_t)number_of(o, "speed_mbps").value;
	p->rx_packets = number_of(o, "rx_packets");
	p->tx_packets = number_of(o, "tx_packets");
	p->rx_dropped = number_of(o, "rx_dropped");
	p->rx_ring_full = number_of(o, "rx_ring_full");
	p->fill_ring_empty = number_of(o, "fill_ring_empty");
}

void metrics_take(struct daemon *d, struct metrics_snapshot *s)
{
	json_t *ports = d->driver->show(d->ports);
	json_t *o;
	size_t i;

	memset(s, 0, sizeof(*s));
	s->uptime_ns = daemon_clock() - d->started;
	s->busy_ratio = d->busy_ratio;
	s->clients = d->nclients;
	journal_counts(s->log_lines);
	engine_stats(d->engine, &s->engine);
	engine_totals(d->engine, &s->totals);
	s->times = *engine_times(d->engine);
	d->driver->counters(d->ports, s->kernel);
	json_array_foreach(ports, i, o)
	{
		if (s->nports == MROCE_MAX_PORTS)
			break;
		take_port(o, &s->ports[s->nports++]);
	}
	json_decref(ports);
}

/* ---- the text ---- */

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP mroce_%s %s\n# TYPE mroce_%s %s\n", name, help, name, type);
}

static void gauge(FILE *f, const char *name, double value, const char *help)
{
	head(f, name, "gauge", help);
	fprintf(f, "mroce_%s %.15g\n", name, value);
}

static void counter(FILE *f, const char *name, uint64_t value, const char *help)
{
	head(f, name, "counter", help);
	fprintf(f, "mroce_%s %llu\n", name, (unsigned long long)value);
}

static void histogram(FILE *f, const char *name, const struct histogram *h, const char *help)
{
	unsigned long long sum = 0;

	head(f, name, "histogram", help);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		sum += h->bucket[i];
		if (i + 1 < HISTOGRAM_BUCKETS)
			fprintf(f, "mroce_%s_bucket{le=\"%.9g\"} %llu\n", name,
				(double)histogram_edge(i) / NS, sum);
	}
	fprintf(f, "mroce_%s_bucket{le=\"+Inf\"} %llu\nmroce_%s_sum %.15g\nmroce_%s_count %llu\n",
		name, sum, name, (double)h->sum_ns / NS, name, sum);
}

/* ---- groups ---- */

static void write_daemon(FILE *f, const struct metrics_snapshot *s)
{
	head(f, "build_info", "gauge", "Version of the daemon; the value is always 1.");
	fprintf(f, "mroce_build_info{version=\"%s\",wire_version=\"%d\"} 1\n", MROCE_VERSION,
		MROCE_WIRE_VERSION);
	gauge(f, "uptime_seconds", (double)s->uptime_ns / NS, "Since the daemon was started.");
	gauge(f, "busy_ratio", s->busy_ratio,
	      "Share of the last second in which the worker did not sleep.");
	gauge(f, "clients", s->clients, "Contexts of applications.");
	gauge(f, "connections", s->engine.conns, "Connections in any state.");
	gauge(f, "connections_half_open", s->engine.half_open,
	      "Set-ups answered and not confirmed yet.");
	gauge(f, "regions", s->engine.regions, "Memory regions registered.");
	gauge(f, "letters_used", s->engine.letters_used, "Chunks in flight.");
	gauge(f, "letters_limit", s->engine.letters_total, "Chunks that may be in flight.");
}

static void write_tolerance(FILE *f, const struct tolerance_stats *t)
{
	const struct {
		const char *result;
		uint64_t n;
	} of[] = { { "complete", t->complete },
		   { "forgiven", t->forgiven },
		   { "over_bound", t->over } };

	head(f, "tolerant_messages_total", "counter",
	     "Messages received under a stated loss tolerance, by how they ended.");
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		fprintf(f, "mroce_tolerant_messages_total{result=\"%s\"} %llu\n", of[i].result,
			(unsigned long long)of[i].n);
	counter(f, "tolerant_missing_bytes_total", t->missing,
		"Bytes of received messages that ended without them.");
}

static void write_traffic(FILE *f, const struct metrics_snapshot *s)
{
	const struct engine_totals *t = &s->totals;

	counter(f, "sent_bytes_total", t->tx_bytes,
		"Payload of messages sent and acknowledged, each byte once.");
	counter(f, "received_bytes_total", t->rx_bytes,
		"Payload of messages received, each byte once.");
	counter(f, "sent_messages_total", t->tx_msgs,
		"Messages sent, whether they succeeded or not.");
	counter(f, "received_messages_total", t->rx_msgs, "Messages received.");
	counter(f, "completions_total", s->engine.completions, "Completions given to applications.");
	counter(f, "repairs_total", t->repairs, "Chunks sent again because they were lost.");
	counter(f, "spurious_repairs_total", t->spurious, "Repairs that turned out to be needless.");
	counter(f, "duplicate_chunks_total", t->dup_letters,
		"Chunks that arrived although they were there.");
	counter(f, "stalls_total", s->engine.stalls, "Reports of messages that make no progress.");
	write_tolerance(f, &s->engine.tolerance);
	histogram(f, "rtt_seconds", &s->times.rtt, "Round trips of paths, each sample.");
	histogram(f, "completion_seconds", &s->times.completion,
		  "From posting a send, write or read to its successful completion.");
	histogram(f, "repair_delay_seconds", &s->times.repair,
		  "From a chunk being known as lost to its repair being acknowledged.");
}

static void write_events(FILE *f, const struct metrics_snapshot *s)
{
	static const char *const levels[] = { "crit", "error", "warning", "notice", "info" };

	head(f, "events_total", "counter", "What happened to connections, paths and ports.");
	for (int i = 0; i < NOTE_KINDS; i++)
		fprintf(f, "mroce_events_total{event=\"%s\"} %llu\n", note_name((enum note_kind)i),
			(unsigned long long)s->engine.notes[i]);
	head(f, "log_lines_total", "counter",
	     "Lines for the journal, those left out as repeated included.");
	for (int i = LOG_CRIT; i <= LOG_INFO; i++)
		fprintf(f, "mroce_log_lines_total{level=\"%s\"} %llu\n", levels[i - LOG_CRIT],
			(unsigned long long)s->log_lines[i]);
}

static void write_packets(FILE *f, const struct metrics_snapshot *s, const char *name,
			  const char *label, const char *help, size_t from, size_t to)
{
	head(f, name, "counter", help);
	for (const struct reason *r = &reasons[from]; r < &reasons[to]; r++)
		fprintf(f,
			"mroce_%s{%s=\"%s\",where=\"kernel\"} %llu\n"
			"mroce_%s{%s=\"%s\",where=\"engine\"} %llu\n",
			name, label, r->name, (unsigned long long)s->kernel[r->number], name, label,
			r->name, (unsigned long long)s->engine.reasons[r->number]);
}

static void write_reasons(FILE *f, const struct metrics_snapshot *s)
{
	write_packets(
		f, s, "packets_dropped_total",
		"reason", "Packets of ours that were dropped, by reason, in the kernel's programs and in the daemon.",
		0, ndrops);
	write_packets(f, s, "packets_total", "outcome",
		      "What else became of packets, in the kernel's programs and in the daemon.",
		      ndrops, nreasons);
}

static void port_gauge(FILE *f, const struct metrics_snapshot *s, const char *name,
		       const char *help, double (*value)(const struct metrics_port *p))
{
	head(f, name, "gauge", help);
	for (uint32_t i = 0; i < s->nports; i++)
		fprintf(f, "mroce_%s{port=\"%s\"} %.15g\n", name, s->ports[i].name,
			value(&s->ports[i]));
}

static void port_counter(FILE *f, const struct metrics_snapshot *s, const char *name,
			 const char *help, size_t offset)
{
	head(f, name, "counter", help);
	for (uint32_t i = 0; i < s->nports; i++) {
		const struct metrics_number *n = (const void *)((const char *)&s->ports[i] + offset);

		if (n->known)
			fprintf(f, "mroce_%s{port=\"%s\"} %llu\n", name, s->ports[i].name,
				(unsigned long long)n->value);
	}
}

static double is_up(const struct metrics_port *p)
{
	return p->up;
}

static double mtu_of(const struct metrics_port *p)
{
	return p->mtu;
}

static double speed_of(const struct metrics_port *p)
{
	return p->speed_mbps * 1e6;
}

static void write_ports(FILE *f, const struct metrics_snapshot *s)
{
	port_gauge(f, s, "port_up", "1: the interface is up and usable.", is_up);
	port_gauge(f, s, "port_mtu_bytes", "MTU of the interface.", mtu_of);
	port_gauge(f, s, "port_speed_bits_per_second", "Speed of the link; 0: unknown.", speed_of);
	port_counter(f, s, "port_received_packets_total", "Packets received by the daemon.",
		     offsetof(struct metrics_port, rx_packets));
	port_counter(f, s, "port_sent_packets_total", "Packets sent by the daemon.",
		     offsetof(struct metrics_port, tx_packets));
	port_counter(f, s, "port_receive_drops_total", "Packets that the sockets had no room for.",
		     offsetof(struct metrics_port, rx_dropped));
	port_counter(f, s, "port_receive_ring_full_total", "Packets that met a full AF_XDP ring.",
		     offsetof(struct metrics_port, rx_ring_full));
	port_counter(f, s, "port_fill_ring_empty_total", "Times that a fill ring was found empty.",
		     offsetof(struct metrics_port, fill_ring_empty));
}

char *metrics_text(const struct metrics_snapshot *s, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	write_daemon(f, s);
	write_traffic(f, s);
	write_events(f, s);
	write_ports(f, s);
	write_reasons(f, s);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
