/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hello: sends a line, gets an answer.
 *
 *	hello                 server: answers everybody who connects
 *	hello HOST [TEXT]     client
 *
 * Shows the shortest life of a connection: open, memory, receive posted, send, wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mroce.h"

#define SERVICE 4711
#define STREAM 0
#define LINE 256
#define TIMEOUT_MS 10000

/* Offsets in our one region. */
enum {
	AT_RECV = 0,
	AT_SEND = LINE,
	REGION = 2 * LINE,
};

/* Ids tell completions apart. */
enum {
	ID_RECV,
	ID_SEND,
};

static void die(struct mroce *m, const char *what)
{
	fprintf(stderr, "hello: %s: %s\n", what, mroce_last_error(m));
	exit(1);
}

/* Waits until both the receive and the send have ended; 0 if both went well. */
static int wait_for_both(struct mroce *m, size_t *received)
{
	for (int ended = 0; ended < 2; ended++) {
		struct mroce_completion c;

		if (mroce_wait(m, &c, 1, TIMEOUT_MS) < 0)
			die(m, "wait");
		if (c.status != MROCE_OK) {
			fprintf(stderr, "hello: %s: %s\n", c.id == ID_SEND ? "send" : "receive",
				mroce_status_text(c.status));
			return -1;
		}
		if (c.id == ID_RECV)
			*received = c.length;
	}
	return 0;
}

static int ask(struct mroce *m, struct mroce_mr *mr, const char *host, const char *text)
{
	char *memory = mroce_mr_addr(mr);
	struct mroce_conn *conn;
	size_t received = 0;
	int err;

	if (mroce_connect(m, host, SERVICE, TIMEOUT_MS, &conn))
		die(m, "connect");
	/* The receive first, so that the answer finds it. */
	if (mroce_post_recv(conn, STREAM, mr, AT_RECV, LINE, ID_RECV))
		die(m, "post_recv");
	snprintf(memory + AT_SEND, LINE, "%s", text);
	if (mroce_post_send(conn, STREAM, mr, AT_SEND, strlen(memory + AT_SEND), ID_SEND))
		die(m, "post_send");
	err = wait_for_both(m, &received);
	if (!err)
		printf("%.*s\n", (int)received, memory + AT_RECV);
	mroce_conn_close(&conn);
	return err ? 1 : 0;
}

static void answer(struct mroce *m, struct mroce_mr *mr, struct mroce_conn *conn)
{
	char *memory = mroce_mr_addr(mr);
	struct mroce_completion c;

	if (mroce_post_recv(conn, STREAM, mr, AT_RECV, LINE, ID_RECV))
		return;
	if (mroce_wait(m, &c, 1, TIMEOUT_MS) != 1 || c.status != MROCE_OK)
		return;
	printf("%s says: %.*s\n", mroce_conn_peer(conn), (int)c.length, memory + AT_RECV);
	fflush(stdout);
	snprintf(memory + AT_SEND, LINE, "hello %s, you said: %.*s", mroce_conn_peer(conn),
		 (int)(c.length < LINE / 2 ? c.length : LINE / 2), memory + AT_RECV);
	if (mroce_post_send(conn, STREAM, mr, AT_SEND, strlen(memory + AT_SEND), ID_SEND))
		return;
	/* A completed send has arrived: only now may the connection be closed. */
	mroce_wait(m, &c, 1, TIMEOUT_MS);
}

static void serve(struct mroce *m, struct mroce_mr *mr)
{
	struct mroce_listener *listener;
	struct mroce_conn *conn;

	if (mroce_listen(m, SERVICE, 16, &listener))
		die(m, "listen");
	puts("waiting");
	fflush(stdout);
	while (mroce_accept(listener, -1, &conn) == 0) {
		answer(m, mr, conn);
		mroce_conn_close(&conn);
	}
	die(m, "accept");
}

int main(int argc, char **argv)
{
	struct mroce *m;
	struct mroce_mr *mr;
	int status;

	if (mroce_open(NULL, &m))
		die(NULL, "open");
	if (mroce_alloc(m, REGION, MROCE_ACCESS_LOCAL, &mr))
		die(m, "alloc");
	if (argc < 2)
		serve(m, mr);
	status = ask(m, mr, argv[1], argc > 2 ? argv[2] : "hello");
	mroce_close(&m);
	return status;
}
