/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabricctl show: settings and counters, for people or as JSON.
 */
#ifndef MROCE_TESTS_FABRIC_CTL_SHOW_H
#define MROCE_TESTS_FABRIC_CTL_SHOW_H

#include "ctl_maps.h"
#include "netctl.h"

struct plane_view {
	const char *netns;
	struct maps maps;
	struct fab_config cfg;
	struct net_stats ports[FAB_MAX_IFINDEX];
	struct net_stats hosts[FAB_MAX_HOSTS]; /* of the host's end */
};

static int counters_read(const struct plane_view *view, __u32 key, struct fab_counters *sum)
{
	int cpus = libbpf_num_possible_cpus();
	struct fab_counters each[cpus > 0 ? cpus : 1];
	__u64 *to = (__u64 *)sum, *from;

	*sum = (struct fab_counters){};
	if (cpus < 1 || bpf_map_lookup_elem(view->maps.counters, &key, each))
		return fail("cannot read counters: %s", strerror(errno));
	for (int cpu = 0; cpu < cpus; cpu++) {
		from = (__u64 *)&each[cpu];
		for (size_t i = 0; i < sizeof(*sum) / sizeof(__u64); i++)
			to[i] += from[i];
	}
	return 0;
}

static void types_text(__u64 types, const char *separator, char *out, size_t size)
{
	size_t at = 0;

	out[0] = 0;
	for (int t = 0; t < 64 && at < size; t++) {
		if (types >> t & 1)
			at += snprintf(out + at, size - at, "%s%d", at ? separator : "", t);
	}
}

static void json_rule(const struct fab_rule *rule)
{
	char types[256];
	bool burst = rule->flags & FAB_RULE_BURST;

	types_text(rule->only_types, ",", types, sizeof(types));
	printf("\"settings\":{\"loss\":%g,\"burst_p\":%g,\"burst_r\":%g,\"dup\":%g,\"corrupt\":%g,"
	       "\"truncate\":%g,\"reorder\":%g,\"reorder_gap\":%u,\"ce\":%g,\"blackhole\":%s,"
	       "\"only_types\":[%s]}",
	       burst ? 0 : percent_of(rule->loss), burst ? percent_of(rule->burst_p) : 0,
	       burst ? percent_of(rule->burst_r) : 0, percent_of(rule->dup),
	       percent_of(rule->corrupt), percent_of(rule->truncate), percent_of(rule->reorder),
	       rule->reorder_gap, percent_of(rule->ce),
	       rule->flags & FAB_RULE_BLACKHOLE ? "true" : "false", types);
}

static void json_counters(const struct fab_counters *n)
{
	printf(",\"packets\":%llu,\"bytes\":%llu,\"lost\":%llu,\"lost_burst\":%llu,\"blackholed\":%"
	       "llu,"
	       "\"duplicated\":%llu,\"corrupted\":%llu,\"truncated\":%llu,\"reordered\":%llu,"
	       "\"released\":%llu,\"released_by_time\":%llu,\"reorder_skipped\":%llu,"
	       "\"ce_marked\":%llu,\"delayed\":%llu,\"delay_dropped\":%llu,\"flooded\":%llu",
	       n->packets, n->bytes, n->lost, n->lost_burst, n->blackholed, n->duplicated,
	       n->corrupted, n->truncated, n->held, n->released, n->released_by_time, n->hold_full,
	       n->ce_marked, n->delayed, n->delay_dropped, n->flooded);
}

/* The queue a packet waits in before it goes in direction dir over the link of port nr. */
static void ends_of(const struct plane_view *view, __u32 nr, const struct fab_port *port, __u32 dir,
		    struct net_stats *out)
{
	if (dir == FAB_TO)
		*out = view->ports[port->ifindex];
	else if (port->kind == FAB_EDGE)
		*out = view->hosts[nr];
	else /* the other end is a port, too, and counts it */
		*out = (struct net_stats){};
}

static int json_port(const struct plane_view *view, __u32 nr)
{
	struct net_stats end;
	static const char *const dirs[] = { "from", "to" };
	struct fab_counters count;
	struct fab_port port;
	struct fab_rule rule;
	char name[IFNAMSIZ];
	__u32 key;

	port_name(&view->cfg, nr, name);
	if (bpf_map_lookup_elem(view->maps.ports, &nr, &port))
		return fail("cannot read port %s: %s", name, strerror(errno));
	printf("%s{\"port\":\"%s\",\"kind\":\"%s\",\"up\":%s,\"rate\":%llu,\"limit\":%llu,"
	       "\"ce_threshold\":%llu,\"delay_us\":%g,\"queue_bytes\":%u",
	       nr ? "," : "", name, kind_name(port.kind), net_is_up(name) ? "true" : "false",
	       port.rate, port.limit, port.ce_threshold, port.delay_ns / 1e3,
	       view->ports[port.ifindex].queue_bytes);
	for (__u32 dir = 0; dir < FAB_DIRS; dir++) {
		key = 2 * nr + dir;
		if (bpf_map_lookup_elem(view->maps.rules, &key, &rule) ||
		    counters_read(view, key, &count))
			return -EIO;
		ends_of(view, nr, &port, dir, &end);
		printf(",\"%s\":{\"queue_drops\":%llu,\"link_drops\":%llu,", dirs[dir],
		       end.queue_drops, end.link_drops);
		json_rule(&rule);
		json_counters(&count);
		putchar('}');
	}
	putchar('}');
	return 0;
}

static int json_plane(const struct plane_view *view)
{
	const struct fab_config *cfg = &view->cfg;
	int err = 0;

	printf("{\"plane\":%u,\"netns\":\"%s\",\"hosts\":%u,\"leaves\":%u,\"spines\":%u,\"queues\":"
	       "%u,"
	       "\"seed\":%llu,\"udp_port\":%u,\"ecmp_salt\":%u,\"ports\":[",
	       cfg->plane, view->netns, cfg->hosts, cfg->spines ? cfg->leaves : 0, cfg->spines,
	       cfg->queues, cfg->seed, cfg->udp_port, cfg->ecmp_salt);
	for (__u32 nr = 0; nr < cfg->ports && !err; nr++)
		err = json_port(view, nr);
	printf("]}");
	return err;
}

static void text_percent(const char *name, __u32 p)
{
	if (p)
		printf(" %s %g%%", name, percent_of(p));
}

static void text_rule(const char *port, const char *dir, const struct fab_rule *rule)
{
	static const struct fab_rule nothing;
	char types[256];

	if (!memcmp(rule, &nothing, sizeof(nothing)))
		return;
	printf("    %s %s:", dir, port);
	if (rule->flags & FAB_RULE_BLACKHOLE)
		printf(" blackhole");
	if (rule->flags & FAB_RULE_BURST)
		printf(" burst %g%%,%g%%", percent_of(rule->burst_p), percent_of(rule->burst_r));
	else
		text_percent("loss", rule->loss);
	text_percent("dup", rule->dup);
	text_percent("corrupt", rule->corrupt);
	text_percent("truncate", rule->truncate);
	text_percent("reorder", rule->reorder);
	if (rule->reorder)
		printf(" gap %u", rule->reorder_gap);
	text_percent("ce", rule->ce);
	types_text(rule->only_types, ",", types, sizeof(types));
	if (*types)
		printf(" only-type %s", types);
	putchar('\n');
}

static void text_counters(const char *name, const char *dir, const struct fab_counters *n,
			  const struct net_stats *end)
{
	printf("  %-6s %-4s %11llu %14llu %8llu %8llu %8llu %7llu %7llu %7llu %7llu %8llu %8llu "
	       "%8llu\n",
	       name, dir, n->packets, n->bytes, n->lost, n->lost_burst, n->blackholed, n->duplicated,
	       n->corrupted, n->truncated, n->held, n->ce_marked, end->queue_drops, end->link_drops);
}

static int text_port(const struct plane_view *view, __u32 nr, bool rules)
{
	static const char *const dirs[] = { "from", "to" };
	struct fab_counters count;
	struct fab_port port;
	struct fab_rule rule;
	struct net_stats end;
	char name[IFNAMSIZ];
	__u32 key;

	port_name(&view->cfg, nr, name);
	if (bpf_map_lookup_elem(view->maps.ports, &nr, &port))
		return fail("cannot read port %s: %s", name, strerror(errno));
	if (rules && !net_is_up(name))
		printf("    %s: link down\n", name);
	if (rules && port.rate)
		printf("    to %s: rate %gmbit limit %llu bytes ce-threshold %llu bytes\n", name,
		       port.rate / 1e6, port.limit, port.ce_threshold);
	if (rules && port.delay_ns)
		printf("    to %s: delay %gus\n", name, port.delay_ns / 1e3);
	for (__u32 dir = 0; dir < FAB_DIRS; dir++) {
		key = 2 * nr + dir;
		if (bpf_map_lookup_elem(view->maps.rules, &key, &rule) ||
		    counters_read(view, key, &count))
			return -EIO;
		ends_of(view, nr, &port, dir, &end);
		if (rules)
			text_rule(name, dirs[dir], &rule);
		else
			text_counters(name, dirs[dir], &count, &end);
	}
	return 0;
}

static int text_plane(const struct plane_view *view)
{
	const struct fab_config *cfg = &view->cfg;
	int err = 0;

	printf("plane %u (%s): %u hosts", cfg->plane, view->netns, cfg->hosts);
	if (cfg->spines)
		printf(", %u leaves x %u spines", cfg->leaves, cfg->spines);
	printf(", seed %llu\n", cfg->seed);
	for (__u32 nr = 0; nr < cfg->ports && !err; nr++)
		err = text_port(view, nr, true);
	printf("  %-6s %-4s %11s %14s %8s %8s %8s %7s %7s %7s %7s %8s %8s %8s\n", "port", "dir",
	       "packets", "bytes", "lost", "in burst", "blackhol", "dup", "corrupt", "trunc",
	       "reorder", "ce", "q-drops", "l-drops");
	for (__u32 nr = 0; nr < cfg->ports && !err; nr++)
		err = text_port(view, nr, false);
	return err;
}

/* netns is mr-NAME-s<plane>; its hosts are mr-NAME-h<host>, and their interface here is p<plane>. */
static int hosts_read(struct plane_view *view)
{
	static struct net_stats all[FAB_MAX_IFINDEX];
	char host[64], ifname[IFNAMSIZ];
	const char *dash = strrchr(view->netns, '-');
	unsigned int ifindex;

	snprintf(ifname, sizeof(ifname), "p%u", view->cfg.plane);
	for (__u32 h = 0; h < view->cfg.hosts; h++) {
		snprintf(host, sizeof(host), "%.*s-h%u", (int)(dash ? dash - view->netns : 0),
			 view->netns, h + 1);
		if (net_enter(host) || net_stats(all, FAB_MAX_IFINDEX))
			return -EIO;
		ifindex = if_nametoindex(ifname);
		view->hosts[h] = all[ifindex < FAB_MAX_IFINDEX ? ifindex : 0];
	}
	return net_enter(view->netns);
}

static int show_plane(const char *netns, bool json)
{
	static struct plane_view view;
	int err;

	view.netns = netns;
	if (net_enter(netns) || maps_find(netns, &view.maps))
		return -EIO;
	err = config_read(&view.maps, &view.cfg);
	if (!err)
		err = hosts_read(&view);
	if (!err)
		err = net_stats(view.ports, FAB_MAX_IFINDEX);
	if (!err)
		err = json ? json_plane(&view) : text_plane(&view);
	maps_close(&view.maps);
	return err;
}

/* show text|json NETNS... */
static int cmd_show(int argc, char **argv)
{
	bool json = argc > 1 && !strcmp(argv[1], "json");
	int err = 0;

	if (json)
		putchar('[');
	for (int i = 2; i < argc && !err; i++) {
		if (json && i > 2)
			putchar(',');
		err = show_plane(argv[i], json);
	}
	if (json)
		puts("]");
	return err;
}

#endif
