/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * portset.h: all ports of a daemon: opens the interfaces as AF_XDP ports or as plain UDP sockets, owns
 * them and the netlink mirror, and feeds the engine.
 * Called from the worker's thread only.
 */
#ifndef PORT_PORTSET_H
#define PORT_PORTSET_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "core/engine.h"

struct portset;

#define PORT_MTU_MIN 1280

enum port_choice {
	PORT_AFXDP,  /* BPF programs and AF_XDP sockets */
	PORT_SOCKET, /* plain UDP sockets; needs no privilege */
	PORT_AUTO,   /* AF_XDP if it can be had, else sockets, with a warning that says why */
};

struct portset_config {
	enum port_choice port;
	/* NAME or NAME@ADDRESS (the address that peers are told; default: the first global IPv4 address of
	 * the interface, else IPv6); NULL-terminated if fewer. None, and PORT_SOCKET: chosen by routes */
	const char *interfaces[MROCE_MAX_PORTS];
	uint16_t udp_port;  /* default MROCE_UDP_PORT */
	bool allow_generic; /* take generic (skb) mode if native is refused; default no */
	bool nack;	    /* kernel NACKs by the TC programs; default yes */
	bool handover; /* socket ports: paths are picked by a TC program if it can be had; default yes */
	bool adopt; /* use an mroce_xdp program already attached by `ip link`; default yes */
	bool share; /* by libxdp's dispatcher, with XDP programs of others; default no */
	bool pin;   /* maps and programs, under /sys/fs/bpf/mroce; default no */
	uint32_t link_mbps;	/* what the link of each interface carries; 0: as its driver says */
	bool mark;		/* virtual queues mark; default no */
	uint32_t ring_size;	/* rx and tx ring, frames, power of two; default 4096 */
	const char *object_dir; /* where mroce_*.bpf.o lie, NULL: the built-in skeletons */
	/* Called while a send or receive needs it; see worker */
	void (*log)(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
};

/* Adds every port to the engine. On failure explains through cfg->log, leaves nothing attached. */
int portset_open(const struct portset_config *cfg, struct engine *e, struct portset **out);
/* Detaches and puts back everything that was changed. */
void portset_close(struct portset **ps);

/* Receives at most about `budget` packets, all ports and doors; hands them to engine_rx() in batches,
 * each ended by engine_rx_flush(). Returns packets received. */
uint32_t portset_rx(struct portset *ps, uint64_t now, uint32_t budget);
/* Sends what tx_begin()/tx_end() queued, and takes finished frames back. Returns true while frames still
 * wait for the kernel (call again soon). */
bool portset_tx(struct portset *ps);
/* One descriptor (epoll) readable when a packet, an ICMP error or a netlink message is there. */
int portset_fd(const struct portset *ps);
/* Whether packets make it readable: on at first. A worker that polls anyway saves the kernel a wake-up per packet.
 * 0 or -errno. */
int portset_listen(struct portset *ps, bool on);
/* Every 10 ms under load and whenever woken: netlink changes (engine_port_changed()), statistics of the sockets,
 * and in debug builds the sum of umem frames. */
void portset_housekeep(struct portset *ps, uint64_t now);
/* Kernel-side counters summed over CPUs and ports, index = enum mroce_reason. */
void portset_counters(const struct portset *ps, uint64_t out[MROCE_COUNTERS]);
/* How many ports are up, of how many. */
void portset_planes(const struct portset *ps, uint32_t *up, uint32_t *all);
/* Array, an object a port: kind, kind_reason, name, addr, mtu, up, mode, neighbours; and what the kind has. */
json_t *portset_show(const struct portset *ps);

/* For `mroce detach`: removes everything of ours from an interface (own or adopted program, TC programs, pins).
 * Returns how many things were removed, or -errno. */
int portset_detach(const char *interface, void (*log)(int level, const char *fmt, ...));

#endif
