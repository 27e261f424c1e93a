// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which interfaces to use when nobody named one. With plain sockets nothing is attached to an interface and nobody
 * else is disturbed, so it may be chosen for the user: those that default routes lead over; on a host
 * without any, all that are up and have an address that others can reach.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include "sock_choose.h"

#define ROUTES_V4 "/proc/net/route"
#define ROUTES_V6 "/proc/net/ipv6_route"

static bool known(const struct sock_choice *c, const char *name)
{
	for (uint32_t i = 0; i < c->n; i++) {
		if (!strcmp(c->names[i], name))
			return true;
	}
	return false;
}

static void add(struct sock_choice *c, const char *name)
{
	if (known(c, name))
		return;
	if (c->n == MROCE_MAX_PORTS) {
		c->left_out++;
		return;
	}
	snprintf(c->names[c->n++], IFNAMSIZ, "%s", name);
}

static bool good_address(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING) ||
	    i->ifa_flags & IFF_LOOPBACK)
		return false;
	return i->ifa_addr->sa_family == AF_INET ||
	       (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
}

/* All good ones, or those of them that are also in `among`. */
static int add_good(struct sock_choice *c, const struct sock_choice *among)
{
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return -errno;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (good_address(i) && (!among || known(among, i->ifa_name)))
			add(c, i->ifa_name);
	}
	freeifaddrs(list);
	return 0;
}

static void defaults_v4(FILE *f, struct sock_choice *out)
{
	char line[256], name[IFNAMSIZ];
	unsigned int dst, mask;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%15s %x %*x %*x %*d %*d %*d %x", name, &dst, &mask) == 3 &&
		    dst == 0 && mask == 0)
			add(out, name);
	}
}

static void defaults_v6(FILE *f, struct sock_choice *out)
{
	char line[256], name[IFNAMSIZ], dst[40];
	unsigned int len;

	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%32s %x %*s %*x %*s %*x %*x %*x %*x %15s", dst, &len, name) == 3 &&
		    len == 0 && strspn(dst, "0") == strlen(dst) && strcmp(name, "lo"))
			add(out, name);
	}
}

static void read_routes(const char *path, void (*read)(FILE *f, struct sock_choice *out),
			struct sock_choice *out)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return; /* a kernel without this family */
	read(f, out);
	fclose(f);
}

int sock_choose(struct sock_choice *out)
{
	struct sock_choice defaults = { 0 };
	int err;

	memset(out, 0, sizeof(*out));
	read_routes(ROUTES_V4, defaults_v4, &defaults);
	read_routes(ROUTES_V6, defaults_v6, &defaults);
	out->by_default_route = defaults.n != 0;
	err = add_good(out, defaults.n ? &defaults : NULL);
	if (err)
		return err;
	return out->n ? 0 : -ENODEV;
}
