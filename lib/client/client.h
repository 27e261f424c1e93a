/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.h: inside libmroce. One thread at a time uses a context, so there are no locks, and the library
 * starts no threads.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "mroce.h"
#include "common/abi.h"
#include "common/ctl.h"
#include "common/iptext.h"

/* Requests that can be on their way: all entries of both rings. */
#define CLIENT_REQUESTS (ABI_SQ_ENTRIES + ABI_CQ_ENTRIES)
#define CLIENT_STREAMS 1024
/* The daemon answers at once; after so long it counts as stuck. */
#define CLIENT_ANSWER_MS 5000

/* A posted request. Its number travels as abi_sqe.id, so that a lost daemon leaves nothing unknown. */
struct request {
	uint64_t id;
	struct mroce_conn *conn; /* NULL: the connection was closed, drop the completion */
	uint32_t stream;
	uint8_t opcode;
	TAILQ_ENTRY(request)
	link; /* in conn->requests in order of posting, or in m->free_requests */
};

TAILQ_HEAD(request_list, request);
TAILQ_HEAD(conn_list, mroce_conn);

struct mroce_conn {
	struct mroce *m;
	struct mroce_listener *listener; /* accepted by it and not yet taken by the application */
	void *data;
	uint32_t handle; /* the daemon's name of it in this context */
	uint32_t id;
	uint32_t end_at; /* cq_head from which on the end is visible */
	enum mroce_status ended;
	char peer[IPTEXT_MAX];
	struct request_list requests;
	struct mroce_tolerance **tolerance; /* by stream, NULL: none; NULL while no stream has one */
	TAILQ_ENTRY(mroce_conn) link;	    /* in m->conns */
	TAILQ_ENTRY(mroce_conn) queued;	    /* in listener->waiting */
};

struct mroce_listener {
	struct mroce *m;
	uint32_t service;
	struct conn_list waiting;
	TAILQ_ENTRY(mroce_listener) link;
};

struct mroce_mr {
	struct mroce *m;
	uint8_t *addr;
	size_t size;
	size_t mapped; /* bytes to unmap; 0: the application's own memory */
	uint32_t key;
	TAILQ_ENTRY(mroce_mr) link;
};

/* The answer that a call is waiting for. */
struct pending {
	uint32_t id;
	bool done;
	struct abi_msg msg;
	int fds[CTL_MAX_FDS];
};

struct mroce {
	int sock, doorbell, wake;
	int event; /* epoll over sock and wake: mroce_fd() */
	struct abi_rings *rings;
	size_t ring_bytes;
	uint32_t sq_tail, cq_head; /* ours; the shared copies are only written */
	uint32_t events_seen;
	uint32_t next_id;
	uint32_t idle_polls;
	uint64_t spin_ns;  /* at most, before sleeping */
	uint64_t spin_now; /* as far as spinning has paid lately */
	bool armed;	   /* app_asleep may be set */
	bool wake_due;	   /* the pipe has, or will have, a byte */
	bool gone;	   /* the daemon */
	struct pending *pending;
	struct request *requests;
	struct request_list free_requests;
	struct conn_list conns;
	/* What is missing in the completions taken last; keys run on from one poll to the next. */
	struct mroce_gaps *gaps;
	uint32_t ngaps, gaps_room, gaps_first;
	TAILQ_HEAD(listener_list, mroce_listener) listeners;
	TAILQ_HEAD(mr_list, mroce_mr) mrs;
	char error[320];
};

/* context.c: keeps the text for mroce_last_error() and returns err. m may be NULL. */
int client_fail(struct mroce *m, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
uint64_t client_now_ns(void);
/* Milliseconds left until `deadline` (ns), rounded up; -1 for UINT64_MAX. */
int client_ms_left(uint64_t deadline);
uint64_t client_deadline(int timeout_ms);

/* call.c: control messages. */
/*
 * Asks the daemon and waits for its answer, which replaces *msg; descriptors in it go to fds unless
 * that is NULL. Returns the answer's status; explains a failure.
 */
int client_call(struct mroce *m, struct abi_msg *msg, int send_fd, int *fds, uint64_t deadline);
/* Says something that needs no answer. */
void client_tell(struct mroce *m, struct abi_msg *msg);
/* Takes in everything that has come without being asked for. */
void client_events(struct mroce *m);
struct abi_msg client_msg(enum abi_type type);

/* conn.c: what events mean for connections. */
struct mroce_conn *client_conn_new(struct mroce *m, const struct abi_msg *msg);
void client_conn_accepted(struct mroce *m, const struct abi_msg *msg);
void client_conn_ended(struct mroce *m, const struct abi_msg *msg);
void client_conn_free(struct mroce_conn *c);
void client_daemon_gone(struct mroce *m);

/* tolerance.c */
/* The stream's default; NULL: none. */
const struct mroce_tolerance *client_tolerance(const struct mroce_conn *c, uint32_t stream);
void client_tolerance_free(struct mroce_conn *c);
/* The completions taken before are forgotten. */
void client_gaps_forget(struct mroce *m);
void client_gaps_keep(struct mroce *m, const struct mroce_gaps *gaps, struct mroce_completion *out);

/* wait.c */
/* Prepares for sleeping on mroce_fd(). True: completions or events are there, do not sleep. */
bool client_arm(struct mroce *m);
void client_disarm(struct mroce *m);

#endif
