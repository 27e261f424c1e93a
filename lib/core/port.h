/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port.h: a port (one network interface, one plane) as the engine sees it. AF_XDP, UDP sockets and the
 * simulated network implement this one table; the engine cannot tell which it runs on.
 */
#ifndef CORE_PORT_H
#define CORE_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "mroce/maps.h"
#include "mroce/post.h"
#include "common/iptext.h"

/* IPv6 address, or IPv4 as ::ffff:a.b.c.d. */
struct ip {
	uint8_t a[16];
};

static inline bool ip_equal(const struct ip *x, const struct ip *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

/* The address as people write it, for messages. */
static inline const char *ip_text(const struct ip *ip, char text[IPTEXT_MAX])
{
	return iptext(ip->a, text);
}

/* Where a path's packets go. The port may keep what it looked up in route/route_version. */
struct flow {
	struct ip remote;
	uint16_t sport;		/* UDP source port, host order */
	uint16_t queue;		/* hint: the same queue for all packets of a path */
	uint32_t route;		/* port's own; 0 before first use */
	uint32_t route_version; /* port's own; 0 before first use */
};

struct port;

struct port_ops {
	/*
	 * Room for a UDP payload of `len` bytes (<= port->payload_max). NULL: none now (no free frame,
	 * ring full, neighbour not resolved yet): the engine tries again at its next run, and counts
	 * nothing as sent. After a pointer was returned, tx_end() follows before any other call.
	 * Headers below UDP are the port's; ECN field ECT(0), UDP checksum zero.
	 */
	void *(*tx_begin)(struct port *port, struct flow *flow, uint32_t len);
	void (*tx_end)(struct port *port, uint32_t len);
	/* Set-up packets: small, rare, may take a system call. 0 or -errno. */
	int (*ctl_send)(struct port *port, const struct ip *remote, const void *payload,
			uint32_t len);
	/* Right after a NULL: had the port no room, for whomever, or is it only that way that is closed? */
	bool (*full)(struct port *port);
	/* May this port reach that address (route known)? */
	bool (*reachable)(struct port *port, const struct ip *remote);
	/* Is that an address of this port's interface? NULL: only port->addr is. */
	bool (*owns)(struct port *port, const struct ip *ip);
	/*
	 * With port->post only. The UDP source port that the flow's packets really have; 0: it is not reachable
	 * now. Room for a letter to flow->remote, with any source port, as with tx_begin(); a second
	 * post_begin() instead of post_end() takes it back. After post_flush() no letter is under way: what
	 * became of each stands in post->tables->posted, or it was not sent. False: some were not, for want of room
	 * at the port.
	 */
	uint16_t (*post_sport)(struct port *port, struct flow *flow);
	void *(*post_begin)(struct port *port, struct flow *flow, uint32_t len);
	void (*post_end)(struct port *port, uint32_t len);
	bool (*post_flush)(struct port *port);
};

/* What engine and kernel half tell each other of letters handed over. Ports may share it. */
struct post_tables {
	struct mroce_post_conn *conns; /* [slot] */
	struct mroce_posted *posted;   /* [cookie & (MROCE_POSTED - 1)] */
	uint32_t cookie;	       /* of the next letter; starts at 1, since `posted` is zero */
};

/* A port's; the engine writes everything but `tables`. */
struct post_office {
	struct post_tables *tables;
	uint64_t silent_since; /* no letter got an envelope; 0: the last did */
	uint64_t off_until;    /* the engine picks paths itself */
	uint64_t sent, returned, refusals;
};

struct port {
	const struct port_ops *ops;
	void *priv;
	char name[16]; /* interface name, for messages */
	uint8_t index; /* in the engine's table; set by engine_port_add() */
	bool up;
	struct ip addr;	      /* own address that peers are told */
	uint16_t mtu;	      /* bytes of IP packet */
	uint16_t payload_max; /* largest UDP payload the port can send and receive */
	uint32_t speed;	      /* Mbit/s, 0 unknown */
	uint16_t serial;      /* of its state; engine_port_changed() counts */
	/* The receive state that this port's tracker writes: [slot * MROCE_MAX_PATHS + path], and
	 * the connection table it reads [slot]. Ports may share them. */
	struct mroce_path_rx *paths;
	struct mroce_conn_entry *conns;
	/* Its kernel half puts letters into envelopes; NULL: the engine does. */
	struct post_office *post;
	/* Of all letters that left by it; grows. */
	uint64_t letter_bytes;
	/* Grows each time the port found all its receive rings and sockets empty. */
	uint64_t drained;
	/* What its user-space tracker counts; XDP has its own. vq.rate 0: off. */
	struct mroce_vqueue_config vq;
	struct mroce_vqueue vq_state;
};

#endif
