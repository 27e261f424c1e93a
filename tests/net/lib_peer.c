/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application for the net tests that never stops by itself.
 *
 *	lib_peer serve SOCKET        takes connections, checks what is sent to it
 *	lib_peer load SOCKET HOST    sends to a server until something ends it
 *
 * Prints one line for each thing that happens; "wrong" is never among them if all is well. Memory is half shared,
 * half registered in place, so that both ways are under load when something dies.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mroce.h"

#define SERVICE 4900
#define SIZE 50000u
#define SLOTS 16
#define STREAMS 4
#define CONNS 64
#define TIMEOUT_MS 30000

struct side {
	struct mroce *m;
	struct mroce_mr *mr[2]; /* shared, in place */
};

static void say(const char *what, const char *detail)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%" PRId64 " %s %s\n", (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000, what, detail);
	fflush(stdout);
}

static void fail(const struct side *s, const char *what)
{
	char text[400];

	snprintf(text, sizeof(text), "%s: %s", what, mroce_last_error(s->m));
	say("failed", text);
	exit(1);
}

static void set_up(struct side *s, const char *socket, size_t bytes)
{
	void *own = calloc(1, bytes);

	if (!own || mroce_open(socket, &s->m))
		fail(s, "open");
	if (mroce_alloc(s->m, bytes, 0, &s->mr[0]) || mroce_reg(s->m, own, bytes, 0, &s->mr[1]))
		fail(s, "memory");
}

/* Message n of a stream: its number, then bytes that follow from it. */
static void fill(uint8_t *p, uint32_t n)
{
	memcpy(p, &n, sizeof(n));
	for (uint32_t i = sizeof(n); i < SIZE; i++)
		p[i] = (uint8_t)(n * 31 + i * 7);
}

static int right(const uint8_t *p, uint32_t n)
{
	uint32_t number;

	memcpy(&number, p, sizeof(number));
	for (uint32_t i = sizeof(n); i < SIZE; i++)
		if (p[i] != (uint8_t)(n * 31 + i * 7))
			return 0;
	return number == n;
}

/* ---- load ---- */

static uint8_t *slot(const struct side *s, uint64_t id)
{
	return (uint8_t *)mroce_mr_addr(s->mr[id % 2]) + id * SIZE;
}

/* True if it is on its way; -ENOTCONN if the connection has just ended. */
static int post(const struct side *s, struct mroce_conn *c, uint64_t id, uint32_t *next)
{
	uint32_t stream = (uint32_t)id % STREAMS;

	fill(slot(s, id), next[stream]++);
	return mroce_post_send(c, stream, s->mr[id % 2], id * SIZE, SIZE, id) == 0;
}

static int load(const char *socket, const char *host)
{
	struct side s;
	struct mroce_conn *c;
	uint32_t next[STREAMS] = { 0 };
	uint64_t done = 0;
	int posted = 0;

	set_up(&s, socket, SLOTS * SIZE);
	if (mroce_connect(s.m, host, SERVICE, 10000, &c))
		fail(&s, "connect");
	say("connected", mroce_conn_peer(c));
	for (uint64_t id = 0; id < SLOTS; id++)
		posted += post(&s, c, id, next);
	while (posted > 0) {
		struct mroce_completion e;
		int n = mroce_wait(s.m, &e, 1, TIMEOUT_MS);

		if (n != 1)
			fail(&s, n == -ETIMEDOUT ? "hangs" : "wait");
		if (e.status != MROCE_OK) {
			say("ended", mroce_status_text(e.status));
			return 0;
		}
		if (++done == 100)
			say("running", "");
		posted += post(&s, c, e.id, next) - 1;
	}
	/* Everything had arrived when the end came: the last post told of it. */
	say("ended", mroce_status_text(mroce_conn_error(c)));
	return 0;
}

/* ---- serve ---- */

struct guest {
	struct mroce_conn *c;
	uint32_t next[STREAMS];
};

static int post_recv(const struct side *s, struct mroce_conn *c, uint64_t id)
{
	return mroce_post_recv(c, (uint32_t)id % STREAMS, s->mr[id % 2], id * SIZE, SIZE, id);
}

static void farewell(struct guest *g)
{
	say("guest ended", mroce_status_text(mroce_conn_error(g->c)));
	mroce_conn_close(&g->c);
}

static void welcome(const struct side *s, struct guest *guests, struct mroce_conn *c)
{
	for (uint64_t g = 0; g < CONNS; g++) {
		if (guests[g].c)
			continue;
		guests[g] = (struct guest){ .c = c };
		mroce_conn_set_data(c, &guests[g]);
		for (uint64_t i = 0; i < SLOTS; i++)
			(void)post_recv(s, c, g * SLOTS + i);
		say("accepted", mroce_conn_peer(c));
		return;
	}
	mroce_conn_close(&c);
}

static void take(const struct side *s, const struct mroce_completion *e)
{
	struct guest *g = e->conn_data;

	if (e->status == MROCE_OK && !right(slot(s, e->id), g->next[e->stream]++))
		say("wrong", "bytes");
	if (e->status != MROCE_OK)
		return;
	(void)post_recv(s, e->conn, e->id);
}

/* An end is visible once all its completions were taken. */
static void look_for_ends(struct guest *guests)
{
	for (int g = 0; g < CONNS; g++)
		if (guests[g].c && mroce_conn_error(guests[g].c) != MROCE_OK)
			farewell(&guests[g]);
}

static int serve(const char *socket)
{
	static struct guest guests[CONNS];
	struct mroce_listener *l;
	struct side s;

	set_up(&s, socket, (size_t)CONNS * SLOTS * SIZE);
	if (mroce_listen(s.m, SERVICE, 64, &l))
		fail(&s, "listen");
	say("ready", "");
	for (;;) {
		struct mroce_completion e;
		struct mroce_conn *c;
		int n = mroce_wait(s.m, &e, 1, 50);

		if (n == -ENOTCONN) {
			say("daemon gone", "");
			return 0;
		}
		if (n == 1)
			take(&s, &e);
		look_for_ends(guests);
		while (mroce_accept(l, 0, &c) == 0)
			welcome(&s, guests, c);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if (argc == 4 && strcmp(argv[1], "load") == 0)
		return load(argv[2], argv[3]);
	fprintf(stderr, "Usage: lib_peer serve SOCKET | lib_peer load SOCKET HOST\n");
	return 2;
}
