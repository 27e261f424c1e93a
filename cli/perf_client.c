// SPDX-License-Identifier: BSD-2-Clause
/* perf_client.c: the active side: connections, requests, and the two kinds of measurement. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "cmd.h"
#include "perf.h"

#define COMPLETIONS 256
#define SLICE_MS 250
#define CONNECT_MS 5000
#define ANSWER_SECONDS 10.0
/* Requests in flight of all connections: the completion ring must hold them. */
#define IN_FLIGHT_MAX 6000
/* More memory than this makes no test better, but the cache worse. */
#define BUFFER_BYTES (512u << 10)
/* A peak is measured over at least so long and so many messages. */
#define PEAK_WINDOW_NS 20000000
#define PEAK_MESSAGES 64
/* Asking the daemon about more connections than this would take longer than the test. */
#define REPAIRS_CONNS_MAX 64

/* Data ids: the request's number; bit 62 marks the receive of an echo. */
#define ECHO_ID (1ull << 62)

/* ---- completions ---- */

static const char *host_of(const struct perf_client *c)
{
	return c->o->host;
}

static int broken(struct perf_client *c, int err)
{
	enum mroce_status status = channel_error(&c->channel);

	/* One who expects shorter messages than our request is no server of ours either. */
	if (err == -EPROTO || err == -EPROTONOSUPPORT || status == MROCE_E_LENGTH)
		fail("%s: the server there does not speak this perf protocol; is it 'mroce perf "
		     "-s' of "
		     "the same version?",
		     host_of(c));
	else if (status != MROCE_OK)
		fail("%s: the connection broke off: %s", host_of(c), link_status(status));
	else
		fail("%s: the connection broke off: %s", host_of(c), strerror(-err));
	return err;
}

static int take_message(struct perf_client *c, const struct mroce_completion *done)
{
	struct perf_msg msg;
	const void *buf;
	size_t len;
	int err = channel_take(&c->channel, done, &buf, &len);

	if (err || !buf)
		return err;
	err = perf_unpack(&msg, buf, len);
	if (err)
		return err;
	if (msg.type == PERF_READY) {
		c->ready = msg;
		c->is_ready = true;
	} else if (msg.type == PERF_REPORT) {
		c->report = msg;
		c->is_reported = true;
	} else {
		return -EPROTO;
	}
	return channel_done(&c->channel, done);
}

static uint32_t slot_of(const struct perf_client *c, uint64_t i)
{
	uint32_t streams = c->request.streams;
	uint32_t each = c->request.slots / streams;

	return i % streams * each + i / streams % each;
}

static void *slot_at(const struct perf_client *c, uint32_t slot)
{
	return (uint8_t *)mroce_mr_addr(c->memory.mr) + slot * c->request.size;
}

static bool is_read(const struct perf_client *c, uint64_t i)
{
	return c->request.op == PERF_READ || (c->request.op == PERF_BOTH && i & 1);
}

static void check_read(struct perf_client *c, uint64_t i)
{
	uint32_t slot = slot_of(c, i);

	if (!pattern_holds(slot_at(c, slot), c->request.size, pattern_seed(0, slot)))
		c->errors++;
}

/* 1 if a request or an echo came to its end, 0 or -errno. */
static int take_completion(struct perf_client *c, const struct mroce_completion *done)
{
	if (channel_owns(done))
		return take_message(c, done);
	if (done->status != MROCE_OK) {
		fail("%s: request of %llu bytes failed: %s", host_of(c),
		     (unsigned long long)c->request.size, link_status(done->status));
		return -EIO;
	}
	if (done->id & ECHO_ID) {
		c->echoes++;
		c->echo_length = done->length;
		return 1;
	}
	if (c->request.flags & PERF_CHECK && is_read(c, done->id))
		check_read(c, done->id);
	c->busy[slot_of(c, done->id)] = false;
	c->forgiven += done->missing != 0;
	c->missing += done->missing;
	c->completed++;
	return 1;
}

int perf_client_pump(struct mroce *m, int timeout_ms)
{
	struct mroce_completion done[COMPLETIONS];
	int n = timeout_ms ? mroce_wait(m, done, COMPLETIONS, timeout_ms)
			   : mroce_poll(m, done, COMPLETIONS);
	int count = 0;

	if (cli_stop)
		return -EINTR;
	if (n == -ETIMEDOUT || n == -EINTR)
		return 0;
	if (n < 0) {
		fail("%s", link_status(MROCE_E_DAEMON));
		return n;
	}
	for (int i = 0; i < n; i++) {
		struct perf_client *c = done[i].conn_data;
		int got = c ? take_completion(c, &done[i]) : 0;

		if (got < 0)
			return got == -EIO ? got : broken(c, got);
		count += got;
	}
	return count;
}

/* ---- agreeing with the server ---- */

static int await(struct perf_client *c, const bool *flag, const char *what)
{
	double end = clock_seconds() + ANSWER_SECONDS;

	while (!*flag) {
		int n = perf_client_pump(c->m, SLICE_MS);

		if (n < 0)
			return n;
		if (!*flag && mroce_conn_error(c->conn) != MROCE_OK)
			return broken(c, -ENOTCONN);
		if (*flag || clock_seconds() < end)
			continue;
		fail("%s: no %s from the perf server within %.0f s", host_of(c), what,
		     ANSWER_SECONDS);
		return -ETIMEDOUT;
	}
	return 0;
}

static int tell(struct perf_client *c, const struct perf_msg *msg)
{
	uint8_t buf[PERF_MSG_LEN];
	int err;

	perf_pack(msg, buf);
	err = channel_send(&c->channel, buf, sizeof(buf));
	return err ? broken(c, err) : 0;
}

/* Shape of the measurement; slots is a multiple of streams. */
static void make_request(struct perf_client *c, uint64_t depth)
{
	const struct perf_options *o = c->o;
	uint64_t size = o->size ? o->size : 1;
	uint64_t slots = BUFFER_BYTES / size;
	uint64_t streams = o->streams < depth ? o->streams : depth;

	/* Every stream has a slot of its own. */
	if (streams > PERF_REGION_MAX / size)
		streams = PERF_REGION_MAX / size;
	if (slots > depth)
		slots = depth;
	slots -= slots % streams;
	if (slots < streams)
		slots = streams;
	c->request = (struct perf_msg){
		.type = PERF_REQUEST,
		.op = o->op,
		.flags = (o->check ? PERF_CHECK : 0) | (o->more ? PERF_MORE : 0),
		.streams = streams,
		.slots = slots,
		.depth = o->check && depth > slots ? slots : depth,
		.size = o->size,
	};
}

static int post_echo_receive(struct perf_client *c)
{
	bool send = c->request.op == PERF_ECHO_SEND;

	return mroce_post_recv(c->conn, 1, send ? c->memory.mr : NULL, 0,
			       send ? c->request.size : 0, ECHO_ID);
}

static int agree(struct perf_client *c)
{
	int err;

	c->request.addr = (uintptr_t)mroce_mr_addr(c->memory.mr);
	c->request.rkey = mroce_mr_rkey(c->memory.mr);
	err = tell(c, &c->request);
	if (!err)
		err = await(c, &c->is_ready, "answer");
	if (err || !c->ready.error)
		return err;
	fail("%s: the perf server refuses %u messages of %llu bytes in flight: %s", host_of(c),
	     c->request.depth, (unsigned long long)c->request.size, strerror(c->ready.error));
	return -ECONNREFUSED;
}

/* Traffic only: what is said on the control stream must arrive. */
static int state_tolerance(struct perf_client *c)
{
	struct mroce_tolerance t = { .max_missing = (uint32_t)c->o->max_missing,
				     .deadline_us = (uint32_t)c->o->deadline_us };
	int err = 0;

	for (uint32_t i = 1; t.max_missing && i <= c->request.streams && !err; i++)
		err = mroce_stream_tolerance(c->conn, i, &t);
	return err;
}

static int set_up(struct perf_client *c, uint64_t depth)
{
	bool echo = c->o->op == PERF_ECHO_SEND || c->o->op == PERF_ECHO_WRITE;
	int err;

	make_request(c, depth);
	c->busy = calloc(c->request.slots, sizeof(*c->busy));
	err = c->busy ? 0 : -ENOMEM;
	if (!err)
		err = channel_open(&c->channel, c->m, c->conn, PERF_CHANNEL_BUFFERS, PERF_MSG_MAX);
	if (!err)
		err = perf_memory_get(&c->memory, c->m, perf_region(&c->request),
				      MROCE_ACCESS_REMOTE_WRITE, c->o->inplace);
	if (!err)
		err = state_tolerance(c);
	if (!err && echo)
		err = post_echo_receive(c);
	if (!err)
		return agree(c);
	fail("cannot set up buffers of %llu bytes: %s (%s)",
	     (unsigned long long)perf_region(&c->request), strerror(-err), mroce_last_error(c->m));
	return err;
}

int perf_client_open(struct perf_client *c, struct mroce *m, const struct perf_options *o,
		     uint64_t depth)
{
	int err;

	memset(c, 0, sizeof(*c));
	c->m = m;
	c->o = o;
	err = link_connect(m, o->host, o->service, CONNECT_MS, "mroce perf -s", &c->conn);
	if (err)
		return err;
	mroce_conn_set_data(c->conn, c);
	err = set_up(c, depth);
	if (err)
		perf_client_close(c);
	return err;
}

void perf_client_close(struct perf_client *c)
{
	if (c->conn)
		mroce_conn_close(&c->conn);
	channel_free(&c->channel);
	perf_memory_put(&c->memory);
	free(c->busy);
	c->busy = NULL;
}

int perf_client_stop(struct perf_client *c)
{
	const struct perf_msg stop = { .type = PERF_STOP };
	int err = tell(c, &stop);

	return err ? err : await(c, &c->is_reported, "report");
}

/* ---- bandwidth ---- */

/* 0, -EAGAIN: not now, or -errno. */
static int post(struct perf_client *c)
{
	const struct perf_msg *r = &c->request;
	uint64_t i = c->posted;
	uint32_t slot = slot_of(c, i);
	uint32_t stream = 1 + i % r->streams;
	uint64_t offset = slot * r->size;
	uint64_t raddr = c->ready.addr + offset;
	struct mroce_mr *mr = c->memory.mr;
	int err;

	/* Without checks the same bytes may be on their way twice. */
	if (r->flags & PERF_CHECK && c->busy[slot])
		return -EAGAIN;
	if (r->flags & PERF_CHECK && !is_read(c, i))
		pattern_fill(slot_at(c, slot), r->size, pattern_seed(stream, i / r->streams));
	if (is_read(c, i))
		err = mroce_post_read(c->conn, stream, mr, offset, r->size, raddr, c->ready.rkey, i);
	else if (r->op == PERF_SEND)
		err = mroce_post_send(c->conn, stream, mr, offset, r->size, i);
	else if (r->flags & PERF_CHECK && r->op == PERF_WRITE)
		err = mroce_post_write_imm(c->conn, stream, mr, offset, r->size, raddr,
					   c->ready.rkey, (uint32_t)i, i);
	else
		err = mroce_post_write(c->conn, stream, mr, offset, r->size, raddr, c->ready.rkey,
				       i);
	if (err)
		return err;
	c->busy[slot] = true;
	c->posted++;
	return 0;
}

struct bandwidth {
	struct perf_client *clients;
	uint64_t n;
	const struct perf_options *o;
	uint64_t start, deadline; /* ns; deadline 0: by iterations */
	uint64_t posted, completed;
	uint64_t window_start, window_completed;
	double peak; /* messages a second */
	double news;
};

static bool may_post(const struct bandwidth *b, const struct perf_client *c)
{
	return b->deadline ? clock_ns() < b->deadline : c->posted < b->o->iterations;
}

static int fill_one(struct bandwidth *b, struct perf_client *c)
{
	while (c->posted - c->completed < c->request.depth && may_post(b, c)) {
		int err = post(c);

		if (err == -EAGAIN)
			return 0;
		if (err)
			return broken(c, err);
		b->posted++;
	}
	return 0;
}

static int fill_all(struct bandwidth *b)
{
	for (uint64_t i = 0; i < b->n; i++) {
		int err = fill_one(b, &b->clients[i]);

		if (err)
			return err;
	}
	return 0;
}

static void watch_peak(struct bandwidth *b)
{
	uint64_t now = clock_ns();
	double rate;

	if (now - b->window_start < PEAK_WINDOW_NS ||
	    b->completed - b->window_completed < PEAK_MESSAGES)
		return;
	rate = (b->completed - b->window_completed) * 1e9 / (now - b->window_start);
	if (rate > b->peak)
		b->peak = rate;
	b->window_start = now;
	b->window_completed = b->completed;
}

static int first_error(const struct bandwidth *b)
{
	for (uint64_t i = 0; i < b->n; i++)
		if (mroce_conn_error(b->clients[i].conn) != MROCE_OK)
			return broken(&b->clients[i], -ENOTCONN);
	return 0;
}

static int take(struct bandwidth *b)
{
	int n = perf_client_pump(b->clients[0].m, SLICE_MS);
	double now;

	if (n < 0)
		return n;
	b->completed += n;
	watch_peak(b);
	now = clock_seconds();
	if (n) {
		b->news = now;
		return 0;
	}
	if (now - b->news < b->o->timeout)
		return first_error(b);
	fail("%s: given up: nothing completed for %.0f s, %llu of %llu requests are out; see "
	     "'mroce "
	     "show path'",
	     b->o->host, b->o->timeout, (unsigned long long)(b->posted - b->completed),
	     (unsigned long long)b->posted);
	return -ETIMEDOUT;
}

static int run_bandwidth(struct bandwidth *b)
{
	int err;

	b->start = b->window_start = clock_ns();
	b->news = clock_seconds();
	b->deadline = b->o->duration > 0 ? b->start + (uint64_t)(b->o->duration * 1e9) : 0;
	/* When nothing is out after filling, there is nothing more to send. */
	while (!(err = fill_all(b)) && b->completed < b->posted) {
		err = take(b);
		if (err)
			break;
	}
	return err;
}

/* ---- what it cost ---- */

static double cpu_self(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void cpu_start(struct perf_result *r)
{
	r->cpu_self = cpu_self();
	r->cpu_daemon = link_daemon_cpu();
}

static void cpu_end(struct perf_result *r)
{
	double daemon = link_daemon_cpu();

	r->cpu_self = cpu_self() - r->cpu_self;
	r->cpu_daemon = r->cpu_daemon < 0 || daemon < 0 ? -1 : daemon - r->cpu_daemon;
}

static void add_repairs(struct perf_result *r, const struct perf_client *c)
{
	struct link_repairs one;

	link_repairs(mroce_conn_id(c->conn), &one);
	r->repairs.known |= one.known;
	r->repairs.repairs += one.repairs;
	r->repairs.spurious += one.spurious;
	r->repairs.tx_packets += one.tx_packets;
}

static int gather(struct bandwidth *b, struct perf_result *r)
{
	for (uint64_t i = 0; i < b->n; i++) {
		struct perf_client *c = &b->clients[i];
		bool announced = c->request.op == PERF_SEND ||
				 (c->request.op == PERF_WRITE && c->request.flags & PERF_CHECK);
		int err = perf_client_stop(c);

		if (err)
			return err;
		r->check_errors += c->errors + c->report.errors;
		r->forgiven += c->forgiven;
		r->missing += c->missing;
		if (announced && c->report.messages != c->completed) {
			fail("%s: %llu messages were sent, but the server saw %llu", b->o->host,
			     (unsigned long long)c->completed,
			     (unsigned long long)c->report.messages);
			return -EIO;
		}
		if (b->n <= REPAIRS_CONNS_MAX)
			add_repairs(r, c);
	}
	return 0;
}

static void compute(const struct bandwidth *b, double seconds, struct perf_result *r)
{
	double bits = r->size * 8.0;

	r->messages = b->completed;
	r->bytes = b->completed * r->size;
	r->seconds = seconds;
	r->mpps = seconds > 0 ? b->completed / seconds / 1e6 : 0;
	r->average_gbit = r->mpps * bits / 1e3;
	r->peak_gbit = b->peak * bits / 1e9;
	if (r->peak_gbit < r->average_gbit)
		r->peak_gbit = r->average_gbit;
}

static int measure(struct bandwidth *b, struct perf_result *r)
{
	int err;

	cpu_start(r);
	err = run_bandwidth(b);
	if (err)
		return err;
	compute(b, (clock_ns() - b->start) / 1e9, r);
	cpu_end(r);
	return gather(b, r);
}

int perf_bandwidth(struct mroce *m, const struct perf_options *o, struct perf_result *out)
{
	uint64_t depth = IN_FLIGHT_MAX / o->connections;
	struct bandwidth b = { .o = o };
	int err = 0;

	memset(out, 0, sizeof(*out));
	out->size = o->size;
	b.clients = calloc(o->connections, sizeof(*b.clients));
	if (!b.clients)
		return fail("out of memory"), -ENOMEM;
	depth = depth > 4 ? depth - 4 : 1;
	if (depth > o->depth)
		depth = o->depth;
	while (!err && b.n < o->connections) {
		err = perf_client_open(&b.clients[b.n], m, o, depth);
		b.n += !err;
	}
	if (!err)
		err = measure(&b, out);
	for (uint64_t i = 0; i < b.n; i++)
		perf_client_close(&b.clients[i]);
	free(b.clients);
	return err;
}

/* ---- latency ---- */

static int post_echo(struct perf_client *c)
{
	const struct perf_msg *r = &c->request;

	if (r->op == PERF_ECHO_SEND)
		return mroce_post_send(c->conn, 1, c->memory.mr, 0, r->size, c->posted);
	if (r->op == PERF_ECHO_WRITE)
		return mroce_post_write_imm(c->conn, 1, c->memory.mr, 0, r->size, c->ready.addr,
					    c->ready.rkey, 0, c->posted);
	return mroce_post_read(c->conn, 1, c->memory.mr, 0, r->size, c->ready.addr, c->ready.rkey,
			       c->posted);
}

/* Has the request come back, and is its buffer ours again? */
static bool is_back(const struct perf_client *c)
{
	if (c->completed < c->posted)
		return false;
	return c->request.op == PERF_READ || c->echoes == c->posted;
}

static int await_echo(struct perf_client *c, double timeout)
{
	double end = clock_seconds() + timeout;

	while (!is_back(c)) {
		int n = perf_client_pump(c->m, SLICE_MS);

		if (n < 0)
			return n;
		if (n)
			continue;
		if (mroce_conn_error(c->conn) != MROCE_OK)
			return broken(c, -ENOTCONN);
		if (clock_seconds() < end)
			continue;
		fail("%s: no answer to message %llu within %.1f s", host_of(c),
		     (unsigned long long)c->posted, timeout);
		return -ETIMEDOUT;
	}
	return 0;
}

int perf_client_echo(struct perf_client *c, double timeout, double *usec)
{
	uint64_t start = clock_ns();
	int err = post_echo(c);

	if (err)
		return broken(c, err);
	c->posted++;
	err = await_echo(c, timeout);
	if (err)
		return err;
	*usec = (clock_ns() - start) / 1e3;
	if (c->request.op == PERF_READ)
		return 0;
	if (c->echo_length != c->request.size)
		return broken(c, -EPROTO);
	err = post_echo_receive(c);
	return err ? broken(c, err) : 0;
}

static int run_latency(struct perf_client *c, struct perf_result *r)
{
	const struct perf_options *o = c->o;
	double end = clock_seconds() + o->duration;
	/* perftest: half of a ping-pong, but the whole of a read */
	double share = o->op == PERF_READ ? 1 : 0.5;
	double usec;

	for (uint64_t i = 0; o->duration > 0 ? clock_seconds() < end : i < o->iterations; i++) {
		int err = perf_client_echo(c, o->timeout, &usec);

		if (err)
			return err;
		if (samples_add(&r->samples, usec * share))
			return fail("out of memory after %llu samples", (unsigned long long)i),
			       -ENOMEM;
	}
	return 0;
}

int perf_latency(struct mroce *m, const struct perf_options *o, struct perf_result *out)
{
	struct perf_client c;
	double start;
	int err;

	memset(out, 0, sizeof(*out));
	out->size = o->size;
	err = perf_client_open(&c, m, o, 1);
	if (err)
		return err;
	cpu_start(out);
	start = clock_seconds();
	err = run_latency(&c, out);
	out->seconds = clock_seconds() - start;
	cpu_end(out);
	if (!err)
		err = perf_client_stop(&c);
	out->messages = out->samples.count;
	add_repairs(out, &c);
	perf_client_close(&c);
	return err;
}
