/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mroce.h: the interface of libmroce.
 *
 * A *context* (struct mroce) is an application's link to the local daemon: one submission and one
 * completion queue in shared memory. A *region* is memory that messages are sent from and placed
 * into. A *connection* joins two applications on two hosts; it carries any number of ordered,
 * independent *streams*, named by small numbers that both sides agree on. Messages are posted to a
 * stream and end as *completions* in the context's queue.
 *
 * Threads: a context and everything made from it belong to one thread at a time; different contexts may
 * be used by different threads at once. mroce_strerror() and mroce_status_text() may be called from
 * anywhere.
 *
 * Errors: functions return 0 (or a count) or -errno, and leave out-parameters untouched on failure;
 * mroce_last_error() tells in words what happened. Destroying functions take a pointer to the pointer,
 * set it to NULL and accept NULL.
 */
#ifndef MROCE_H
#define MROCE_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mroce;
struct mroce_mr;
struct mroce_conn;
struct mroce_listener;

/* How a request ended. Also the code in ERROR packets: numbers never change. */
enum mroce_status {
	MROCE_OK = 0,
	MROCE_E_FLUSHED = 1,	   /* not done: the connection or stream was closed before */
	MROCE_E_REMOTE_ACCESS = 2, /* peer's region, bounds or permission do not allow it */
	MROCE_E_LOCAL_ACCESS = 3,  /* own region, bounds or permission do not allow it */
	MROCE_E_LENGTH = 4,	   /* message longer than the receive it met (told to both sides) */
	MROCE_E_PEER_GONE = 5,	   /* peer closed, died or cannot be reached on any path */
	MROCE_E_PROTOCOL = 6,	   /* peer broke the protocol */
	MROCE_E_DAEMON = 7,	   /* the local daemon is gone */
	MROCE_E_LOSS = 8, /* at its deadline more was missing than was tolerated (told to both sides) */
};

enum mroce_opcode {
	MROCE_WR_SEND = 1,
	MROCE_WR_SEND_IMM = 2,
	MROCE_WR_WRITE = 3,
	MROCE_WR_WRITE_IMM = 4,
	MROCE_WR_READ = 5,
	MROCE_WR_RECV = 6,
	MROCE_WR_RECV_IMM = 7, /* completion only: a receive that was taken by a WRITE_IMM */
};

/* What the peer may do with a region. Local use is always allowed. */
enum mroce_access {
	MROCE_ACCESS_LOCAL = 0,
	MROCE_ACCESS_REMOTE_WRITE = 1,
	MROCE_ACCESS_REMOTE_READ = 2,
};

/* One ended request. */
struct mroce_completion {
	uint64_t id;	 /* as given when posting */
	uint64_t length; /* bytes delivered: of the message, without those that are missing */
	struct mroce_conn *conn;
	void *conn_data; /* mroce_conn_set_data() */
	uint32_t stream;
	uint32_t imm;	/* valid if has_imm */
	uint8_t opcode; /* enum mroce_opcode */
	uint8_t status; /* enum mroce_status */
	bool has_imm;
	/* Stated loss tolerance only; 0 in all other completions. The message has length + missing bytes. */
	uint64_t missing;	 /* bytes that did not arrive; the sender hears the number only */
	uint32_t missing_ranges; /* receives: how many ranges they make up, see mroce_missing() */
	uint32_t missing_key;	 /* the library's */
};

/* ---- stated loss tolerance; docs/loss-tolerance.md says when to use it ---- */

struct mroce_range {
	uint64_t offset, length; /* bytes of the message */
};

/* Ranges that a message may name as critical. */
#define MROCE_CRITICAL 4

/* What missing bytes read as when a message has been forgiven. */
enum mroce_fill {
	MROCE_FILL_ZERO = 0,
	MROCE_FILL_KEEP = 1, /* what the memory held before */
};

/* What happens if more than max_missing is missing at the deadline. */
enum mroce_over {
	MROCE_OVER_WAIT = 0, /* repair goes on until it is within the bound */
	MROCE_OVER_FAIL = 1, /* the message ends with MROCE_E_LOSS at both sides */
};

/*
 * How much of a message may be missing, and by when it is wanted. Its receiver ends the message as soon as
 * everything is here; or the rest is within the bound, was sent and lost, and its repair is not yet
 * here; or at the deadline. The first chunk that arrives starts the clock, which the receiver keeps.
 * Critical ranges arrive in any case; a chunk that touches one counts as critical as a whole.
 * max_missing 0 without a deadline that fails is full reliability.
 */
struct mroce_tolerance {
	uint32_t max_missing; /* parts per million of its bytes, 0 .. 1000000 */
	uint32_t deadline_us; /* 0: none */
	uint8_t fill;	      /* enum mroce_fill */
	uint8_t over;	      /* enum mroce_over */
	uint8_t ncritical;    /* 0 .. MROCE_CRITICAL */
	uint8_t reserved;
	uint32_t reserved2;
	struct mroce_range critical[MROCE_CRITICAL];
};

/* ---- context ---- */

/*
 * Connects to the daemon. `socket` is the path of its control socket, NULL for $MROCE_SOCKET or
 * /run/mroce/mroced.sock. -ENOENT, -ECONNREFUSED: no daemon; -EACCES; -EPROTO: other version.
 */
int mroce_open(const char *socket, struct mroce **out);
/* Ends all connections (peers see MROCE_E_PEER_GONE) and releases all regions. */
void mroce_close(struct mroce **m);
/* A descriptor that is readable when mroce_poll() or mroce_accept() may have something. Arm first. */
int mroce_fd(const struct mroce *m);
/* Asks for mroce_fd() to become readable at the next completion or event. 1: there is something
 * already, do not sleep. 0: armed. */
int mroce_arm(struct mroce *m);
const char *mroce_last_error(const struct mroce *m);
const char *mroce_status_text(enum mroce_status status);

/* ---- memory ---- */

/* Allocates `size` bytes (> 0) shared with the daemon: one copy less than mroce_reg(). Zeroed. */
int mroce_alloc(struct mroce *m, size_t size, int access, struct mroce_mr **out);
/*
 * Registers memory where it is. It must stay mapped until mroce_mr_free() returns. -EPERM: of a process that
 * has changed its user since it was started, or is not dumpable, only mroce_alloc() memory can be used.
 */
int mroce_reg(struct mroce *m, void *addr, size_t size, int access, struct mroce_mr **out);
/* Requests that use the region end with MROCE_E_LOCAL_ACCESS; afterwards nothing touches it. */
void mroce_mr_free(struct mroce_mr **mr);
void *mroce_mr_addr(const struct mroce_mr *mr);
size_t mroce_mr_size(const struct mroce_mr *mr);
/* What the peer needs to reach the region: mroce_mr_addr() as a number, and this. */
uint32_t mroce_mr_rkey(const struct mroce_mr *mr);

/* ---- connections ---- */

/* Waits for connections to `service` (1 .. 2^32-1, unique on the host). backlog: 1 .. 1024. */
int mroce_listen(struct mroce *m, uint32_t service, int backlog, struct mroce_listener **out);
void mroce_listener_free(struct mroce_listener **l);
/* timeout_ms: -1 without limit, 0 look only (-EAGAIN). -ETIMEDOUT. */
int mroce_accept(struct mroce_listener *l, int timeout_ms, struct mroce_conn **out);
/*
 * `host`: name or address. -EHOSTUNREACH, -ECONNREFUSED (nobody listens), -EBUSY (peer full),
 * -EPROTONOSUPPORT (no common version), -EKEYREJECTED (not the same pre-shared key), -ETIMEDOUT.
 */
int mroce_connect(struct mroce *m, const char *host, uint32_t service, int timeout_ms,
		  struct mroce_conn **out);
/*
 * Ends the connection at once: what was posted and not completed ends with MROCE_E_FLUSHED, its
 * completions are dropped, the peer is told. To end in order, wait for your completions first, and let the
 * side that sent last close: what the peer has sent and we have received may not have completed there yet.
 */
void mroce_conn_close(struct mroce_conn **conn);
void mroce_conn_set_data(struct mroce_conn *conn, void *data);
void *mroce_conn_data(const struct mroce_conn *conn);
/* 0 while it works, else the status that ended it. */
enum mroce_status mroce_conn_error(const struct mroce_conn *conn);
/* The peer's address in text, for messages. Valid as long as the connection. */
const char *mroce_conn_peer(const struct mroce_conn *conn);
/* The daemon's name of the connection, as shown by `mroce show conn`. */
uint32_t mroce_conn_id(const struct mroce_conn *conn);

/* ---- requests ---- */

/*
 * Posting never waits. -EAGAIN: the queue is full, poll completions first. -ENOTCONN: the
 * connection has ended. -EINVAL: the range is not in the region. Memory belongs to the transport
 * until the completion. `id` comes back in it. len may be 0 (mr may then be NULL).
 * Stream numbers are 0 .. 1023; a stream exists on both sides from its first use.
 */
int mroce_post_send(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t id);
int mroce_post_send_imm(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			size_t offset, size_t len, uint32_t imm, uint64_t id);
int mroce_post_recv(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t id);
int mroce_post_write(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		     size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey, uint64_t id);
int mroce_post_write_imm(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			 size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey,
			 uint32_t imm, uint64_t id);
int mroce_post_read(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
		    size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey, uint64_t id);

/*
 * The same with a tolerance of its own; NULL: fully reliable, whatever the stream's default is. -EINVAL: a
 * field is out of range. Without effect, that is fully reliable, if the peer does not know tolerance.
 */
int mroce_post_send_tolerant(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			     size_t offset, size_t len, const struct mroce_tolerance *tol,
			     uint64_t id);
int mroce_post_send_imm_tolerant(struct mroce_conn *conn, uint32_t stream,
				 const struct mroce_mr *mr, size_t offset, size_t len, uint32_t imm,
				 const struct mroce_tolerance *tol, uint64_t id);
/* Of a plain write the receiver has no completion: nobody learns which bytes are missing, only how many. */
int mroce_post_write_tolerant(struct mroce_conn *conn, uint32_t stream, const struct mroce_mr *mr,
			      size_t offset, size_t len, uint64_t remote_addr, uint32_t rkey,
			      const struct mroce_tolerance *tol, uint64_t id);
int mroce_post_write_imm_tolerant(struct mroce_conn *conn, uint32_t stream,
				  const struct mroce_mr *mr, size_t offset, size_t len,
				  uint64_t remote_addr, uint32_t rkey, uint32_t imm,
				  const struct mroce_tolerance *tol, uint64_t id);
/* For all sends and writes posted to the stream from now on by the functions without a tolerance; NULL: none.
 * -EINVAL, -ENOMEM. */
int mroce_stream_tolerance(struct mroce_conn *conn, uint32_t stream,
			   const struct mroce_tolerance *tol);
/*
 * The ranges that are missing in what `c` received, in order, exact to the byte: writes up to n of
 * them, returns how many there are. Ask before the next mroce_poll() or mroce_wait() of the context:
 * afterwards -ESTALE.
 */
int mroce_missing(struct mroce *m, const struct mroce_completion *c, struct mroce_range *out, int n);

/*
 * A deadline that follows the stream: a percentile of the last completion times, with head-room. Note each
 * completion time (at the sender: from posting to completion), ask for the deadline before posting.
 */
struct mroce_deadline;
/* percentile: 1 .. 100; headroom: percent added to it, 0 .. 1000; the result stays in [min_us, max_us].
 * -EINVAL, -ENOMEM. */
int mroce_deadline_new(uint32_t percentile, uint32_t headroom, uint32_t min_us, uint32_t max_us,
		       struct mroce_deadline **out);
void mroce_deadline_free(struct mroce_deadline **d);
void mroce_deadline_note(struct mroce_deadline *d, uint64_t took_us);
/* max_us until eight times were noted. */
uint32_t mroce_deadline_us(const struct mroce_deadline *d);

/* Takes up to n completions; never waits. Returns how many, or -errno (-ENOTCONN: daemon gone). */
int mroce_poll(struct mroce *m, struct mroce_completion *out, int n);
/* The same, but waits for at least one: spins briefly, then sleeps. -ETIMEDOUT, -EINTR. */
int mroce_wait(struct mroce *m, struct mroce_completion *out, int n, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
