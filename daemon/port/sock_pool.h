/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock_pool.h: the UDP sockets that one source address sends from, one for each UDP source port. A path's
 * source port is what the network hashes on, so every path needs a socket bound to its number; connections
 * whose paths have the same number share it. Nothing is received here: answers go to the service's port.
 *
 * The number of sockets is bounded. Beyond the bound, and where another program has a port, a flow leaves from
 * another port of the pool: the same one as long as the pool stays as it is. Nobody at the other end
 * minds: receivers look at cid, token and path, not at the source port.
 */
#ifndef PORT_SOCK_POOL_H
#define PORT_SOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include "core/port.h"
#include "log.h"

#define SOCK_POOL_SIZE 512 /* places; a power of two */
#define SOCK_POOL_PROBE 8  /* places that a source port may be in */

/* A socket, and the packets that wait to leave by it (see sock_tx.c). */
struct sock_out {
	int fd;			       /* -1: free */
	uint16_t sport;		       /* that flows ask for */
	uint16_t real;		       /* that it is bound to */
	uint16_t first, last, waiting; /* slots */
	uint16_t place;		       /* in the pool's list of open ones */
	uint16_t idle;		       /* seconds */
	bool used;
};

struct sock_pool {
	struct ip addr;
	char interface[16];
	uint32_t ifindex;
	log_fn log;
	struct sock_out *outs;	       /* SOCK_POOL_SIZE; NULL: the pool is closed */
	struct sock_out letters;       /* for what is to get its source port on its way */
	uint16_t open[SOCK_POOL_SIZE]; /* places in use */
	uint32_t n, limit;
	uint64_t moved;	 /* sockets bound to another port than asked for */
	uint64_t shared; /* times that a flow was sent to somebody else's socket */
	bool told_moved, told_limit;
};

struct sock_pool_params {
	struct ip addr;
	const char *interface;
	uint32_t ifindex;
	uint32_t limit; /* sockets, 1 .. SOCK_POOL_SIZE */
	log_fn log;
};

/* 0, -ENOMEM. No socket is opened yet. */
int sock_pool_open(struct sock_pool *p, const struct sock_pool_params *params);
void sock_pool_close(struct sock_pool *p);
/* The socket of a source port, opened if need be. NULL: none can be had now. */
struct sock_out *sock_pool_get(struct sock_pool *p, uint16_t sport);
/* The socket of letters handed over, opened if need be. NULL: it cannot be had. */
struct sock_out *sock_pool_letters(struct sock_pool *p);
/* Once a second: closes what nobody has used for a minute. */
void sock_pool_age(struct sock_pool *p);

/* What every socket of ours has: no UDP checksum, ECT(0), never fragmented, on this interface. */
int sock_common_options(int fd, bool v6, const char *interface, uint32_t ifindex);
/* A non-blocking UDP socket with these options, not bound. A descriptor, or -errno. */
int sock_make(bool v6, const char *interface, uint32_t ifindex);
/* 0 or -errno */
int sock_bind(int fd, const struct ip *addr, uint16_t udp_port, uint32_t ifindex);

#endif
