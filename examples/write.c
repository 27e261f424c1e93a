/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write: puts bytes into the peer's memory, and tells it with an immediate value.
 *
 *	write                 server: offers 1 MiB of memory to each client
 *	write HOST            client: fills it in four parts
 *
 * The server tells address and key of its region by a send; the client writes and ends with a write
 * with immediate, which takes a posted receive at the server: the sign that all is there, for messages
 * of a stream complete in order.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mroce.h"

#define SERVICE 4712
#define STREAM 0
#define SIZE (1u << 20)
#define PARTS 4
#define PART (SIZE / PARTS)
#define TIMEOUT_MS 10000
#define ID_END 3

/* What the server tells. Both hosts are of one byte order here; a real protocol says which. */
struct offer {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;
};

static void die(struct mroce *m, const char *what)
{
	fprintf(stderr, "write: %s: %s\n", what, mroce_last_error(m));
	exit(1);
}

static struct mroce_completion wait_any(struct mroce *m)
{
	struct mroce_completion c;

	if (mroce_wait(m, &c, 1, TIMEOUT_MS) != 1)
		die(m, "wait");
	return c;
}

static struct mroce_completion wait_one(struct mroce *m)
{
	struct mroce_completion c = wait_any(m);

	if (c.status != MROCE_OK) {
		fprintf(stderr, "write: request %" PRIu64 ": %s\n", c.id,
			mroce_status_text(c.status));
		exit(1);
	}
	return c;
}

static uint32_t sum(const uint8_t *bytes, size_t n)
{
	uint32_t s = 1;

	for (size_t i = 0; i < n; i++)
		s = s * 31 + bytes[i];
	return s;
}

static void serve_one(struct mroce *m, struct mroce_mr *memory, struct mroce_mr *note,
		      struct mroce_conn *conn)
{
	struct offer *offer = mroce_mr_addr(note);
	struct mroce_completion c;

	*offer = (struct offer){ (uintptr_t)mroce_mr_addr(memory), mroce_mr_rkey(memory), SIZE };
	/* The receive that the write with immediate will take, and one for the end; they need no memory. */
	if (mroce_post_recv(conn, STREAM, NULL, 0, 0, 1) ||
	    mroce_post_recv(conn, STREAM, NULL, 0, 0, ID_END) ||
	    mroce_post_send(conn, STREAM, note, 0, sizeof(*offer), 2))
		die(m, "post");
	do
		c = wait_one(m);
	while (c.opcode != MROCE_WR_RECV_IMM);
	printf("%s wrote; sum %08x, announced %08x: %s\n", mroce_conn_peer(conn),
	       sum(mroce_mr_addr(memory), SIZE), c.imm,
	       sum(mroce_mr_addr(memory), SIZE) == c.imm ? "right" : "WRONG");
	fflush(stdout);
	/* It knows that its writes have arrived when they complete there, and then it closes. If we closed
	 * first, it might never know. */
	while (wait_any(m).id != ID_END)
		;
}

static void serve(struct mroce *m)
{
	struct mroce_listener *listener;
	struct mroce_mr *memory, *note;
	struct mroce_conn *conn;

	if (mroce_alloc(m, SIZE, MROCE_ACCESS_REMOTE_WRITE, &memory) ||
	    mroce_alloc(m, sizeof(struct offer), MROCE_ACCESS_LOCAL, &note) ||
	    mroce_listen(m, SERVICE, 16, &listener))
		die(m, "set-up");
	puts("waiting");
	fflush(stdout);
	while (mroce_accept(listener, -1, &conn) == 0) {
		serve_one(m, memory, note, conn);
		mroce_conn_close(&conn);
	}
	die(m, "accept");
}

static void fill(uint8_t *bytes)
{
	uint32_t x = 2463534242u;

	for (size_t i = 0; i < SIZE; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		bytes[i] = (uint8_t)x;
	}
}

static void write_all(struct mroce *m, const char *host)
{
	/* Memory of our own, registered where it is: mroce_alloc() would save a copy. */
	uint8_t *bytes = malloc(SIZE);
	struct offer offer;
	struct mroce_mr *mr, *note;
	struct mroce_conn *conn;

	if (!bytes || mroce_reg(m, bytes, SIZE, MROCE_ACCESS_LOCAL, &mr) ||
	    mroce_reg(m, &offer, sizeof(offer), MROCE_ACCESS_LOCAL, &note))
		die(m, "memory");
	fill(bytes);
	if (mroce_connect(m, host, SERVICE, TIMEOUT_MS, &conn) ||
	    mroce_post_recv(conn, STREAM, note, 0, sizeof(offer), 100))
		die(m, "connect");
	wait_one(m);
	for (uint64_t i = 0; i < PARTS - 1; i++)
		if (mroce_post_write(conn, STREAM, mr, i * PART, PART, offer.addr + i * PART,
				     offer.rkey, i))
			die(m, "post_write");
	if (mroce_post_write_imm(conn, STREAM, mr, SIZE - PART, PART, offer.addr + SIZE - PART,
				 offer.rkey, sum(bytes, SIZE), PARTS - 1))
		die(m, "post_write_imm");
	for (int i = 0; i < PARTS; i++)
		wait_one(m);
	printf("wrote %u bytes, sum %08x\n", SIZE, sum(bytes, SIZE));
	mroce_conn_close(&conn);
	mroce_mr_free(&mr);
	mroce_mr_free(&note);
	free(bytes);
}

int main(int argc, char **argv)
{
	struct mroce *m;

	if (mroce_open(NULL, &m))
		die(NULL, "open");
	if (argc < 2)
		serve(m);
	write_all(m, argv[1]);
	mroce_close(&m);
	return 0;
}
