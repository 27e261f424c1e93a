/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h: a network in one process. Time is a number, everything random comes from one seed, so each
 * run can be repeated exactly.
 *
 *	event.c     virtual time and the event queue
 *	trace.c     what happened: the last events, their hash, failures
 *	net.c       packets, links, planes, what a network does to packets
 *	host.c      a host: engine, ports with their tracker, receive rings, a daemon that is scheduled
 *	memory.c    regions with guard bytes and patterns
 *	message.c lane.c check.c pair.c
 *	            applications that post requests and check everything that can be checked
 *	poke.c      states of the engine that would take days to reach
 *	world.c     from a configuration to hosts, connections and lanes; the standard scenario
 *	scen_*.c random.c   the scenarios
 *	cross.c     somebody else's traffic
 *	figures.c   what we promise, as distributions over seeds
 *	main.c      options and TAP
 */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/engine.h"

#define US 1000ULL
#define MS 1000000ULL
#define SEC 1000000000ULL
#define NEVER UINT64_MAX
#define KIB 1024ULL
#define MIB 1048576ULL
#define PERCENT 10000u /* in parts per million */

#define MAX_HOSTS 64
#define MAX_SPINES 8
#define MAX_PAIRS 1280
#define MAX_RINGS 5 /* four receive queues and the UDP socket */
#define SOCKET_RING 4
#define GUARD 64
#define FREE_BYTE 0xee /* memory that nobody has written */

struct sim;
struct sim_port;
struct host;
struct pair;
struct cross;

/* ---- random numbers: splitmix64, one state per purpose so that they do not disturb each other ---- */

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

static inline uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high)
{
	return low + rng_below(r, high - low + 1);
}

static inline bool rng_ppm(struct rng *r, uint32_t ppm)
{
	return ppm && rng_below(r, 1000000) < ppm;
}

static inline uint64_t mix64(uint64_t x)
{
	struct rng r = { x };

	return rng_next(&r);
}

/* ---- events ---- */

typedef void (*event_fn)(struct sim *s, void *a, uint64_t b);

struct event {
	uint64_t at, order;
	event_fn fn;
	void *a;
	uint64_t b;
};

struct events {
	struct event *heap;
	uint32_t used, size;
	uint64_t order;
};

void sim_at(struct sim *s, uint64_t at, event_fn fn, void *a, uint64_t b);
void sim_after(struct sim *s, uint64_t delay, event_fn fn, void *a, uint64_t b);
/* Runs until `until`, or done(s) holds, or a failure. True if done(s) holds. */
bool sim_run(struct sim *s, uint64_t until, bool (*done)(struct sim *s));
void events_free(struct events *q);

/* ---- trace ---- */

#define TRACE_KEEP 120

enum trace_kind {
	TR_TX,
	TR_RX,
	TR_DROP,
	TR_REPLY,
	TR_RING_FULL,
	TR_APP,
	TR_LOG,
	TR_EVENT,
};

struct trace_record {
	uint64_t at;
	uint8_t kind, host, port, type, path, flags;
	uint16_t sport;
	uint32_t psn, una, len, extra;
	const char *note; /* static text, or NULL */
	char text[120];
};

struct trace {
	struct trace_record ring[TRACE_KEEP];
	uint64_t count, hash;
	bool print;
};

struct frame;
void trace_frame(struct sim *s, enum trace_kind kind, int host, int port, const struct frame *p,
		 const char *note);
void trace_text(struct sim *s, enum trace_kind kind, int host, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void trace_dump(struct sim *s);
/* The scenario has failed; the first failure counts. */
void sim_fail(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A figure worth reading in the output of a scenario that passed. */
void sim_note(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define CHECK(s, cond, ...)                       \
	do {                                      \
		if (!(cond))                      \
			sim_fail(s, __VA_ARGS__); \
	} while (0)

/* ---- network ---- */

/* What a link does to packets; probabilities in parts per million. */
struct impair {
	uint32_t loss;
	uint32_t burst_start, burst_end, burst_loss; /* Gilbert-Elliott: per packet */
	uint32_t reorder;
	uint64_t reorder_ns; /* an unlucky packet comes up to so much later */
	uint32_t dup, corrupt, trunc;
	uint32_t type_loss, types; /* loss of the packet types in the mask (1 << type) */
};

struct link {
	uint64_t rate; /* bit/s; 0: infinitely fast */
	uint64_t delay;
	uint64_t queue_bytes, ce_bytes; /* 0: no limit, no marking */
	uint64_t busy_until, burst_at;
	bool down, in_burst;
	uint32_t mtu; /* larger IP packets vanish; 0: none do */
	struct impair imp;
	uint64_t packets, dropped, overflowed, marked;
};

struct frame {
	struct frame *next;
	struct ip src, dst;
	uint16_t sport;
	uint8_t from_host, from_port, to_host, to_port, queue;
	bool ce, ctl;
	uint32_t len;
	uint8_t data[];
};

/* Sees every packet before the network does; may change it. False: the network loses it. */
typedef bool (*tap_fn)(struct sim *s, struct frame *p);

/* Sees every packet that arrives at a host; true: it has taken it. */
typedef bool (*rx_tap_fn)(struct sim *s, struct host *h, struct sim_port *sp, struct frame *p);

struct frame *frame_new(struct sim *s, uint32_t room);
void frame_free(struct sim *s, struct frame *p);
struct frame *frame_copy(struct sim *s, const struct frame *p);
static inline uint8_t frame_type(const struct frame *p)
{
	return p->len > 1 ? p->data[1] : 0;
}
/* Gives a packet with a changed header or body right checksums again. */
void frame_seal(struct frame *p);
/* Hands a packet to the sending port's uplink. Takes it. */
void net_send(struct sim *s, struct frame *p);
/* The same without showing it to the tap. */
void net_inject(struct sim *s, struct frame *p);
struct ip net_address(const struct sim *s, uint32_t host, uint32_t plane);
bool net_locate(const struct sim *s, const struct ip *ip, uint32_t *host, uint32_t *port);
uint32_t net_spine(const struct sim *s, const struct frame *p);
/* All downlinks of the plane, or of all planes if it is -1. */
void net_impair(struct sim *s, int plane, const struct impair *imp);
bool net_owns_frame(event_fn fn);
bool host_owns_frame(event_fn fn);
/* The switches of the plane take no larger IP packets from now on, and say nothing of it. */
void net_plane_mtu(struct sim *s, uint32_t plane, uint32_t mtu);
void net_plane_down(struct sim *s, uint32_t plane, bool down);

/* One flow like TCP's, without end, on plane 0; one in a world. Freed with it. */
struct cross *cross_start(struct sim *s, uint32_t from, uint32_t to, bool ecn);
uint64_t cross_bytes(const struct cross *c);
void cross_stop(struct cross *c);

/* ---- memory ---- */

enum arena_mode { ARENA_PLAIN, ARENA_OPS, ARENA_DEFERRED, ARENA_VIRTUAL };

struct deferred {
	uint64_t offset;
	const void *src;
	uint32_t len;
};

/* Slots of equal size with guards around each, registered as one region at one host. */
struct arena {
	struct sim *s;
	struct host *host;
	enum arena_mode mode;
	uint8_t *mem;
	uint32_t slots;
	uint64_t max, stride;
	uint64_t iova;
	uint32_t key, access;
	bool registered, gone, released;
	uint64_t sum; /* of the memory, when its connection ended; 0 before */
	uint32_t life;
	struct deferred *deferred;
	uint32_t ndeferred, deferred_room;
	/* ARENA_VIRTUAL: one slot, its pattern, and which chunks came */
	uint64_t pattern, written;
	uint64_t *came;
};

struct arena *arena_new(struct sim *s, struct host *h, void *owner, uint32_t slots, uint64_t max,
			uint32_t access, enum arena_mode mode);
uint64_t arena_sum(const struct arena *a);
void arena_remove(struct arena *a, void *owner);
void arena_free(struct arena *a);
uint8_t *arena_slot(const struct arena *a, uint32_t slot);
uint64_t arena_addr(const struct arena *a, uint32_t slot);
void arena_fill(struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len);
void arena_scribble(struct arena *a, uint32_t slot);
/* Has the slot the first len bytes of the pattern, and nothing else in it or around it changed? */
bool arena_check(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len, char *why);
/* The same but for what a list, or a number of bytes without one, says is missing: that is `fill`. */
bool arena_check_gaps(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len,
		      const struct mroce_gaps *gaps, uint8_t fill, char *why);
bool arena_check_missing(const struct arena *a, uint32_t slot, uint64_t pattern, uint64_t len,
			 uint64_t missing, uint8_t fill, char *why);
bool arena_untouched(const struct arena *a, uint32_t slot, char *why);
bool arena_guards(const struct arena *a, uint32_t slot, char *why);
void pattern_write(uint64_t key, uint64_t off, uint8_t *dst, uint64_t len);
bool pattern_matches(uint64_t key, uint64_t off, const uint8_t *src, uint64_t len, uint64_t *bad);

/* ---- applications ---- */

enum fault {
	FAULT_NONE,
	FAULT_BAD_RKEY,	    /* remote key that does not exist */
	FAULT_BOUNDS,	    /* one byte past the remote region */
	FAULT_BELOW,	    /* one byte before the remote region */
	FAULT_WRAP,	    /* remote address near 2^64 */
	FAULT_PERMISSION,   /* remote region without that right */
	FAULT_OWNER,	    /* remote region of another application */
	FAULT_LOCAL_KEY,    /* own key that does not exist */
	FAULT_LOCAL_BOUNDS, /* one byte past the own region */
	FAULT_TOO_LONG,	    /* send longer than its receive */
	FAULT_MAX
};

struct msg {
	uint64_t len, pattern, posted_at, tx_at, rx_at;
	uint32_t imm;
	uint8_t opcode, fault, tx_status, rx_status;
	bool tx_done, rx_done;
	uint32_t recv; /* number of the receive it takes */
	bool tolerant;
	struct mroce_tolerance tol;
	uint64_t tx_missing, rx_missing;
};

/* One direction of one stream of one connection. */
struct lane_params {
	uint32_t stream;
	uint8_t from;	   /* end that posts the requests: 0 initiator, 1 acceptor */
	uint32_t kinds;	   /* mask of 1 << enum mroce_opcode */
	uint64_t min, max; /* message sizes */
	uint32_t count;	   /* messages */
	uint32_t window;   /* requests and receives outstanding */
	uint32_t faults;   /* mask of 1 << enum fault, mixed in */
	uint32_t fault_ppm;
	uint64_t start, interval; /* ns: first post; pause between posts */
	enum arena_mode mode;
	uint32_t recv_window;			 /* receives outstanding; 0: as window */
	bool hold_recv;				 /* no receives until released */
	uint32_t tolerant_ppm;			 /* so many messages state a random tolerance */
	const struct mroce_tolerance *tolerance; /* all others state this one; NULL: none */
};

struct lane {
	struct sim *s;
	struct pair *pair;
	struct lane_params p;
	uint32_t id;
	struct msg *msgs;
	uint32_t posted, tx_done, retired, need_recv;
	uint32_t *by_recv; /* which message takes a receive */
	bool *recv_seen;   /* receives that have completed */
	uint32_t recv_posted, recv_done, recv_next, refused;
	bool finished, prepared;
	bool spoiled;	 /* the connection ended: its memory may hold half of a message */
	bool stopped;	 /* the scenario wants no more requests */
	bool any_status; /* the scenario breaks things: any error will do */
	bool broken;	 /* its memory goes away: receives may end without a message */
	uint64_t next_post, timer_at, bytes_done, bytes_missing;
	uint64_t last_tx_at, last_rx_at;
	struct arena *local;	 /* at `from`: what is sent, where reads land */
	struct arena *memory;	 /* at the other: target of writes, source of reads */
	struct arena *recv;	 /* at the other: posted receives */
	struct arena *forbidden; /* at the other: region of somebody else */
	struct arena *closed;	 /* at the other: region without rights */
};

enum end_state { END_NEW, END_CONNECTING, END_UP, END_REFUSED, END_ENDED, END_CLOSED, END_DEAD };

/* One end of a connection. */
struct end {
	struct pair *pair;
	struct host *host;
	struct conn *conn;
	enum end_state state;
	int code; /* of REFUSED or ENDED */
	uint64_t up_at, ended_at;
	uint32_t life; /* of its host, when made */
	bool taken;
	struct lane **tx_of, **rx_of; /* by stream */
};

struct pair {
	struct sim *s;
	uint32_t index, service;
	struct end end[2]; /* initiator, acceptor */
	bool may_end;	   /* the scenario ends it: FLUSHED and PEER_GONE are as they should be */
	uint32_t accepted; /* ACCEPTED events */
	struct conn *extra[8]; /* of pairs that share the service (sim.hold_taken) */
	uint32_t nextra;
	struct lane **lanes;
	uint32_t nlanes;
};

struct pair *pair_new(struct sim *s, uint32_t from, uint32_t to);
void pair_listen(struct pair *p);
int pair_connect(struct pair *p);
void pair_close(struct pair *p, uint32_t side, enum mroce_close_code code);
struct lane *lane_new(struct pair *p, const struct lane_params *params);
void lane_free(struct lane *f);
void lane_release_recv(struct lane *f);
bool lane_done(const struct lane *f);
void app_step(struct host *h);
void app_complete(struct host *h, struct conn *conn, const struct engine_completion *c);
void app_event(struct host *h, struct conn *conn, enum conn_event ev, int code);
void app_host_died(struct host *h);

/* ---- hosts ---- */

struct ring {
	struct frame *first, **last;
	uint32_t used, size, dropped;
	bool starved; /* takes nothing: no fill frames */
};

struct sim_port {
	struct port port;
	struct host *host;
	uint32_t plane;
	struct link up;	  /* to the plane */
	struct link down; /* from the plane */
	struct ring ring[MAX_RINGS];
	struct frame *tx; /* between tx_begin and tx_end */
	uint32_t tx_queued;
	bool adopted_only;
	bool no_route;
	const struct port *unresolved;
	struct post_office office;
	uint8_t generation; /* of its address */
	uint64_t tx_packets, tx_refused;
};

struct host {
	struct sim *s;
	uint32_t index, life;
	struct engine *engine;
	struct sim_port *ports;
	uint32_t nports;
	struct post_tables tables;
	struct rng rng;
	uint64_t step_at, step_gen, busy_until, paused_until;
	uint64_t ahead;			    /* its clock against virtual time, modulo 2^64 */
	uint64_t stopped_at, stopped_until; /* its clock stands at the first until the second */
	bool app_dirty, tx_blocked, in_step;
	uint64_t steps, rx_packets;
	uint64_t logged;
	char last_log[200];
	struct pair **pairs;
	uint32_t npairs;
};

int host_start(struct host *h);
void host_kill(struct host *h);
void host_pause(struct host *h, uint64_t until);
/* What its daemon's clock says; makes it jump forward, or stand still for a while. */
uint64_t host_now(const struct host *h);
void host_clock_jump(struct host *h, uint64_t ns);
void host_clock_stop(struct host *h, uint64_t ns);
void host_wake(struct host *h, uint64_t at);
void host_rx(struct host *h, struct sim_port *sp, struct frame *p);
void host_init(struct sim *s, uint32_t index, uint32_t nports);
void host_free(struct host *h);
void host_link(struct host *h, uint32_t port, bool up);
/* The interface gets another MTU, or another address. */
void host_mtu(struct host *h, uint32_t port, uint16_t mtu);
void host_move(struct host *h, uint32_t port);
uint64_t host_ring_drops(const struct host *h);
uint64_t host_reason(const struct host *h, enum mroce_reason reason);

/* ---- the world ---- */

struct sim_config {
	/* shape */
	uint32_t hosts, planes, planes_b; /* planes_b: of hosts 1.. if it differs */
	uint32_t spines;
	uint64_t spine_step_ns; /* spine k is k times so much longer */
	bool routed;		/* every port reaches every port */
	bool ipv6;
	uint32_t mtu;
	/* links */
	uint32_t rate_mbps, uplink_mbps;
	uint64_t delay_ns, queue_bytes, ce_bytes;
	struct impair imp;
	/* hosts */
	bool queues_wander; /* a path's packets come by any queue */
	uint32_t queues, ring, tx_ring, batch;
	uint64_t wake_ns, jitter_ns, socket_ns;
	bool share_maps;
	bool posts; /* ports put letters into envelopes (mroce/post.h); some letters vanish there */
	bool mark;  /* the ports' own virtual queues mark */
	bool no_hints;
	bool no_tolerance;
	/* engine */
	uint32_t paths, streams, chunk, max_conns, letters, messages, tries;
	uint32_t first_psn, first_msg;
	uint64_t silence_ns, handshake_ns, keepalive_ns, stall_ns;
	const char *cc;
	uint8_t key;  /* hosts have this pre-shared key; 0: none */
	bool cookies; /* always asked for */
	/* standard traffic */
	uint32_t pairs, lanes;
	bool one_way; /* else every second lane goes the other way */
	uint32_t kinds;
	uint64_t min, max;
	uint32_t count, window, recv_window;
	uint32_t faults, fault_ppm, tolerant_ppm;
	const struct mroce_tolerance *tolerance;
	enum arena_mode mode;
	uint64_t limit_ns; /* virtual time by which all must be done; 0: 60 s */
};

struct scenario {
	const char *name;
	const char *what;
	struct sim_config cfg;
	void (*run)(struct sim *s); /* NULL: world_standard() */
};

#define MAX_LANES 4096

struct sim {
	const char *scenario;
	struct sim_config cfg;
	uint64_t seed, now;
	uint32_t distribution; /* so many seeds of each figure; 0: a few */
	struct events events;
	struct trace trace;
	struct rng net_rng, app_rng;
	struct host *hosts[MAX_HOSTS];
	struct pair *pairs[MAX_PAIRS];
	struct lane *lanes[MAX_LANES];
	uint32_t npairs, nlanes;
	uint64_t open; /* lanes that are not done */
	struct frame *pool;
	uint32_t frame_room, frames_out;
	tap_fn tap;
	rx_tap_fn rx_tap;
	struct cross *cross;
	uint64_t tap_state[8];
	struct frame *tap_frame; /* one that the tap has kept */
	bool spine_down[MROCE_MAX_PORTS][MAX_SPINES];
	uint64_t sent[MROCE_TYPE_MAX], lost[MROCE_TYPE_MAX], packets, ended_wrong;
	uint32_t drop_first[MROCE_TYPE_MAX];
	bool hold_taken; /* accepted connections stay in the backlog; a pair may get several */
	bool hostile; /* packets are forged: what completes need not be right, but once and safe */
	bool failed, stopping;
	char failure[512];
	char notes[512];
};

void world_build(struct sim *s); /* hosts and links of s->cfg */
void world_free(struct sim *s);
bool world_all_up(struct sim *s);
bool world_connect(struct sim *s);		      /* s->cfg.pairs connections; waits for them */
void world_traffic(struct sim *s);		      /* s->cfg.lanes lanes on each */
void world_traffic_on(struct sim *s, struct pair *p); /* on one, half of them the other way */
bool world_lanes_done(struct sim *s);
void world_wait_lanes(struct sim *s); /* until all is done, or failure at the limit */
void world_finish(struct sim *s);     /* last checks, closes everything, looks for leftovers */
void world_standard(struct sim *s);
/* Runs another world with this configuration; returns virtual ns from connect to the last completion. */
struct sim *world_child(const struct sim *s, const struct sim_config *cfg);
void world_child_end(struct sim *s, struct sim *child);
uint64_t world_time_of(struct sim *s, const struct sim_config *cfg, struct path_stats *sum);
void world_sum(const struct sim *s, struct path_stats *sum);
void world_defaults(struct sim_config *cfg);
void world_wait(struct sim *s, uint64_t ns);
bool world_wait_for(struct sim *s, uint64_t ns, bool (*done)(struct sim *s), const char *what);

extern const struct scenario traffic_scenarios[], life_scenarios[], fault_scenarios[],
	hostile_scenarios[], speed_scenarios[], scale_scenarios[], cc_scenarios[],
	plane_scenarios[], tolerance_scenarios[], self_scenarios[], figure_scenarios[];
void random_config(uint64_t seed, struct sim_config *cfg);
void random_run(struct sim *s);

#endif
