/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mirror.h: what the kernel knows about our interfaces, mirrored by netlink: link state, addresses,
 * routes and neighbours. AF_XDP frames bypass the kernel's own look-up, so the port looks up here.
 *
 * The tables (this file's first half) know nothing of sockets: they eat netlink messages, so that
 * tests can feed them. watch.h keeps them fed.
 */
#ifndef NET_MIRROR_H
#define NET_MIRROR_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/netlink.h>
#include <uthash.h>
#include "core/port.h"

#define MIRROR_INTERFACES MROCE_MAX_PORTS

struct mirror_addr {
	struct ip ip;
	uint8_t scope; /* RT_SCOPE_* */
	bool usable;   /* not tentative, failed or deprecated */
};

struct mirror_route {
	struct ip dst;
	struct ip via; /* all zero: on link */
	uint32_t metric, table;
	uint8_t prefix_len; /* of dst as written here: an IPv4 /24 counts 120 */
	bool v4;
};

struct mirror_neigh {
	struct ip ip;
	uint8_t mac[6];
	uint16_t state; /* NUD_* */
	uint64_t asked; /* when the kernel was last asked to resolve or confirm it, ns */
	UT_hash_handle hh;
};

struct mirror_if {
	char name[16];	 /* as configured: an interface of this name is ours */
	char called[16]; /* by the kernel now: interfaces can be renamed */
	uint32_t ifindex;
	uint32_t again; /* another interface of that name, which was told and is not used */
	bool exists;
	bool lost; /* it was gone since the user of it cleared this: nothing that was bound to it still is */
	bool listed;	/* in the dump that is being read */
	uint32_t flags; /* IFF_* */
	uint32_t mtu;
	uint32_t rx_queues; /* allocated; fewer may be in use */
	uint8_t mac[6];
	struct mirror_addr *addrs;
	uint32_t naddrs;
	struct mirror_route *routes;
	uint32_t nroutes, routes_size;
	struct mirror_neigh *neighs; /* hash by ip */
	bool changed;		     /* link or address: cleared by the reader */
};

struct mirror {
	struct mirror_if ifs[MIRROR_INTERFACES];
	uint32_t nifs;
	uint32_t version; /* grows when an answer of mirror_resolve() may have changed; never 0 */
	bool stale;	  /* something was removed that the kernel does not report piece by piece */
};

struct mirror_target {
	struct ip src, next_hop;
	uint8_t src_mac[6], dst_mac[6];
};

void mirror_init(struct mirror *m);
void mirror_free(struct mirror *m);
/* Index of the new interface in ifs[], or -ENOSPC. */
int mirror_add_interface(struct mirror *m, const char *name, uint32_t ifindex);
/* The interface of that name is another one now, with this number. Follow it by a full dump. */
void mirror_rebind(struct mirror_if *mif, uint32_t ifindex);
/* Before a full dump: forgets routes, addresses and neighbours. */
void mirror_forget(struct mirror *m);
/* After its list of links: those that were not in it are gone. */
void mirror_links_listed(struct mirror *m);
/* One message of any kind; what is not about our interfaces is ignored. */
void mirror_apply(struct mirror *m, const struct nlmsghdr *nlh);

/*
 * How to reach `remote` by that interface. `prefer` is used as source if it is of the same family.
 * 0: *out is complete. -EAGAIN: all but dst_mac known, ask the kernel to resolve out->next_hop.
 * -EHOSTUNREACH: no route or no source address.
 */
int mirror_resolve(const struct mirror_if *mif, const struct ip *remote, const struct ip *prefer,
		   struct mirror_target *out);
/* First global address, IPv4 before IPv6; NULL if there is none. */
const struct mirror_addr *mirror_first_address(const struct mirror_if *mif);
bool mirror_has_address(const struct mirror_if *mif, const struct ip *ip);
struct mirror_neigh *mirror_neigh(const struct mirror_if *mif, const struct ip *ip);
bool mirror_neigh_valid(const struct mirror_neigh *n);
const char *mirror_neigh_state(uint16_t nud_state);
/* Has the administrator switched the link on? */
bool mirror_link_enabled(const struct mirror_if *mif);
/* Is the link administratively and physically up? */
bool mirror_link_up(const struct mirror_if *mif);

#endif
