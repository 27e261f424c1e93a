// SPDX-License-Identifier: BSD-2-Clause
/* doctor_net.c: the daemon, its interfaces, and what may have been left behind. */
#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd.h"
#include "daemon/bpf/adopt.h"
#include "daemon/bpf/load.h"
#include "daemon/bpf/pin.h"
#include "daemon/net/ethtool.h"
#include "link.h"
#include "mroce/maps.h"
#include "report.h"
#include "units.h"

#define MTU_MIN 1280
/* The kernel keeps 15 bytes of a program's name. */
#define NAME_KEPT 15

/* ---- the daemon ---- */

static void check_version(struct report *r, const json_t *daemon)
{
	const char *version = json_string_value(json_object_get(daemon, "version"));

	if (version && !strcmp(version, MROCE_VERSION))
		return;
	report_line(r, VERDICT_WARN, "version",
		    "restart it after an upgrade: systemctl restart mroced",
		    "mroced is %s, this mroce %s", version ? version : "unknown", MROCE_VERSION);
}

json_t *doctor_daemon(struct report *r)
{
	char text[512];
	char up[UNIT_TEXT];
	const json_t *d;
	json_t *root;
	struct stat st;
	int err = link_show("all", 0, &root);

	if (!err) {
		d = json_object_get(root, "daemon");
		report_line(r, VERDICT_OK, "mroced", NULL, "pid %lld, up %s, socket %s",
			    (long long)json_integer_value(json_object_get(d, "pid")),
			    format_span(up, json_number_value(json_object_get(d, "uptime_s"))),
			    link_socket());
		check_version(r, d);
		return root;
	}
	link_explain(err, text, sizeof(text));
	if (err == -ECONNREFUSED && !stat(link_socket(), &st))
		report_line(r, VERDICT_FAIL, "mroced",
			    "systemctl start mroced, which takes the socket over",
			    "not running; %s is a socket left by one that ended", link_socket());
	else
		report_line(r, VERDICT_FAIL, "mroced", NULL, "%s", text);
	return NULL;
}

/* ---- an interface ---- */

static int interface_ioctl(const char *name, unsigned long request, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", name);
	err = ioctl(fd, request, ifr) ? -errno : 0;
	close(fd);
	return err;
}

static void check_link(struct report *r, const char *name)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq ifr = { 0 };
	bool known;

	ifr.ifr_data = (char *)&info;
	known = !interface_ioctl(name, SIOCETHTOOL, &ifr);
	memset(&ifr, 0, sizeof(ifr));
	if (interface_ioctl(name, SIOCGIFFLAGS, &ifr))
		return;
	if ((ifr.ifr_flags & IFF_UP) && (ifr.ifr_flags & IFF_RUNNING))
		report_line(r, VERDICT_OK, name, NULL, "link up, driver %s",
			    known ? info.driver : "unknown");
	else
		report_line(r, VERDICT_FAIL, name,
			    "ip link set IFACE up, and look at cable and peer",
			    "link down, driver %s", known ? info.driver : "unknown");
}

static void check_mtu(struct report *r, const char *name)
{
	struct ifreq ifr = { 0 };

	if (interface_ioctl(name, SIOCGIFMTU, &ifr))
		return;
	if (ifr.ifr_mtu < MTU_MIN)
		report_line(r, VERDICT_FAIL, name, "ip link set IFACE mtu 1500",
			    "MTU %d is below %d", ifr.ifr_mtu, MTU_MIN);
	else
		report_line(r, VERDICT_OK, name, NULL, "MTU %d%s", ifr.ifr_mtu,
			    ifr.ifr_mtu <= 1500
				    ? "; more would be faster, 3498 is a good value where all "
				      "of the network takes it"
				    : "");
}

static bool has_address(const char *name)
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

		if (strcmp(i->ifa_name, name) || !i->ifa_addr)
			continue;
		found = i->ifa_addr->sa_family == AF_INET ||
			(i->ifa_addr->sa_family == AF_INET6 &&
			 !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
	}
	freeifaddrs(list);
	return found;
}

static void check_address(struct report *r, const char *name)
{
	if (!has_address(name))
		report_line(r, VERDICT_FAIL, name, "ip address add ADDRESS/LENGTH dev IFACE",
			    "has no address that peers could reach");
}

/* Which kind of port mroced uses on it, and why: plain sockets because it could not have better is worth a word. */
static bool check_kind(struct report *r, const char *name, const json_t *port)
{
	const char *kind = json_string_value(json_object_get(port, "kind"));
	const char *why = json_string_value(json_object_get(port, "kind_reason"));
	const char *by = json_string_value(json_object_get(port, "paths_by"));
	const char *reason = json_string_value(json_object_get(port, "paths_reason"));
	bool socket = kind && !strcmp(kind, "socket");

	if (!kind || !why)
		return false;
	if (socket && strncmp(why, "port = auto", strlen("port = auto")) == 0)
		report_line(r, VERDICT_WARN, name,
			    "mend what the reason says and restart mroced, if speed matters; port "
			    "= socket if not",
			    "mroced uses UDP sockets, slower than AF_XDP (%s)", why);
	else
		report_line(r, VERDICT_OK, name, NULL, "mroced uses %s (%s)",
			    socket ? "UDP sockets" : "AF_XDP", why);
	if (socket && by && reason)
		report_line(r, VERDICT_OK, name, NULL, "paths are picked by the %s (%s)", by,
			    reason);
	return socket;
}

static void check_queues(struct report *r, const char *name)
{
	struct ethtool_facts facts;

	memset(&facts, 0, sizeof(facts));
	ethtool_read(name, &facts);
	if (facts.lro)
		report_line(r, VERDICT_FAIL, name, "ethtool -K IFACE lro off",
			    "large receive offload is on, which native XDP does not allow");
	if (facts.rx_queues > MROCE_MAX_QUEUES)
		report_line(r, VERDICT_FAIL, name, "ethtool -L IFACE combined 64",
			    "%u receive queues; at most %d can be served", facts.rx_queues,
			    MROCE_MAX_QUEUES);
	else if (facts.rx_queues > 1 && facts.hash_known && !facts.hash_ports)
		report_line(
			r, VERDICT_WARN,
			name, "ethtool -N IFACE rx-flow-hash udp4 sdfn (and udp6): paths differ only by port",
			"%u receive queues, but UDP is not spread over them by port",
			facts.rx_queues);
	else if (facts.rx_queues)
		report_line(r, VERDICT_OK, name, NULL, "%u receive queue%s%s", facts.rx_queues,
			    facts.rx_queues == 1 ? "" : "s",
			    facts.rx_queues > 1 && facts.hash_known ? ", UDP spread by port" : "");
}

static void check_foreign(struct report *r, const char *name, const struct adopt_found *found)
{
	report_line(r, VERDICT_FAIL, name,
		    found->shared ? "share = yes in mroced.conf puts mroced's program beside it"
				  : "ip link set IFACE xdp off, if it is not needed; or choose "
				    "another interface",
		    "XDP program %s (id %u) is attached and is not mroce's",
		    found->name[0] ? found->name : "(name not visible)", found->prog_id);
}

/* `port`: what the daemon says of the interface; NULL if it does not use it. */
static void check_program(struct report *r, const char *name, const json_t *port)
{
	const char *mode = json_string_value(json_object_get(port, "mode"));
	struct adopt_found found = { 0 };
	int err = adopt_find(if_nametoindex(name), &found);

	if (err == -EPERM || err == -EACCES)
		report_line(r, VERDICT_WARN, name, "run mroce doctor with sudo to know",
			    "not allowed to look at its XDP program");
	else if (!err && found.prog_id && !found.ours && found.name[0])
		check_foreign(r, name, &found);
	else if (!err && !port && found.ours)
		report_line(r, VERDICT_WARN, name, "mroce detach IFACE, unless it waits for mroced",
			    "program %s (id %u) is attached, but no mroced here uses it",
			    found.name, found.prog_id);
	else if (!err && port && !found.prog_id)
		report_line(r, VERDICT_FAIL, name, "systemctl restart mroced",
			    "mroced uses it, but its XDP program is gone");
	else if (port && mode && !strcmp(mode, "generic"))
		report_line(r, VERDICT_WARN, name, "use a driver with native XDP",
			    "generic XDP mode, several times slower");
	else if (port && mode)
		report_line(r, VERDICT_OK, name, NULL, "XDP mode %s, program id %u", mode,
			    found.prog_id);
}

/* Only if they are wanted. */
static void check_pins(struct report *r, const char *name, const json_t *port)
{
	const char *pins = json_string_value(json_object_get(port, "pins"));
	const char *why = json_string_value(json_object_get(port, "pins_reason"));

	if (!pins || !why)
		return;
	if (*pins)
		report_line(r, VERDICT_OK, name, NULL, "maps and programs are pinned in %s", pins);
	else
		report_line(r, VERDICT_WARN, name,
			    "mend what the reason says and restart mroced, or pin = no",
			    "pin = yes, but nothing is pinned (%s)", why);
}

static void check_neighbours(struct report *r, const char *name, const json_t *port)
{
	const json_t *n;
	size_t i;

	json_array_foreach(json_object_get(port, "neighbours"), i, n)
	{
		const char *addr = json_string_value(json_object_get(n, "addr"));
		const char *state = json_string_value(json_object_get(n, "state"));
		bool bad = state &&
			   (!strcasecmp(state, "failed") || !strcasecmp(state, "incomplete"));

		report_line(r, bad ? VERDICT_WARN : VERDICT_OK, name,
			    bad ? "see whether that host is up: ping it" : NULL, "neighbour %s %s",
			    addr ? addr : "?", state ? state : "?");
	}
}

void doctor_interface(struct report *r, const char *name, const json_t *port)
{
	if (!if_nametoindex(name)) {
		report_line(r, VERDICT_FAIL, name, "ip link shows which there are",
			    "no such interface");
		return;
	}
	check_link(r, name);
	check_mtu(r, name);
	check_address(r, name);
	/* With plain sockets the kernel sees to queues, and XDP programs of others are no matter. */
	if (!check_kind(r, name, port)) {
		check_queues(r, name);
		check_program(r, name, port);
	}
	check_pins(r, name, port);
	check_neighbours(r, name, port);
}

/* ---- leftovers ---- */

static bool is_ours(const char *name)
{
	static const char *const names[] = { BPF_XDP_PROGRAM, BPF_TC_INGRESS_PROGRAM,
					     BPF_TC_EGRESS_PROGRAM };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], NAME_KEPT))
			return true;
	return false;
}

/* Programs of ours in the kernel, in whatever namespace; -errno if that cannot be seen. */
static int count_programs(void)
{
	uint32_t id = 0;
	int count = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = { 0 };
		uint32_t len = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0 && errno != ENOENT)
			return -errno;
		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &len))
			count += is_ours(info.name);
		close(fd);
	}
	return errno == ENOENT ? count : -errno;
}

static void check_programs(struct report *r, const json_t *daemon)
{
	int count = count_programs();

	if (count < 0)
		report_line(r, VERDICT_WARN, "leftovers", "run mroce doctor with sudo to know",
			    "cannot list BPF programs: %s", strerror(-count));
	else if (count && !daemon)
		report_line(r, VERDICT_WARN, "leftovers",
			    "mroce detach, unless a mroced in another network namespace owns them",
			    "%d BPF program%s of mroce's loaded, and no mroced answers here", count,
			    count == 1 ? "" : "s");
	else
		report_line(r, VERDICT_OK, "leftovers", NULL,
			    "%d BPF programs of mroce's in the kernel%s", count,
			    count ? ", for the running mroced" : "");
}

static void tell_stale(void *r, const char *path)
{
	report_line(r, VERDICT_WARN, "leftovers", "mroce detach",
		    "%s has pins of an mroced that is gone", path);
}

void doctor_leftovers(struct report *r, const json_t *daemon)
{
	check_programs(r, daemon);
	pin_each_stale(tell_stale, r);
}
