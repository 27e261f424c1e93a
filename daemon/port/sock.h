/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.h: a port made of plain UDP sockets: for ordinary users, containers, and interfaces or kernels without
 * AF_XDP. Needs no privilege. What the XDP program does elsewhere (tracking, ACKs, NACKs) is done by
 * its twin in user space, on tables in plain memory.
 *
 *   sock.c       state of the interface, life
 *   sock_tx.c    packets out: a queue, and a socket per UDP source port (sock_pool.h)
 *   sock_post.c  letters that a TC program puts into envelopes, where BPF may be loaded
 *   sock_rx.c    packets in: one or more sockets on the service's port, per address
 */
#ifndef PORT_SOCK_H
#define PORT_SOCK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uthash.h>
#include "core/engine.h"
#include "daemon/net/watch.h"
#include "portkind.h"
#include "sock_addr.h"
#include "sock_pool.h"
#include "sock_post.h"

/* The largest IP packet: a jumbo frame's. No XDP buffer limits it. */
#define SOCK_IP_MAX 9216
#define SOCK_BUFFER 9216 /* of one UDP payload */
#define SOCK_TX_SLOTS 128
#define SOCK_TX_BATCH 64
#define SOCK_RX_BATCH 32
/* Addresses of one interface that are served. */
#define SOCK_ADDRS 8
/* Sockets on the service's port of one address, when the kernel grants only small buffers. */
#define SOCK_DOORS 8

/* For what arrives while the daemon does something else, bytes of kernel memory. */
#define SOCK_ROOM (8 << 20)
#define SOCK_ROOM_ENOUGH (4 << 20)

/* One packet received; its buffers are shared by all ports, since a batch is done with before the next. */
struct sock_rx_slot {
	uint8_t data[SOCK_BUFFER];
	struct sock_addr from;
	struct iovec iov;
	uint8_t control[64] __attribute__((aligned(8)));
};

struct sock_shared {
	struct mroce_conn_entry *conns;
	struct mroce_path_rx *paths;
	uint64_t counters[MROCE_COUNTERS];
	struct sock_rx_slot *slots; /* SOCK_RX_BATCH */
	struct mmsghdr msgs[SOCK_RX_BATCH];
	uint32_t pool_limit; /* sockets of one source address */
	struct sock_post_shared post;
};

/* A remote address: where it is reached from. */
struct sock_dest {
	struct ip remote;
	uint32_t number;	/* position in the table + 1 */
	uint32_t version;	/* of the mirror when last looked up */
	struct sock_pool *pool; /* NULL: not reachable */
	struct sock_addr to;
	uint32_t headers; /* IP and UDP */
	UT_hash_handle hh;
};

struct sock_dests {
	struct sock_dest **at; /* flow.route is a number */
	uint32_t n, size;
	struct sock_dest *hash;
};

struct sock_tx_slot {
	uint8_t data[SOCK_BUFFER];
	struct iovec iov;
	const struct sock_addr *to;
	uint16_t next;
};

struct sock_tx {
	struct sock_tx_slot *slots; /* SOCK_TX_SLOTS */
	uint16_t free[SOCK_TX_SLOTS];
	uint32_t nfree;
	struct sock_out *busy[SOCK_TX_SLOTS]; /* sockets with packets waiting */
	uint32_t nbusy;
	/* between tx_begin() and tx_end() */
	uint16_t slot;
	struct sock_out *out;
	struct sock_dest *dest;
	uint64_t packets, full, errors, lost;
	int last_error;
};

/* A socket on the service's port. */
struct sock_door {
	int fd;
	uint32_t overflow; /* the kernel's counter when last seen */
};

/* An own address. */
struct sock_addr_in {
	struct ip addr;
	struct sock_door doors[SOCK_DOORS];
	uint32_t ndoors;       /* 0: this place is free */
	struct sock_pool pool; /* to send from it; opened when first needed */
};

struct sock {
	struct port port; /* what the engine sees */
	struct engine *engine;
	struct sock_shared *shared;
	log_fn log;
	struct mirror_if *mif;
	struct watch *watch;
	struct ip wanted; /* address asked for by NAME@ADDRESS */
	bool address_wanted;
	uint16_t udp_port;
	bool nack;	       /* answer gaps at once */
	uint32_t receive_room; /* to ask for, per door */
	uint32_t ip_max;       /* largest IP packet that may be sent */
	int epoll;	       /* of all doors */
	struct sock_addr_in addrs[SOCK_ADDRS];
	struct sock_dests dests;
	struct sock_tx tx;
	struct sock_post post;
	uint64_t rx_packets, rx_dropped, rx_strange;
	uint64_t ctl_packets;
	uint64_t now; /* of the last call that had one */
};

/* sock.c */
struct sock_addr_in *sock_addr_find(struct sock *s, const struct ip *addr);
/* The pool of a source address; NULL: none. */
struct sock_pool *sock_pool_of(struct sock *s, const struct ip *src);

/* sock_tx.c */
int sock_tx_open(struct sock *s);
void sock_tx_close(struct sock *s);
void *sock_tx_begin(struct port *port, struct flow *flow, uint32_t len);
void sock_tx_end(struct port *port, uint32_t len);
bool sock_full(struct port *port);
/* Letters handed over: they leave by one socket, whatever their paths. */
uint16_t sock_post_sport(struct port *port, struct flow *flow);
void *sock_post_begin(struct port *port, struct flow *flow, uint32_t len);
bool sock_post_flush(struct port *port);
bool sock_reachable(struct port *port, const struct ip *remote);
bool sock_owns(struct port *port, const struct ip *ip);
int sock_ctl_send(struct port *port, const struct ip *remote, const void *payload, uint32_t len);
/* Gives what is queued to the kernel. True while it takes no more. */
bool sock_tx_flush(struct sock *s);
/* Forgets what is queued, and where to. Before pools are closed. */
void sock_tx_drop(struct sock *s);

/* sock_rx.c */
/* The sockets of one own address. 0 or -errno, explained. */
int sock_doors_open(struct sock *s, struct sock_addr_in *a);
void sock_doors_close(struct sock_addr_in *a);
int sock_rx_prepare(struct sock_shared *shared);
uint32_t sock_rx(struct sock *s, uint64_t now, uint32_t budget);

/* sock_show.c */
json_t *sock_show(const struct port *port);

#endif
