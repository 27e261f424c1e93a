/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabricctl: the ports of a plane, and the maps of its switch, found through the program attached to
 * its first port.
 */
#ifndef MROCE_TESTS_FABRIC_CTL_MAPS_H
#define MROCE_TESTS_FABRIC_CTL_MAPS_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <net/if.h>
#include <unistd.h>

#include "ctl_parse.h"

#define TC_HANDLE 1
#define TC_PRIORITY 1

struct maps {
	int config, ifindex, ports, rules, states, counters, slots;
};

static void port_name(const struct fab_config *cfg, __u32 nr, char name[IFNAMSIZ])
{
	__u32 ups = cfg->leaves * cfg->spines;

	if (nr < cfg->hosts)
		snprintf(name, IFNAMSIZ, "h%u", nr + 1);
	else if (nr < cfg->hosts + ups)
		snprintf(name, IFNAMSIZ, "l%us%u", (nr - cfg->hosts) / cfg->spines + 1,
			 (nr - cfg->hosts) % cfg->spines + 1);
	else
		snprintf(name, IFNAMSIZ, "s%ul%u", (nr - cfg->hosts - ups) / cfg->leaves + 1,
			 (nr - cfg->hosts - ups) % cfg->leaves + 1);
}

static const char *kind_name(__u32 kind)
{
	return kind == FAB_EDGE ? "edge" : kind == FAB_UPLINK ? "uplink" : "downlink";
}

static int map_fd_by_id(struct maps *maps, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id);
	const struct {
		const char *name;
		int *fd;
	} wanted[] = {
		{ "fab_config", &maps->config }, { "fab_ifindex", &maps->ifindex },
		{ "fab_ports", &maps->ports },	 { "fab_rules", &maps->rules },
		{ "fab_states", &maps->states }, { "fab_counters", &maps->counters },
		{ "fab_slots", &maps->slots },
	};

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
		return fail("cannot open map %u of the switch: %s", id, strerror(errno));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!strcmp(info.name, wanted[i].name)) {
			*wanted[i].fd = fd;
			return 0;
		}
	}
	close(fd);
	return 0;
}

/* Finds the maps of the switch in the current namespace, by the program on its first port. */
static int maps_find(const char *netns, struct maps *maps)
{
	struct bpf_tc_hook hook = { .sz = sizeof(hook),
				    .ifindex = if_nametoindex("h1"),
				    .attach_point = BPF_TC_INGRESS };
	struct bpf_tc_opts opts = { .sz = sizeof(opts),
				    .handle = TC_HANDLE,
				    .priority = TC_PRIORITY };
	__u32 ids[32], len = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = { .nr_map_ids = 32, .map_ids = (__u64)(unsigned long)ids };
	int fd;

	if (!hook.ifindex || bpf_tc_query(&hook, &opts))
		return fail("no switch is attached in namespace %s: run `down`, then `up` again",
			    netns);
	fd = bpf_prog_get_fd_by_id(opts.prog_id);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
		return fail("cannot look at the switch program in %s: %s", netns, strerror(errno));
	close(fd);
	memset(maps, -1, sizeof(*maps));
	for (__u32 i = 0; i < info.nr_map_ids && i < 32; i++) {
		if (map_fd_by_id(maps, ids[i]))
			return -EIO;
	}
	if (maps->config < 0 || maps->rules < 0 || maps->counters < 0 || maps->ports < 0)
		return fail("namespace %s runs another switch than this one: run `down`, then `up` "
			    "again",
			    netns);
	return 0;
}

static void maps_close(struct maps *maps)
{
	int *fd = (int *)maps;

	for (size_t i = 0; i < sizeof(*maps) / sizeof(int); i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

static int config_read(const struct maps *maps, struct fab_config *cfg)
{
	__u32 zero = 0;

	if (bpf_map_lookup_elem(maps->config, &zero, cfg))
		return fail("cannot read the switch's configuration: %s", strerror(errno));
	return 0;
}

#endif
