// SPDX-License-Identifier: BSD-2-Clause
#include "sock_pool.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "frame.h"
#include "mroce/post.h"
#include "sock_addr.h"

/* Headers of glibc and of the kernel's IPv6 cannot be had together. */
#ifndef IPV6_UNICAST_IF
#define IPV6_UNICAST_IF 76
#endif

/* Where a port is looked for when the one asked for is taken: the range that the engine chooses from. */
#define RANGE_FIRST 49152u
#define RANGE_MASK 0x3fffu
#define RANGE_STEP 4099u /* odd: comes to every port of the range */
#define MOVE_TRIES 64
#define IDLE_MAX 60
#define SEND_BUFFER (1 << 20)

/* ---- sockets ---- */

static int option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* Any user may bind a fresh socket to a device since Linux 5.7; where not, packets are steered at least. */
static void stay_on_interface(int fd, bool v6, const char *interface, uint32_t ifindex)
{
	if (!ifindex)
		return;
	if (!setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface)))
		return;
	if (v6)
		option(fd, IPPROTO_IPV6, IPV6_UNICAST_IF, (int)htonl(ifindex));
	else
		option(fd, IPPROTO_IP, IP_UNICAST_IF, (int)htonl(ifindex));
}

int sock_common_options(int fd, bool v6, const char *interface, uint32_t ifindex)
{
	int err;

	stay_on_interface(fd, v6, interface, ifindex);
	if (!v6) {
		option(fd, SOL_SOCKET, SO_NO_CHECK, 1);
		err = option(fd, IPPROTO_IP, IP_TOS, FRAME_ECT0);
		return err ? err : option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	}
	option(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
	err = option(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	if (!err)
		err = option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!err)
		err = option(fd, IPPROTO_IPV6, IPV6_TCLASS, FRAME_ECT0);
	return err ? err : option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
}

int sock_make(bool v6, const char *interface, uint32_t ifindex)
{
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = sock_common_options(fd, v6, interface, ifindex);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int sock_bind(int fd, const struct ip *addr, uint16_t udp_port, uint32_t ifindex)
{
	struct sock_addr a;

	sock_addr_set(&a, addr, udp_port, ifindex);
	return bind(fd, &a.any, a.len) ? -errno : 0;
}

/* What strangers send to a path's source port is dropped in the kernel and fills no buffer. */
static void deafen(int fd)
{
	struct sock_filter nothing[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	struct sock_fprog program = { .len = 1, .filter = nothing };

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static void large_send_buffer(int fd)
{
	/* FORCE goes beyond net.core.wmem_max and needs CAP_NET_ADMIN. */
	if (option(fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER))
		option(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
}

/* ---- the pool ---- */

int sock_pool_open(struct sock_pool *p, const struct sock_pool_params *params)
{
	memset(p, 0, sizeof(*p));
	p->outs = malloc(SOCK_POOL_SIZE * sizeof(*p->outs));
	if (!p->outs)
		return -ENOMEM;
	for (uint32_t i = 0; i < SOCK_POOL_SIZE; i++)
		p->outs[i] = (struct sock_out){ .fd = -1 };
	p->letters.fd = -1;
	p->addr = params->addr;
	strncpy(p->interface, params->interface, sizeof(p->interface) - 1);
	p->ifindex = params->ifindex;
	p->limit = params->limit;
	p->log = params->log;
	return 0;
}

void sock_pool_close(struct sock_pool *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		close(p->outs[p->open[i]].fd);
	if (p->letters.fd >= 0)
		close(p->letters.fd);
	p->letters.fd = -1;
	free(p->outs);
	p->outs = NULL;
	p->n = 0;
}

static void tell_moved(struct sock_pool *p, uint16_t wanted, uint16_t real)
{
	char text[IPTEXT_MAX];

	p->moved++;
	if (p->told_moved)
		return;
	p->told_moved = true;
	p->log(LOG_NOTICE,
	       "%s: UDP port %u of %s cannot be had (another program's?): packets of that path "
	       "leave from %u, and so on with others",
	       p->interface, wanted, ip_text(&p->addr, text), real);
}

/* Bound to the port asked for, or to another one. */
static int bind_out(struct sock_pool *p, struct sock_out *o, uint16_t sport)
{
	int err = sport ? sock_bind(o->fd, &p->addr, sport, p->ifindex) : -EACCES;
	uint32_t at = sport;

	o->sport = o->real = sport;
	for (int i = 0; i < MOVE_TRIES && (err == -EADDRINUSE || err == -EACCES); i++) {
		at += RANGE_STEP;
		o->real = (uint16_t)(RANGE_FIRST + (at & RANGE_MASK));
		err = sock_bind(o->fd, &p->addr, o->real, p->ifindex);
	}
	if (!err && o->real != sport)
		tell_moved(p, sport, o->real);
	return err;
}

static int open_out(struct sock_pool *p, struct sock_out *o, uint16_t sport)
{
	int err;

	*o = (struct sock_out){ .fd = -1 };
	o->fd = sock_make(!ip_is_v4(&p->addr), p->interface, p->ifindex);
	if (o->fd < 0) {
		err = o->fd;
		o->fd = -1;
		return err;
	}
	deafen(o->fd);
	large_send_buffer(o->fd);
	err = bind_out(p, o, sport);
	if (err) {
		close(o->fd);
		o->fd = -1;
		return err;
	}
	o->place = (uint16_t)p->n;
	p->open[p->n++] = (uint16_t)(o - p->outs);
	return 0;
}

/* No more descriptors, or no more ports: those that are open will do. */
static void reached_limit(struct sock_pool *p, int err)
{
	if (err == -EADDRNOTAVAIL || err == -ENODEV || err == -ENETDOWN)
		return; /* the address is about to go; netlink will tell */
	if (!p->told_limit)
		p->log(LOG_WARNING,
		       "%s: no more than %u sockets to send from: %s; paths share source ports",
		       p->interface, p->n, strerror(-err));
	p->told_limit = true;
	if (p->n)
		p->limit = p->n;
}

static struct sock_out *share(struct sock_pool *p, uint16_t sport)
{
	struct sock_out *o;

	if (!p->n)
		return NULL;
	p->shared++;
	o = &p->outs[p->open[sport % p->n]];
	o->used = true;
	return o;
}

static uint32_t home_of(uint16_t sport)
{
	return (sport * 40503u >> 4) & (SOCK_POOL_SIZE - 1);
}

struct sock_out *sock_pool_get(struct sock_pool *p, uint16_t sport)
{
	struct sock_out *free_one = NULL;
	int err;

	for (uint32_t i = 0; i < SOCK_POOL_PROBE; i++) {
		struct sock_out *o = &p->outs[(home_of(sport) + i) & (SOCK_POOL_SIZE - 1)];

		if (o->fd >= 0 && o->sport == sport) {
			o->used = true;
			return o;
		}
		if (o->fd < 0 && !free_one)
			free_one = o;
	}
	if (!free_one || p->n >= p->limit)
		return share(p, sport);
	err = open_out(p, free_one, sport);
	if (err) {
		reached_limit(p, err);
		return share(p, sport);
	}
	free_one->used = true;
	return free_one;
}

struct sock_out *sock_pool_letters(struct sock_pool *p)
{
	struct sock_out *o = &p->letters;

	if (o->fd >= 0)
		return o;
	o->fd = sock_make(!ip_is_v4(&p->addr), p->interface, p->ifindex);
	if (o->fd < 0)
		return NULL;
	deafen(o->fd);
	large_send_buffer(o->fd);
	if (!option(o->fd, SOL_SOCKET, SO_MARK, (int)MROCE_LETTER_MARK) &&
	    !sock_bind(o->fd, &p->addr, 0, p->ifindex))
		return o;
	close(o->fd);
	o->fd = -1;
	return NULL;
}

static void close_out(struct sock_pool *p, struct sock_out *o)
{
	uint16_t last = p->open[--p->n];

	close(o->fd);
	p->open[o->place] = last;
	p->outs[last].place = o->place;
	o->fd = -1;
}

void sock_pool_age(struct sock_pool *p)
{
	for (uint32_t i = p->n; i-- > 0;) {
		struct sock_out *o = &p->outs[p->open[i]];

		o->idle = o->used ? 0 : o->idle + 1;
		o->used = false;
		if (o->idle >= IDLE_MAX && !o->waiting)
			close_out(p, o);
	}
}
