// SPDX-License-Identifier: BSD-2-Clause
/*
 * recv.c: `mroce recv`: takes files from any number of senders at once. One thread: the daemon moves
 * the data, so that blocks keep arriving while one is being written to disk. Senders take turns, a
 * block each.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "channel.h"
#include "cmd.h"
#include "link.h"
#include "options.h"
#include "progress.h"
#include "sink.h"
#include "summary.h"

#define COMPLETIONS 64
#define SLICE_MS 250
#define SENDERS_MAX 32
#define CHANNEL_BUFFERS 16
#define BACKLOG 64
/* How long a sender may take to hang up after it got the result. */
#define HANGUP_SECONDS 5
/* Kept free of FAILED messages, for CONSUMED and RESULT. */
#define CHANNEL_RESERVE 2
#define BLOCK_BYTES (1024 * 1024)

static struct {
	bool once, quiet;
	const char *folder;
	uint64_t service, buffer;
	double timeout;
} opts;

static const struct opt recv_opts[] = {
	{ 'd', "directory", "DIR", "where the files go (default .)", OPT_STRING, &opts.folder, 0, 0 },
	{ 0, "once", NULL, "end after one transfer; exit 1 unless it was complete", OPT_FLAG,
	  &opts.once, 0, 0 },
	{ 'q', "quiet", NULL, "no progress", OPT_FLAG, &opts.quiet, 0, 0 },
	{ 0, "service", "N", "service to listen on (default 7001)", OPT_NUMBER, &opts.service, 1,
	  UINT32_MAX },
	{ 0, "buffer", "SIZE", "memory for one sender (default 32M)", OPT_SIZE, &opts.buffer,
	  2u << 20, 256u << 20 },
	{ 0, "timeout", "SECONDS", "drop a sender silent for so long (default 60)", OPT_SECONDS,
	  &opts.timeout, 1, 86400 },
	{ 0 },
};

static const struct opt_table recv_table = {
	.command = "mroce recv",
	.args = "[OPTIONS]",
	.about = "Receives files from 'mroce send', several senders at once, until it is stopped.\n"
		 "Whoever can reach this service may write below DIR, and overwrite what is there.",
	.opts = recv_opts,
	.json = true,
};

enum session_state {
	SESSION_NEW,	 /* HELLO is awaited */
	SESSION_RUNNING, /* blocks come */
	SESSION_RESULT,	 /* FINISH was worked through, RESULT is to be sent */
	SESSION_HANGUP,	 /* all said; the sender closes */
	SESSION_OVER,
};

struct session {
	LIST_ENTRY(session) entry;
	struct receiver *receiver;
	struct mroce_conn *conn;
	struct channel channel;
	enum session_state state;
	double start, news;
	char peer[64];

	uint32_t streams, slots;
	struct mroce_mr *mr;
	bool ready[FP_SLOTS_MAX];
	uint32_t length[FP_SLOTS_MAX];
	uint64_t next; /* block to work through next */
	uint64_t told; /* blocks that CONSUMED has told of */

	bool sink_open;
	struct sink sink;
	struct progress progress;
	bool complete;
};

struct receiver {
	struct mroce *m;
	struct mroce_listener *listener;
	LIST_HEAD(, session) sessions;
	unsigned int count;
	unsigned int served, incomplete;
	/* Large, and needed by one session at a time. */
	struct fp_rec rec;
	struct fp_msg msg;
	uint8_t packed[FP_MSG_MAX];
};

/* ---- saying things to the sender ---- */

static int tell(struct session *s, const struct fp_msg *msg)
{
	uint8_t *buf = s->receiver->packed;

	return channel_send(&s->channel, buf, fp_msg_pack(msg, buf, FP_MSG_MAX));
}

static void on_failed(void *ctx, const char *path, int err, const char *text)
{
	struct session *s = ctx;
	struct fp_msg *msg = &s->receiver->msg;

	if (s->sink.failed <= 20)
		warn_user("%s from %s: not kept: %s", path, s->peer, text);
	/* What does not fit is in the count that RESULT carries. */
	if (channel_room(&s->channel) <= CHANNEL_RESERVE)
		return;
	msg->type = FP_FAILED;
	msg->failed.error = err;
	snprintf(msg->failed.path, sizeof(msg->failed.path), "%s", path);
	snprintf(msg->failed.text, sizeof(msg->failed.text), "%s", text);
	tell(s, msg);
}

/* ---- sessions ---- */

static void session_over(struct session *s, const char *why)
{
	if (s->state == SESSION_OVER)
		return;
	/* The result was told, or the refusal: the sender may go. */
	if (s->state == SESSION_HANGUP)
		s->state = SESSION_OVER;
	else if (s->state != SESSION_NEW)
		warn_user("transfer from %s broke off after %llu files: %s%s%s", s->peer,
			  s->sink_open ? (unsigned long long)s->sink.files : 0, why,
			  s->sink_open && s->sink.fd >= 0 ? "; removed the unfinished " : "",
			  s->sink_open && s->sink.fd >= 0 ? s->sink.path : "");
	else
		warn_user("connection from %s ended before a transfer began: %s", s->peer, why);
	s->state = SESSION_OVER;
}

static void session_free(struct session *s)
{
	struct receiver *r = s->receiver;

	progress_end(&s->progress);
	mroce_conn_close(&s->conn);
	channel_free(&s->channel);
	mroce_mr_free(&s->mr);
	if (s->sink_open)
		sink_close(&s->sink);
	r->served++;
	r->incomplete += !s->complete;
	r->count--;
	LIST_REMOVE(s, entry);
	free(s);
}

static int session_new(struct receiver *r, struct mroce_conn *conn)
{
	struct session *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = channel_open(&s->channel, r->m, conn, CHANNEL_BUFFERS, FP_MSG_MAX);
	if (err) {
		free(s);
		return err;
	}
	s->receiver = r;
	s->conn = conn;
	s->news = clock_seconds();
	snprintf(s->peer, sizeof(s->peer), "%s", mroce_conn_peer(conn));
	mroce_conn_set_data(conn, s);
	LIST_INSERT_HEAD(&r->sessions, s, entry);
	r->count++;
	return 0;
}

/* ---- a transfer's beginning ---- */

static int post_receive(struct session *s, uint32_t stream)
{
	unsigned int tries = 0;
	int err;

	do {
		err = mroce_post_recv(s->conn, stream, NULL, 0, 0, 0);
	} while (link_queue_full(err, &tries));
	return err;
}

static int post_receives(struct session *s)
{
	for (uint32_t i = 0; i < s->slots; i++) {
		int err = post_receive(s, 1 + i % s->streams);

		if (err)
			return err;
	}
	return 0;
}

static int open_ring(struct session *s, uint32_t streams)
{
	uint32_t slots = opts.buffer / BLOCK_BYTES;

	s->streams = streams < slots ? streams : slots;
	s->slots = slots - slots % s->streams;
	return mroce_alloc(s->receiver->m, (size_t)s->slots * BLOCK_BYTES,
			   MROCE_ACCESS_REMOTE_WRITE, &s->mr);
}

static int begin(struct session *s, const struct fp_msg *hello)
{
	int err;

	if (s->receiver->count > SENDERS_MAX)
		return -EBUSY;
	if (!digest_known(hello->hello.digest) || !hello->hello.streams ||
	    hello->hello.streams > FP_STREAMS_MAX)
		return -EPROTO;
	err = sink_open(&s->sink, opts.folder, hello->hello.digest, on_failed, s);
	if (err)
		return err;
	s->sink_open = true;
	err = open_ring(s, hello->hello.streams);
	return err ? err : post_receives(s);
}

static int take_hello(struct session *s, const struct fp_msg *hello)
{
	uint64_t bytes = hello->hello.bytes;
	struct fp_msg answer = { .type = FP_WELCOME };
	int err;

	if (s->state != SESSION_NEW)
		return -EPROTO;
	s->start = clock_seconds();
	err = begin(s, hello);
	s->state = err ? SESSION_HANGUP : SESSION_RUNNING;
	if (err)
		warn_user("transfer from %s refused: %s", s->peer, strerror(-err));
	answer.welcome.error = -err;
	if (!err) {
		answer.welcome.streams = s->streams;
		answer.welcome.slots = s->slots;
		answer.welcome.block = BLOCK_BYTES;
		answer.welcome.addr = (uintptr_t)mroce_mr_addr(s->mr);
		answer.welcome.rkey = mroce_mr_rkey(s->mr);
	}
	progress_start(&s->progress, bytes, opts.quiet || cli.json);
	return tell(s, &answer);
}

/* ---- what comes in ---- */

static int take_message(struct session *s, const void *buf, size_t len)
{
	struct fp_msg *msg = &s->receiver->msg;
	int err = fp_msg_unpack(msg, buf, len);

	if (err)
		return err;
	return msg->type == FP_HELLO ? take_hello(s, msg) : -EPROTO;
}

static int take_channel(struct session *s, const struct mroce_completion *c)
{
	const void *msg;
	size_t len;
	int err = channel_take(&s->channel, c, &msg, &len);

	if (err || !msg)
		return err;
	err = take_message(s, msg, len);
	return err ? err : channel_done(&s->channel, c);
}

/* The full number of the block whose low 32 bits are `imm`, if it may come now. */
static int block_number(const struct session *s, uint32_t imm, uint64_t *block)
{
	uint32_t ahead = imm - (uint32_t)s->next;

	if (ahead >= s->slots)
		return -EPROTO;
	*block = s->next + ahead;
	return 0;
}

static int take_block(struct session *s, const struct mroce_completion *c)
{
	uint64_t block;
	uint32_t slot;
	int err;

	if (c->status != MROCE_OK) {
		s->channel.ended = c->status;
		return -ENOTCONN;
	}
	if (s->state != SESSION_RUNNING || !c->has_imm || c->length > BLOCK_BYTES)
		return -EPROTO;
	err = block_number(s, c->imm, &block);
	if (err)
		return err;
	slot = block % s->slots;
	if (s->ready[slot] || c->stream != 1 + block % s->streams)
		return -EPROTO;
	s->ready[slot] = true;
	s->length[slot] = c->length;
	return post_receive(s, c->stream);
}

static const char *reason(const struct session *s, int err)
{
	enum mroce_status status = channel_error(&s->channel);

	switch (-err) {
	case EPROTO: return "it sent something that is not the file protocol";
	case EPROTONOSUPPORT: return "its mroce is of another version";
	}
	if (status != MROCE_OK)
		return link_status(status);
	return strerror(-err);
}

static void take_completion(const struct mroce_completion *c)
{
	struct session *s = c->conn_data;
	int err;

	if (!s || s->state == SESSION_OVER)
		return;
	err = channel_owns(c) ? take_channel(s, c) : take_block(s, c);
	if (err)
		session_over(s, reason(s, err));
	s->news = clock_seconds();
}

/* ---- working through blocks ---- */

static int work_block(struct session *s, uint32_t slot)
{
	const uint8_t *at = (uint8_t *)mroce_mr_addr(s->mr) + (size_t)slot * BLOCK_BYTES;
	struct fp_reader reader = { at, at + s->length[slot] };
	struct fp_rec *rec = &s->receiver->rec;
	int err;

	while ((err = fp_next(&reader, rec)) == 1) {
		err = sink_take(&s->sink, rec);
		if (err)
			return err;
	}
	return err;
}

/* True if there was a block to work on. */
static bool work(struct session *s)
{
	uint32_t slot;
	int err;

	if (s->state != SESSION_RUNNING)
		return false;
	slot = s->next % s->slots;
	if (!s->ready[slot])
		return false;
	err = work_block(s, slot);
	if (err) {
		session_over(s, reason(s, err));
		return true;
	}
	s->ready[slot] = false;
	s->next++;
	s->news = clock_seconds();
	progress_update(&s->progress, s->sink.taken);
	if (s->sink.finished)
		s->state = SESSION_RESULT;
	return true;
}

/* CONSUMED is sent for several blocks at once if the sender is slow to take it. */
static void tell_consumed(struct session *s)
{
	struct fp_msg msg = { .type = FP_CONSUMED, .consumed = { .blocks = s->next } };

	if (s->told == s->next || s->state == SESSION_OVER ||
	    channel_room(&s->channel) < CHANNEL_RESERVE)
		return;
	if (!tell(s, &msg))
		s->told = s->next;
}

static void summarise(struct session *s)
{
	struct summary sum = { .verb = "received",
			       .peer = s->peer,
			       .files = s->sink.files,
			       .bytes = s->sink.bytes,
			       .failed = s->sink.failed,
			       .seconds = clock_seconds() - s->start,
			       .digest = s->sink.kind };

	progress_end(&s->progress);
	summary_print(&sum);
	s->complete = !s->sink.failed;
}

static void tell_result(struct session *s)
{
	struct fp_msg msg = { .type = FP_RESULT,
			      .result = { .files = s->sink.files,
					  .bytes = s->sink.bytes,
					  .failed = s->sink.failed } };

	if (s->state != SESSION_RESULT || tell(s, &msg))
		return;
	s->state = SESSION_HANGUP;
	s->news = clock_seconds();
	summarise(s);
}

static void check_end(struct session *s)
{
	enum mroce_status status = mroce_conn_error(s->conn);
	double silent = clock_seconds() - s->news;

	if (s->state == SESSION_HANGUP && (status != MROCE_OK || silent > HANGUP_SECONDS))
		s->state = SESSION_OVER;
	else if (status != MROCE_OK)
		session_over(s, link_status(status));
	else if (silent > opts.timeout)
		session_over(s, "nothing came from it for too long (--timeout)");
}

/* ---- the loop ---- */

static void accept_all(struct receiver *r)
{
	struct mroce_conn *conn;

	while (r->listener && mroce_accept(r->listener, 0, &conn) == 0) {
		int err = session_new(r, conn);

		if (err) {
			warn_user("connection from %s dropped: %s", mroce_conn_peer(conn),
				  strerror(-err));
			mroce_conn_close(&conn);
			continue;
		}
		/* Whoever comes second shall hear at once that nobody listens. */
		if (opts.once)
			mroce_listener_free(&r->listener);
	}
}

static bool serve_sessions(struct receiver *r)
{
	struct session *s = LIST_FIRST(&r->sessions);
	bool busy = false;

	while (s) {
		struct session *next = LIST_NEXT(s, entry);

		busy |= work(s);
		tell_consumed(s);
		tell_result(s);
		check_end(s);
		if (s->state == SESSION_OVER)
			session_free(s);
		s = next;
	}
	return busy;
}

static int take_all(struct receiver *r)
{
	struct mroce_completion done[COMPLETIONS];
	int n;

	while ((n = mroce_poll(r->m, done, COMPLETIONS)) > 0)
		for (int i = 0; i < n; i++)
			take_completion(&done[i]);
	return n;
}

static void sleep_until_news(struct receiver *r)
{
	struct pollfd fd = { .fd = mroce_fd(r->m), .events = POLLIN };

	if (mroce_arm(r->m) == 0)
		poll(&fd, 1, SLICE_MS);
}

static int serve(struct receiver *r)
{
	while (!cli_stop && !(opts.once && r->served)) {
		int err = take_all(r);

		if (err < 0)
			return fail("%s", link_status(MROCE_E_DAEMON));
		accept_all(r);
		if (!serve_sessions(r))
			sleep_until_news(r);
	}
	return EXIT_SUCCESS;
}

static int close_all(struct receiver *r, int status)
{
	bool cut_off = !LIST_EMPTY(&r->sessions);
	struct session *s;

	while ((s = LIST_FIRST(&r->sessions))) {
		session_over(s, cli_stop ? "interrupted" : link_status(MROCE_E_DAEMON));
		session_free(s);
	}
	mroce_listener_free(&r->listener);
	mroce_close(&r->m);
	if (status)
		return status;
	return cut_off || (opts.once && (r->incomplete || !r->served)) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int check_folder(void)
{
	struct sink probe;
	int err = sink_open(&probe, opts.folder, FP_CRC64, on_failed, NULL);

	if (err)
		return fail("cannot receive into '%s': %s. Make it, or name another with -d DIR",
			    opts.folder, strerror(-err));
	sink_close(&probe);
	return EXIT_SUCCESS;
}

static int listen_to(struct receiver *r)
{
	int err = mroce_listen(r->m, opts.service, BACKLOG, &r->listener);

	if (!err)
		return EXIT_SUCCESS;
	if (err == -EADDRINUSE)
		return fail("service %llu is taken on this host: is another 'mroce recv' running? "
			    "Choose another with --service on both sides",
			    (unsigned long long)opts.service);
	return fail("cannot listen on service %llu: %s (%s)", (unsigned long long)opts.service,
		    strerror(-err), mroce_last_error(r->m));
}

int cmd_recv(int argc, char **argv)
{
	static struct receiver r;
	int first;

	opts.folder = ".";
	opts.service = SERVICE_FILES;
	opts.buffer = 32u << 20;
	opts.timeout = 60;
	switch (opt_parse(&recv_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (first < argc)
		return opt_misuse(&recv_table, "takes no operand, but got '%s'", argv[first]);
	if (check_folder() || link_open(&r.m))
		return EXIT_FAILURE;
	LIST_INIT(&r.sessions);
	signals_catch();
	if (listen_to(&r)) {
		mroce_close(&r.m);
		return EXIT_FAILURE;
	}
	if (!opts.quiet && !cli.json)
		fprintf(stderr, "receiving into %s, service %llu; stop with Ctrl-C\n", opts.folder,
			(unsigned long long)opts.service);
	return close_all(&r, serve(&r));
}
