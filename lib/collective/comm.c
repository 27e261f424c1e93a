/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * comm.c: a communicator's life. Each rank listens, connects to all ranks below it, and accepts those above. Over each
 * connection both tell who they are (hello); in the end both say goodbye (bye) and wait for the other's.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "collective/internal.h"

#define MAGIC 0x6d436f6cu /* "mCol" */
#define VERSION 1
#define TIMEOUT_MS 30000
#define LEAVE_MS 2000
/* A rank that is not there yet is tried again after so long, and each try lasts at most so long. */
#define RETRY_MS 20
#define TRY_MS 1000
/* Who has come and said nothing for so long makes way, if there is no other place. */
#define SILENT_MS 1000

/* What both tell each other; little endian. */
struct hello {
	uint32_t magic, version;
	uint32_t size, rank;
	uint64_t seed;
	uint64_t reserved;
};

/* The control region: a hello to send, then one from each rank. */
static struct hello *hello_at(struct mroce_comm *c, uint32_t slot)
{
	return (struct hello *)mroce_mr_addr(c->control) + slot;
}

static _Thread_local char open_error[ERROR_TEXT];

const char *mroce_comm_open_error(void)
{
	return open_error;
}

uint32_t mroce_comm_rank(const struct mroce_comm *comm)
{
	return comm->rank;
}

uint32_t mroce_comm_size(const struct mroce_comm *comm)
{
	return comm->size;
}

const char *mroce_comm_last_error(const struct mroce_comm *comm)
{
	return comm->error;
}

/* ---- meeting ---- */

struct meeting {
	struct mroce_comm *comm;
	struct mroce_listener *listener;
	uint64_t end; /* ms */
	/* Those who come; fewer than `size` of them are ranks, so there is always a place for a stranger, too. */
	struct guest {
		struct mroce_conn *conn; /* has not said who it is; NULL: nobody, or seated */
		struct message hello, sent;
		uint64_t since; /* ms */
		bool seated;	/* a peer now; our hello to it may be on its way */
	} guests[MROCE_COMM_RANKS];
};

static int remaining_ms(const struct meeting *t)
{
	uint64_t now = coll_now_ms();

	return now < t->end ? (int)(t->end - now) : 0;
}

/* Both directions. A stranger's end, who came and went, is no failure of ours. */
static int greet(struct mroce_comm *c, struct mroce_conn *conn, uint32_t slot, bool stranger,
		 struct message *hello, struct message *sent)
{
	int err;

	*hello = (struct message){
		.comm = c, .receive = true, .cannot_fail = stranger, .length = sizeof(struct hello)
	};
	*sent = (struct message){ .comm = c, .cannot_fail = stranger };
	err = mroce_post_recv(conn, STREAM_CONTROL, c->control, slot * sizeof(struct hello),
			      sizeof(struct hello), (uintptr_t)hello);
	if (!err)
		err = mroce_post_send(conn, STREAM_CONTROL, c->control, 0, sizeof(struct hello),
				      (uintptr_t)sent);
	if (err && !stranger)
		return comm_fail(c, err, "%s: %s", mroce_conn_peer(conn), mroce_last_error(c->m));
	hello->done |= err != 0;
	return 0;
}

static bool is_hello(const struct hello *h)
{
	return le32toh(h->magic) == MAGIC;
}

static int check_hello(struct mroce_comm *c, const struct mroce_conn *conn, const struct hello *h)
{
	const char *who = mroce_conn_peer(conn);

	if (!is_hello(h) || le32toh(h->version) != VERSION)
		return comm_break(c, -EPROTO, "%s: no communicator of this version is there", who);
	if (le32toh(h->size) != c->size || le64toh(h->seed) != c->seed)
		return comm_break(
			c, -EPROTO,
			"%s: its communicator has %u ranks and seed %llu, this one %u and "
			"%llu: give all the same list and seed",
			who, le32toh(h->size), (unsigned long long)le64toh(h->seed), c->size,
			(unsigned long long)c->seed);
	return 0;
}

static bool can_come_yet(int err)
{
	return err == -ECONNREFUSED || err == -ETIMEDOUT || err == -EHOSTUNREACH || err == -EBUSY;
}

static int connect_to(struct meeting *t, uint32_t rank)
{
	const struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
	struct mroce_comm *c = t->comm;
	struct peer *p = &c->peers[rank];
	int err;

	for (;;) {
		int left = remaining_ms(t);

		err = mroce_connect(c->m, c->hosts[rank], c->service + rank,
				    left < TRY_MS ? left : TRY_MS, &p->conn);
		if (!err)
			break;
		if (!can_come_yet(err) || !remaining_ms(t))
			return comm_fail(c, err, "rank %u (%s, service %u) is not there: %s", rank,
					 c->hosts[rank], c->service + rank, mroce_last_error(c->m));
		nanosleep(&pause, NULL);
	}
	mroce_conn_set_data(p->conn, (void *)(uintptr_t)rank);
	err = greet(c, p->conn, 1 + rank, false, &p->hello, &p->sent);
	p->hello.rank = p->sent.rank = rank;
	return err;
}

static struct hello *guest_hello(struct mroce_comm *c, uint32_t i)
{
	return hello_at(c, 1 + c->size + i);
}

/* One who came has said who it is, or something else, or has gone. */
static int seat(struct meeting *t, uint32_t i)
{
	struct mroce_comm *c = t->comm;
	struct guest *g = &t->guests[i];
	const struct hello *h = guest_hello(c, i);
	uint32_t rank;
	int err;

	if (mroce_conn_error(g->conn) != MROCE_OK || !is_hello(h)) {
		mroce_conn_close(&g->conn);
		return 0;
	}
	err = check_hello(c, g->conn, h);
	if (err)
		return err;
	rank = le32toh(h->rank);
	if (rank <= c->rank || rank >= c->size || c->peers[rank].conn)
		return comm_break(
			c, -EPROTO, "%s says it is rank %u, which %s: give all the same list",
			mroce_conn_peer(g->conn), rank,
			rank < c->size && c->peers[rank].conn ? "is here already"
							      : "does not connect to here");
	c->peers[rank].conn = g->conn;
	mroce_conn_set_data(g->conn, (void *)(uintptr_t)rank);
	g->conn = NULL;
	g->seated = true;
	g->sent.cannot_fail = false;
	g->sent.rank = rank;
	return 0;
}

/* A place for one who comes, or NULL: only strangers can be so many. Ranks speak at once. */
static struct guest *place(struct meeting *t)
{
	struct guest *oldest = NULL;

	for (uint32_t i = 0; i < t->comm->size; i++) {
		struct guest *g = &t->guests[i];

		if (!g->conn && !g->seated)
			return g;
		if (g->conn && (!oldest || g->since < oldest->since))
			oldest = g;
	}
	if (!oldest || coll_now_ms() - oldest->since < SILENT_MS)
		return NULL;
	mroce_conn_close(&oldest->conn);
	return oldest;
}

/* Who finds no place waits with the daemon, and comes again if that takes too long. */
static int accept_one(struct meeting *t)
{
	struct mroce_comm *c = t->comm;
	struct guest *g = place(t);
	uint32_t i;
	int err;

	if (!g)
		return 0;
	i = (uint32_t)(g - t->guests);
	err = mroce_accept(t->listener, 0, &g->conn);
	if (err == -EAGAIN)
		return 0;
	if (err)
		return comm_fail(c, err, "service %u: %s", c->service + c->rank,
				 mroce_last_error(c->m));
	g->since = coll_now_ms();
	/* Of the one before. */
	memset(guest_hello(c, i), 0, sizeof(struct hello));
	return greet(c, g->conn, 1 + c->size + i, true, &g->hello, &g->sent);
}

static int seat_all(struct meeting *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->comm->size && !err; i++)
		if (t->guests[i].conn && t->guests[i].hello.done)
			err = seat(t, i);
	return err;
}

static uint32_t absent(const struct mroce_comm *c)
{
	for (uint32_t r = 0; r < c->size; r++)
		if (r != c->rank && !c->peers[r].conn)
			return r;
	return c->size;
}

/* Those who were seated have our hello, too. */
static int await_sent(struct meeting *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->comm->size && !err; i++)
		if (t->guests[i].seated)
			err = comm_await(t->comm, &t->guests[i].sent);
	return err;
}

static int await_hellos_below(struct meeting *t)
{
	struct mroce_comm *c = t->comm;

	for (uint32_t r = 0; r < c->rank; r++) {
		int err = comm_await(c, &c->peers[r].hello);

		if (!err)
			err = comm_await(c, &c->peers[r].sent);
		if (!err)
			err = check_hello(c, c->peers[r].conn, hello_at(c, 1 + r));
		if (!err && le32toh(hello_at(c, 1 + r)->rank) != r)
			err = comm_break(c, -EPROTO,
					 "%s is rank %u in its own list, and %u in this one: give "
					 "all the same list",
					 c->hosts[r], le32toh(hello_at(c, 1 + r)->rank), r);
		if (err)
			return err;
	}
	return 0;
}

static int meet(struct meeting *t)
{
	struct mroce_comm *c = t->comm;
	int err = 0;

	for (uint32_t r = 0; r < c->rank && !err; r++)
		err = connect_to(t, r);
	while (!err && absent(c) < c->size) {
		int n = comm_progress(c, RETRY_MS);

		err = n < 0 ? n : accept_one(t);
		if (!err)
			err = seat_all(t);
		if (!err && absent(c) < c->size && !remaining_ms(t))
			err = comm_fail(c, -ETIMEDOUT, "rank %u (%s) has not come within %u ms",
					absent(c), c->hosts[absent(c)], c->timeout_ms);
	}
	if (!err)
		err = await_hellos_below(t);
	if (!err)
		err = await_sent(t);
	/* Everybody is connected with everybody. */
	return err ? err : mroce_barrier(c);
}

/* ---- opening ---- */

static int listen_and_meet(struct mroce_comm *c)
{
	struct meeting t = { .comm = c, .end = coll_now_ms() + c->timeout_ms };
	int err = mroce_listen(c->m, c->service + c->rank, (int)c->size, &t.listener);

	if (err)
		return comm_fail(c, err, "service %u: %s", c->service + c->rank,
				 mroce_last_error(c->m));
	err = meet(&t);
	for (uint32_t i = 0; i < c->size; i++)
		if (t.guests[i].conn)
			mroce_conn_close(&t.guests[i].conn);
	mroce_listener_free(&t.listener);
	return err;
}

static int join(struct mroce_comm *c, const struct mroce_comm_config *config)
{
	int err = mroce_open(config->socket, &c->m);

	if (err)
		return comm_fail(c, err, "%s", mroce_last_error(NULL));
	err = mroce_alloc(c->m, (1 + 2 * (size_t)c->size) * sizeof(struct hello),
			  MROCE_ACCESS_LOCAL, &c->control);
	if (err)
		return comm_fail(c, err, "%s", mroce_last_error(c->m));
	*hello_at(c, 0) = (struct hello){ .magic = htole32(MAGIC),
					  .version = htole32(VERSION),
					  .size = htole32(c->size),
					  .rank = htole32(c->rank),
					  .seed = htole64(c->seed) };
	return listen_and_meet(c);
}

static void comm_free(struct mroce_comm *c)
{
	for (uint32_t r = 0; c->peers && r < c->size; r++)
		if (c->peers[r].conn)
			mroce_conn_close(&c->peers[r].conn);
	memory_free_all(c);
	mroce_mr_free(&c->control);
	mroce_close(&c->m);
	for (uint32_t r = 0; c->hosts && r < c->size; r++)
		free(c->hosts[r]);
	free(c->hosts);
	free(c->peers);
	free(c->messages);
	free(c->gaps);
	free(c->missing);
	free(c);
}

static int make(const struct mroce_comm_config *config, struct mroce_comm **out)
{
	struct mroce_comm *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	LIST_INIT(&c->memories);
	c->size = config->size;
	c->rank = config->rank;
	c->service = config->service ? config->service : MROCE_COMM_SERVICE;
	c->timeout_ms = config->timeout_ms ? config->timeout_ms : TIMEOUT_MS;
	c->seed = config->seed;
	c->hosts = calloc(c->size, sizeof(*c->hosts));
	c->peers = calloc(c->size, sizeof(*c->peers));
	for (uint32_t r = 0; c->hosts && c->peers && r < c->size; r++) {
		c->hosts[r] = strdup(config->hosts[r]);
		if (!c->hosts[r])
			break;
		if (r == c->size - 1) {
			*out = c;
			return 0;
		}
	}
	comm_free(c);
	return -ENOMEM;
}

static int check_config(const struct mroce_comm_config *config)
{
	if (!config->hosts || !config->size || config->size > MROCE_COMM_RANKS)
		return -EINVAL;
	if (config->rank >= config->size || config->timeout_ms > INT32_MAX)
		return -EINVAL;
	return config->service > UINT32_MAX - MROCE_COMM_RANKS ? -EINVAL : 0;
}

int mroce_comm_open(const struct mroce_comm_config *config, struct mroce_comm **out)
{
	struct mroce_comm *c;
	int err = check_config(config);

	if (err)
		snprintf(open_error,
			 sizeof(open_error), "rank %u of %u, service %u: want 1 to %d hosts and a rank below their number",
			 config->rank, config->size, config->service, MROCE_COMM_RANKS);
	else if ((err = make(config, &c)))
		snprintf(open_error, sizeof(open_error), "no memory for %u ranks", config->size);
	if (err)
		return err;
	err = join(c, config);
	if (!err) {
		*out = c;
		return 0;
	}
	memcpy(open_error, c->error, sizeof(open_error));
	comm_free(c);
	return err;
}

/* ---- closing ---- */

static bool all_left(const struct mroce_comm *c, const struct message *sent)
{
	for (uint32_t r = 0; r < c->size; r++)
		if (c->peers[r].conn && (!c->peers[r].bye.done || !sent[r].done))
			return false;
	return true;
}

/* A peer whose connection has ended has left, too. */
static void note_ended(struct mroce_comm *c, struct message *sent)
{
	for (uint32_t r = 0; r < c->size; r++)
		if (c->peers[r].conn && mroce_conn_error(c->peers[r].conn) != MROCE_OK)
			c->peers[r].bye.done = sent[r].done = true;
}

static void leave(struct mroce_comm *c)
{
	struct message sent[MROCE_COMM_RANKS];
	uint64_t end = coll_now_ms() + LEAVE_MS;

	for (uint32_t r = 0; r < c->size; r++) {
		struct peer *p = &c->peers[r];

		sent[r] = (struct message){ .comm = c, .rank = r, .cannot_fail = true };
		p->bye = (struct message){
			.comm = c, .rank = r, .receive = true, .cannot_fail = true
		};
		if (!p->conn)
			continue;
		if (mroce_post_recv(p->conn, STREAM_CONTROL, NULL, 0, 0, (uintptr_t)&p->bye))
			p->bye.done = true;
		if (mroce_post_send(p->conn, STREAM_CONTROL, NULL, 0, 0, (uintptr_t)&sent[r]))
			sent[r].done = true;
	}
	while (!c->broken && !all_left(c, sent) && coll_now_ms() < end) {
		comm_progress(c, RETRY_MS);
		note_ended(c, sent);
	}
	/* Nothing may complete into `sent` any more. */
	for (uint32_t r = 0; r < c->size; r++)
		if (c->peers[r].conn)
			mroce_conn_close(&c->peers[r].conn);
}

void mroce_comm_close(struct mroce_comm **comm)
{
	struct mroce_comm *c = *comm;

	if (!c)
		return;
	*comm = NULL;
	/* What was not awaited because an operation failed does not count any more. */
	if (!c->broken)
		leave(c);
	comm_free(c);
}
