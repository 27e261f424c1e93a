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
#include "mroce/gaps.h"

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

static inline bool ip_is_mapped(const struct ip *ip)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(ip->a, prefix, sizeof(prefix)) == 0;
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
	union {
		struct stream *stream; /* of msg; CREDIT: whose; else NULL */
		uint64_t missing;      /* FORGIVE: bytes */
	};
	uint32_t chunk; /* DATA */
	uint8_t type;	/* enum mroce_type */
	uint8_t losses;
	uint8_t lost_on;  /* path of the last loss */
	uint8_t sent_on;  /* path it was sent on last */
	uint8_t code;	  /* ERROR, FORGIVE, CLOSE; PORT_STATUS: up */
	uint32_t number;  /* ERROR, FORGIVE: message; PORT_STATUS: port */
	uint32_t id;	  /* ERROR, FORGIVE: stream */
	uint32_t lost_ts; /* losses: when the first was known, packet_clock() */
};

STAILQ_HEAD(letter_queue, letter);

/* ---- messages and streams ---- */

/* A stated tolerance at the receiver: from the first chunk until the sender knows how it ended. */
struct tolerance {
	TAILQ_ENTRY(tolerance) link; /* in conn->tolerant while open, in conn->untold while owed */
	struct rxmsg *msg;	     /* NULL: has completed and is gone */
	uint32_t stream, number;
	struct mroce_tolerance t;
	uint64_t deadline;	    /* UINT64_MAX: none */
	uint64_t first_at, last_at; /* when a chunk arrived first and last */
	uint64_t base;		    /* WRITE*: where the message's first byte goes */
	uint64_t missing;	    /* bytes, once it has ended */
	bool open, untold;
	struct mroce_gaps gaps;
};

TAILQ_HEAD(tolerance_list, tolerance);

struct txmsg {
	TAILQ_ENTRY(txmsg) link; /* in stream->tx or stream->responses */
	struct stream *stream;
	struct region *region; /* where the bytes come from (READ: go to); NULL if len is 0 */
	struct rxmsg *reply;   /* READ: the response being received */
	uint64_t id, addr, len, raddr;
	uint32_t rkey, imm;
	uint32_t msg, rseq;
	uint32_t nchunks, next_chunk, acked;
	uint32_t letters;	     /* that exist for it */
	struct chunkset done;	     /* only if nchunks > MROCE_CHUNK_SPAN */
	struct mroce_tolerance *tol; /* NULL: fully reliable */
	uint64_t missing;	     /* bytes, as FORGIVE told */
	uint64_t progress_at, complain_at, posted_at;
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
	struct tolerance *tol;	/* NULL: fully reliable */
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

/* Of a path on which something is outstanding. */
struct slots {
	__u64 out[MROCE_WINDOW_WORDS];	/* PSNs with a letter */
	__u64 seen[MROCE_WINDOW_WORDS]; /* of these, seen by the peer */
	struct envelope at[MROCE_WINDOW];
};

/* How a path does beside the others, see quality.c. A span is a few hundred packets at most. */
struct quality {
	uint16_t acked, lost; /* packets of the running span */
	uint16_t loss, ce;    /* shares in the last span, of 1024 */
	uint32_t bytes, ce_bytes;
	uint64_t since, moved_at;
	uint16_t wait_ms;
	uint8_t bad; /* verdicts in a row */
	bool judged;
};

/* There are eight of them in each of thousands of connections: no wider than need be, and without holes. */
struct path {
	struct conn *conn;
	struct port *port;
	struct flow flow;
	uint16_t limit;			/* UDP payload that passes: mtu.c */
	uint16_t probe_size;		/* being asked for; 0: nothing */
	struct slots *slots;		/* NULL: nothing is outstanding */
	__u64 lost[MROCE_WINDOW_WORDS]; /* given up as lost, among the last MROCE_WINDOW */
	uint32_t una, next;
	uint16_t in_flight;  /* neither seen nor lost */
	uint16_t unplaced;   /* bits in out[] */
	uint16_t steer;	     /* packets of the connection for which the spray passes it over */
	uint16_t since_poll; /* packets */
	struct cc cc;
	uint64_t srtt, rttvar, min_rtt;
	uint64_t min_rtt_at;
	uint64_t ce_at; /* last ACK that told of CE */
	/* asking */
	struct timer timer;
	uint64_t last_poll, first_unpolled; /* time; the latter 0 if nothing was sent since */
	uint64_t unanswered;		    /* when waiting for an answer began, 0: not waiting */
	uint64_t ask_again;	/* a sibling's later packet has been answered; 0: none */
	uint64_t last_heard;	/* last ACK or NACK */
	uint64_t last_progress; /* last time something was placed */
	uint64_t port_bytes;	/* port->letter_bytes at that time */
	uint32_t una_told;
	uint16_t rto_count;    /* in a row; stops at its largest value, as the next two do */
	uint16_t poll_backoff; /* polls answered without progress */
	uint16_t answered;     /* of since_poll: all was placed then */
	uint8_t losing;	       /* ACKs in a row that told of losses */
	uint8_t nudges;
	bool begun;   /* has had letters since it was opened or came back */
	bool urgent;  /* the last packet asked the peer's daemon to acknowledge */
	bool spoken;  /* its first packet has been asked about */
	bool suspect; /* owes an answer while others hear the peer */
	bool grace;   /* an RTO was put off because we were late ourselves */
	/* what ACKs said last */
	bool acked_any;
	uint32_t acked_rx_bytes, acked_ce_bytes, acked_base;
	uint16_t acked_late;
	uint16_t epoch;
	/* reordering; with a tolerance, a hole so much older than a question is a loss */
	uint64_t tolerance_until;
	uint32_t reorder_wait; /* ns */
	uint8_t tolerance;
	/* how large packets may be: mtu.c */
	uint8_t probe_tries, probe_mute;
	uint8_t big_lost; /* large letters lost in a row */
	uint64_t probe_sent, mtu_at;
	uint16_t mtu_told; /* the limit that the log has */
	uint8_t index, remote_port;
	uint8_t run;	/* packets that it takes before a sibling has its turn: spray.c */
	uint8_t reason; /* enum path_reason */
	bool dead;
	bool leaving; /* takes nothing new, and changes its route once it is empty */
	uint64_t leave_by;
	struct quality quality;
	uint64_t tx_packets, tx_bytes, ce_bytes;
	uint32_t moves, repairs, spurious, rtos, ptos, acks, nacks, deaths;
};

/* What is known of the peer's path of the same number. */
struct rxpath {
	TAILQ_ENTRY(rxpath) link; /* in engine->ack_due, if is_due */
	struct conn *conn;
	struct port *port; /* it came by last; NULL: nothing yet */
	struct flow flow;
	uint16_t epoch;
	uint8_t index;
	bool is_due : 1, nack : 1;
	uint32_t fresh;	  /* placed since the last ACK of ours */
	uint32_t echo_ts; /* of a POLL that is ours to answer; 0: none */
	/* sweep */
	uint32_t suspect_top;
	__u64 suspect[MROCE_WINDOW_WORDS];
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
	uint32_t ports_told; /* port_serials() as the first set-up packet had them */
	uint8_t setup_cookie[MROCE_COOKIE_LEN];
	uint8_t cookies; /* that the peer asked for */
	bool is_listed, half_open;
	bool is_proven;			    /* the peer has returned a cookie */
	bool key_refused;		    /* an answer came that our key did not sign */
	struct mroce_wire_port *peer_ports; /* peer_nports */
	uint8_t peer_nports;
	uint32_t peer_first_psn, peer_streams;
	struct port *setup_port;
	uint32_t chunk;	    /* of new messages: what passes on all paths */
	uint32_t chunk_max; /* what both sides take */
	bool chunk_known;   /* some path has answered, or has been waited for long enough */
	uint64_t mtu_first, mtu_hold;
	uint32_t sending; /* bytes of the packet that looks for a path */
	/* paths */
	struct path *paths;	/* npaths */
	struct rxpath *rxpaths; /* peer_npaths */
	uint32_t spray_at, keepalive_at;
	uint64_t last_heard, last_sent, last_placed;
	/* letters */
	struct letter_queue control, repairs;
	struct letter *cut; /* taken from a stream, found no path yet */
	struct stream_list streams, active;
	uint32_t nstreams;
	struct stream *last_stream;
	TAILQ_ENTRY(conn) ready;   /* in engine->ready, if is_ready */
	TAILQ_ENTRY(conn) starved; /* in engine->starved, if is_starved */
	bool is_ready, is_starved;
	struct timer life, sweep, stall, mtu, pace, tolerance;
	struct tolerance_list tolerant, untold;
	struct tolerance_stats tol_stats;
	/* sending: what may be sent, see pace.c */
	uint32_t features;	     /* MROCE_F_* agreed */
	bool steering;		     /* some path is passed over */
	uint16_t barred;	     /* bit per path: its way is closed, in this run */
	uint64_t post_off;	     /* until then its letters are not handed over */
	uint32_t flying;	     /* in flight on all usable paths */
	uint64_t window;	     /* of all usable paths, 1 / CC_UNIT packets */
	uint64_t pace_kbps, pace_at; /* 0: not paced */
	uint64_t pace_late;	     /* how late its timer is served, a maximum that fades */
	uint64_t last_poll;	     /* on any path */
	uint32_t daemon_time;	     /* ns from the peer's kernel to its daemon's ACK, smoothed */
	uint64_t hint_kbps, hint_until;
	/* receiving: its share of what we can take, see hint.c */
	TAILQ_ENTRY(conn) taker; /* in engine->takers, if taking */
	bool taking;
	uint32_t taker_ports; /* bit per port */
	/* Bit per path of the peer: letters came since its bytes were counted, since it was swept. */
	uint16_t uncounted, unswept;
	uint8_t sweeps;
	uint64_t taken, taken_since;
	uint64_t want_kbps, share_kbps;
	uint64_t rx_active_at;
	uint64_t tx_bytes, rx_bytes, tx_msgs, rx_msgs, repaired, spurious, dup_letters;
	uint32_t queued;
	uint64_t poll_only; /* keepalives since the daemon of the peer proved to be alive */
};

TAILQ_HEAD(conn_list, conn);

enum timer_kind {
	TIMER_LIFE,
	TIMER_SWEEP,
	TIMER_STALL,
	TIMER_PACE,
	TIMER_MTU,
	TIMER_TOLERANCE,
	TIMER_PATH,
};
#define CONN_TIMERS 6 /* beside those of its paths */

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

/* A size of packets that has passed from a port to an address. */
struct proof {
	struct ip remote;
	uint64_t at;
	uint16_t size;
	uint8_t port;
};

#define PROOFS 256

/* Payload of a packet of 1280 bytes over IPv6: the least that is sure to pass. */
#define MTU_SAFE 1232u

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
	struct proof proofs[PROOFS];
	uint32_t half_open; /* set-ups answered and not confirmed */
	uint32_t nregions;
	struct letter *letters;
	uint32_t letters_total, letters_used;
	struct letter_queue free_letters;
	struct pool txmsg_pool, rxmsg_pool, recv_pool, stream_pool, words_pool, slots_pool;
	struct pool tx_tol_pool, rx_tol_pool;
	bool tolerance_used; /* a peer has stated one: records are kept ready */
	struct conn_list ready, starved;
	struct rxpath_list ack_due;
	struct conn_list takers; /* connections that something comes in on */
	uint32_t ntakers;
	uint64_t hint_at, hinted_at;
	struct drain drains[MROCE_MAX_PORTS];
	uint32_t blocked; /* bit per port: no room in this run */
	bool barred;	  /* some connection has a path whose way is closed */
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
	struct tolerance_stats tol_stats;
	uint64_t notes[NOTE_KINDS];
	struct engine_totals gone; /* of connections that are no more */
	struct engine_times times;
	uint32_t ports_down; /* bit per port: told so last */
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
/* It found no record free, and is to try again soon. */
void conn_starves(struct conn *c);
void conn_fed(struct conn *c);
/* The connection is over: everything posted completes with `status`, then ENDED. */
void conn_end(struct conn *c, enum mroce_status status);
/* The peer broke the protocol. */
void conn_protocol_error(struct conn *c, const char *what);
void conn_doom(struct conn *c, enum doom why);
void conn_complete(struct conn *c, const struct engine_completion *done);
void conn_life_timer(struct conn *c);
void conn_check_silence(struct conn *c);
void conn_drop_letters(struct conn *c);

/* stats.c */
/* The connection is about to be freed: what it counted stays. */
void totals_keep(const struct conn *c);

/* note.c */
void note_conn_up(const struct conn *c);
void note_conn_down(const struct conn *c, enum mroce_status status);
void note_path(const struct path *p, enum note_kind kind, int level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void note_stall(const struct conn *c, uint32_t stream, uint32_t msg, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Only if it is news. */
void note_port(struct engine *e, const struct port *port);

/* mtu.c */
uint32_t mtu_chunk(uint32_t payload);
/* Of IP and UDP, before a payload on that path. */
uint32_t mtu_headers(const struct path *p);
void mtu_begin(struct path *p);
void mtu_begin_all(struct conn *c);
void mtu_changed(struct path *p);
void mtu_reply(struct conn *c, const struct packet *pk);
void mtu_lost(struct path *p, uint32_t len);
void mtu_look_again(struct conn *c);
void mtu_timer(struct conn *c);
uint32_t mtu_pieces(const struct conn *c, const struct letter *l);

/* stall.c */
void conn_watch(struct conn *c);
void conn_stall_timer(struct conn *c);

/* service.c */
struct listener *listener_find(const struct engine *e, uint32_t service);

/* Tells the peer of all ports, if they have changed since the set-up began. */
void conn_tell_ports(struct conn *c);
uint32_t port_serials(const struct engine *e);

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
void handshake_port(const struct port *port, struct mroce_wire_port *w);
void handshake_rx(struct engine *e, struct port *port, const struct packet *p,
		  const struct rx_info *info);
void handshake_start(struct conn *c);
void handshake_timer(struct conn *c);
void handshake_confirmed(struct conn *c);

/* path.c */
void path_init(struct path *p, struct conn *c, uint8_t index);
bool path_usable(const struct path *p);
/*
 * Usable paths between the same two ports, this one included, and the smallest round trip that any of them has seen (ns):
 * a path that starts while others keep a queue standing must not take the queue for distance.
 */
uint32_t path_family(const struct path *p, uint64_t *min_rtt);
/* A sibling's packet, sent at `sent` (ns), has been answered: what was asked here before and has not been is overdue. */
void path_overtaken(struct path *p, uint64_t sent);
static inline void path_progress(struct path *p)
{
	p->last_progress = p->conn->e->now;
	p->port_bytes = p->port->letter_bytes;
}
bool path_open(const struct path *p);
/* Do they lie between the same two ports? */
static inline bool path_siblings(const struct path *a, const struct path *b)
{
	return a->port == b->port && a->remote_port == b->remote_port;
}
/* 0; -EAGAIN: no room at the port; -errno: the letter cannot be built, and is gone. */
int path_send(struct path *p, struct letter *l, uint8_t flags);
/* Nothing leaves by this path now: its port has no room for whomever, or nobody knows where to. */
void path_refused(struct path *p, bool port_full);
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
/* The log has it, but for PATH_PORT_DOWN: that is said once for many. */
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
/* The path's share of what its link holds in a round trip (ns), 1 / CC_UNIT packets: where it begins. */
uint32_t pace_start_window(const struct path *p, uint64_t rtt, uint32_t siblings);
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
void spray_served(struct path *leader, uint32_t n);

/* handover.c */
bool handover_possible(const struct conn *c, const struct port *port);
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
/* DATA: what comes before the bytes of the message. */
uint32_t letter_head(const struct letter *l);
uint32_t letter_len(const struct letter *l);
int letter_build(const struct conn *c, struct letter *l, void *body);
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
/* Cuts what is not acknowledged anew, each chunk into so many. False: no record free for that. */
bool txmsg_recut(struct txmsg *m, uint32_t pieces);
/* Fixes chunk size and number when it begins. False: no record free. */
bool txmsg_cut(struct txmsg *m);
/* The peer told that it failed. */
void txmsg_error_rx(struct conn *c, uint32_t stream, uint32_t msg, uint8_t code);
/* Own memory failed: stop, tell the peer. */
void txmsg_abort(struct txmsg *m);
void txmsg_free(struct txmsg *m);
/* Bytes of a finished message that its receiver has. */
uint64_t txmsg_delivered(const struct txmsg *m);
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

/* The message ends at its receiver, with all its bytes or as much of them as is tolerated. */
void rxmsg_finish(struct rxmsg *m);
void rxmsg_region_failed(struct rxmsg *m, int err);
/* Where a message's bytes go; NULL: the region is gone. */
struct region *rxmsg_region(struct rxmsg *m, uint64_t *addr);

/* tolerance.c: stated loss tolerance */
/* Bytes that the extension takes in each DATA packet. */
uint32_t tolerance_ext_len(const struct mroce_tolerance *t);
uint32_t tolerance_build(const struct mroce_tolerance *t, void *out);
/* Bytes taken; -EINVAL. */
int tolerance_parse(const void *data, uint32_t len, struct mroce_tolerance *t);
bool tolerance_fits(const struct mroce_tolerance *t, uint64_t msg_len);
/* Bytes of a message that may be missing. */
uint64_t tolerance_bound(const struct mroce_tolerance *t, uint64_t msg_len);
/* Is it anything but full reliability? */
bool tolerance_matters(const struct mroce_tolerance *t);
/* Of a message that is being opened. False: no record free. */
bool tolerance_open(struct rxmsg *m, const struct mroce_tolerance *t, uint64_t base);
/* Something came: look at all of the connection's soon. */
void tolerance_kick(struct conn *c);
void tolerance_timer(struct conn *c);
void tolerance_ended(struct rxmsg *m);
void tolerance_close(struct rxmsg *m);
/* Has the message ended without all its bytes, and its sender does not know? */
bool tolerance_untold(struct conn *c, uint32_t stream, uint32_t msg);
void tolerance_told(struct conn *c, uint32_t stream, uint32_t msg);
void tolerance_drop(struct conn *c);
enum placing tolerance_forgive_rx(struct conn *c, const struct packet *p);
void txmsg_forgive(struct conn *c, uint32_t stream, uint32_t msg, uint64_t missing, uint8_t status);

/* receive.c */
void receive_rx(struct engine *e, struct port *port, const struct packet *p,
		const struct rx_info *info);
void receive_ack_due(struct rxpath *rp, bool nack);
void receive_ack_all(struct conn *c);
void receive_send_acks(struct engine *e);
void receive_sweep(struct conn *c);
void receive_placed(struct rxpath *rp, struct mroce_path_rx *rx, uint32_t psn);

#endif
