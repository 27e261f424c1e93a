/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application of stated loss tolerance for the net tests: reliable and tolerant messages of all kinds mixed on
 * four streams, and every byte compared with what was said about it.
 *
 *	tolerate serve SOCKET              takes one connection, checks what it receives
 *	tolerate run SOCKET HOST COUNT [DEADLINE_US]
 *	                                   sends COUNT messages on each stream
 *
 * Both print a line "total ..." with the same numbers if all is well; "wrong" lines and exit status 1 if not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mroce.h"

#define SERVICE 4950
#define STREAMS 4u
#define SLOTS 6u /* receives of a stream, and messages in flight */
#define REST 3u	 /* a slot that was received into rests so many messages before it is used again */
#define SIZE 300000u
#define HEADER 64u
#define RANGES 8192
#define OLD 0xee
#define CONTROL 100u /* stream */
#define TIMEOUT_MS 60000

struct totals {
	uint64_t messages, forgiven, failed, missing;
};

struct side {
	struct mroce *m;
	struct mroce_conn *c;
	struct mroce_mr *mr[STREAMS]; /* every second one is memory registered in place */
	uint8_t *mem[STREAMS];
	uint32_t posted[STREAMS], done[STREAMS];
	struct totals sum;
	int wrong;
};

__attribute__((format(printf, 2, 3))) static void wrong(struct side *s, const char *fmt, ...)
{
	va_list args;

	if (s->wrong++ > 20)
		return;
	va_start(args, fmt);
	printf("wrong: ");
	vprintf(fmt, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
}

static void need(struct side *s, int err, const char *what)
{
	if (err >= 0)
		return;
	printf("failed: %s: %s\n", what, mroce_last_error(s->m));
	exit(1);
}

/* ---- message n of a stream, as both sides know it ---- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint32_t length_of(uint32_t stream, uint32_t n)
{
	return n % 5 == 4 ? (uint32_t)(mix(stream << 20 | n) % 2000)
			  : SIZE - (uint32_t)(mix(n) % 5000);
}

static uint8_t byte_of(uint32_t stream, uint32_t n, uint64_t i)
{
	return (uint8_t)(mix((uint64_t)stream << 56 | (uint64_t)n << 32 | i / 8) >> (i % 8 * 8));
}

static void fill(uint8_t *p, uint32_t stream, uint32_t n)
{
	for (uint32_t i = 0, len = length_of(stream, n); i < len; i++)
		p[i] = byte_of(stream, n, i);
}

/* Every third message is reliable; the rest differ in all that can be said. */
static bool tolerance_of(uint32_t n, uint32_t deadline_us, uint32_t len, struct mroce_tolerance *t)
{
	static const uint32_t bounds[] = { 1000, 10000, 50000, 200000 };

	*t = (struct mroce_tolerance){
		.max_missing = bounds[n / 3 % 4],
		.deadline_us = n % 2 ? deadline_us : 0,
		.fill = n / 2 % 2 ? MROCE_FILL_KEEP : MROCE_FILL_ZERO,
		.over = n / 4 % 2 ? MROCE_OVER_FAIL : MROCE_OVER_WAIT,
		.ncritical = 2,
		.critical = { { 0, len < HEADER ? len : HEADER }, { len / 2, len / 50 } },
	};
	return n % 3;
}

static void add_up(struct side *s, const struct mroce_completion *c)
{
	s->sum.messages++;
	s->sum.forgiven += c->status == MROCE_OK && c->missing;
	s->sum.failed += c->status == MROCE_E_LOSS;
	s->sum.missing += c->missing;
}

static void print_total(const struct side *s)
{
	printf("total messages=%" PRIu64 " forgiven=%" PRIu64 " failed=%" PRIu64 " missing=%" PRIu64
	       "\n",
	       s->sum.messages, s->sum.forgiven, s->sum.failed, s->sum.missing);
	fflush(stdout);
}

static void set_up(struct side *s, const char *socket)
{
	size_t bytes = (size_t)SLOTS * SIZE;

	if (mroce_open(socket, &s->m)) {
		printf("failed: open %s\n", socket);
		exit(1);
	}
	for (uint32_t i = 0; i < STREAMS; i++) {
		if (i % 2 == 0) {
			need(s, mroce_alloc(s->m, bytes, 0, &s->mr[i]), "alloc");
		} else {
			uint8_t *own = malloc(bytes);

			need(s, own ? mroce_reg(s->m, own, bytes, 0, &s->mr[i]) : -ENOMEM, "reg");
		}
		s->mem[i] = mroce_mr_addr(s->mr[i]);
		memset(s->mem[i], OLD, bytes);
	}
}

/* ---- receiving ---- */

static void check_range(struct side *s, uint32_t stream, uint32_t n, const uint8_t *p,
			uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (p[i] == byte_of(stream, n, i))
			continue;
		wrong(s, "stream %u message %u: byte %" PRIu64 " is said to be here and is not",
		      stream, n, i);
		return;
	}
}

static void check_gap(struct side *s, uint32_t stream, uint32_t n, const uint8_t *p,
		      const struct mroce_range *gap, const struct mroce_tolerance *t, bool ok)
{
	uint8_t is = t->fill == MROCE_FILL_KEEP ? OLD : 0;

	for (uint64_t i = gap->offset; i < gap->offset + gap->length; i++) {
		if (p[i] == is)
			continue;
		wrong(s, "stream %u message %u: byte %" PRIu64 " is said to be missing and is %02x",
		      stream, n, i, p[i]);
		return;
	}
	for (uint32_t i = 0; ok && i < t->ncritical; i++) {
		const struct mroce_range *c = &t->critical[i];

		if (c->length && c->offset < gap->offset + gap->length &&
		    gap->offset < c->offset + c->length)
			wrong(s, "stream %u message %u: critical bytes are missing", stream, n);
	}
}

static void check_message(struct side *s, const struct mroce_completion *c)
{
	static struct mroce_range gap[RANGES];
	uint32_t stream = c->stream, n = s->done[stream], len = length_of(stream, n);
	const uint8_t *p = s->mem[stream] + (size_t)(n % SLOTS) * SIZE;
	struct mroce_tolerance t;
	bool tolerant = tolerance_of(n, 1, len, &t);
	int ranges = mroce_missing(s->m, c, gap, RANGES);
	uint64_t at = 0;

	if (c->status != MROCE_OK && !(c->status == MROCE_E_LOSS && tolerant && t.over))
		wrong(s, "stream %u message %u: %s", stream, n, mroce_status_text(c->status));
	if (!c->has_imm || c->imm != n || c->length + c->missing != len || ranges < 0)
		wrong(s, "stream %u message %u: imm %u, %" PRIu64 " + %" PRIu64 " of %u bytes",
		      stream, n, c->imm, c->length, c->missing, len);
	if (c->missing && (!tolerant || (c->status == MROCE_OK &&
					 c->missing > (uint64_t)len * t.max_missing / 1000000)))
		wrong(s, "stream %u message %u: %" PRIu64 " bytes missing", stream, n, c->missing);
	for (int i = 0; i < ranges && i < RANGES; i++) {
		check_range(s, stream, n, p, at, gap[i].offset);
		check_gap(s, stream, n, p, &gap[i], &t, c->status == MROCE_OK);
		at = gap[i].offset + gap[i].length;
	}
	check_range(s, stream, n, p, at, len);
}

static void post_receives(struct side *s, uint32_t stream)
{
	/* Rested slots only: what came late would have changed them. */
	while (s->posted[stream] < s->done[stream] + SLOTS - REST) {
		uint32_t slot = s->posted[stream] % SLOTS;
		uint8_t *p = s->mem[stream] + (size_t)slot * SIZE;

		if (p[0] != OLD || memcmp(p, p + 1, SIZE - 1) != 0)
			wrong(s, "stream %u: something landed in memory that was given back",
			      stream);
		memset(p, OLD, SIZE);
		need(s,
		     mroce_post_recv(s->c, stream, s->mr[stream], (size_t)slot * SIZE, SIZE, slot),
		     "post_recv");
		s->posted[stream]++;
	}
}

static bool received(struct side *s, const struct mroce_completion *c)
{
	uint32_t stream = c->stream;

	if (stream == CONTROL)
		return false;
	check_message(s, c);
	add_up(s, c);
	memset(s->mem[stream] + (size_t)(s->done[stream] % SLOTS) * SIZE, OLD, SIZE);
	s->done[stream]++;
	post_receives(s, stream);
	return true;
}

static int serve(struct side *s)
{
	struct mroce_completion c;
	struct mroce_listener *l;
	bool more = true;

	need(s, mroce_listen(s->m, SERVICE, 4, &l), "listen");
	printf("ready\n");
	fflush(stdout);
	need(s, mroce_accept(l, TIMEOUT_MS, &s->c), "accept");
	need(s, mroce_post_recv(s->c, CONTROL, NULL, 0, 0, 0), "post_recv");
	for (uint32_t i = 0; i < STREAMS; i++)
		post_receives(s, i);
	while (more) {
		need(s, mroce_wait(s->m, &c, 1, TIMEOUT_MS), "wait");
		more = received(s, &c);
	}
	print_total(s);
	need(s, mroce_post_send(s->c, CONTROL, NULL, 0, 0, 0), "post_send");
	need(s, mroce_wait(s->m, &c, 1, TIMEOUT_MS), "wait for the farewell");
	while (mroce_conn_error(s->c) == MROCE_OK && mroce_wait(s->m, &c, 1, 100) == -ETIMEDOUT)
		;
	return s->wrong != 0;
}

/* ---- sending ---- */

static void post_messages(struct side *s, uint32_t stream, uint32_t count, uint32_t deadline_us)
{
	while (s->posted[stream] < count && s->posted[stream] < s->done[stream] + SLOTS) {
		uint32_t n = s->posted[stream], len = length_of(stream, n);
		size_t at = (size_t)(n % SLOTS) * SIZE;
		struct mroce_tolerance t;
		bool tolerant = tolerance_of(n, deadline_us, len, &t);

		fill(s->mem[stream] + at, stream, n);
		need(s,
		     mroce_post_send_imm_tolerant(s->c, stream, s->mr[stream], at, len, n,
						  tolerant ? &t : NULL, n),
		     "post_send");
		s->posted[stream]++;
	}
}

static void sent(struct side *s, const struct mroce_completion *c)
{
	uint32_t n = s->done[c->stream]++;

	if (c->id != n || (c->status != MROCE_OK && c->status != MROCE_E_LOSS))
		wrong(s, "stream %u: message %" PRIu64 " completed %s, next is %u", c->stream,
		      c->id, mroce_status_text(c->status), n);
	add_up(s, c);
}

static int run(struct side *s, const char *host, uint32_t count, uint32_t deadline_us)
{
	struct mroce_completion c;

	need(s, mroce_connect(s->m, host, SERVICE, TIMEOUT_MS, &s->c), "connect");
	need(s, mroce_post_recv(s->c, CONTROL, NULL, 0, 0, 0), "post_recv");
	while (s->sum.messages < (uint64_t)count * STREAMS) {
		for (uint32_t i = 0; i < STREAMS; i++)
			post_messages(s, i, count, deadline_us);
		need(s, mroce_wait(s->m, &c, 1, TIMEOUT_MS), "wait");
		sent(s, &c);
	}
	need(s, mroce_post_send(s->c, CONTROL, NULL, 0, 0, 0), "post_send");
	for (int i = 0; i < 2; i++)
		need(s, mroce_wait(s->m, &c, 1, TIMEOUT_MS), "wait for the farewell");
	print_total(s);
	mroce_conn_close(&s->c);
	return s->wrong != 0;
}

int main(int argc, char **argv)
{
	struct side s = { 0 };

	if (argc >= 3)
		set_up(&s, argv[2]);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(&s);
	if (argc >= 5 && !strcmp(argv[1], "run"))
		return run(&s, argv[3], (uint32_t)atoi(argv[4]),
			   argc > 5 ? (uint32_t)atoi(argv[5]) : 0);
	fprintf(stderr, "usage: tolerate serve SOCKET | run SOCKET HOST COUNT [DEADLINE_US]\n");
	return 2;
}
