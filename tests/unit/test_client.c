/* SPDX-License-Identifier: BSD-2-Clause */
/* libmroce and the daemon's side of it, over a port that leads back to the same daemon. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include "mroce.h"
#include "common/abi.h"
#include "loop_daemon.h"

#define SERVICE 7
#define WAIT_MS 20000
#define REGION (4u << 20)
#define ACCESS (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)

static struct loop_daemon daemon_process;
/* Two applications in one: a is connected to b. */
static struct mroce *a, *b;
static struct mroce_listener *listener;
static struct mroce_conn *ca, *cb;
static struct mroce_mr *ma, *mb;

static void open_both(void)
{
	ck_assert_int_eq(mroce_open(daemon_process.socket, &a), 0);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &b), 0);
}

static void connect_both(void)
{
	ck_assert_int_eq(mroce_listen(b, SERVICE, 16, &listener), 0);
	ck_assert_msg(mroce_connect(a, LOOP_ADDRESS, SERVICE, WAIT_MS, &ca) == 0, "%s",
		      mroce_last_error(a));
	ck_assert_int_eq(mroce_accept(listener, WAIT_MS, &cb), 0);
}

static void setup_daemon(void)
{
	loop_daemon_init(&daemon_process);
	loop_daemon_start(&daemon_process);
	open_both();
}

static void setup(void)
{
	setup_daemon();
	connect_both();
	ck_assert_int_eq(mroce_alloc(a, REGION, ACCESS, &ma), 0);
	ck_assert_int_eq(mroce_alloc(b, REGION, ACCESS, &mb), 0);
}

static void setup_lossy(void)
{
	loop_daemon_init(&daemon_process);
	daemon_process.lose_ppm = 20000;
	loop_daemon_start(&daemon_process);
	open_both();
	connect_both();
	ck_assert_int_eq(mroce_alloc(a, REGION, ACCESS, &ma), 0);
	ck_assert_int_eq(mroce_alloc(b, REGION, ACCESS, &mb), 0);
}

static void teardown(void)
{
	mroce_close(&a);
	mroce_close(&b);
	loop_daemon_stop(&daemon_process);
}

static void fill(void *p, size_t n, uint32_t seed)
{
	uint8_t *bytes = p;

	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(seed >> 24);
	}
}

static struct mroce_completion wait_one(struct mroce *m)
{
	struct mroce_completion c;
	int n = mroce_wait(m, &c, 1, WAIT_MS);

	ck_assert_msg(n == 1, "mroce_wait: %d, %s", n, mroce_last_error(m));
	return c;
}

static void expect(struct mroce *m, uint64_t id, uint8_t opcode, uint8_t status)
{
	struct mroce_completion c = wait_one(m);

	ck_assert_uint_eq(c.id, id);
	ck_assert_uint_eq(c.opcode, opcode);
	ck_assert_msg(c.status == status, "status %s", mroce_status_text(c.status));
}

/* ---- opening ---- */

START_TEST(open__no_daemon)
{
	struct mroce *m = NULL;

	ck_assert_int_eq(mroce_open("/nonexistent/mroced.sock", &m), -ENOENT);
	ck_assert_ptr_null(m);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(NULL), "/nonexistent/mroced.sock"));
}
END_TEST

START_TEST(open__many_contexts_in_one_process)
{
	struct mroce *many[32];

	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(mroce_open(daemon_process.socket, &many[i]), 0);
	for (int i = 0; i < 32; i++)
		mroce_close(&many[i]);
	ck_assert_ptr_null(many[0]);
}
END_TEST

START_TEST(open__quota_of_contexts)
{
	struct mroce *m;

	/* The fixture holds two already. */
	loop_daemon_kill(&daemon_process);
	daemon_process.cfg.contexts = 1;
	loop_daemon_start(&daemon_process);
	mroce_close(&a);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &a), 0);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &m), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(NULL), "contexts"));
}
END_TEST

/* ---- memory ---- */

START_TEST(memory__arguments)
{
	struct mroce_mr *mr = NULL;
	char buf[16];

	ck_assert_int_eq(mroce_alloc(a, 0, ACCESS, &mr), -EINVAL);
	ck_assert_int_eq(mroce_alloc(a, 16, 0x80, &mr), -EINVAL);
	ck_assert_int_eq(mroce_alloc(a, SIZE_MAX, ACCESS, &mr), -ENOMEM);
	ck_assert_int_eq(mroce_reg(a, NULL, 16, ACCESS, &mr), -EINVAL);
	ck_assert_ptr_null(mr);
	ck_assert_int_eq(mroce_reg(a, buf, sizeof(buf), ACCESS, &mr), 0);
	ck_assert_ptr_eq(mroce_mr_addr(mr), buf);
	ck_assert_uint_eq(mroce_mr_size(mr), sizeof(buf));
	ck_assert_uint_ne(mroce_mr_rkey(mr), 0);
	mroce_mr_free(&mr);
	ck_assert_ptr_null(mr);
	mroce_mr_free(&mr);
}
END_TEST

START_TEST(memory__quota)
{
	struct mroce_mr *mr;

	loop_daemon_kill(&daemon_process);
	daemon_process.cfg.memory_mib = 1;
	daemon_process.cfg.regions = 2;
	loop_daemon_start(&daemon_process);
	mroce_close(&a);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &a), 0);
	ck_assert_int_eq(mroce_alloc(a, 2 << 20, ACCESS, &mr), -EDQUOT);
	ck_assert_int_eq(mroce_alloc(a, 1 << 20, ACCESS, &mr), 0);
	ck_assert_int_eq(mroce_alloc(a, 1, ACCESS, &ma), -EDQUOT);
	mroce_mr_free(&mr);
	ck_assert_int_eq(mroce_alloc(a, 1, ACCESS, &mr), 0);
	ck_assert_int_eq(mroce_alloc(a, 1, ACCESS, &mr), 0);
	ck_assert_int_eq(mroce_alloc(a, 1, ACCESS, &mr), -EDQUOT);
}
END_TEST

/* ---- connecting ---- */

START_TEST(connect__nobody_listens)
{
	struct mroce_conn *c = NULL;

	ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, 99, WAIT_MS, &c), -ECONNREFUSED);
	ck_assert_ptr_null(c);
	ck_assert_ptr_nonnull(strstr(mroce_last_error(a), "99"));
}
END_TEST

START_TEST(connect__no_route)
{
	struct mroce_conn *c = NULL;

	ck_assert_int_eq(mroce_connect(a, "192.0.2.1", SERVICE, WAIT_MS, &c), -EHOSTUNREACH);
	ck_assert_int_eq(mroce_connect(a, "no.such.host.invalid", SERVICE, WAIT_MS, &c),
			 -EHOSTUNREACH);
	ck_assert_ptr_null(c);
}
END_TEST

START_TEST(connect__times_out_when_all_is_lost)
{
	struct mroce_conn *c = NULL;
	struct timespec t0, t1;

	loop_daemon_kill(&daemon_process);
	daemon_process.lose_ppm = 1000000;
	loop_daemon_start(&daemon_process);
	mroce_close(&a);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &a), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, SERVICE, 300, &c), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ck_assert_int_lt(t1.tv_sec - t0.tv_sec, 3);
}
END_TEST

START_TEST(listen__service_is_unique)
{
	struct mroce_listener *l = NULL, *second = NULL;

	ck_assert_int_eq(mroce_listen(a, 0, 1, &l), -EINVAL);
	ck_assert_int_eq(mroce_listen(a, 5, 0, &l), -EINVAL);
	ck_assert_int_eq(mroce_listen(a, 5, 1025, &l), -EINVAL);
	ck_assert_int_eq(mroce_listen(a, 5, 1, &l), 0);
	ck_assert_int_eq(mroce_listen(b, 5, 1, &second), -EADDRINUSE);
	mroce_listener_free(&l);
	ck_assert_int_eq(mroce_listen(b, 5, 1, &second), 0);
	mroce_listener_free(&second);
}
END_TEST

START_TEST(accept__timeouts)
{
	struct mroce_conn *c = NULL;

	ck_assert_int_eq(mroce_listen(b, SERVICE, 1, &listener), 0);
	ck_assert_int_eq(mroce_accept(listener, 0, &c), -EAGAIN);
	ck_assert_int_eq(mroce_accept(listener, 20, &c), -ETIMEDOUT);
	ck_assert_ptr_null(c);
}
END_TEST

/* The submission ring is faster than the message that tells the daemon of the acceptance. */
START_TEST(accept__requests_at_once)
{
	struct mroce_mr *mr;

	ck_assert_int_eq(mroce_listen(b, SERVICE, 16, &listener), 0);
	ck_assert_int_eq(mroce_alloc(b, 4096, 0, &mr), 0);
	for (uint64_t i = 0; i < 100; i++) {
		ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, SERVICE, WAIT_MS, &ca), 0);
		ck_assert_int_eq(mroce_accept(listener, WAIT_MS, &cb), 0);
		ck_assert_int_eq(mroce_post_recv(cb, 0, mr, 0, 64, i), 0);
		ck_assert_int_eq(mroce_post_send(ca, 0, NULL, 0, 0, i), 0);
		expect(b, i, MROCE_WR_RECV, MROCE_OK);
		expect(a, i, MROCE_WR_SEND, MROCE_OK);
		mroce_conn_close(&ca);
		mroce_conn_close(&cb);
	}
}
END_TEST

START_TEST(conn__facts)
{
	int data;

	ck_assert_str_eq(mroce_conn_peer(ca), LOOP_ADDRESS);
	ck_assert_str_eq(mroce_conn_peer(cb), LOOP_ADDRESS);
	ck_assert_uint_ne(mroce_conn_id(ca), mroce_conn_id(cb));
	ck_assert_int_eq(mroce_conn_error(ca), MROCE_OK);
	mroce_conn_set_data(ca, &data);
	ck_assert_ptr_eq(mroce_conn_data(ca), &data);
}
END_TEST

/* ---- requests ---- */

START_TEST(post__arguments)
{
	struct mroce_mr *foreign = mb;

	ck_assert_int_eq(mroce_post_send(ca, 1024, ma, 0, 1, 1), -EINVAL);
	ck_assert_int_eq(mroce_post_send(ca, 0, NULL, 0, 1, 1), -EINVAL);
	ck_assert_int_eq(mroce_post_send(ca, 0, foreign, 0, 1, 1), -EINVAL);
	ck_assert_int_eq(mroce_post_send(ca, 0, ma, REGION, 1, 1), -EINVAL);
	ck_assert_int_eq(mroce_post_send(ca, 0, ma, SIZE_MAX, 2, 1), -EINVAL);
	ck_assert_int_eq(mroce_post_send(ca, 0, ma, 1, REGION, 1), -EINVAL);
	ck_assert_int_eq(mroce_poll(a, NULL, 0), -EINVAL);
}
END_TEST

static void send_and_compare(size_t len)
{
	fill(mroce_mr_addr(ma), len, (uint32_t)len + 1);
	memset(mroce_mr_addr(mb), 0, len);
	ck_assert_int_eq(mroce_post_recv(cb, 3, mb, 0, REGION, 11), 0);
	ck_assert_int_eq(mroce_post_send_imm(ca, 3, ma, 0, len, 0xabcd, 12), 0);
	struct mroce_completion c = wait_one(b);

	ck_assert_uint_eq(c.id, 11);
	ck_assert_uint_eq(c.status, MROCE_OK);
	ck_assert_uint_eq(c.length, len);
	ck_assert(c.has_imm);
	ck_assert_uint_eq(c.imm, 0xabcd);
	ck_assert_uint_eq(c.stream, 3);
	ck_assert_ptr_eq(c.conn, cb);
	expect(a, 12, MROCE_WR_SEND_IMM, MROCE_OK);
	ck_assert_int_eq(memcmp(mroce_mr_addr(ma), mroce_mr_addr(mb), len), 0);
}

START_TEST(send__many_sizes)
{
	static const size_t sizes[] = { 0, 1, 64, 3366, 3367, 3368, 3369, 100000, REGION };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		send_and_compare(sizes[i]);
}
END_TEST

START_TEST(write_read__in_place)
{
	/* Memory of the application on both sides, not aligned to anything. */
	size_t len = 1000003;
	uint8_t *src = malloc(len + 7), *dst = calloc(1, len + 7), *back = calloc(1, len + 7);
	struct mroce_mr *ms, *md, *mk;

	fill(src, len + 7, 5);
	ck_assert_int_eq(mroce_reg(a, src + 3, len, ACCESS, &ms), 0);
	ck_assert_int_eq(mroce_reg(b, dst + 5, len, ACCESS, &md), 0);
	ck_assert_int_eq(mroce_reg(a, back + 1, len, ACCESS, &mk), 0);
	ck_assert_int_eq(mroce_post_write(ca, 0, ms, 0, len, (uintptr_t)mroce_mr_addr(md),
					  mroce_mr_rkey(md), 21),
			 0);
	expect(a, 21, MROCE_WR_WRITE, MROCE_OK);
	ck_assert_int_eq(memcmp(src + 3, dst + 5, len), 0);
	ck_assert_uint_eq(dst[4], 0);
	ck_assert_uint_eq(dst[5 + len], 0);
	/* What was read ahead for the last message must not be used for the next. */
	fill(src, len + 7, 6);
	ck_assert_int_eq(mroce_post_write(ca, 0, ms, 0, len, (uintptr_t)mroce_mr_addr(md),
					  mroce_mr_rkey(md), 22),
			 0);
	expect(a, 22, MROCE_WR_WRITE, MROCE_OK);
	ck_assert_int_eq(memcmp(src + 3, dst + 5, len), 0);
	ck_assert_int_eq(mroce_post_read(ca, 1, mk, 0, len, (uintptr_t)mroce_mr_addr(md),
					 mroce_mr_rkey(md), 23),
			 0);
	expect(a, 23, MROCE_WR_READ, MROCE_OK);
	ck_assert_int_eq(memcmp(back + 1, src + 3, len), 0);
	mroce_mr_free(&ms);
	mroce_mr_free(&md);
	mroce_mr_free(&mk);
	free(src);
	free(dst);
	free(back);
}
END_TEST

START_TEST(write__unmapped_memory_is_an_error)
{
	uint8_t *gone = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	struct mroce_mr *mr;

	ck_assert_int_eq(mroce_reg(a, gone, 1 << 20, ACCESS, &mr), 0);
	munmap(gone, 1 << 20);
	ck_assert_int_eq(mroce_post_write(ca, 0, mr, 0, 1 << 20, (uintptr_t)mroce_mr_addr(mb),
					  mroce_mr_rkey(mb), 31),
			 0);
	expect(a, 31, MROCE_WR_WRITE, MROCE_E_LOCAL_ACCESS);
	/* The stream goes on. */
	ck_assert_int_eq(mroce_post_write(ca, 0, ma, 0, 5000, (uintptr_t)mroce_mr_addr(mb),
					  mroce_mr_rkey(mb), 32),
			 0);
	expect(a, 32, MROCE_WR_WRITE, MROCE_OK);
	mroce_mr_free(&mr);
}
END_TEST

START_TEST(write__bad_key_and_freed_region)
{
	uint32_t key = mroce_mr_rkey(mb);
	uint64_t addr = (uintptr_t)mroce_mr_addr(mb);

	ck_assert_int_eq(mroce_post_write(ca, 0, ma, 0, 100, addr, key ^ 1, 1), 0);
	expect(a, 1, MROCE_WR_WRITE, MROCE_E_REMOTE_ACCESS);
	ck_assert_int_eq(mroce_post_write(ca, 0, ma, 0, 100, addr + REGION - 50, key, 2), 0);
	expect(a, 2, MROCE_WR_WRITE, MROCE_E_REMOTE_ACCESS);
	mroce_mr_free(&mb);
	ck_assert_int_eq(mroce_post_write(ca, 0, ma, 0, 100, addr, key, 3), 0);
	expect(a, 3, MROCE_WR_WRITE, MROCE_E_REMOTE_ACCESS);
}
END_TEST

/* More requests than either ring holds, all outstanding or refused with -EAGAIN, none lost. */
static void flood(uint64_t total)
{
	struct mroce_completion c[64];
	uint64_t posted = 0, received = 0, sent = 0, recvs = 0;
	uint64_t next_recv = 0;
	time_t limit = time(NULL) + WAIT_MS / 1000;

	while ((received < total || sent < total) && time(NULL) < limit) {
		int n;

		while (recvs < total && mroce_post_recv(cb, 0, mb, recvs % 1000 * 64, 64, recvs) == 0)
			recvs++;
		while (posted < total &&
		       mroce_post_send(ca, 0, ma, posted % 1000 * 64, 64, posted) == 0)
			posted++;
		n = mroce_poll(b, c, 64);
		ck_assert_int_ge(n, 0);
		for (int i = 0; i < n; i++) {
			ck_assert_uint_eq(c[i].status, MROCE_OK);
			ck_assert_uint_eq(c[i].id, next_recv++);
		}
		received += (uint64_t)n;
		n = mroce_poll(a, c, 64);
		ck_assert_int_ge(n, 0);
		for (int i = 0; i < n; i++)
			ck_assert_uint_eq(c[i].status, MROCE_OK);
		sent += (uint64_t)n;
	}
	ck_assert_uint_eq(received, total);
	ck_assert_uint_eq(sent, total);
}

START_TEST(post__more_than_the_rings_hold)
{
	flood(50000);
}
END_TEST

START_TEST(post__more_than_the_rings_hold_with_loss)
{
	flood(20000);
}
END_TEST

/* What is said to be missing is zero, all else has arrived. Returns how many bytes are missing. */
static uint64_t check_missing(const struct mroce_completion *c, uint64_t len, const uint8_t *from,
			      const uint8_t *to)
{
	static struct mroce_range gap[4096];
	int n = mroce_missing(b, c, gap, 4096);
	uint64_t at = 0, missing = 0;

	ck_assert_int_eq(n, (int)c->missing_ranges);
	for (int i = 0; i < n; i++) {
		ck_assert_mem_eq(from + at, to + at, gap[i].offset - at);
		for (at = gap[i].offset; at < gap[i].offset + gap[i].length; at++)
			ck_assert_uint_eq(to[at], 0);
		missing += gap[i].length;
	}
	ck_assert_mem_eq(from + at, to + at, len - at);
	ck_assert_uint_eq(missing, c->missing);
	ck_assert_uint_eq(c->length + missing, len);
	return missing;
}

START_TEST(tolerance__missing_bytes_are_listed)
{
	const size_t len = 400000;
	struct mroce_tolerance t = { .max_missing = 200000 };
	struct mroce_completion c = { 0 }, sent;
	uint64_t missing = 0;

	ck_assert_int_eq(mroce_stream_tolerance(ca, 1, &t), 0);
	for (uint32_t i = 0; i < 20; i++) {
		fill(mroce_mr_addr(ma), len, i);
		memset(mroce_mr_addr(mb), 0xa5, len);
		ck_assert_int_eq(mroce_post_recv(cb, i % 2, mb, 0, len, i), 0);
		if (i % 2)
			ck_assert_int_eq(mroce_post_send(ca, 1, ma, 0, len, i), 0);
		else
			ck_assert_int_eq(mroce_post_send_tolerant(ca, 0, ma, 0, len, &t, i), 0);
		sent = wait_one(a);
		c = wait_one(b);
		ck_assert_uint_eq(c.status, MROCE_OK);
		ck_assert_uint_eq(sent.missing, c.missing);
		missing += check_missing(&c, len, mroce_mr_addr(ma), mroce_mr_addr(mb));
	}
	ck_assert_uint_gt(missing, 0);
	/* Reliable in spite of the stream's default. */
	ck_assert_int_eq(mroce_post_recv(cb, 1, mb, 0, len, 99), 0);
	ck_assert_int_eq(mroce_post_send_tolerant(ca, 1, ma, 0, len, NULL, 99), 0);
	ck_assert_uint_eq(wait_one(a).missing, 0);
	ck_assert_uint_eq(wait_one(b).length, len);
	ck_assert_mem_eq(mroce_mr_addr(ma), mroce_mr_addr(mb), len);
	/* A list that was not asked for in time is not made up. */
	c.missing_ranges = 1;
	ck_assert_int_eq(mroce_missing(b, &c, NULL, 0), -ESTALE);
}
END_TEST

START_TEST(tolerance__arguments)
{
	struct mroce_tolerance t = { .max_missing = 1000001 };

	ck_assert_int_eq(mroce_stream_tolerance(ca, 1, &t), -EINVAL);
	ck_assert_int_eq(mroce_stream_tolerance(ca, 1024, NULL), -EINVAL);
	ck_assert_int_eq(mroce_post_send_tolerant(ca, 0, ma, 0, 100, &t, 1), -EINVAL);
	t = (struct mroce_tolerance){ .ncritical = 1, .critical = { { 90, 11 } } };
	ck_assert_int_eq(mroce_post_send_tolerant(ca, 0, ma, 0, 100, &t, 1), -EINVAL);
	t = (struct mroce_tolerance){ .fill = 2 };
	ck_assert_int_eq(mroce_post_write_tolerant(ca, 0, ma, 0, 100, 0, 0, &t, 1), -EINVAL);
}
END_TEST

START_TEST(deadline__follows_the_percentile)
{
	struct mroce_deadline *d = NULL;

	ck_assert_int_eq(mroce_deadline_new(0, 0, 0, 1, &d), -EINVAL);
	ck_assert_int_eq(mroce_deadline_new(101, 0, 0, 1, &d), -EINVAL);
	ck_assert_int_eq(mroce_deadline_new(50, 0, 2, 1, &d), -EINVAL);
	ck_assert_int_eq(mroce_deadline_new(90, 50, 100, 100000, &d), 0);
	ck_assert_uint_eq(mroce_deadline_us(d), 100000);
	for (uint64_t i = 1; i <= 64; i++)
		mroce_deadline_note(d, i * 10);
	ck_assert_uint_eq(mroce_deadline_us(d), 580 + 290);
	for (int i = 0; i < 1000; i++)
		mroce_deadline_note(d, 10);
	ck_assert_uint_eq(mroce_deadline_us(d), 100);
	for (int i = 0; i < 64; i++)
		mroce_deadline_note(d, UINT64_MAX);
	ck_assert_uint_eq(mroce_deadline_us(d), 100000);
	mroce_deadline_free(&d);
	ck_assert_ptr_null(d);
}
END_TEST

START_TEST(post_recv__nothing_is_taken_beyond_the_completion_ring)
{
	struct mroce_completion c[64];
	uint64_t posted = 0, ended = 0;
	time_t limit = time(NULL) + WAIT_MS / 1000;

	/* Fill everything, then end all of it at once. */
	for (;;) {
		int err = mroce_post_recv(cb, (uint32_t)(posted % 100), mb, 0, 64, posted);

		if (err == -EAGAIN && posted >= ABI_CQ_ENTRIES)
			break;
		if (!err)
			posted++;
		ck_assert(time(NULL) < limit);
	}
	ck_assert_uint_ge(posted, ABI_CQ_ENTRIES);
	mroce_conn_close(&ca);
	while (ended < posted && time(NULL) < limit) {
		int n = mroce_wait(b, c, 64, 1000);

		for (int i = 0; i < n; i++)
			ck_assert_uint_ne(c[i].status, MROCE_OK);
		ended += n > 0 ? (uint64_t)n : 0;
	}
	ck_assert_uint_eq(ended, posted);
}
END_TEST

/* ---- waiting ---- */

START_TEST(wait__timeout)
{
	struct mroce_completion c;

	ck_assert_int_eq(mroce_wait(a, &c, 1, 0), -ETIMEDOUT);
	ck_assert_int_eq(mroce_wait(a, &c, 1, 30), -ETIMEDOUT);
}
END_TEST

START_TEST(arm__descriptor_becomes_readable)
{
	struct pollfd p = { .fd = mroce_fd(b), .events = POLLIN };
	struct mroce_completion c;

	for (uint64_t i = 0; i < 300; i++) {
		ck_assert_int_eq(mroce_post_recv(cb, 0, mb, 0, 100, i), 0);
		ck_assert_int_eq(mroce_arm(b), 0);
		ck_assert_int_eq(mroce_post_send(ca, 0, ma, 0, 100, i), 0);
		/* A wake-up that comes late from before is allowed; then arm again. */
		while (mroce_poll(b, &c, 1) == 0)
			if (mroce_arm(b) == 0)
				ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "round %d: not woken",
					      (int)i);
		ck_assert_uint_eq(c.id, i);
		expect(a, i, MROCE_WR_SEND, MROCE_OK);
	}
	/* Nothing there: not readable once armed. */
	ck_assert_int_eq(mroce_arm(b), 0);
	ck_assert_int_eq(mroce_arm(b), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
}
END_TEST

START_TEST(arm__connection_wakes)
{
	struct pollfd p = { .fd = mroce_fd(b), .events = POLLIN };

	ck_assert_int_eq(mroce_listen(b, SERVICE, 16, &listener), 0);
	ck_assert_int_eq(mroce_arm(b), 0);
	ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, SERVICE, WAIT_MS, &ca), 0);
	while (mroce_accept(listener, 0, &cb) == -EAGAIN)
		if (mroce_arm(b) == 0)
			ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "not woken");
	ck_assert_str_eq(mroce_conn_peer(cb), LOOP_ADDRESS);
}
END_TEST

/* ---- ends ---- */

static void wait_for_end(struct mroce *m, struct mroce_conn *c, enum mroce_status expected)
{
	struct mroce_completion ignored;
	time_t limit = time(NULL) + WAIT_MS / 1000;

	while (mroce_conn_error(c) == MROCE_OK && time(NULL) < limit)
		mroce_wait(m, &ignored, 1, 20);
	ck_assert_int_eq(mroce_conn_error(c), expected);
}

START_TEST(close__peer_sees_its_requests_end_first)
{
	for (uint64_t i = 0; i < 100; i++)
		ck_assert_int_eq(mroce_post_recv(cb, 0, mb, 0, 64, i), 0);
	/* They are known to the peer's side for certain once one has been used. */
	ck_assert_int_eq(mroce_post_send(ca, 0, ma, 0, 64, 1), 0);
	expect(b, 0, MROCE_WR_RECV, MROCE_OK);
	mroce_conn_close(&ca);
	for (uint64_t i = 1; i < 100; i++) {
		ck_assert_msg(mroce_conn_error(cb) == MROCE_OK,
			      "the end was visible before request %d", (int)i);
		expect(b, i, MROCE_WR_RECV, MROCE_E_PEER_GONE);
	}
	wait_for_end(b, cb, MROCE_E_PEER_GONE);
	ck_assert_int_eq(mroce_post_recv(cb, 0, mb, 0, 64, 1), -ENOTCONN);
	mroce_conn_close(&cb);
}
END_TEST

/* -EAGAIN is allowed while the daemon has not got to the requests posted before. */
static void post_many_recvs(int many)
{
	time_t limit = time(NULL) + WAIT_MS / 1000;
	struct mroce_completion c;

	for (int i = 0; i < many; i++) {
		int err;

		while ((err = mroce_post_recv(ca, 0, ma, 0, 64, (uint64_t)i)) == -EAGAIN) {
			ck_assert_msg(time(NULL) < limit, "the queue stays full");
			ck_assert_int_eq(mroce_poll(a, &c, 1), 0);
		}
		ck_assert_int_eq(err, 0);
	}
}

START_TEST(close__own_completions_are_dropped)
{
	struct mroce_completion c;

	post_many_recvs(2000);
	mroce_conn_close(&ca);
	ck_assert_int_eq(mroce_wait(a, &c, 1, 50), -ETIMEDOUT);
	/* And their records are free again: this would run dry otherwise. */
	for (int round = 0; round < 10; round++) {
		ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, SERVICE, WAIT_MS, &ca), 0);
		post_many_recvs(2000);
		mroce_conn_close(&ca);
	}
}
END_TEST

START_TEST(process__killed_peer_is_noticed)
{
	int ready[2];
	char byte;
	pid_t pid;

	/* The listener moves to a child, which dies without a word. */
	mroce_conn_close(&ca);
	mroce_conn_close(&cb);
	mroce_listener_free(&listener);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct mroce *m;
		struct mroce_listener *l;
		struct mroce_conn *c;

		if (mroce_open(daemon_process.socket, &m) || mroce_listen(m, 77, 4, &l) ||
		    write(ready[1], "", 1) != 1 || mroce_accept(l, WAIT_MS, &c))
			_exit(1);
		raise(SIGKILL);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_int_eq(mroce_connect(a, LOOP_ADDRESS, 77, WAIT_MS, &ca), 0);
	ck_assert_int_eq(mroce_post_recv(ca, 0, ma, 0, 64, 5), 0);
	expect(a, 5, MROCE_WR_RECV, MROCE_E_PEER_GONE);
	wait_for_end(a, ca, MROCE_E_PEER_GONE);
	waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(daemon__killed)
{
	struct mroce_completion c[8];
	struct mroce_mr *mr = NULL;
	int n;

	for (uint64_t i = 0; i < 5; i++)
		ck_assert_int_eq(mroce_post_recv(ca, 0, ma, 0, 64, i), 0);
	loop_daemon_kill(&daemon_process);
	for (uint64_t i = 0; i < 5; i++) {
		ck_assert_int_eq(mroce_conn_error(ca), MROCE_OK);
		expect(a, i, MROCE_WR_RECV, MROCE_E_DAEMON);
	}
	ck_assert_int_eq(mroce_conn_error(ca), MROCE_E_DAEMON);
	ck_assert_int_eq(mroce_poll(a, c, 8), -ENOTCONN);
	ck_assert_int_eq(mroce_wait(a, c, 8, WAIT_MS), -ENOTCONN);
	ck_assert_int_eq(mroce_post_send(ca, 0, ma, 0, 1, 1), -ENOTCONN);
	ck_assert_int_eq(mroce_alloc(a, 10, ACCESS, &mr), -ENOTCONN);
	/* One that only polls finds out too. */
	do
		n = mroce_poll(b, c, 8);
	while (n == 0);
	ck_assert_int_eq(n, -ENOTCONN);
	mroce_close(&a);
	/* Restart works at once, over the socket file left behind. */
	loop_daemon_start(&daemon_process);
	ck_assert_int_eq(mroce_open(daemon_process.socket, &a), 0);
}
END_TEST

START_TEST(daemon__stopped_while_waiting)
{
	struct mroce_completion c;
	struct timespec t0, t1;

	clock_gettime(CLOCK_MONOTONIC, &t0);
	kill(daemon_process.pid, SIGTERM);
	ck_assert_int_eq(mroce_wait(a, &c, 1, WAIT_MS), -ENOTCONN);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ck_assert_int_le(t1.tv_sec - t0.tv_sec, 5);
}
END_TEST

static Suite *client_suite(void)
{
	Suite *suite = suite_create("client");
	TCase *alone = tcase_create("contexts");
	TCase *joined = tcase_create("connected");
	TCase *lossy = tcase_create("lossy");

	tcase_add_checked_fixture(alone, setup_daemon, teardown);
	tcase_add_test(alone, open__no_daemon);
	tcase_add_test(alone, open__many_contexts_in_one_process);
	tcase_add_test(alone, open__quota_of_contexts);
	tcase_add_test(alone, memory__arguments);
	tcase_add_test(alone, memory__quota);
	tcase_add_test(alone, connect__nobody_listens);
	tcase_add_test(alone, connect__no_route);
	tcase_add_test(alone, connect__times_out_when_all_is_lost);
	tcase_add_test(alone, listen__service_is_unique);
	tcase_add_test(alone, accept__timeouts);
	tcase_add_test(alone, arm__connection_wakes);
	tcase_add_test(alone, accept__requests_at_once);
	suite_add_tcase(suite, alone);
	tcase_add_checked_fixture(joined, setup, teardown);
	tcase_add_test(joined, conn__facts);
	tcase_add_test(joined, post__arguments);
	tcase_add_test(joined, send__many_sizes);
	tcase_add_test(joined, write_read__in_place);
	tcase_add_test(joined, write__unmapped_memory_is_an_error);
	tcase_add_test(joined, write__bad_key_and_freed_region);
	tcase_add_test(joined, post__more_than_the_rings_hold);
	tcase_add_test(joined, post_recv__nothing_is_taken_beyond_the_completion_ring);
	tcase_add_test(joined, tolerance__arguments);
	tcase_add_test(joined, deadline__follows_the_percentile);
	tcase_add_test(joined, wait__timeout);
	tcase_add_test(joined, arm__descriptor_becomes_readable);
	tcase_add_test(joined, close__peer_sees_its_requests_end_first);
	tcase_add_test(joined, close__own_completions_are_dropped);
	tcase_add_test(joined, process__killed_peer_is_noticed);
	tcase_add_test(joined, daemon__killed);
	tcase_add_test(joined, daemon__stopped_while_waiting);
	suite_add_tcase(suite, joined);
	tcase_add_checked_fixture(lossy, setup_lossy, teardown);
	tcase_add_test(lossy, send__many_sizes);
	tcase_add_test(lossy, post__more_than_the_rings_hold_with_loss);
	tcase_add_test(lossy, tolerance__missing_bytes_are_listed);
	suite_add_tcase(suite, lossy);
	return suite;
}

UNIT_MAIN(client_suite)
