/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abi.h: what libmroce and the `mroce` command say to mroced: a SOCK_SEQPACKET Unix socket with fixed-size
 * messages, and two rings in a memfd that the daemon makes. Both sides run on one host, so integers are
 * in host order. The daemon trusts nothing it reads from either.
 */
#ifndef COMMON_ABI_H
#define COMMON_ABI_H

#include <stdint.h>
#include "mroce/gaps.h"

#define ABI_MAGIC 0x4543724du /* "MrCE" */
#define ABI_VERSION 2
#define ABI_SOCKET_DEFAULT "/run/mroce/mroced.sock"
#define ABI_SOCKET_ENV "MROCE_SOCKET"

#define ABI_SQ_ENTRIES 4096 /* powers of two */
#define ABI_CQ_ENTRIES 8192

enum abi_type {
	ABI_HELLO = 1, /* first message of an application; answer carries 3 fds, see enum abi_hello_fd */
	ABI_MR_SHARED,	/* carries 1 fd: a memfd sealed against shrinking */
	ABI_MR_INPLACE, /* memory of the calling process, reached through its /proc/PID/mem */
	ABI_MR_FREE,
	ABI_LISTEN,
	ABI_UNLISTEN,
	ABI_CONNECT, /* answered when the set-up has ended */
	ABI_CLOSE,
	ABI_TAKEN, /* an accepted connection was handed to the application; no answer */
	ABI_SHOW,  /* no HELLO needed; answer carries 1 fd: a memfd with JSON text */
	ABI_MONITOR, /* no HELLO needed; answer carries 1 fd: SOCK_SEQPACKET, an event a message, as JSON */
	ABI_EV_ACCEPTED = 128, /* from the daemon, unasked */
	ABI_EV_ENDED,
};

/*
 * The doorbell is an eventfd that wakes the daemon. The application is woken by a pipe: the daemon's end of
 * it has its own file status flags, so no application can make the daemon's write block.
 */
enum abi_hello_fd {
	ABI_FD_RINGS,	 /* memfd of struct abi_rings */
	ABI_FD_DOORBELL, /* eventfd; write it if daemon_asleep could be cleared */
	ABI_FD_WAKE, /* read end of a pipe; a byte comes when the daemon has cleared app_asleep */
	ABI_HELLO_FDS,
};

struct abi_msg {
	uint32_t magic;
	uint16_t type;	 /* enum abi_type; the same in an answer */
	uint16_t answer; /* 0 request or event, 1 answer */
	uint32_t id; /* chosen by the asker, comes back in the answer; EV_ENDED: cq_tail at that time */
	int32_t status; /* answers: 0 or -errno; EV_ENDED: enum mroce_status */
	union {
		struct {
			uint32_t version;
			uint32_t sq_entries, cq_entries;
			uint32_t reserved;
			uint64_t ring_bytes; /* size of the memfd */
		} hello;
		struct {
			uint64_t addr; /* iova of the first byte: the application's address of it */
			uint64_t len;
			uint32_t access;
			uint32_t key; /* answer; and the request of ABI_MR_FREE */
		} mr;
		struct {
			uint8_t ip[16]; /* CONNECT: peer; EV_ACCEPTED: peer */
			uint32_t service;
			uint32_t backlog; /* LISTEN */
			uint32_t handle; /* names the connection in this context; CLOSE, TAKEN, ENDED */
			uint32_t conn_id;    /* the daemon's connection id, for messages */
			uint32_t timeout_ms; /* CONNECT: give up after; 0 = the daemon's default */
		} conn;
		struct {
			char what[32]; /* "all", "port", "conn", "path", "stream", "counters", "config" */
			uint32_t conn_id; /* 0 = all */
			uint32_t reserved;
			uint64_t bytes; /* answer: of the text */
		} show;
		char text[192]; /* size of the union; also an explanation in answers with status < 0 */
	};
};

struct abi_sqe {
	uint8_t opcode;	  /* enum mroce_opcode */
	uint8_t tolerant; /* its tolerance lies in abi_rings.tolerance[] at the same index */
	uint8_t reserved[2];
	uint32_t handle;
	uint32_t stream;
	uint32_t key;
	uint64_t id;
	uint64_t addr;
	uint64_t len;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t imm;
	uint64_t pad;
};

struct abi_cqe {
	uint64_t id;
	uint64_t length;
	uint32_t handle;
	uint32_t stream;
	uint32_t imm;
	uint8_t opcode, status, has_imm;
	uint8_t has_gaps; /* abi_rings.gaps[] at the same index says what is missing */
	uint64_t missing;
	uint64_t pad[3];
};

/*
 * The rings. Indices run freely; entry = index & (entries - 1). A producer writes the entry, then its
 * tail (release); a consumer reads the tail (acquire), the entry, then writes its head (release).
 * Sleeping: the sleeper sets its flag, full fence, looks once more, sleeps; the other side, after
 * writing its tail, full fence, reads the flag, and only if it is set exchanges it with 0 and, if the
 * exchange found it set, wakes the sleeper. So there is one wake-up for each time the flag was set.
 * The daemon consumes no SQE while completions owed + unread could exceed the completion ring; an
 * application that has made room in it while SQEs wait looks at daemon_asleep as if it had posted.
 * ring.h has the only code that does this.
 */
struct abi_rings {
	uint32_t sq_head __attribute__((aligned(64))); /* daemon */
	uint32_t daemon_asleep;			       /* daemon; doorbell eventfd wanted */
	uint32_t cq_tail __attribute__((aligned(64))); /* daemon */
	uint32_t events; /* daemon; control messages sent unasked so far */
	uint32_t sq_tail __attribute__((aligned(64))); /* application */
	uint32_t cq_head __attribute__((aligned(64))); /* application */
	uint32_t app_asleep;			       /* application; wake eventfd wanted */
	struct abi_sqe sq[ABI_SQ_ENTRIES] __attribute__((aligned(64)));
	struct abi_cqe cq[ABI_CQ_ENTRIES] __attribute__((aligned(64)));
	/* Pages of these are touched only by those who state a tolerance. */
	struct mroce_tolerance tolerance[ABI_SQ_ENTRIES] __attribute__((aligned(64)));
	struct mroce_gaps gaps[ABI_CQ_ENTRIES] __attribute__((aligned(64)));
};

_Static_assert(sizeof(struct abi_sqe) == 64, "abi layout");
_Static_assert(sizeof(struct abi_cqe) == 64, "abi layout");
_Static_assert(sizeof(struct abi_msg) == 16 + 192, "abi layout");

#endif
