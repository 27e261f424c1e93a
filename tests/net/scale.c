/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thousands of connections between two daemons.
 *
 *	scale serve SOCKET N [SIZE]
 *		takes N connections; prints address and rkey of its memory first
 *	scale load SOCKET HOST N MS ADDRESS RKEY [SIZE]
 *		opens N connections by several contexts; has 1 MiB of writes of SIZE outstanding on the first alone for
 *		MS milliseconds, then one on each of all for as long
 *
 * load prints one line of key=value: set-up time, goodput of one and of all, Jain's index, bytes of memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mroce.h"

#define SERVICE 4910
#define CONTEXTS 4
#define SIZE 16384u /* of a write, unless the command line says otherwise */
#define LARGEST (1u << 20)
#define ALONE (1u << 20) /* bytes outstanding on the first connection while it is alone */
#define BATCH 256
#define CONNECT_MS 20000
#define ACCEPT_MS 60000
#define STUCK_MS 20000

static struct mroce *contexts[CONTEXTS];
static struct mroce_mr *memory[CONTEXTS];
static uint64_t remote, *bytes;
static uint32_t rkey, size = SIZE;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what, const struct mroce *m)
{
	fprintf(stderr, "%s: %s\n", what, mroce_last_error(m));
	exit(1);
}

static void open_context(int i, const char *socket, int access)
{
	if (mroce_open(socket, &contexts[i]))
		die("open", NULL);
	if (mroce_alloc(contexts[i], size, access, &memory[i]))
		die("memory", contexts[i]);
}

static _Noreturn void serve(const char *socket, uint32_t n)
{
	struct mroce_listener *l;
	struct mroce_conn *c;

	open_context(0, socket, MROCE_ACCESS_REMOTE_WRITE);
	if (mroce_listen(contexts[0], SERVICE, 1024, &l))
		die("listen", contexts[0]);
	printf("memory %" PRIu64 " %u\n", (uint64_t)(uintptr_t)mroce_mr_addr(memory[0]),
	       mroce_mr_rkey(memory[0]));
	fflush(stdout);
	for (uint32_t i = 0; i < n; i++) {
		if (mroce_accept(l, ACCEPT_MS, &c))
			die("accept", contexts[0]);
	}
	printf("accepted %u\n", n);
	fflush(stdout);
	mroce_accept(l, -1, &c); /* until the daemon is gone */
	exit(0);
}

static void post(struct mroce_conn *c, uint32_t i)
{
	if (mroce_post_write(c, 0, memory[i % CONTEXTS], 0, size, remote, rkey, i))
		die("write", contexts[i % CONTEXTS]);
}

/* Returns when a context may have something. A loop instead would take a CPU that the daemons need. */
static void sleep_until_something(void)
{
	struct pollfd fds[CONTEXTS];

	for (int m = 0; m < CONTEXTS; m++) {
		fds[m] = (struct pollfd){ .fd = mroce_fd(contexts[m]), .events = POLLIN };
		if (mroce_arm(contexts[m]))
			return;
	}
	if (poll(fds, CONTEXTS, STUCK_MS) == 0) {
		fprintf(stderr, "no write has completed for %d ms\n", STUCK_MS);
		exit(1);
	}
}

/* Returns how many writes have completed. Posts each again, if `again`. */
static uint32_t take(struct mroce_conn **conns, int m, bool again)
{
	struct mroce_completion done[BATCH];
	int n = mroce_poll(contexts[m], done, BATCH);

	if (n < 0)
		die("poll", contexts[m]);
	for (int i = 0; i < n; i++) {
		if (done[i].status != MROCE_OK) {
			fprintf(stderr, "write: %s\n", mroce_status_text(done[i].status));
			exit(1);
		}
		if (!again)
			continue;
		bytes[done[i].id] += size;
		post(conns[done[i].id], (uint32_t)done[i].id);
	}
	return (uint32_t)n;
}

/* Takes completions and posts again until `until`; then only takes what is outstanding. */
static void drive(struct mroce_conn **conns, uint32_t outstanding, uint64_t until)
{
	while (outstanding) {
		bool again = now_ns() < until;
		uint32_t n = 0;

		for (int m = 0; m < CONTEXTS; m++)
			n += take(conns, m, again);
		outstanding -= again ? 0 : n;
		if (!n)
			sleep_until_something();
	}
}

static double jain(uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (double)bytes[i];
		squares += (double)bytes[i] * (double)bytes[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

static uint64_t sum_and_clear(uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += bytes[i];
	memset(bytes, 0, n * sizeof(*bytes));
	return sum;
}

static int load(const char *socket, const char *host, uint32_t n, uint64_t ms)
{
	struct mroce_conn **conns = calloc(n, sizeof(struct mroce_conn *));
	uint64_t start, setup, one, all;
	double fair;

	bytes = calloc(n, sizeof(*bytes));
	if (!conns || !bytes)
		return 1;
	for (int i = 0; i < CONTEXTS; i++)
		open_context(i, socket, 0);
	start = now_ns();
	for (uint32_t i = 0; i < n; i++) {
		if (mroce_connect(contexts[i % CONTEXTS], host, SERVICE, CONNECT_MS, &conns[i]))
			die("connect", contexts[i % CONTEXTS]);
	}
	setup = now_ns() - start;
	for (uint32_t i = 0; i < ALONE / size; i++)
		post(conns[0], 0);
	drive(conns, ALONE / size, now_ns() + ms * 1000000);
	one = sum_and_clear(n);
	for (uint32_t i = 0; i < n; i++)
		post(conns[i], i);
	drive(conns, n, now_ns() + ms * 1000000);
	fair = jain(n);
	all = sum_and_clear(n);
	printf("connections=%u setup_ms=%" PRIu64 " one_mbps=%" PRIu64 " all_mbps=%" PRIu64
	       " ratio=%.3f jain=%.3f\n",
	       n, setup / 1000000, one * 8 / (ms * 1000), all * 8 / (ms * 1000),
	       one ? (double)all / (double)one : 0, fair);
	fflush(stdout);
	/* Until it is killed: somebody may want to look at idle connections. */
	while (getchar() != EOF)
		;
	return 0;
}

int main(int argc, char **argv)
{
	bool serves = argc >= 4 && argc <= 5 && strcmp(argv[1], "serve") == 0;
	bool loads = argc >= 8 && argc <= 9 && strcmp(argv[1], "load") == 0;

	if (serves && argc == 5)
		size = (uint32_t)atoi(argv[4]);
	if (loads && argc == 9)
		size = (uint32_t)atoi(argv[8]);
	if (!size || size > LARGEST) {
		fprintf(stderr, "scale: SIZE is 1 to %u bytes\n", LARGEST);
		return 2;
	}
	if (serves)
		serve(argv[2], (uint32_t)atoi(argv[3]));
	if (loads) {
		remote = strtoull(argv[6], NULL, 10);
		rkey = (uint32_t)strtoul(argv[7], NULL, 10);
		return load(argv[2], argv[3], (uint32_t)atoi(argv[4]), strtoull(argv[5], NULL, 10));
	}
	fputs("usage: scale serve SOCKET N [SIZE] | scale load SOCKET HOST N MS ADDRESS RKEY "
	      "[SIZE]\n",
	      stderr);
	return 2;
}
