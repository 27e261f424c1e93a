/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * internal.h: what the rooms of the engine share. Letters (chunks of messages, control letters) and
 * envelopes (numbered packets of a path) meet in just four functions: letter_next(), letter_build(),
 * letter_acked() and letter_lost().
 */
#ifndef CORE_INTERNAL_H
#define CORE_INTERNAL_H

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/queue.h>
#include "core/cc.h"
#include "core/chunkset.h"
#include "core/engine.h"
#include "core/packet.h"
#include "core/pool.h"
#include "core/rand.h"
#include "core/timer.h"

#define USEC 1000ull
#define MSEC 1000000ull
#define SEC 1000000000ull

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- hash chains ---- */

struct hnode {
	struct hnode *next;
};

struct hash {
	struct hnode **heads;
	uint32_t mask;
};

static inline uint32_t hash_mix(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t h = (a * 0x9e3779b97f4a7c15ull) ^ ((uint64_t)b << 32 | c) * 0xc2b2ae3d27d4eb4full;

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(h >> 32);
}

static inline void hash_add(struct hash *t, uint32_t h, struct hnode *n)
{
	n->next = t->heads[h & t->mask];
	t->heads[h & t->mask] = n;
}

static inline void hash_del(struct hash *t, uint32_t h, struct hnode *n)
{
	struct hnode **at = &t->heads[h & t->mask];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
}

/* ---- regions ---- */

struct region {
	struct hnode link;
	struct region_params p;
	uint32_t key;
	uint32_t refs; /* requests and messages that hold it, and the table */
	bool removed;
	bool to_flush; /* in the engine's list of regions written in this batch */
};

struct region *region_find(struct engine *e, uint32_t key);
/* A region that requests of `owner` may use; NULL if there is none. Takes a reference. */
struct region *region_get(struct engine *e, const void *owner, uint32_t key);
void region_put(struct region **r);
/* Does it hold [addr, addr + len) and grant `access`? */
bool region_allows(const struct region *r, uint64_t addr, uint64_t len, uint32_t access);
int region_read(struct region *r, uint64_t addr, void *dst, uint32_t len);
/* 0: done. 1: deferred until region_flush(). -errno. */
int region_write(struct region *r, uint64_t addr, const void *src, uint32_t len);
int region_flush(struct region *r);
void region_table_free(struct engine *e);

/* ---- letters ---- */

struct txmsg;
struct stream;

struct letter {
	STAILQ_ENTRY(letter) link; /* in a queue of letters to be sent */
	struct txmsg *msg;	   /* DATA, READ_REQ; ERROR that aborts one; else NULL */
	struct stream *stream;	   /* of msg; CREDIT: whose; else NULL */
	uint32_t chunk;		   /* DATA */
	uint8_t type;		   /* enum mroce_type */
	uint8_t losses;
	uint8_t lost_on; /* path of the last loss */
	uint8_t code;	 /* ERROR, CLOSE; PORT_STATUS: up */
	uint32_t number; /* ERROR: message; PORT_STATUS: port */
	uint32_t id;	 /* ERROR: stream */
};

STAILQ_HEAD(letter_queue, letter);

/* ---- messages and streams ---- */

struct txmsg {
	TAILQ_ENTRY(txmsg) link; /* in stream->tx or stream->responses */
	struct stream *stream;
	struct region *region; /* where the bytes come from (READ: go to); NULL if len is 0 */
	struct rxmsg *reply;   /* READ: the response being received */
	uint64_t id, addr, len, raddr;
	uint32_t rkey, imm;
	uint32_t msg, rseq;
	uint32_t nchunks, next_chunk, acked;
	uint32_t letters;     /* that exist for it */
	struct chunkset done; /* only if nchunks > MROCE_CHUNK_SPAN */
	uint64_t progress_at, complain_at;
	uint32_t chunk_size;
	uint8_t opcode; /* enum mroce_opcode */
	uint8_t op;	/* enum mroce_op; 0 for READ */
	uint8_t status;
	bool started, finished, aborting, response;
};

TAILQ_HEAD(txmsg_list, txmsg);

struct recv {
	TAILQ_ENTRY(recv) link;
	struct region *region;
	uint64_t id, addr, len;
	uint32_t rseq;
	bool ended; /* completed already, its region is gone: whatever takes it fails */
};

TAILQ_HEAD(recv_list, recv);

enum rx_state {
	RX_OPEN,
	RX_COMPLETE,
	RX_FAILED, /* and its sender has not yet confirmed that it knows */
};

struct rxmsg {
	struct hnode link;
	struct stream *stream;
	struct txmsg *read;	/* the request, if this is a read's response */
	struct txmsg *response; /* READ_REQ: put aside for it */
	struct recv *recv;	/* SEND*, WRITE_IMM */
	struct region *region;	/* WRITE*: cached; READ_REQ: to read from */
	uint64_t msg_len, got;
	uint64_t addr, reply_addr; /* READ_REQ */
	uint32_t msg, rseq, imm;
	uint32_t rkey, reply_rkey;
	uint32_t chunk_size;
	uint32_t pending; /* deferred writes not yet flushed */
	struct chunkset chunks;
	uint64_t progress_at, complain_at;
	uint8_t op;    /* enum mroce_op; 0: READ_REQ */
	uint8_t state; /* enum rx_state */
	uint8_t status;
	bool told; /* the sender knows of the failure */
	bool ack_wanted;
};

struct stream {
	struct hnode link;
	TAILQ_ENTRY(stream) all;    /* in conn->streams */
	TAILQ_ENTRY(stream) active; /* in conn->active, if is_active */
	struct conn *conn;
	uint32_t id;
	/* sending */
	struct txmsg_list tx;	     /* requests in order, oldest unfinished first */
	struct txmsg *tx_unsent;     /* first that has something unsent */
	struct txmsg_list responses; /* to the peer's reads */
	struct txmsg *resp_unsent;
	uint32_t tx_next;   /* message number of the next to start */
	uint32_t rseq_next; /* receive that the next send takes */
	uint32_t credit;    /* receives the peer has posted */
	uint32_t reads;	    /* outstanding */
	uint32_t queued;    /* requests in tx */
	uint32_t deficit;
	bool is_active, responses_turn;
	/* receiving */
	uint32_t rx_next;	/* lowest message not ended */
	struct recv_list recvs; /* posted, not taken */
	uint32_t recv_posted, recv_taken;
	uint32_t recv_done;    /* lowest receive that has not completed */
	struct rxmsg *last_rx; /* most recently used */
	bool credit_queued;    /* a CREDIT letter exists */
	uint32_t credit_told;  /* as last put into a letter */
	uint64_t tx_bytes, rx_bytes;
};

TAILQ_HEAD(stream_list, stream);

/* ---- paths ---- */

struct envelope {
	uint32_t letter; /* index + 1; 0: nothing outstanding under this PSN */
	uint32_t ts;	 /* when sent, packet_clock() */
};

/* How a path does beside the others, see quality.c. */
struct quality {
	uint32_t acked, lost;	/* packets of the running span */
	uint64_t bytes, ce_bytes, since;
	uint32_t loss, ce;	/* shares in the last span, of 1024 */
	uint32_t bad;		/* verdicts in a row */
	bool judged;
	uint64_t wait, moved_at;
};

struct path {
	struct conn *conn;
	struct port *port;
	struct flow flow;
	struct envelope *slots;		/* MROCE_WINDOW of them while anything is outstanding */
	__u64 out[MROCE_WINDOW_WORDS];	/* PSNs with a letter */
	__u64 seen[MROCE_WINDOW_WORDS]; /* of these, seen by the peer */
	__u64 lost[MROCE_WINDOW_WORDS]; /* given up as lost, among the last MROCE_WINDOW */
	uint32_t una, next;
	uint32_t in_flight; /* neither seen nor lost */
	uint32_t unplaced;  /* bits in out[] */
	struct cc cc;
	uint64_t srtt, rttvar, min_rtt;
	uint64_t min_rtt_at;
	uint64_t ce_at;	   /* last ACK that told of CE */
	uint32_t steer;	   /* packets of the connection for which the spray passes it over */
	uint32_t losing;   /* ACKs in a row that told of losses */
	bool begun;	   /* has had letters since it was opened or came back */
	/* asking */
	struct timer timer;
	uint64_t last_poll, first_unpolled; /* time; the latter 0 if nothing was sent since */
	uint64_t unanswered;		    /* when waiting for an answer began, 0: not waiting */
	uint64_t last_heard;		    /* last ACK or NACK */
	uint64_t last_progress;		    /* last time something was placed */
	uint32_t since_poll;		    /* packets */
	uint32_t una_told;
	uint32_t rto_count;
	uint32_t poll_backoff; /* polls answered without progress */
	uint32_t nudges;
	bool urgent;  /* the last packet asked the peer's daemon to acknowledge */
	bool spoken;  /* its first packet has been asked about */
	bool suspect; /* owes an answer while others hear the peer */
	bool grace;   /* an RTO was put off because we were late ourselves */
	/* what ACKs said last */
	uint32_t acked_rx_bytes, acked_ce_bytes;
	uint16_t acked_late;
	bool acked_any;
	uint32_t acked_base;
	/* reordering */
	uint32_t tolerance;
	uint64_t tolerance_until;
	uint16_t epoch;
	uint8_t index, remote_port;
	bool dead;
	bool leaving;	   /* takes nothing new, and changes its route once it is empty */
	uint8_t reason;	   /* enum path_reason */
	uint64_t leave_by;
	struct quality quality;
	uint64_t reorder_wait; /* with a tolerance: a hole so much older than a question is a loss */
	uint64_t moves;
	uint64_t tx_packets, tx_bytes, repairs, spurious, rtos, ptos, acks, nacks, ce_bytes, deaths;
};

/* What is known of the peer's path of the same number. */
struct rxpath {
	TAILQ_ENTRY(rxpath) link; /* in engine->ack_due, if is_due */
	struct conn *conn;
	struct port *port; /* it came by last; NULL: nothing yet */
	struct flow flow;
	uint8_t index;
	bool is_due, nack;
	uint32_t fresh;	  /* placed since the last ACK of ours */
	uint32_t echo_ts; /* of a POLL that is ours to answer; 0: none */
	uint16_t epoch;
	/* sweep */
	__u64 suspect[MROCE_WINDOW_WORDS];
	uint32_t suspect_base, suspect_top;
	uint64_t suspect_at, suspect_drained;
	uint32_t swept_late, swept_gaps;
	uint32_t hint_bytes, hint_packets; /* as counted when the rate was looked at last */
	uint64_t tolerance_until;
};

TAILQ_HEAD(rxpath_list, rxpath);

/* ---- connections ---- */

enum conn_state {
	CONN_HELLO,  /* waiting for ACCEPT */
	CONN_ACCEPT, /* answered a HELLO, waiting for READY */
	CONN_OPEN,
	CONN_CLOSING, /* closed here, telling the peer */
	CONN_ENDED,   /* over; kept for the caller, and to answer stragglers */
};

enum doom {
	DOOM_NONE,
	DOOM_UNTOLD,   /* more failing messages than can be reported */
	DOOM_APP_DIED, /* its application's memory is gone */
	DOOM_MTU,      /* its packets fit no port any more */
};

struct conn {
	struct engine *e;
	uint32_t slot, id, token, peer_id, peer_token;
	uint32_t service;
	uint8_t state; /* enum conn_state */
	uint8_t npaths, peer_npaths;
	uint8_t doomed; /* enum doom: to be ended by its timer, since callers up the stack still look at it */
	bool is_initiator, held_by_caller, counts_in_backlog, lingering, published;
	void *owner, *cookie;
	struct ip peer; /* as connected to, or where HELLO came from */
	uint64_t nonce, peer_nonce;
	/* set-up */
	struct hnode setup; /* in engine->setups, if is_listed */
	uint64_t setup_deadline, setup_wait, setup_sent;
	uint32_t setup_tries, setup_heard;
	uint8_t setup_cookie[MROCE_COOKIE_LEN];
	uint8_t cookies; /* that the peer asked for */
	bool is_listed, half_open;
	bool is_proven;	  /* the peer has returned a cookie */
	bool key_refused; /* an answer came that our key did not sign */
	struct mroce_wire_port peer_ports[MROCE_MAX_PORTS];
	uint8_t peer_nports;
	uint32_t peer_first_psn, peer_streams;
	struct port *setup_port;
	uint32_t chunk;
	/* paths */
	struct path *paths;	/* npaths */
	struct rxpath *rxpaths; /* peer_npaths */
	uint32_t spray_at, keepalive_at;
	uint64_t last_heard, last_sent, last_placed;
	uint64_t unplaced_since; /* the peer has seen, but not placed, everything since; 0: no */
	/* letters */
	struct letter_queue control, repairs;
	struct letter *cut; /* taken from a stream, found no path yet */
	struct letter *close_letter;
	struct stream_list streams, active;
	uint32_t nstreams;
	struct stream *last_stream;
	TAILQ_ENTRY(conn) ready; /* in engine->ready, if is_ready */
	bool is_ready;
	struct timer life, sweep, stall, pace;
	/* sending: what may be sent, see pace.c */
	uint32_t features; /* MROCE_F_* agreed */
	bool steering;	   /* some path is passed over */
	uint32_t flying;   /* in flight on all usable paths */
	uint64_t window;   /* of all usable paths, 1 / CC_UNIT packets */
	uint64_t pace_kbps, pace_at; /* 0: not paced */
	uint64_t pace_late;	     /* how late its timer is served, a maximum that fades */
	uint64_t last_poll;	     /* on any path */
	uint64_t hint_kbps, hint_until;
	/* receiving: its share of what we can take, see hint.c */
	TAILQ_ENTRY(conn) taker; /* in engine->takers, if taking */
	bool taking;
	uint32_t taker_ports; /* bit per port */
	uint64_t taken, taken_since;
	uint64_t want_kbps, share_kbps;
	uint64_t rx_active_at;
	uint64_t tx_bytes, rx_bytes, tx_msgs, rx_msgs, repaired, spurious, dup_letters;
	uint32_t queued;
	uint64_t poll_only; /* keepalives since the daemon of the peer proved to be alive */
};

TAILQ_HEAD(conn_list, conn);

enum timer_kind { TIMER_LIFE, TIMER_SWEEP, TIMER_STALL, TIMER_PACE, TIMER_PATH };
#define CONN_TIMERS 4 /* beside those of its paths */

struct listener {
	LIST_ENTRY(listener) link;
	struct hnode hash; /* in engine->services */
	uint32_t service, backlog, pending;
	void *owner;
};

LIST_HEAD(listener_list, listener);

/* A region write that waits for its flush. */
struct deferred {
	struct conn *conn; /* NULL: its connection has ended meanwhile */
	struct region *region;
	struct rxmsg *msg;
	struct mroce_path_rx *rx;
	struct rxpath *rxpath;
	uint32_t psn, len;
	bool counts; /* first time that this chunk arrived */
};

#define DEFERRED_MAX 1024
#define FLUSH_MAX 256

/* What we were seen to take from a port's rings. */
struct drain {
	uint64_t since, bytes, drained;
	uint64_t kbps; /* 0: it keeps up */
	uint32_t free;
};

/* A peer whose set-ups were turned away, so that the log names it once and not for each packet. */
struct grudge {
	struct ip peer;
	uint64_t logged_at;
	uint32_t times; /* since then */
};

#define GRUDGES 64

struct auth {
	uint8_t cookie_key[2][32]; /* now, and before */
	uint64_t cookie_since;	   /* when the first came into use */
	uint8_t hash_key[16];
	struct grudge grudges[GRUDGES];
};

struct engine {
	struct engine_config cfg;
	const struct engine_ops *ops;
	void *ctx;
	struct port *ports[MROCE_MAX_PORTS];
	uint32_t nports;
	struct conn **conns; /* by slot */
	uint32_t nconns, slot_hint;
	struct rng rng;
	struct timer_heap timers;
	uint32_t timers_wanted;
	struct listener_list listeners;
	struct hash regions, streams, rxmsgs, setups, services;
	struct auth auth;
	uint32_t half_open; /* set-ups answered and not confirmed */
	uint32_t nregions;
	struct letter *letters;
	uint32_t letters_total, letters_used;
	struct letter_queue free_letters;
	struct pool txmsg_pool, rxmsg_pool, recv_pool, stream_pool, words_pool, slots_pool;
	struct conn_list ready;
	struct rxpath_list ack_due;
	struct conn_list takers; /* connections that something comes in on */
	uint32_t ntakers;
	uint64_t hint_at, hinted_at;
	struct drain drains[MROCE_MAX_PORTS];
	uint32_t blocked; /* bit per port: no room in this run */
	uint64_t blocked_since, blocked_until;
	uint64_t overslept_at; /* engine_run() came far later than its deadline */
	uint64_t starved_at;   /* a connection could not send for want of records; 0: none */
	struct deferred deferred[DEFERRED_MAX];
	uint32_t ndeferred;
	struct region *to_flush[FLUSH_MAX];
	uint32_t nflush;
	uint64_t now;  /* of the current call */
	uint32_t sent; /* packets, all told */
	uint64_t completions, stalls;
	uint64_t reasons[MROCE_COUNTERS];
};

/* What became of a letter that came in. */
enum placing {
	PLACED,	  /* done: acknowledge it */
	DEFERRED, /* will be, after the flush */
	WITHHELD, /* not to be acknowledged yet */
	MISSED,	  /* could not be taken: have it repaired */
	BROKEN,	  /* the connection has ended over it */
};

/* engine.c */
void engine_log(struct engine *e, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static inline void count(struct engine *e, int reason)
{
	e->reasons[reason]++;
}
void engine_reserve(struct engine *e);
uint32_t engine_chunk(const struct engine *e);

/* conn.c */
struct conn *conn_new(struct engine *e, void *owner, uint32_t service);
struct conn *conn_find(struct engine *e, uint32_t cid);
void conn_release(struct conn *c);
int conn_open_paths(struct conn *c);
void conn_open_port(struct conn *c, struct port *port);
/* Another UDP source port: another route through the network. */
void path_new_route(struct path *p);
void conn_closed_by_peer(struct conn *c, uint32_t code);
void conn_close_acked(struct conn *c);
void conn_established(struct conn *c);
void conn_ready(struct conn *c);
void conn_unready(struct conn *c);
/* The connection is over: everything posted completes with `status`, then ENDED. */
void conn_end(struct conn *c, enum mroce_status status);
/* The peer broke the protocol. */
void conn_protocol_error(struct conn *c, const char *what);
void conn_doom(struct conn *c, enum doom why);
/* Can the port carry the connection's largest packets? Its MTU may have been lowered since the set-up. */
static inline bool conn_fits(const struct conn *c, const struct port *port)
{
	return port->payload_max >= MROCE_HDR_LEN + sizeof(struct mroce_data) + c->chunk;
}
void conn_complete(struct conn *c, const struct engine_completion *done);
void conn_life_timer(struct conn *c);
void conn_check_silence(struct conn *c);
void conn_drop_letters(struct conn *c);

/* stall.c */
void conn_watch(struct conn *c);
void conn_stall_timer(struct conn *c);

/* service.c */
struct listener *listener_find(const struct engine *e, uint32_t service);

/* auth.c */
void auth_init(struct engine *e);
void auth_fini(struct engine *e);
/* Signs the first len bytes of a set-up packet's body, if we have a key. */
void auth_sign(const struct engine *e, uint8_t type, struct mroce_hello *h, uint32_t len);
/* 0, or -enum mroce_reason: what is wrong with its signature. Without a key of our own: 0 if it has none. */
int auth_check(const struct engine *e, const struct packet *p);
/* Counts, and tells the log of each peer once a minute. */
void auth_refused(struct engine *e, const struct ip *peer, int reason);
/* What shows that somebody receives at that address. Depends on nothing that we would have to remember. */
void auth_cookie(struct engine *e, const struct ip *peer, const struct mroce_hello *h,
		 uint8_t cookie[MROCE_COOKIE_LEN]);
bool auth_cookie_ok(struct engine *e, const struct ip *peer, const struct mroce_hello *h);
/* For the table of set-ups; peers choose nonces, so it must not be foreseeable. */
uint32_t auth_hash(const struct engine *e, uint64_t nonce);

/* handshake.c */
/* A letter came from a peer that has not confirmed yet. True: that confirms. */
bool handshake_letter(struct conn *c);
/* The set-up is over, one way or the other. */
void handshake_left(struct conn *c);
void handshake_rx(struct engine *e, struct port *port, const struct packet *p,
		  const struct rx_info *info);
void handshake_start(struct conn *c);
void handshake_timer(struct conn *c);
void handshake_confirmed(struct conn *c);

/* path.c */
void path_init(struct path *p, struct conn *c, uint8_t index);
bool path_usable(const struct path *p);
bool path_open(const struct path *p);
/* Do they lie between the same two ports? */
static inline bool path_siblings(const struct path *a, const struct path *b)
{
	return a->port == b->port && a->remote_port == b->remote_port;
}
/* 0; -EAGAIN: no room at the port; -errno: the letter cannot be built, and is gone. */
int path_send(struct path *p, struct letter *l, uint8_t flags);
/* May envelopes be kept for it? */
bool path_open_slots(struct path *p);
/* The port has sent the letter under PSN p->next, `ts` was the time. */
void path_posted(struct path *p, struct letter *l, uint32_t ts, uint32_t len, uint8_t flags);
/* After a batch of such: asks if it is time to. */
void path_after_post(struct path *p);
void path_timer(struct path *p);
bool path_poll(struct path *p);
void path_arm(struct path *p);
/* Gives up everything outstanding; letters become repairs if `repair`, else are dropped. */
void path_give_up(struct path *p, bool repair);
void path_die(struct path *p, enum path_reason why);
/* Empties the path and moves it to another route. */
void path_leave(struct path *p, enum path_reason why);
void path_move_if_empty(struct path *p);
void path_probe_soon(struct path *p);
void path_clear(struct path *p, uint32_t psn);
void path_advance(struct path *p);
void path_forget_msg(struct path *p, const struct txmsg *m);
void path_free(struct path *p);
uint64_t path_rto(const struct path *p);

/* ack.c */
void ack_rx(struct conn *c, const struct packet *p);

/* quality.c */
void quality_note(struct path *p, const struct cc_ack *a);
void quality_moved(struct path *p);

/* pace.c */
/* What ACKs and paths have changed: before a connection's turn. */
void pace_update(struct conn *c);
bool pace_open(const struct conn *c);
/* Packets are so far apart that a POLL for each would be a load: the peer's daemon is asked instead. */
bool pace_is_sparse(const struct conn *c);
void pace_charge(struct conn *c, uint32_t len);
void pace_wait(struct conn *c);
void pace_timer(struct conn *c);
void pace_hint(struct conn *c, uint16_t hint, uint64_t srtt);

/* hint.c */
void hint_arrival(struct conn *c);
void hint_forget(struct conn *c);
void hint_run(struct engine *e);

/* spray.c */
struct path *spray_pick(struct conn *c, int avoid);
/* Paths between two ports, a bit for each, and how many packets they have room for. */
struct spray_group {
	uint32_t mask, room;
};
struct spray_group spray_group(const struct path *leader);
void spray_served(struct conn *c, uint32_t n);

/* handover.c */
bool handover_possible(const struct port *port, uint64_t now);
/*
 * Hands over l and what else is to be sent, at most max letters, to the port of `leader`. Those that were not sent
 * are in their queues again. Returns how many were.
 */
uint32_t handover_send(struct conn *c, struct path *leader, struct letter *l, uint32_t max);
/* The connection has ended. */
void handover_forget(struct conn *c, const struct port *port);

/* letter.c */
struct letter *letter_new(struct conn *c, uint8_t type);
void letter_free(struct engine *e, struct letter *l);
struct letter *letter_next(struct conn *c);
void letter_put_back(struct conn *c, struct letter *l);
uint8_t letter_flags(const struct conn *c, const struct letter *l);
/* It cannot be built: err says why. */
void letter_failed(struct conn *c, struct letter *l, int err);
bool letter_waiting(const struct conn *c);
uint32_t letter_len(const struct letter *l);
int letter_build(struct letter *l, void *body);
void letter_acked(struct conn *c, struct letter *l);
void letter_lost(struct conn *c, struct letter *l, uint8_t path, bool path_is_dead);
void letter_control(struct conn *c, struct letter *l);
void letter_error(struct conn *c, uint32_t stream, uint32_t msg, uint8_t code);
static inline uint32_t letter_index(const struct engine *e, const struct letter *l)
{
	return (uint32_t)(l - e->letters);
}

/* txmsg.c */
int txmsg_post(struct stream *s, const struct work_request *wr);
void txmsg_finish(struct txmsg *m, uint8_t status);
void txmsg_acked(struct txmsg *m, uint32_t chunk);
/* The peer told that it failed. */
void txmsg_error_rx(struct conn *c, uint32_t stream, uint32_t msg, uint8_t code);
/* Own memory failed: stop, tell the peer. */
void txmsg_abort(struct txmsg *m);
void txmsg_free(struct txmsg *m);
/* The next in its list that has something to be sent. */
struct txmsg *txmsg_next_unsent(const struct txmsg *m);
void txmsg_respond(struct stream *s, struct rxmsg *req);
void txmsg_cancel_response(struct stream *s, uint32_t msg);

/* stream.c */
struct stream *stream_find(struct conn *c, uint32_t id);
/* NULL: no record free. */
struct stream *stream_get(struct conn *c, uint32_t id);
void stream_wake(struct stream *s);
void stream_sleep(struct stream *s);
/* The next new letter of the connection's streams, by deficit round robin; NULL if there is none. */
struct letter *stream_cut(struct conn *c);
void stream_flush(struct stream *s, uint8_t status);
void stream_free(struct stream *s);
int stream_post_recv(struct stream *s, const struct work_request *wr);
/* Receives that nothing has taken, up to but not including number `before`. */
void stream_flush_recvs(struct stream *s, uint32_t before, uint8_t status);
enum placing stream_credit_rx(struct conn *c, uint32_t stream, uint32_t posted);
void stream_offer_credit(struct stream *s);
/* A receive has completed: those after it whose region is gone end too, in order. */
void stream_recv_done(struct stream *s, uint32_t rseq);
/* Everything of the stream that uses the region ends. */
void stream_region_gone(struct stream *s, const struct region *r);
/* The receive of that number, taken out; NULL if it is not there. */
struct recv *stream_take_recv(struct stream *s, uint32_t rseq);

/* rxmsg.c */
struct arrival {
	struct conn *c;
	struct rxpath *rxpath;
	struct mroce_path_rx *rx;
	const struct packet *p;
};

enum placing rxmsg_data(const struct arrival *a);
enum placing rxmsg_read_req(const struct arrival *a);
enum placing rxmsg_abort_rx(struct conn *c, const struct mroce_error *e);
void rxmsg_error_acked(struct conn *c, uint32_t stream, uint32_t msg);
void rxmsg_free(struct rxmsg *m);
struct rxmsg *rxmsg_find(struct stream *s, uint32_t msg, bool is_read);
struct rxmsg *rxmsg_new_read(struct txmsg *m);
void rxmsg_flush_all(struct stream *s, uint8_t status);
void rxmsg_deferred_flush(struct engine *e);

/* receive.c */
void receive_rx(struct engine *e, struct port *port, const struct packet *p,
		const struct rx_info *info);
void receive_ack_due(struct rxpath *rp, bool nack);
void receive_ack_all(struct conn *c);
void receive_send_acks(struct engine *e);
void receive_sweep(struct conn *c);
void receive_placed(struct rxpath *rp, struct mroce_path_rx *rx, uint32_t psn);

#endif
