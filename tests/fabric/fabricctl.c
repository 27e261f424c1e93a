// SPDX-License-Identifier: BSD-2-Clause
/*
 * Control tool of the test fabric, called by scripts/fabric, which knows namespaces and links; this
 * program knows the switch: it attaches it, and reads and writes its maps. The maps hold all
 * the state there is. They are found through the program attached to a port, so nothing is pinned,
 * and everything goes with the namespace.
 */
#include "ctl_set.h"
#include "ctl_show.h"

#define DEFAULT_LIMIT 307200ULL

/* ------------------------------------------------------------------ attach */

struct attach_opts {
	struct fab_config cfg;
	const char *object;
	bool offload;
};

static int load_object(const struct attach_opts *o, struct bpf_object **out)
{
	struct bpf_object *obj = bpf_object__open_file(o->object, NULL);
	const struct {
		const char *name;
		__u32 per_port;
	} sizes[] = {
		{ "fab_ports", 1 },	      { "fab_queues", 1 },
		{ "fab_rules", FAB_DIRS },    { "fab_states", FAB_DIRS },
		{ "fab_counters", FAB_DIRS }, { "fab_slots", FAB_HOLD_SLOTS },
	};
	struct bpf_map *map;
	int err;

	if (libbpf_get_error(obj))
		return fail("cannot open %s: run `make fabric`", o->object);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		map = bpf_object__find_map_by_name(obj, sizes[i].name);
		if (map)
			bpf_map__set_max_entries(map, sizes[i].per_port * o->cfg.ports);
	}
	bpf_map__set_max_entries(bpf_object__find_map_by_name(obj, "fab_rings"), o->cfg.hosts);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(obj, "fab_delay"),
				 o->cfg.has_delay ? o->cfg.hosts * FAB_DELAY_SLOTS : 1);
	err = bpf_object__load(obj);
	if (err) {
		bpf_object__close(obj);
		return fail(
			"the kernel refused the switch program: %s (it needs Linux 6.1 and root)",
			strerror(-err));
	}
	*out = obj;
	return 0;
}

static int prog_fd(struct bpf_object *obj, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(obj, name));
}

static int tc_attach(int prog, int ifindex, const char *name)
{
	struct bpf_tc_hook hook = { .sz = sizeof(hook),
				    .ifindex = ifindex,
				    .attach_point = BPF_TC_INGRESS };
	struct bpf_tc_opts opts = { .sz = sizeof(opts),
				    .handle = TC_HANDLE,
				    .priority = TC_PRIORITY,
				    .prog_fd = prog,
				    .flags = BPF_TC_F_REPLACE };
	int err = bpf_tc_hook_create(&hook);

	if (err && err != -EEXIST)
		return fail("cannot add clsact to port %s: %s", name, strerror(-err));
	err = bpf_tc_attach(&hook, &opts);
	return err ? fail("cannot attach the switch to port %s: %s", name, strerror(-err)) : 0;
}

static void port_describe(const struct fab_config *cfg, __u32 nr, struct fab_port *port)
{
	__u32 ups = cfg->leaves * cfg->spines,
	      per_leaf = (cfg->hosts + cfg->leaves - 1) / cfg->leaves;

	if (nr < cfg->hosts) {
		port->kind = FAB_EDGE;
		port->leaf = nr / per_leaf;
	} else if (nr < cfg->hosts + ups) {
		port->kind = FAB_UPLINK;
		port->leaf = (nr - cfg->hosts) / cfg->spines;
		port->spine = (nr - cfg->hosts) % cfg->spines;
	} else {
		port->kind = FAB_DOWNLINK;
		port->spine = (nr - cfg->hosts - ups) / cfg->leaves;
		port->leaf = (nr - cfg->hosts - ups) % cfg->leaves;
	}
}

static int attach_port(const struct attach_opts *o, const struct fab_config *cfg,
		       struct bpf_object *obj, __u32 nr)
{
	struct fab_port port = { .limit = DEFAULT_LIMIT };
	char name[IFNAMSIZ];
	__u32 entry = nr + 1;
	int err;

	port_name(cfg, nr, name);
	port.ifindex = if_nametoindex(name);
	if (!port.ifindex || port.ifindex >= FAB_MAX_IFINDEX)
		return fail("port %s of plane %u is missing: run `down`, then `up` again", name,
			    cfg->plane);
	port_describe(cfg, nr, &port);
	if (bpf_map_update_elem(bpf_object__find_map_fd_by_name(obj, "fab_ports"), &nr, &port, 0) ||
	    bpf_map_update_elem(bpf_object__find_map_fd_by_name(obj, "fab_ifindex"), &port.ifindex,
				&entry, 0))
		return fail("cannot describe port %s: %s", name, strerror(errno));
	if (net_offloads(name, o->offload))
		return -EIO;
	if (!o->offload) {
		err = bpf_xdp_attach(port.ifindex, prog_fd(obj, "fab_pass"), XDP_FLAGS_DRV_MODE,
				     NULL);
		if (err)
			return fail("cannot attach XDP to port %s: %s", name, strerror(-err));
	}
	return tc_attach(prog_fd(obj, "fab_switch"), port.ifindex, name);
}

/* With XDP on it, tick1 is fed through a ring of its own: the clock packet never meets a full one. */
static int tick_attach(struct bpf_object *obj)
{
	int tick1 = if_nametoindex("tick1");
	int err = bpf_xdp_attach(tick1, prog_fd(obj, "fab_pass"), XDP_FLAGS_DRV_MODE, NULL);

	if (err)
		return fail("cannot attach XDP to tick1: %s", strerror(-err));
	return tc_attach(prog_fd(obj, "fab_tick"), tick1, "tick1");
}

static int attach_plane(const struct attach_opts *o, const char *netns, __u32 plane)
{
	struct fab_config cfg = o->cfg;
	struct bpf_object *obj = NULL;
	__u32 zero = 0;
	int err;

	cfg.plane = plane;
	if (net_enter(netns) || load_object(o, &obj))
		return -EIO;
	cfg.tick_ifindex = if_nametoindex("tick0");
	err = bpf_map_update_elem(bpf_object__find_map_fd_by_name(obj, "fab_config"), &zero, &cfg,
				  0);
	if (!err)
		err = tick_attach(obj);
	for (__u32 nr = 0; nr < cfg.ports && !err; nr++)
		err = attach_port(o, &cfg, obj, nr);
	bpf_object__close(obj);
	return err;
}

/* attach OBJECT SEED HOSTS LEAVES SPINES QUEUES UDP-PORT OFFLOAD DELAY NETNS... */
static int cmd_attach(int argc, char **argv)
{
	struct attach_opts o = { .cfg = { .hold_ns = 1000000 } };
	int err = 0;

	if (argc < 11)
		return fail("attach: too few arguments");
	o.object = argv[1];
	o.cfg.seed = strtoull(argv[2], NULL, 0);
	if (parse_u32("hosts", argv[3], 1, FAB_MAX_HOSTS, &o.cfg.hosts) ||
	    parse_u32("leaf-spine", argv[4], 1, FAB_MAX_LEAVES, &o.cfg.leaves) ||
	    parse_u32("leaf-spine", argv[5], 0, FAB_MAX_SPINES, &o.cfg.spines) ||
	    parse_u32("queues", argv[6], 1, 64, &o.cfg.queues) ||
	    parse_u32("udp-port", argv[7], 1, 65535, &o.cfg.udp_port))
		return -EINVAL;
	o.cfg.ports = o.cfg.hosts + 2 * o.cfg.leaves * o.cfg.spines;
	o.offload = !strcmp(argv[8], "on");
	o.cfg.has_delay = strcmp(argv[9], "no") != 0;
	for (int i = 10; i < argc && !err; i++)
		err = attach_plane(&o, argv[i], i - 9);
	return err;
}

/* ------------------------------------------------------------------ prepare, hosts */

/* prepare switch|host NETNS...: before links are made */
static int cmd_prepare(int argc, char **argv)
{
	bool is_switch = argc > 1 && !strcmp(argv[1], "switch");

	for (int i = 2; i < argc; i++) {
		if (net_enter(argv[i]))
			return -EIO;
		if (is_switch ? net_sysctl("ipv6/conf/default/disable_ipv6", "1")
			      : net_sysctl("ipv6/conf/default/accept_dad", "0"))
			return -EIO;
	}
	return 0;
}

/* hosts OFFLOAD PLANES NETNS...: offloads of p1 .. of every host */
static int cmd_hosts(int argc, char **argv)
{
	char name[IFNAMSIZ];
	__u32 planes;

	if (argc < 4 || parse_u32("planes", argv[2], 1, 255, &planes))
		return fail("hosts: want OFFLOAD PLANES NETNS...");
	for (int i = 3; i < argc; i++) {
		if (net_enter(argv[i]))
			return -EIO;
		for (__u32 p = 1; p <= planes; p++) {
			snprintf(name, sizeof(name), "p%u", p);
			if (net_offloads(name, !strcmp(argv[1], "on")))
				return -EIO;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "prepare", cmd_prepare }, { "attach", cmd_attach }, { "hosts", cmd_hosts },
		{ "set", cmd_set },	    { "show", cmd_show },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	fail("this program is run by scripts/fabric; see `scripts/fabric --help`");
	return EXIT_FAILURE;
}
