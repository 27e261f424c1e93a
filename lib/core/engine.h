/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h: the protocol engine. No I/O, no clock, no threads, no allocation per packet: packets, time
 * and requests come in as arguments; packets leave through port_ops, completions and events
 * through engine_ops. The daemon, the unit tests and the simulator run the same object code.
 *
 * Time is in nanoseconds of any clock that never goes back. One thread at a time per engine.
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mroce.h"
#include "mroce/wire.h"
#include "mroce/drop_reasons.h"
#include "histogram.h"
#include "port.h"

struct engine;
struct conn;
struct stream;
struct cc_ops;
struct mroce_gaps;

#define ENGINE_KEY_LEN 32

struct engine_config {
	uint32_t max_conns; /* 1 .. MROCE_MAX_CONNS; default MROCE_MAX_CONNS */
	uint32_t paths;	    /* per connection, 1 .. MROCE_MAX_PATHS; default 8 */
	uint32_t streams;   /* per connection; default 1024 */
	uint32_t chunk_max; /* bytes of payload per chunk, 0: as ports allow */
	uint32_t letters;   /* chunks in flight in the whole engine; default 65536 */
	uint32_t messages;  /* message records in the whole engine, each direction; default 65536 */
	uint32_t tries;	    /* silent tries of every path before a connection fails; default 8 */
	uint64_t silence_ns;   /* and at least this long without a sign of life; default 2 s */
	uint64_t handshake_ns; /* give up a set-up after; default 5 s */
	uint64_t keepalive_ns; /* POLL an idle connection so often; default 1 s */
	uint64_t rto_min_ns;   /* default 1 ms */
	uint64_t pto_min_ns;   /* default 50 us */
	uint64_t stall_ns;     /* report a message without progress for; default 3 s */
	uint32_t first_psn;    /* of every path; 0 is fine, tests start near the wrap */
	uint32_t first_msg;    /* tests only: both sides must agree */
	/* Set-ups half open (answered, not confirmed) from which on peers must first return a cookie.
	 * 0: always. Default 64. */
	uint32_t cookies_above;
	bool authenticated; /* peers must have the same psk */
	uint8_t psk[ENGINE_KEY_LEN];
	uint8_t seed_more[24];	 /* the rest of a key of which seed is the beginning */
	uint64_t seed;		 /* for ids, tokens, keys, source ports: random in production */
	bool no_tolerance;	 /* do not offer stated loss tolerance */
	const struct cc_ops *cc; /* congestion control; default cc_ecn */
	bool no_hints;		 /* do without rate hints: experiments and tests */
};

void engine_config_default(struct engine_config *cfg);

/* ---- regions ---- */

/* How bytes get into and out of a region's memory. offset and len were checked by the engine. */
struct region_ops {
	/*
	 * All three: -errno if the memory is gone; -EOWNERDEAD if it went with its application, which ends the
	 * connection, so that the peer hears of the death and not of one failing request after the other.
	 */
	int (*read)(void *priv, uint64_t offset, void *dst, uint32_t len);
	/* May be deferred until flush(); src stays valid until then. */
	int (*write)(void *priv, uint64_t offset, const void *src, uint32_t len);
	int (*flush)(void *priv);
	/* A new request uses the region: forget what was read ahead. May be NULL. */
	void (*fresh)(void *priv);
	/* The engine has no reference left. May be NULL. */
	void (*release)(void *priv);
};

struct region_params {
	void *owner;   /* only connections with this owner may use it */
	uint64_t iova; /* address of the first byte as peers name it */
	uint64_t len;
	uint32_t access;	      /* enum mroce_access */
	void *base;		      /* plain memory: engine copies itself; NULL: use ops */
	const struct region_ops *ops; /* needed if base is NULL; release may be given in both cases */
	void *priv;
};

/* *key names the region locally and is its rkey: random, not zero. 0, -ENOSPC, -EINVAL. */
int engine_region_add(struct engine *e, const struct region_params *p, uint32_t *key);
/* Local requests using it fail with MROCE_E_LOCAL_ACCESS, packets naming it are refused from now on. */
int engine_region_remove(struct engine *e, void *owner, uint32_t key);

/* ---- requests, completions, events ---- */

struct work_request {
	uint64_t id;
	uint8_t opcode; /* enum mroce_opcode */
	uint32_t stream;
	uint32_t key;  /* local region; ignored if len == 0 */
	uint64_t addr; /* local address (iova) */
	uint64_t len;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t imm;
	const struct mroce_tolerance *tolerance; /* SEND*, WRITE*; NULL: fully reliable */
};

struct engine_completion {
	uint64_t id;
	uint64_t length;
	uint32_t stream;
	uint32_t imm;
	uint8_t opcode; /* enum mroce_opcode */
	uint8_t status; /* enum mroce_status */
	bool has_imm;
	uint64_t missing;	       /* bytes that did not arrive */
	const struct mroce_gaps *gaps; /* which, if a receive misses any; valid during the call */
};

enum conn_event {
	CONN_EVENT_CONNECTED, /* connect succeeded */
	CONN_EVENT_REFUSED,   /* connect failed; code = errno (positive); EKEYREJECTED: other key */
	CONN_EVENT_ACCEPTED,  /* a peer connected to a service; owner = listener's owner */
	CONN_EVENT_ENDED,     /* code = enum mroce_status; all completions came before it */
};

/* What happens to connections, paths and ports: what `mroce monitor` tells. note.c has the names. */
enum note_kind {
	NOTE_CONN_UP,
	NOTE_CONN_DOWN,
	NOTE_PATH_DEAD,
	NOTE_PATH_BACK,
	NOTE_PATH_MOVED,
	NOTE_PORT_UP,
	NOTE_PORT_DOWN,
	NOTE_STALL,
	NOTE_KINDS
};

struct engine_note {
	enum note_kind kind;
	uint32_t conn_id; /* 0: none in particular, as in those about ports */
	uint32_t service;
	struct ip peer;
	int path;		 /* -1: none */
	const struct port *port; /* NULL: none */
	uint8_t reason;		 /* enum path_reason */
	uint32_t stream, msg;	 /* NOTE_STALL */
};

/* "path_dead" */
const char *note_name(enum note_kind kind);

/*
 * Called by the engine from within engine_* calls. May not call back into the engine except
 * engine_conn_set_cookie() and the getters.
 */
struct engine_ops {
	void (*complete)(void *ctx, struct conn *conn, const struct engine_completion *c);
	/* After REFUSED and ENDED the conn stays allocated until engine_conn_free(). */
	void (*event)(void *ctx, struct conn *conn, enum conn_event ev, int code);
	/* Something that an administrator should read: stall, dead path, path back ... One line. */
	void (*log)(void *ctx, int level, const char *line); /* level as in syslog */
	/* The same of what has a kind; NULL: such lines go to log() unless they are LOG_DEBUG. */
	void (*note)(void *ctx, int level, const struct engine_note *n, const char *line);
};

/* ---- life ---- */

/* NULL only if memory is short. ops and ctx must outlive the engine. */
struct engine *engine_new(const struct engine_config *cfg, const struct engine_ops *ops, void *ctx);
void engine_free(struct engine **e);
/* port must outlive the engine. 0, -ENOSPC (MROCE_MAX_PORTS). */
int engine_port_add(struct engine *e, struct port *port);
/* Link went up or down, or mtu/addr changed: paths of the port are left at once or probed again. */
void engine_port_changed(struct engine *e, struct port *port, uint64_t now);

/* ---- datapath ---- */

struct rx_info {
	struct ip remote;
	uint16_t sport;
	uint16_t queue;
	bool tracked; /* the tracker (XDP or twin) has passed this packet */
};

/* One UDP payload that passed the tracker. Any bytes, any length: never crashes, counts reasons. */
void engine_rx(struct engine *e, struct port *port, const void *payload, uint32_t len,
	       const struct rx_info *info, uint64_t now);
/* End of a batch, before its buffers are reused: flushes deferred writes, acknowledges, completes. */
void engine_rx_flush(struct engine *e, uint64_t now);
/* Timers and transmission, bounded by about `budget` packets. Returns packets sent. */
uint32_t engine_run(struct engine *e, uint64_t now, uint32_t budget);
/* When engine_run() must run again at the latest; UINT64_MAX: not before something comes in; now or
 * less: there is work. */
uint64_t engine_deadline(const struct engine *e, uint64_t now);

/* ---- connections ---- */

int engine_listen(struct engine *e, uint32_t service, void *owner, uint32_t backlog);
void engine_unlisten(struct engine *e, uint32_t service);
/* Result arrives as an event. -ENOSPC, -EHOSTUNREACH (no port reaches it). */
int engine_connect(struct engine *e, const struct ip *remote, uint32_t service, void *owner,
		   void *cookie, uint64_t now, struct conn **out);
/* An accepted connection counts against its listener's backlog until this call. */
void engine_conn_taken(struct conn *conn);
/* Ends a connection: outstanding requests complete FLUSHED, the peer is told (CLOSE, repeated a few times
 * in the background), and ENDED is *not* reported. The conn pointer is gone after engine_conn_free(). */
void engine_conn_close(struct conn *conn, enum mroce_close_code code, uint64_t now);
/* Gives up the caller's pointer; state is kept inside until CLOSE was delivered or timed out. */
void engine_conn_free(struct conn **conn);
void engine_conn_set_cookie(struct conn *conn, void *cookie);
void *engine_conn_cookie(const struct conn *conn);
void *engine_conn_owner(const struct conn *conn);
uint32_t engine_conn_id(const struct conn *conn);
const struct ip *engine_conn_peer(const struct conn *conn);
/*
 * 0, -EAGAIN (no record free), -ENOTCONN, -EINVAL (stream, opcode), -EACCES never: a bad local range
 * completes with MROCE_E_LOCAL_ACCESS. Every accepted request completes exactly once.
 */
int engine_post(struct conn *conn, const struct work_request *wr, uint64_t now);

/* ---- looking inside: for `mroce show`, tests and the simulator ---- */

enum path_state { PATH_UP, PATH_DEAD /* probing */, PATH_LEAVING /* about to change its route */ };

/* Why a path is dead, leaving, passed over by the spray, or was moved last. */
enum path_reason {
	PATH_FINE,
	PATH_NO_ANSWER,
	PATH_PORT_DOWN,
	PATH_PEER_PORT_DOWN,
	PATH_PEER_MOVED,
	PATH_NO_ROUTE,
	PATH_LOSS,
	PATH_DELAY,
	PATH_CE,
};

/* A few words; "" for PATH_FINE. */
const char *path_reason_text(uint8_t reason);

struct path_stats {
	struct ip remote;
	uint8_t port, state; /* enum path_state */
	uint8_t reason;	     /* enum path_reason */
	bool steered;	     /* the spray passes it over just now */
	uint64_t moves;	     /* to another route, without having been dead */
	uint16_t sport, epoch;
	uint32_t next, una, in_flight, cwnd;
	uint64_t srtt_ns, rttvar_ns, min_rtt_ns;
	uint64_t tx_packets, tx_bytes, repairs, spurious, rtos, ptos, acks, nacks, ce_bytes, deaths;
	uint32_t payload, mtu; /* that pass: of UDP, of IP */
	/* what we receive from the peer's path of the same number */
	uint32_t rx_packets, rx_late, rx_duplicate, rx_gaps, rx_ahead, rx_missed, reorder_tolerance;
};

/* Received messages that came with a tolerance. */
struct tolerance_stats {
	uint64_t complete; /* everything arrived */
	uint64_t forgiven; /* ended within the bound */
	uint64_t over;	   /* failed at the deadline */
	uint64_t missing;  /* bytes of all that ended without them */
};

struct conn_stats {
	uint32_t id, peer_id, service, npaths, streams, state;
	uint64_t tx_bytes, rx_bytes; /* payload of messages, each byte once */
	uint64_t tx_msgs, rx_msgs;
	uint64_t repairs, spurious, dup_letters;
	uint32_t queued_requests; /* posted and not completed */
	uint64_t last_heard_ns;	  /* age */
	struct tolerance_stats tolerance;
	uint32_t chunk;	 /* of new messages */
	uint32_t memory; /* bytes that it holds now, its share of the maps included */
};

struct stream_stats {
	uint32_t stream, tx_queued, tx_next_msg, tx_done_msg, rx_next_msg, recv_posted, recv_taken;
	uint32_t credit; /* receives the peer has posted */
	uint64_t tx_bytes, rx_bytes;
};

/* Of all connections that there are and were. */
struct engine_totals {
	uint64_t tx_bytes, rx_bytes, tx_msgs, rx_msgs, repairs, spurious, dup_letters;
};

struct engine_times {
	struct histogram rtt;	     /* each sample of each path */
	struct histogram completion; /* requests but receives that ended well: from post to completion */
	struct histogram repair; /* from the loss of a letter being known to its being placed */
};

struct engine_stats {
	uint32_t conns, half_open, regions, letters_used, letters_total;
	uint64_t completions, stalls;
	struct tolerance_stats tolerance;
	uint64_t notes[NOTE_KINDS];
	uint64_t reasons[MROCE_COUNTERS]; /* engine's own share of the counters */
};

void engine_stats(const struct engine *e, struct engine_stats *out);
/* Looks at every connection: for once a second, not once a packet. */
void engine_totals(const struct engine *e, struct engine_totals *out);
const struct engine_times *engine_times(const struct engine *e);
/* Iterates: start with NULL; returns NULL at the end. */
struct conn *engine_conn_next(const struct engine *e, struct conn *prev);
void engine_conn_stats(const struct conn *conn, uint64_t now, struct conn_stats *out);
/* 0, -ENOENT beyond npaths. */
int engine_path_stats(const struct conn *conn, uint32_t path, struct path_stats *out);
/* Iterates: *at is NULL to start with; -ENOENT at the end. */
int engine_stream_stats(const struct conn *conn, const struct stream **at, struct stream_stats *out);

#endif
