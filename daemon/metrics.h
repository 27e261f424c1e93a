/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics.h: numbers for Prometheus over HTTP. A thread of its own talks to whoever asks; all it wants of the
 * worker is a filled-in snapshot, at most five times a second, handed over by one word in memory.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include <stdbool.h>
#include <sys/socket.h>
#include "core/engine.h"
#include "daemon/daemon.h"

/* What [daemon] metrics names. */
struct metrics_address {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* "127.0.0.1:9797", "[::1]:9797", or the path of a Unix socket that begins with a slash. False: none of these. */
bool metrics_address(const char *text, struct metrics_address *out);

struct metrics;

/* Serves from now on. *out NULL if cfg names no address. Explains failures. After worker_signals(). */
int metrics_open(struct daemon *d, struct metrics **out);
void metrics_close(struct metrics **m);

/* ---- between metrics_http.c and metrics.c ---- */

struct metrics_port {
	char name[16];
	bool up;
	uint32_t mtu, speed_mbps;
	struct metrics_number {
		bool known; /* not every kind of port has it */
		uint64_t value;
	} rx_packets, tx_packets, rx_dropped, rx_ring_full, fill_ring_empty;
};

struct metrics_snapshot {
	uint64_t uptime_ns, log_lines[8]; /* by level of syslog */
	double busy_ratio;
	uint32_t clients, nports;
	struct engine_stats engine;
	struct engine_totals totals;
	struct engine_times times;
	uint64_t kernel[MROCE_COUNTERS];
	struct metrics_port ports[MROCE_MAX_PORTS];
};

/* By the worker: reads, waits for nothing. */
void metrics_take(struct daemon *d, struct metrics_snapshot *s);
/* The exposition format 0.0.4 of Prometheus. malloc()ed; NULL: no memory. */
char *metrics_text(const struct metrics_snapshot *s, size_t *len);

#endif
