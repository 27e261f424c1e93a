// SPDX-License-Identifier: BSD-2-Clause
/*
 * Drives the ports of a daemon without the daemon: an engine and a portset in one loop, for the tests
 * in port_*.sh.
 *
 *	blast hold IF...                 open the ports; reads commands from standard input
 *	blast recv IF...                 post receives, check what arrives
 *	blast send PEER IF...            send numbered messages
 *	blast detach IF                  portset_detach()
 *	blast attached IF                what programs the interface has, in words
 *
 * Options: -m MEGABYTES  -r RING  -u UDPPORT  -n (no NACKs)  -g (allow generic)  -A (adopt nothing)
 *	    -t SECONDS (give up)  -p PATHS
 * Commands of hold: show, counters, work (run the loop for 200 ms), quit (and end of file).
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "core/engine.h"
#include "daemon/net/ip.h"
#include "daemon/port/portset.h"

#define SERVICE 7
#define MESSAGE (64u << 10)
#define DEPTH 32 /* messages posted at a time */
#define BUDGET 256

struct blast {
	struct engine *engine;
	struct portset *ports;
	struct conn *conn;
	uint8_t *memory; /* DEPTH messages */
	uint32_t key;
	uint64_t posted, completed, wanted; /* messages */
	bool receiver, connected, ended, failed;
};

static int verbosity = LOG_INFO;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void __attribute__((format(printf, 2, 3))) log_line(int level, const char *fmt, ...)
{
	va_list args;

	if (level > verbosity)
		return;
	va_start(args, fmt);
	fprintf(stderr, "<%d> ", level);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

/* ---- messages: every word tells its message and place ---- */

static uint64_t word_of(uint64_t message, uint32_t i)
{
	return (message << 32 | i) * 0x9e3779b97f4a7c15ull;
}

static uint8_t *slot_of(const struct blast *b, uint64_t message)
{
	return b->memory + (message % DEPTH) * MESSAGE;
}

static void write_message(const struct blast *b, uint64_t message)
{
	uint64_t *words = (uint64_t *)slot_of(b, message);

	for (uint32_t i = 0; i < MESSAGE / 8; i++)
		words[i] = word_of(message, i);
}

static bool message_is_right(const struct blast *b, uint64_t message)
{
	const uint64_t *words = (const uint64_t *)slot_of(b, message);

	for (uint32_t i = 0; i < MESSAGE / 8; i++) {
		if (words[i] != word_of(message, i))
			return false;
	}
	return true;
}

static void post(struct blast *b, uint64_t now)
{
	while (b->posted < b->wanted && b->posted - b->completed < DEPTH) {
		struct work_request wr = {
			.id = b->posted,
			.opcode = b->receiver ? MROCE_WR_RECV : MROCE_WR_SEND,
			.key = b->key,
			.addr = (uintptr_t)slot_of(b, b->posted),
			.len = MESSAGE,
		};

		if (!b->receiver)
			write_message(b, b->posted);
		if (engine_post(b->conn, &wr, now))
			return;
		b->posted++;
	}
}

static void on_complete(void *ctx, struct conn *conn, const struct engine_completion *c)
{
	struct blast *b = ctx;

	(void)conn;
	if (c->status != MROCE_OK || c->id != b->completed ||
	    (b->receiver && (c->length != MESSAGE || !message_is_right(b, c->id)))) {
		if (!b->failed)
			log_line(LOG_ERR,
				 "message %llu ended with status %d, length %llu, next is %llu",
				 (unsigned long long)c->id, c->status,
				 (unsigned long long)c->length, (unsigned long long)b->completed);
		b->failed = true;
	}
	b->completed++;
}

static void on_event(void *ctx, struct conn *conn, enum conn_event ev, int code)
{
	struct blast *b = ctx;

	log_line(LOG_INFO, "event %d code %d", ev, code);
	switch (ev) {
	case CONN_EVENT_CONNECTED:
	case CONN_EVENT_ACCEPTED:
		b->conn = conn;
		b->connected = true;
		break;
	case CONN_EVENT_REFUSED:
	case CONN_EVENT_ENDED: b->ended = true; break;
	}
}

static void on_log(void *ctx, int level, const char *line)
{
	(void)ctx;
	log_line(level, "engine: %s", line);
}

static const struct engine_ops ops = { .complete = on_complete, .event = on_event, .log = on_log };

/* ---- the loop ---- */

static void turn(struct blast *b)
{
	static uint64_t housekept;
	uint64_t now = now_ns();
	bool left;
	uint32_t done = portset_rx(b->ports, now, BUDGET);

	done += engine_run(b->engine, now, BUDGET);
	left = portset_tx(b->ports);
	if (now - housekept > 10000000) {
		housekept = now;
		portset_housekeep(b->ports, now);
	}
	if (!done && !left) {
		struct pollfd fd = { .fd = portset_fd(b->ports), .events = POLLIN };
		struct timespec nap = { .tv_nsec = 0 };
		uint64_t deadline = engine_deadline(b->engine, now);
		uint64_t wait = deadline > now ? deadline - now : 0;

		nap.tv_nsec = wait < 1000000 ? (long)wait : 1000000;
		ppoll(&fd, 1, &nap, NULL);
	}
}

/* Frames that were not where they should have been, all ports. */
static uint64_t wrong_frames(const struct portset *ports)
{
	json_t *show = portset_show(ports), *port;
	uint64_t wrong = 0;
	size_t i;

	json_array_foreach(show, i, port)
		wrong += (uint64_t)json_integer_value(json_object_get(port, "frames_wrong"));
	json_decref(show);
	return wrong;
}

static void finish(struct blast *b, double seconds)
{
	struct engine_stats stats;
	uint64_t counters[MROCE_COUNTERS];
	struct conn_stats cs = { 0 };

	engine_stats(b->engine, &stats);
	portset_counters(b->ports, counters);
	if (b->conn)
		engine_conn_stats(b->conn, now_ns(), &cs);
	printf("messages=%llu gbit=%.2f repairs=%llu spurious=%llu redirect=%llu gaps=%llu "
	       "nacks=%llu acks=%llu\n",
	       (unsigned long long)b->completed, b->completed * (double)MESSAGE * 8 / seconds / 1e9,
	       (unsigned long long)cs.repairs, (unsigned long long)cs.spurious,
	       (unsigned long long)counters[MROCE_COUNT_RX_REDIRECT],
	       (unsigned long long)counters[MROCE_COUNT_RX_PASS_GAP],
	       (unsigned long long)counters[MROCE_COUNT_TX_NACK],
	       (unsigned long long)counters[MROCE_COUNT_TX_ACK]);
}

static int transfer(struct blast *b, uint64_t give_up)
{
	uint64_t begun = 0, linger;

	while (b->completed < b->wanted && !b->ended && !b->failed) {
		turn(b);
		if (b->connected) {
			if (!begun)
				begun = now_ns();
			post(b, now_ns());
		}
		if (now_ns() > give_up) {
			log_line(LOG_ERR, "gave up: %llu of %llu messages",
				 (unsigned long long)b->completed, (unsigned long long)b->wanted);
			b->failed = true;
		}
	}
	finish(b, begun ? (now_ns() - begun) / 1e9 : 1);
	if (b->conn && !b->ended && !b->receiver)
		engine_conn_close(b->conn, MROCE_CLOSE_NORMAL, now_ns());
	/* Last ACKs and the CLOSE still have to get through. */
	for (linger = now_ns() + 300000000; now_ns() < linger;)
		turn(b);
	return b->failed || b->completed < b->wanted || wrong_frames(b->ports);
}

static void print_counters(const struct portset *ports)
{
	uint64_t counters[MROCE_COUNTERS];

	portset_counters(ports, counters);
#define X(name, number, text) \
	if (counters[number]) \
		printf("%s=%llu ", #name, (unsigned long long)counters[number]);
	MROCE_DROP_LIST(X)
	MROCE_COUNT_LIST(X)
#undef X
	printf("\n");
}

static int hold(struct blast *b)
{
	char line[64];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "show\n") == 0) {
			json_t *ports = portset_show(b->ports);

			json_dumpf(ports, stdout, JSON_COMPACT);
			printf("\n");
			json_decref(ports);
		} else if (strcmp(line, "counters\n") == 0) {
			print_counters(b->ports);
		} else if (strcmp(line, "work\n") == 0) {
			for (uint64_t end = now_ns() + 200000000; now_ns() < end;)
				turn(b);
			printf("worked\n");
		} else {
			break;
		}
		fflush(stdout);
	}
	return 0;
}

/* bpftool of Debian 12 does not know TCX: numbers as in Linux 6.6. */
static int attached(const char *interface)
{
	static const struct {
		int type;
		const char *name;
	} tcx[] = { { 46, "tcx-ingress" }, { 47, "tcx-egress" } };
	uint32_t ifindex = if_nametoindex(interface), id = 0, n, flags;

	if (bpf_xdp_query_id((int)ifindex, 0, &id) == 0 && id)
		printf("xdp\n");
	for (int i = 0; i < 2; i++) {
		n = 0;
		if (bpf_prog_query((int)ifindex, tcx[i].type, 0, &flags, NULL, &n) == 0 && n)
			printf("%s\n", tcx[i].name);
	}
	return 0;
}

/* ---- start ---- */

static int make_engine(struct blast *b, uint32_t paths)
{
	struct engine_config cfg;
	struct region_params region = {
		.owner = b,
		.iova = 0,
		.len = (uint64_t)DEPTH * MESSAGE,
		.access = MROCE_ACCESS_LOCAL,
	};

	engine_config_default(&cfg);
	if (paths)
		cfg.paths = paths;
	if (getrandom(&cfg.seed, sizeof(cfg.seed), 0) != sizeof(cfg.seed))
		return -EIO;
	b->engine = engine_new(&cfg, &ops, b);
	b->memory = aligned_alloc(4096, region.len);
	if (!b->engine || !b->memory)
		return -ENOMEM;
	region.iova = (uintptr_t)b->memory;
	region.base = b->memory;
	return engine_region_add(b->engine, &region, &b->key);
}

static int run(struct blast *b, const char *mode, const struct ip *peer, uint64_t give_up)
{
	int err;

	if (strcmp(mode, "hold") == 0)
		return hold(b);
	b->receiver = strcmp(mode, "recv") == 0;
	if (b->receiver) {
		err = engine_listen(b->engine, SERVICE, b, 4);
		printf("ready\n");
		fflush(stdout);
	} else {
		err = engine_connect(b->engine, peer, SERVICE, b, NULL, now_ns(), &b->conn);
	}
	if (err) {
		log_line(LOG_ERR, "cannot %s: %s", mode, strerror(-err));
		return 1;
	}
	return transfer(b, give_up);
}

int main(int argc, char **argv)
{
	struct portset_config cfg = { .nack = true, .adopt = true, .log = log_line };
	struct blast b = { .wanted = 16 };
	uint64_t seconds = 60;
	uint32_t paths = 0;
	struct ip peer = { { 0 } };
	const char *mode;
	int opt, err;

	while ((opt = getopt(argc, argv, "m:r:u:ngAt:p:")) != -1) {
		switch (opt) {
		case 'm': b.wanted = strtoull(optarg, NULL, 0) * 16; break;
		case 'r': cfg.ring_size = strtoul(optarg, NULL, 0); break;
		case 'u': cfg.udp_port = strtoul(optarg, NULL, 0); break;
		case 'n': cfg.nack = false; break;
		case 'g': cfg.allow_generic = true; break;
		case 'A': cfg.adopt = false; break;
		case 't': seconds = strtoull(optarg, NULL, 0); break;
		case 'p': paths = strtoul(optarg, NULL, 0); break;
		default: return 2;
		}
	}
	if (argc - optind < 2)
		return 2;
	mode = argv[optind++];
	if (strcmp(mode, "detach") == 0) {
		int removed = portset_detach(argv[optind], log_line);

		printf("removed=%d\n", removed);
		return removed < 0;
	}
	if (strcmp(mode, "attached") == 0)
		return attached(argv[optind]);
	if (strcmp(mode, "send") == 0 && ip_parse(argv[optind++], &peer))
		return 2;
	for (int i = 0; i < MROCE_MAX_PORTS && optind < argc; i++)
		cfg.interfaces[i] = argv[optind++];
	err = make_engine(&b, paths);
	if (!err)
		err = portset_open(&cfg, b.engine, &b.ports);
	if (err) {
		log_line(LOG_ERR, "cannot start: %s", strerror(-err));
		return 1;
	}
	err = run(&b, mode, &peer, now_ns() + seconds * 1000000000ull);
	/* The engine closes its entries in the ports' tables, so it goes first. */
	engine_free(&b.engine);
	portset_close(&b.ports);
	free(b.memory);
	return err;
}
