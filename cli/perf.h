/* SPDX-License-Identifier: BSD-2-Clause */
/* perf.h: the parts of `mroce perf`, which `mroce ping` uses too. */
#ifndef CLI_PERF_H
#define CLI_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include "channel.h"
#include "link.h"
#include "mroce.h"
#include "perfproto.h"
#include "samples.h"

struct perf_server_options {
	uint64_t service;
	bool once, inplace, quiet;
};

/* Serves until a signal, or until the first client is done (once). Returns the exit status. */
int perf_serve(const struct perf_server_options *o);

/* A region made by the library, or anonymous memory registered where it is. */
struct perf_memory {
	struct mroce_mr *mr;
	void *mapped; /* NULL: allocated by the library */
	size_t size;
};

int perf_memory_get(struct perf_memory *mem, struct mroce *m, size_t size, int access, bool inplace);
void perf_memory_put(struct perf_memory *mem);

struct perf_options {
	const char *host;
	uint64_t service;
	enum perf_op op;
	uint64_t size, iterations, connections, streams, depth;
	double duration; /* seconds; 0: by iterations */
	bool check, inplace, more;
	uint64_t max_missing; /* stated of every message, parts per million; 0: fully reliable */
	uint64_t deadline_us;
	double timeout; /* seconds without a completion until it is given up */
};

struct perf_result {
	uint64_t size, messages, bytes;
	double seconds;
	double peak_gbit, average_gbit, mpps;
	uint64_t check_errors;
	uint64_t forgiven, missing; /* messages that ended without all their bytes; these bytes */
	struct link_repairs repairs;
	double cpu_self, cpu_daemon; /* seconds; cpu_daemon < 0: not known */
	struct samples samples;	     /* latency: microseconds */
};

/* Each measures one size; 0 or -errno, and then it was said. */
int perf_bandwidth(struct mroce *m, const struct perf_options *o, struct perf_result *out);
int perf_latency(struct mroce *m, const struct perf_options *o, struct perf_result *out);

/* One connection of a client. */
struct perf_client {
	struct mroce *m;
	const struct perf_options *o;
	struct mroce_conn *conn;
	struct channel channel;
	struct perf_memory memory;
	struct perf_msg request, ready, report;
	bool is_ready, is_reported;
	uint64_t posted, completed, errors;
	uint64_t forgiven, missing;
	bool *busy;	      /* a slot's request has not completed; kept with PERF_CHECK */
	uint64_t echoes;      /* of ping-pong: answers that have come */
	uint64_t echo_length; /* of the last of them */
};

/* Connects and agrees with the server. On failure nothing is left, and it was said. */
int perf_client_open(struct perf_client *c, struct mroce *m, const struct perf_options *o,
		     uint64_t depth);
void perf_client_close(struct perf_client *c);
/* STOP, and waits for the REPORT. */
int perf_client_stop(struct perf_client *c);
/* One ping-pong: returns microseconds there and back, or -errno (said, except -EINTR). */
int perf_client_echo(struct perf_client *c, double timeout, double *usec);
/*
 * Takes what has come for all connections of the context, waits up to timeout_ms. Number of requests
 * and echoes completed, or -errno (said, except -EINTR).
 */
int perf_client_pump(struct mroce *m, int timeout_ms);

#endif
