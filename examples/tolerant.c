/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tolerant: sends a block of numbers of which one in a hundred may be missing, and shows what was.
 *
 *	tolerant              server: receives blocks from everybody who connects
 *	tolerant HOST         client: sends ROUNDS blocks
 *
 * The first bytes of each block are critical: they say what is in it, and always arrive.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "mroce.h"

#define SERVICE 4712
#define STREAM 0
#define BLOCK (4u << 20)
#define HEADER 64
#define ROUNDS 100
#define TIMEOUT_MS 10000
#define LISTED 4

static void die(struct mroce *m, const char *what)
{
	fprintf(stderr, "tolerant: %s: %s\n", what, mroce_last_error(m));
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int send_blocks(struct mroce *m, struct mroce_mr *mr, const char *host)
{
	struct mroce_tolerance tol = { .max_missing = 10000, /* 1 % */
				       .over = MROCE_OVER_WAIT,
				       .ncritical = 1,
				       .critical = { { 0, HEADER } } };
	struct mroce_deadline *pace;
	struct mroce_completion c;
	struct mroce_conn *conn;

	if (mroce_connect(m, host, SERVICE, TIMEOUT_MS, &conn))
		die(m, "connect");
	/* Half as much again as nine of ten blocks took lately. */
	if (mroce_deadline_new(90, 50, 500, 1000000, &pace))
		return 1;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t start = now_us();

		tol.deadline_us = mroce_deadline_us(pace);
		if (mroce_post_send_tolerant(conn, STREAM, mr, 0, BLOCK, &tol, i))
			die(m, "post_send_tolerant");
		if (mroce_wait(m, &c, 1, TIMEOUT_MS) < 0)
			die(m, "wait");
		if (c.status != MROCE_OK) {
			fprintf(stderr, "tolerant: %s\n", mroce_status_text(c.status));
			return 1;
		}
		mroce_deadline_note(pace, now_us() - start);
		printf("block %u: %llu us, %llu bytes missing\n", i,
		       (unsigned long long)(now_us() - start), (unsigned long long)c.missing);
	}
	mroce_deadline_free(&pace);
	mroce_conn_close(&conn);
	return 0;
}

static void print_missing(struct mroce *m, const struct mroce_completion *c)
{
	struct mroce_range gap[LISTED];
	int n = mroce_missing(m, c, gap, LISTED);

	printf("%llu bytes, %llu missing in %d ranges:", (unsigned long long)c->length,
	       (unsigned long long)c->missing, n);
	for (int i = 0; i < n && i < LISTED; i++)
		printf(" %llu+%llu", (unsigned long long)gap[i].offset,
		       (unsigned long long)gap[i].length);
	printf("%s\n", n > LISTED ? " ..." : "");
}

static void receive_blocks(struct mroce *m, struct mroce_mr *mr, struct mroce_conn *conn)
{
	struct mroce_completion c;

	for (;;) {
		if (mroce_post_recv(conn, STREAM, mr, 0, BLOCK, 0))
			break;
		if (mroce_wait(m, &c, 1, -1) < 0)
			die(m, "wait");
		if (c.status != MROCE_OK)
			break;
		print_missing(m, &c);
	}
	mroce_conn_close(&conn);
}

int main(int argc, char **argv)
{
	struct mroce_listener *l;
	struct mroce_conn *conn;
	struct mroce_mr *mr;
	struct mroce *m;

	if (mroce_open(NULL, &m))
		die(NULL, "open");
	if (mroce_alloc(m, BLOCK, MROCE_ACCESS_LOCAL, &mr))
		die(m, "alloc");
	if (argc > 1)
		return send_blocks(m, mr, argv[1]);
	if (mroce_listen(m, SERVICE, 4, &l))
		die(m, "listen");
	while (mroce_accept(l, -1, &conn) == 0)
		receive_blocks(m, mr, conn);
	die(m, "accept");
}
