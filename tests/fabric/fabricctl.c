// SPDX-License-Identifier: BSD-2-Clause
/*
 * Control tool of the test fabric, called by scripts/fabric, which knows namespaces and links; this
 * program knows the switch: it attaches it, and reads and writes its maps. The maps hold all
 * the state there is. They are found through the program attached to a port, so nothing is pinned,
 * and everything goes with the namespace.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "fabric.h"
#include "netctl.h"

#define TBF_BURST 65536ULL
#define DEFAULT_LIMIT 307200ULL
#define TC_HANDLE 1
#define TC_PRIORITY 1

struct maps {
	int config, ifindex, ports, rules, states, counters, slots;
};

/* ------------------------------------------------------------------ small things */

__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("fabric: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return -EINVAL;
}

static int parse_number(const char *opt, const char *text, double min, double max, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (*end == '%')
		end++;
	if (end == text || *end || !(v >= min && v <= max))
		return fail("--%s %s: want a number from %g to %g", opt, text, min, max);
	*out = v;
	return 0;
}

static int parse_u32(const char *opt, const char *text, __u32 min, __u32 max, __u32 *out)
{
	double v;

	if (parse_number(opt, text, min, max, &v))
		return -EINVAL;
	if (v != floor(v))
		return fail("--%s %s: want a whole number", opt, text);
	*out = v;
	return 0;
}

static __u32 probability(double percent)
{
	return percent >= 100 ? FAB_ALWAYS : (__u32)(percent / 100 * 4294967296.0);
}

static double percent_of(__u32 p)
{
	return p == FAB_ALWAYS ? 100 : round(p / 4294967296.0 * 1e8) / 1e6;
}

static int parse_percent(const char *opt, const char *text, __u32 *out)
{
	double v;

	if (parse_number(opt, text, 0, 100, &v))
		return -EINVAL;
	*out = probability(v);
	return 0;
}

/* As tc writes them: 1gbit, 100mbit, 64kbit, 1000bit; "none" is 0. */
static int parse_rate(const char *text, __u64 *out)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = { { "gbit", 1e9 }, { "mbit", 1e6 }, { "kbit", 1e3 }, { "bit", 1 } };
	char *end;
	double v = strtod(text, &end);

	if (!strcmp(text, "none")) {
		*out = 0;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (end == text || strcmp(end, units[i].unit))
			continue;
		v *= units[i].factor;
		if (v < 1e5 || v > 1e11)
			break;
		*out = v;
		return 0;
	}
	return fail("--rate %s: want something like 1gbit, 200mbit or 64kbit (100kbit to 100gbit), "
		    "or none",
		    text);
}

static int parse_delay(const char *text, double *us)
{
	char *end;
	double v = strtod(text, &end);

	if (!strcmp(text, "none") || (end != text && !strcmp(end, "us"))) {
		*us = v;
	} else if (end != text && !strcmp(end, "ms")) {
		*us = v * 1000;
	} else {
		return fail("--delay %s: want something like 500us or 2ms, or none", text);
	}
	return *us >= 0 && *us <= 1e6 ? 0 : fail("--delay %s: want at most 1000ms", text);
}

static int parse_size(const char *opt, const char *text, __u64 *out)
{
	char *end;
	double v = strtod(text, &end);

	if (*end == 'k' || *end == 'K')
		v *= 1024, end++;
	else if (*end == 'm' || *end == 'M')
		v *= 1024 * 1024, end++;
	if (end == text || *end || v < 0 || v > 1e9)
		return fail("--%s %s: want bytes, like 65536, 300k or 1m", opt, text);
	*out = v;
	return 0;
}

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

/* ------------------------------------------------------------------ finding the maps */

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

/* ------------------------------------------------------------------ set */

struct change {
	__u32 host, leaf, spine; /* from 1; 0: all */
	__u32 dir_mask;		 /* bit FAB_FROM, bit FAB_TO */
	bool dir_given;
	__u32 given; /* bits of enum field */
	struct fab_rule rule;
	double loss_percent;
	double burst_mean;
	__u64 rate, limit, ce_threshold;
	double delay_us;
	__u32 udp_port, ecmp_salt, hold_us, seed;
	bool clear;
	bool every_port; /* inner links of a leaf-spine plane, too */
};

enum field {
	F_LOSS,
	F_BURST,
	F_BURST_MEAN,
	F_DUP,
	F_CORRUPT,
	F_TRUNCATE,
	F_REORDER,
	F_CE,
	F_TYPES,
	F_BLACKHOLE,
	F_RATE,
	F_LIMIT,
	F_CE_THRESHOLD,
	F_UDP_PORT,
	F_SALT,
	F_LINK,
	F_LINK_DOWN,
	F_HOLD,
	F_SEED,
	F_DELAY,
};

#define GIVEN(c, f) ((c)->given & (1U << (f)))

enum set_option {
	O_HOST = 256,
	O_LEAF,
	O_SPINE,
	O_DIR,
	O_LOSS,
	O_BURST,
	O_BURST_MEAN,
	O_DUP,
	O_CORRUPT,
	O_TRUNCATE,
	O_REORDER,
	O_CE,
	O_TYPES,
	O_BLACKHOLE,
	O_NO_BLACKHOLE,
	O_RATE,
	O_LIMIT,
	O_CE_THRESHOLD,
	O_UDP_PORT,
	O_SALT,
	O_DOWN,
	O_UP,
	O_CLEAR,
	O_HOLD,
	O_EVERY_PORT,
	O_SEED,
	O_DELAY,
};

static const struct option set_options[] = {
	{ "host", 1, NULL, O_HOST },
	{ "leaf", 1, NULL, O_LEAF },
	{ "spine", 1, NULL, O_SPINE },
	{ "dir", 1, NULL, O_DIR },
	{ "loss", 1, NULL, O_LOSS },
	{ "burst", 1, NULL, O_BURST },
	{ "burst-mean", 1, NULL, O_BURST_MEAN },
	{ "dup", 1, NULL, O_DUP },
	{ "corrupt", 1, NULL, O_CORRUPT },
	{ "truncate", 1, NULL, O_TRUNCATE },
	{ "reorder", 1, NULL, O_REORDER },
	{ "ce", 1, NULL, O_CE },
	{ "only-type", 1, NULL, O_TYPES },
	{ "blackhole", 0, NULL, O_BLACKHOLE },
	{ "no-blackhole", 0, NULL, O_NO_BLACKHOLE },
	{ "rate", 1, NULL, O_RATE },
	{ "limit", 1, NULL, O_LIMIT },
	{ "ce-threshold", 1, NULL, O_CE_THRESHOLD },
	{ "udp-port", 1, NULL, O_UDP_PORT },
	{ "ecmp-salt", 1, NULL, O_SALT },
	{ "hold", 1, NULL, O_HOLD },
	{ "seed", 1, NULL, O_SEED },
	{ "delay", 1, NULL, O_DELAY },
	{ "down", 0, NULL, O_DOWN },
	{ "up", 0, NULL, O_UP },
	{ "clear", 0, NULL, O_CLEAR },
	{ "every-port", 0, NULL, O_EVERY_PORT },
	{},
};

static int parse_dir(struct change *c, const char *text)
{
	if (!strcmp(text, "from"))
		c->dir_mask = 1U << FAB_FROM;
	else if (!strcmp(text, "to"))
		c->dir_mask = 1U << FAB_TO;
	else if (!strcmp(text, "both"))
		c->dir_mask = 1U << FAB_FROM | 1U << FAB_TO;
	else
		return fail("--dir %s: want to (the host), from (the host), or both", text);
	c->dir_given = true;
	return 0;
}

static int parse_burst(struct change *c, const char *text)
{
	double p, r;
	char tail;

	if (sscanf(text, "%lf,%lf%c", &p, &r, &tail) != 2 || p < 0 || p > 100 || r <= 0 || r > 100)
		return fail(
			"--burst %s: want P,R: percent per packet to enter and to leave a burst",
			text);
	c->rule.burst_p = probability(p);
	c->rule.burst_r = probability(r);
	return 0;
}

static int parse_reorder(struct change *c, const char *text)
{
	char percent[32];
	const char *comma = strchr(text, ',');

	snprintf(percent, sizeof(percent), "%.*s", comma ? (int)(comma - text) : 31, text);
	c->rule.reorder_gap = 1;
	if (comma && parse_u32("reorder GAP", comma + 1, 1, 255, &c->rule.reorder_gap))
		return -EINVAL;
	return parse_percent("reorder", percent, &c->rule.reorder);
}

static int parse_types(struct change *c, const char *text)
{
	char *end;
	unsigned long type;

	c->rule.only_types = 0;
	if (!strcmp(text, "all"))
		return 0;
	for (;; text = end + 1) {
		type = strtoul(text, &end, 0);
		if (end == text || type > 63 || (*end && *end != ','))
			return fail("--only-type %s: want packet types from 0 to 63, like 2 or "
				    "2,3, or all",
				    text);
		c->rule.only_types |= 1ULL << type;
		if (!*end)
			return 0;
	}
}

static int parse_value(struct change *c, int opt, const char *arg)
{
	switch (opt) {
	case O_LOSS:
		c->given |= 1U << F_LOSS;
		return parse_number("loss", arg, 0, 100, &c->loss_percent);
	case O_BURST: c->given |= 1U << F_BURST; return parse_burst(c, arg);
	case O_BURST_MEAN:
		c->given |= 1U << F_BURST_MEAN;
		return parse_number("burst-mean", arg, 1, 1e6, &c->burst_mean);
	case O_DUP: c->given |= 1U << F_DUP; return parse_percent("dup", arg, &c->rule.dup);
	case O_CORRUPT:
		c->given |= 1U << F_CORRUPT;
		return parse_percent("corrupt", arg, &c->rule.corrupt);
	case O_TRUNCATE:
		c->given |= 1U << F_TRUNCATE;
		return parse_percent("truncate", arg, &c->rule.truncate);
	case O_REORDER: c->given |= 1U << F_REORDER; return parse_reorder(c, arg);
	case O_CE: c->given |= 1U << F_CE; return parse_percent("ce", arg, &c->rule.ce);
	case O_TYPES: c->given |= 1U << F_TYPES; return parse_types(c, arg);
	case O_RATE: c->given |= 1U << F_RATE; return parse_rate(arg, &c->rate);
	case O_LIMIT: c->given |= 1U << F_LIMIT; return parse_size("limit", arg, &c->limit);
	case O_CE_THRESHOLD:
		c->given |= 1U << F_CE_THRESHOLD;
		return parse_size("ce-threshold", arg, &c->ce_threshold);
	case O_UDP_PORT:
		c->given |= 1U << F_UDP_PORT;
		return parse_u32("udp-port", arg, 1, 65535, &c->udp_port);
	case O_SALT:
		c->given |= 1U << F_SALT;
		return parse_u32("ecmp-salt", arg, 0, ~0U, &c->ecmp_salt);
	case O_DELAY: c->given |= 1U << F_DELAY; return parse_delay(arg, &c->delay_us);
	case O_SEED: c->given |= 1U << F_SEED; return parse_u32("seed", arg, 0, ~0U, &c->seed);
	case O_HOLD:
		c->given |= 1U << F_HOLD;
		return parse_u32("hold", arg, 1, 1000000, &c->hold_us);
	}
	return -ENOENT;
}

static int parse_option(struct change *c, int opt, const char *arg)
{
	switch (opt) {
	case O_HOST: return parse_u32("host", arg, 1, FAB_MAX_HOSTS, &c->host);
	case O_LEAF: return parse_u32("leaf", arg, 1, FAB_MAX_LEAVES, &c->leaf);
	case O_SPINE: return parse_u32("spine", arg, 1, FAB_MAX_SPINES, &c->spine);
	case O_DIR: return parse_dir(c, arg);
	case O_BLACKHOLE:
	case O_NO_BLACKHOLE:
		c->given |= 1U << F_BLACKHOLE;
		c->rule.flags = opt == O_BLACKHOLE ? FAB_RULE_BLACKHOLE : 0;
		return 0;
	case O_DOWN:
	case O_UP: c->given |= 1U << F_LINK | (opt == O_DOWN ? 1U << F_LINK_DOWN : 0); return 0;
	case O_CLEAR: c->clear = true; return 0;
	case O_EVERY_PORT: c->every_port = true; return 0;
	}
	return parse_value(c, opt, arg);
}

static int parse_change(int argc, char **argv, struct change *c)
{
	int opt;

	*c = (struct change){ .dir_mask = 1U << FAB_TO };
	optind = 1;
	while ((opt = getopt_long(argc, argv, "", set_options, NULL)) != -1) {
		if (opt == '?' || parse_option(c, opt, optarg))
			return -EINVAL;
	}
	if (!c->given && !c->clear)
		return fail("set: nothing to change: see `scripts/fabric --help`");
	if (GIVEN(c, F_BURST_MEAN) && !GIVEN(c, F_LOSS))
		return fail("--burst-mean needs --loss PCT beside it");
	if (GIVEN(c, F_BURST) && (GIVEN(c, F_LOSS) || GIVEN(c, F_BURST_MEAN)))
		return fail("--burst P,R says it all: leave out --loss and --burst-mean");
	if (GIVEN(c, F_BURST_MEAN) && c->loss_percent > 99)
		return fail("--burst-mean: --loss must be below 99");
	return 0;
}

static bool port_selected(const struct change *c, __u32 nr, const struct fab_port *port)
{
	if (c->every_port)
		return true;
	if (c->spine)
		return port->kind == FAB_UPLINK && port->spine == c->spine - 1 &&
		       (!c->leaf || port->leaf == c->leaf - 1);
	if (port->kind != FAB_EDGE)
		return false;
	if (c->leaf && port->leaf != c->leaf - 1)
		return false;
	return !c->host || nr == c->host - 1;
}

static void change_loss(const struct change *c, struct fab_rule *rule)
{
	double loss = c->loss_percent / 100;

	if (GIVEN(c, F_LOSS)) {
		rule->flags &= ~FAB_RULE_BURST;
		rule->loss = probability(c->loss_percent);
	}
	if (GIVEN(c, F_BURST)) {
		rule->burst_p = c->rule.burst_p;
		rule->burst_r = c->rule.burst_r;
		rule->flags |= FAB_RULE_BURST;
	}
	if (GIVEN(c, F_BURST_MEAN) && loss > 0) {
		rule->burst_r = probability(100 / c->burst_mean);
		rule->burst_p = probability(100 / c->burst_mean * loss / (1 - loss));
		rule->flags |= FAB_RULE_BURST;
	}
}

static void change_rule(const struct change *c, struct fab_rule *rule, __u32 dir)
{
	bool impaired = c->dir_mask & 1U << dir;

	if (c->clear)
		*rule = (struct fab_rule){};
	if (GIVEN(c, F_BLACKHOLE) && (impaired || !c->dir_given))
		rule->flags = (rule->flags & ~FAB_RULE_BLACKHOLE) | c->rule.flags;
	if (!impaired)
		return;
	change_loss(c, rule);
	if (GIVEN(c, F_DUP))
		rule->dup = c->rule.dup;
	if (GIVEN(c, F_CORRUPT))
		rule->corrupt = c->rule.corrupt;
	if (GIVEN(c, F_TRUNCATE))
		rule->truncate = c->rule.truncate;
	if (GIVEN(c, F_REORDER)) {
		rule->reorder = c->rule.reorder;
		rule->reorder_gap = c->rule.reorder_gap;
	}
	if (GIVEN(c, F_CE))
		rule->ce = c->rule.ce;
	if (GIVEN(c, F_TYPES))
		rule->only_types = c->rule.only_types;
}

static int change_rules(const struct change *c, const struct maps *maps, __u32 nr)
{
	struct fab_rule_state fresh = {};
	struct fab_rule rule;
	__u32 key;

	for (__u32 dir = 0; dir < FAB_DIRS; dir++) {
		key = 2 * nr + dir;
		if (bpf_map_lookup_elem(maps->rules, &key, &rule))
			return fail("cannot read a rule: %s", strerror(errno));
		change_rule(c, &rule, dir);
		/* From here on the same traffic meets the same fate. */
		if (c->clear)
			bpf_map_update_elem(maps->states, &key, &fresh, 0);
		if (bpf_map_update_elem(maps->rules, &key, &rule, 0))
			return fail("cannot write a rule: %s", strerror(errno));
	}
	return 0;
}

static void port_derive(struct fab_port *port)
{
	double ns_per_byte = port->rate ? 8e9 / port->rate : 0;

	port->ps_per_byte = ns_per_byte * 1000 + 0.5;
	port->burst_ns = TBF_BURST * ns_per_byte;
	port->limit_ns = port->limit * ns_per_byte;
	port->ce_ns = port->ce_threshold * ns_per_byte;
}

static int change_port(const struct change *c, const struct maps *maps, __u32 nr, const char *name,
		       struct fab_port *port, FILE *tc)
{
	if (!GIVEN(c, F_RATE) && !GIVEN(c, F_LIMIT) && !GIVEN(c, F_CE_THRESHOLD) &&
	    !GIVEN(c, F_DELAY))
		return 0;
	if (GIVEN(c, F_DELAY) && port->kind != FAB_EDGE)
		return fail("--delay: only the ports of hosts can delay");
	if (GIVEN(c, F_DELAY))
		port->delay_ns = c->delay_us * 1000;
	if (GIVEN(c, F_RATE))
		port->rate = c->rate;
	if (GIVEN(c, F_LIMIT))
		port->limit = c->limit;
	if (GIVEN(c, F_CE_THRESHOLD))
		port->ce_threshold = c->ce_threshold;
	if (GIVEN(c, F_CE_THRESHOLD) && port->ce_threshold && !port->rate)
		return fail("--ce-threshold: port %s has no --rate, so it has no queue; set one, "
			    "or mark at random with --ce PCT",
			    name);
	port_derive(port);
	if (bpf_map_update_elem(maps->ports, &nr, port, 0))
		return fail("cannot write port %s: %s", name, strerror(errno));
	if (!GIVEN(c, F_RATE) && !GIVEN(c, F_LIMIT))
		return 0;
	if (port->rate)
		fprintf(tc, "qdisc replace dev %s root handle 10: tbf rate %llubit burst %llu limit %llu\n",
			name, port->rate, TBF_BURST, port->limit);
	else if (GIVEN(c, F_RATE))
		fprintf(tc, "qdisc replace dev %s root pfifo limit 1000\n", name);
	return 0;
}

static int change_selected(const struct change *c, const struct maps *maps,
			   const struct fab_config *cfg, FILE *tc, FILE *ip)
{
	struct fab_port port;
	char name[IFNAMSIZ];
	__u32 selected = 0;

	for (__u32 nr = 0; nr < cfg->ports; nr++) {
		if (bpf_map_lookup_elem(maps->ports, &nr, &port))
			return fail("cannot read port %u: %s", nr, strerror(errno));
		if (!port_selected(c, nr, &port))
			continue;
		selected++;
		port_name(cfg, nr, name);
		if (change_rules(c, maps, nr) || change_port(c, maps, nr, name, &port, tc))
			return -EIO;
		if (GIVEN(c, F_LINK))
			fprintf(ip, "link set dev %s %s\n", name,
				GIVEN(c, F_LINK_DOWN) ? "down" : "up");
	}
	if (!selected)
		return fail("set: the selection matches no port of plane %u (%u hosts, %u leaves, "
			    "%u spines)",
			    cfg->plane, cfg->hosts, cfg->leaves, cfg->spines);
	return 0;
}

static bool anything_reorders(const struct maps *maps, const struct fab_config *cfg)
{
	struct fab_rule rule;

	for (__u32 key = 0; key < FAB_DIRS * cfg->ports; key++) {
		if (!bpf_map_lookup_elem(maps->rules, &key, &rule) && rule.reorder)
			return true;
	}
	return false;
}

static bool anything_delays(const struct maps *maps, const struct fab_config *cfg)
{
	struct fab_port port;

	for (__u32 nr = 0; nr < cfg->hosts; nr++) {
		if (!bpf_map_lookup_elem(maps->ports, &nr, &port) && port.delay_ns)
			return true;
	}
	return false;
}

/* Sets the clock packet going; see switch.bpf.c. */
static int tick_send(__u32 generation)
{
	unsigned char frame[FAB_TICK_BYTES] = {};
	struct fab_tick tick = { .eth = { 2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 0 },
				 .proto = htons(FAB_TICK_PROTO),
				 .generation = generation };
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_ifindex = if_nametoindex("tick0"),
				  .sll_halen = ETH_ALEN };
	int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	ssize_t n;

	if (sock < 0)
		return fail("cannot open a packet socket: %s (are you root?)", strerror(errno));
	memcpy(frame, &tick, sizeof(tick));
	n = sendto(sock, frame, sizeof(frame), 0, (void *)&to, sizeof(to));
	close(sock);
	return n < 0 ? fail("cannot start the clock on tick0: %s", strerror(errno)) : 0;
}

/* One clock packet of 1014 bytes per millisecond, or per tenth of one. */
static void tick_rate(bool fast, FILE *tc)
{
	fprintf(tc,
		"qdisc replace dev tick0 root handle 10: tbf rate %ukbit burst 1100 limit 4000\n",
		fast ? 81120 : 8112);
}

static int change_config(const struct change *c, const struct maps *maps, struct fab_config *cfg,
			 FILE *tc)
{
	bool delays = anything_delays(maps, cfg), ticks = delays || anything_reorders(maps, cfg);
	__u32 zero = 0;

	if (GIVEN(c, F_UDP_PORT))
		cfg->udp_port = c->udp_port;
	if (GIVEN(c, F_SALT))
		cfg->ecmp_salt = c->ecmp_salt;
	if (GIVEN(c, F_SEED))
		cfg->seed = c->seed;
	if (GIVEN(c, F_HOLD))
		cfg->hold_ns = c->hold_us * 1000;
	if (GIVEN(c, F_DELAY))
		tick_rate(delays, tc);
	/* Always a new clock packet: should the old one have been lost, this mends it. */
	cfg->tick_generation = ticks ? (cfg->tick_generation + 1) | 1U << 31 : 0;
	if (bpf_map_update_elem(maps->config, &zero, cfg, 0))
		return fail("cannot write the switch's configuration: %s", strerror(errno));
	return ticks ? tick_send(cfg->tick_generation) : 0;
}

static int batch_close(FILE *batch, const char *what)
{
	return pclose(batch) ? fail("%s refused a command, see above", what) : 0;
}

static int change_plane(const struct change *c, const char *netns)
{
	struct fab_config cfg;
	struct maps maps;
	FILE *tc, *ip;
	int err;

	if (net_enter(netns) || maps_find(netns, &maps))
		return -EIO;
	tc = popen("tc -batch -", "w");
	ip = popen("ip -batch -", "w");
	if (!tc || !ip)
		return fail("cannot run tc and ip: %s", strerror(errno));
	err = config_read(&maps, &cfg);
	if (!err && GIVEN(c, F_DELAY) && !cfg.has_delay)
		err = fail("--delay: this fabric has no memory for delayed packets: build it with "
			   "`up --delay`");
	if (!err)
		err = change_selected(c, &maps, &cfg, tc, ip);
	if (!err)
		err = change_config(c, &maps, &cfg, tc);
	if (batch_close(tc, "tc") || batch_close(ip, "ip"))
		err = -EIO;
	maps_close(&maps);
	return err;
}

/* set OPTIONS -- NETNS... */
static int cmd_set(int argc, char **argv)
{
	struct change c;
	int err = parse_change(argc, argv, &c);

	for (int i = optind; i < argc && !err; i++)
		err = change_plane(&c, argv[i]);
	return err;
}

/* ------------------------------------------------------------------ show */

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
