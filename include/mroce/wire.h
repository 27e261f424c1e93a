/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * wire.h: every byte that mroce puts on a network. docs/protocol.md is the text to this header.
 *
 * All packets travel in UDP over IPv4 or IPv6. The UDP destination port is always the service's
 * port (MROCE_UDP_PORT unless configured), also for answers; the UDP source port is the entropy of
 * the path, so that ECMP routes and receive queues stay the same for all packets of a path.
 * All integers are in network byte order. A packet is a common header and a body:
 *
 *     | struct mroce_hdr (36) | body (hdr.body_len) |
 *
 * hdr_crc protects the common header and can be checked by the XDP program within a packet time;
 * body_crc (itself inside the protected header) protects the rest and is checked by whoever places it.
 */
#ifndef MROCE_WIRE_H
#define MROCE_WIRE_H

#include <linux/types.h>

#define MROCE_WIRE_VERSION 1
#define MROCE_UDP_PORT 4797

/* The sequence window of a path: PSNs of one path in flight, and the width of the SACK bitmap. */
#define MROCE_WINDOW 256
#define MROCE_WINDOW_WORDS (MROCE_WINDOW / 64)

/* Paths a connection may have, and ports (planes) a host may announce. */
#define MROCE_MAX_PATHS 16
#define MROCE_MAX_PORTS 8

/* Chunks of one message that may be outstanding: highest sent - lowest unacknowledged. */
#define MROCE_CHUNK_SPAN 4096
/* Messages of one stream and direction that may be outstanding, counted the same way. */
#define MROCE_MSG_SPAN 256
/* Longest message, bytes. */
#define MROCE_MSG_MAX (1ULL << 40)

enum mroce_type {
	MROCE_DATA = 1,	    /* a chunk of a message; takes a PSN */
	MROCE_POLL = 2,	    /* asks for an ACK; psn = the next PSN the path will use */
	MROCE_ACK = 3,	    /* state of a path, solicited by POLL or sent by the daemon */
	MROCE_NACK = 4,	    /* the same, sent because a gap was seen */
	MROCE_READ_REQ = 5, /* takes a PSN */
	MROCE_CREDIT = 6,   /* takes a PSN */
	MROCE_FORGIVE = 7,  /* takes a PSN; feature bit MROCE_F_TOLERANCE */
	MROCE_HELLO = 8,    /* set-up 1 of 3; cid and token are 0 */
	MROCE_ACCEPT = 9,   /* set-up 2 of 3 */
	MROCE_READY = 10,   /* set-up 3 of 3 */
	MROCE_PROBE = 11,   /* asks for PROBE_REPLY; touches no path state */
	MROCE_PROBE_REPLY = 12,
	MROCE_PORT_STATUS = 13, /* takes a PSN */
	MROCE_CLOSE = 14,	/* takes a PSN */
	MROCE_ERROR = 15,	/* takes a PSN */
	MROCE_TYPE_MAX
};

/* hdr.flags */
#define MROCE_FLAG_ACK_REQ 0x01 /* receiver's daemon: send an ACK once this packet is placed */
#define MROCE_FLAG_REPAIR 0x02	/* this letter was in an earlier envelope (for statistics only) */

struct mroce_hdr {
	__u8 version;	 /* MROCE_WIRE_VERSION */
	__u8 type;	 /* enum mroce_type */
	__u8 flags;	 /* MROCE_FLAG_* */
	__u8 path;	 /* index of the sender's path, < MROCE_MAX_PATHS */
	__be32 cid;	 /* receiver's connection id: low 16 bits its table slot, the rest random */
	__be32 token;	 /* receiver's secret for this connection */
	__be16 epoch;	 /* of the path; serial arithmetic */
	__be16 body_len; /* bytes after this header */
	__be32 psn;	 /* number of this packet on its path; serial arithmetic, never reused */
	__be32 una;	 /* below this PSN the sender waits for nothing on this path */
	__be32 ts;	 /* sender's clock when sent, in units of 1024 ns */
	__be32 body_crc; /* CRC32C of the body; 0 if body_len is 0 */
	__be32 hdr_crc;	 /* CRC32C of the 32 bytes before this field */
} __attribute__((packed, aligned(4)));

#define MROCE_HDR_LEN 36
#define MROCE_HDR_CRC_LEN 32

enum mroce_op {
	MROCE_OP_SEND = 1,
	MROCE_OP_WRITE = 2,
	MROCE_OP_WRITE_IMM = 3,
	MROCE_OP_READ_RESP = 4,
	MROCE_OP_SEND_IMM = 5,
};

/* Body of DATA, followed by the chunk's bytes. Complete in itself: it can be placed alone. */
struct mroce_data {
	__be32 stream;
	__be32 msg;	   /* message number in the stream, counts every message from 0 */
	__be32 rseq;	   /* SEND*, WRITE_IMM: number of the posted receive it takes, from 0 */
	__be32 imm;	   /* *_IMM: opaque to the transport */
	__be64 msg_len;	   /* bytes of the whole message */
	__be64 addr;	   /* WRITE*, READ_RESP: where this chunk's first byte goes */
	__be32 rkey;	   /* WRITE*, READ_RESP: the region that addr lies in */
	__be32 chunk;	   /* number of this chunk in the message, from 0 */
	__be16 chunk_size; /* bytes of every chunk of the message but the last */
	__u8 op;	   /* enum mroce_op */
	__u8 ext; /* MROCE_EXT_*: what lies between this and the chunk's bytes; 0 = nothing */
} __attribute__((packed, aligned(4)));

#define MROCE_EXT_TOLERANCE 0x01 /* struct mroce_data_tolerance; feature bit MROCE_F_TOLERANCE */

/* Ranges of a message that may be named as critical. */
#define MROCE_CRITICAL_MAX 4

struct mroce_wire_range {
	__be64 offset;
	__be64 length;
} __attribute__((packed, aligned(4)));

/* How much of the message may be missing, and when. Only the ranges used are there. */
struct mroce_data_tolerance {
	__be32 max_missing; /* of the message's bytes, parts per million */
	__be32 deadline;    /* us after the receiver saw the first chunk; 0 = none */
	__u8 flags;	    /* MROCE_TOL_* */
	__u8 ncritical;	    /* <= MROCE_CRITICAL_MAX */
	__be16 reserved;
	struct mroce_wire_range critical[];
} __attribute__((packed, aligned(4)));

#define MROCE_TOL_KEEP 0x01 /* missing bytes keep what was there; else they read as zero */
#define MROCE_TOL_FAIL 0x02 /* over the bound at the deadline: fail; else wait on */

/*
 * The receiver has ended a message without all of its bytes: its sender stops repairing. The sender must
 * not take a letter of the message for delivered because of what it hears after this was sent: the
 * receiver acknowledges none of them until FORGIVE itself is acknowledged.
 */
struct mroce_forgive {
	__be32 stream;
	__be32 msg;
	__be64 missing; /* bytes */
	__be16 status;	/* MROCE_OK or MROCE_E_LOSS */
	__be16 reserved;
	__be32 reserved2;
} __attribute__((packed, aligned(4)));

/*
 * Body of ACK and NACK. A PSN p is *placed* if p < base, or p - base < 256 and its bit in placed[]
 * is set. It is *seen* if it is placed, or p <= highest and its bit in seen[] is set. The bit of p
 * is bit p % 64 of word (p / 64) % 4. Only "placed" is a promise; "seen" finds loss.
 */
struct mroce_ack {
	__be32 base;	 /* below this every PSN is placed or was given up by the sender's una */
	__be32 highest;	 /* highest PSN seen, or POLL's psn - 1 if that is higher */
	__be32 rx_bytes; /* bytes of UDP payload received on the path, modulo 2^32 */
	__be32 ce_bytes; /* of these, bytes that arrived with CE */
	__be32 echo_ts;	 /* ts of the packet that caused this ACK */
	__be32 echo_psn; /* psn of the packet that caused this ACK */
	__be16 late; /* packets that came twice or after the sender had given them up, mod 2^16 */
	__be16 hint; /* receiver's rate hint, 0 = none; see docs/protocol.md */
	__be32 reserved;
	__be64 seen[MROCE_WINDOW_WORDS];
	__be64 placed[MROCE_WINDOW_WORDS];
} __attribute__((packed, aligned(4)));

/*
 * POLL is padded with zeros to the length of its answer: a packet filter that turns it round in
 * place cannot always lengthen a frame, and an answer is never longer than its question.
 */
#define MROCE_POLL_BODY sizeof(struct mroce_ack)

struct mroce_read_req {
	__be32 stream;
	__be32 msg;	   /* the requester's message number; READ_RESP chunks carry it back */
	__be64 len;	   /* bytes to read */
	__be64 addr;	   /* of the data, in the responder's region rkey */
	__be64 reply_addr; /* where the bytes go, in the requester's region reply_rkey */
	__be32 rkey;
	__be32 reply_rkey;
} __attribute__((packed, aligned(4)));

struct mroce_credit {
	__be32 stream;
	__be32 posted; /* receives posted on the stream so far, serial; only ever grows */
} __attribute__((packed, aligned(4)));

/*
 * A message failed. From its receiver, code = REMOTE_ACCESS or LENGTH: its sender stops sending it. From
 * its sender, code = LOCAL_ACCESS: it will not be sent to its end, its receiver counts it as ended.
 * Message numbers are always those of the side that requested the message (for READ_RESP the reader's).
 */
struct mroce_error {
	__be32 stream;
	__be32 msg;
	__be16 code; /* enum mroce_status of mroce.h */
	__u8 op;     /* LOCAL_ACCESS: enum mroce_op of the message, 0 for a read; else 0 */
	__u8 reserved;
	__be32 rseq; /* LOCAL_ACCESS and op SEND*, WRITE_IMM: the posted receive it had taken */
} __attribute__((packed, aligned(4)));

struct mroce_close {
	__be32 code; /* enum mroce_close_code */
} __attribute__((packed, aligned(4)));

enum mroce_close_code {
	MROCE_CLOSE_NORMAL = 0,	  /* the application closed the connection */
	MROCE_CLOSE_APP_DIED = 1, /* the application went away without closing */
	MROCE_CLOSE_SHUTDOWN = 2, /* the daemon is stopping */
	MROCE_CLOSE_PROTOCOL = 3, /* the peer broke the protocol */
};

#define MROCE_COOKIE_LEN 16
#define MROCE_MAC_LEN 32

/* An address: IPv6, or IPv4 as ::ffff:a.b.c.d. */
struct mroce_wire_port {
	__u8 addr[16];
	__be16 mtu;    /* of the interface, bytes of IP packet */
	__be16 serial; /* grows with each change of the port; older news are ignored */
	__be32 speed;  /* Mbit/s, 0 = unknown */
} __attribute__((packed, aligned(4)));

/* A port of the sender has changed, or nothing has and the peer is to look. */
struct mroce_port_status {
	__u8 port; /* index in the sender's HELLO or ACCEPT */
	__u8 up;   /* 0 or 1 */
	__be16 reserved;
	struct mroce_wire_port now;
} __attribute__((packed, aligned(4)));

/*
 * Body of HELLO, ACCEPT and READY. In READY only the nonces count. An ACCEPT that refuses, or asks for a
 * cookie, ends before port[]: an answer to who may not be there is shorter than its question.
 */
struct mroce_hello {
	__u8 version_min; /* wire versions spoken */
	__u8 version_max;
	__be16 status;	 /* ACCEPT: enum mroce_accept_status */
	__be32 features; /* MROCE_F_* offered (HELLO) or agreed (ACCEPT) */
	__be32 service;	 /* what the initiator wants to reach */
	__be32 cid;	 /* to be put into packets to the sender of this body */
	__be32 token;
	__be32 first_psn;  /* of every path of the sender of this body */
	__be64 nonce;	   /* initiator's: names the attempt, so that repeats are recognised */
	__be64 peer_nonce; /* responder's; 0 in HELLO */
	__be16 chunk; /* largest chunk its sender takes, bytes of payload after struct mroce_data */
	__u8 paths;   /* paths its sender will use */
	__u8 ports;   /* entries used in port[] */
	__be32 streams;		       /* streams its sender keeps state for */
	__u8 to[16];		       /* HELLO: the address its sender wants to reach */
	__u8 cookie[MROCE_COOKIE_LEN]; /* ACCEPT with status COOKIE: to be put into the next HELLO */
	__u8 mac[MROCE_MAC_LEN]; /* with MROCE_F_AUTH: see docs/protocol.md, "Security"; else 0 */
	struct mroce_wire_port port[MROCE_MAX_PORTS];
} __attribute__((packed, aligned(4)));

/* Bytes of an ACCEPT that refuses. */
#define MROCE_HELLO_SHORT 112

enum mroce_accept_status {
	MROCE_ACCEPT_OK = 0,
	MROCE_ACCEPT_NO_SERVICE = 1, /* nobody listens */
	MROCE_ACCEPT_VERSION = 2,    /* version_min..version_max tells what is spoken */
	MROCE_ACCEPT_BUSY = 3,	     /* backlog or connection table full */
	MROCE_ACCEPT_COOKIE = 4, /* show that you receive there: HELLO again, with this cookie */
	MROCE_ACCEPT_KEY = 5,	 /* the two do not have the same pre-shared key */
};

#define MROCE_F_TOLERANCE 0x1 /* stated loss tolerance (FORGIVE) */
#define MROCE_F_HINT 0x2      /* rate hints in ACKs */
#define MROCE_F_AUTH 0x4 /* mac[] is there: its sender has a pre-shared key, and asks for one */

_Static_assert(sizeof(struct mroce_hdr) == MROCE_HDR_LEN, "wire layout");
_Static_assert(__builtin_offsetof(struct mroce_hdr, hdr_crc) == MROCE_HDR_CRC_LEN, "wire layout");
_Static_assert(__builtin_offsetof(struct mroce_hdr, psn) == 16, "wire layout");
_Static_assert(sizeof(struct mroce_data) == 44, "wire layout");
_Static_assert(sizeof(struct mroce_data_tolerance) == 12, "wire layout");
_Static_assert(sizeof(struct mroce_forgive) == 24, "wire layout");
_Static_assert(sizeof(struct mroce_ack) == 96, "wire layout");
_Static_assert(__builtin_offsetof(struct mroce_ack, seen) == 32, "wire layout");
_Static_assert(sizeof(struct mroce_read_req) == 40, "wire layout");
_Static_assert(sizeof(struct mroce_credit) == 8, "wire layout");
_Static_assert(sizeof(struct mroce_error) == 16, "wire layout");
_Static_assert(sizeof(struct mroce_wire_port) == 24, "wire layout");
_Static_assert(sizeof(struct mroce_port_status) == 28, "wire layout");
_Static_assert(sizeof(struct mroce_hello) == MROCE_HELLO_SHORT + 24 * MROCE_MAX_PORTS,
	       "wire layout");
_Static_assert(__builtin_offsetof(struct mroce_hello, port) == MROCE_HELLO_SHORT, "wire layout");

#endif
