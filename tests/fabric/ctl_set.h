/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabricctl set: what the options ask for is collected in a struct change, then made on every port
 * that is selected. What is not named stays as it is.
 */
#ifndef MROCE_TESTS_FABRIC_CTL_SET_H
#define MROCE_TESTS_FABRIC_CTL_SET_H

#include <arpa/inet.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include <mroce/wire.h>

#include "ctl_maps.h"
#include "netctl.h"

#define TBF_BURST 65536ULL

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

static int parse_type(const char *text, unsigned long *type)
{
	static const char *const names[MROCE_TYPE_MAX] = {
		[MROCE_DATA] = "data",
		[MROCE_POLL] = "poll",
		[MROCE_ACK] = "ack",
		[MROCE_NACK] = "nack",
		[MROCE_READ_REQ] = "read_req",
		[MROCE_CREDIT] = "credit",
		[MROCE_FORGIVE] = "forgive",
		[MROCE_HELLO] = "hello",
		[MROCE_ACCEPT] = "accept",
		[MROCE_READY] = "ready",
		[MROCE_PROBE] = "probe",
		[MROCE_PROBE_REPLY] = "probe_reply",
		[MROCE_PORT_STATUS] = "port_status",
		[MROCE_CLOSE] = "close",
		[MROCE_ERROR] = "error",
	};
	char *end;

	for (*type = 0; *type < MROCE_TYPE_MAX; (*type)++) {
		if (names[*type] && !strcmp(names[*type], text))
			return 0;
	}
	*type = strtoul(text, &end, 0);
	return end != text && !*end && *type < 64 ? 0 : -EINVAL;
}

static int parse_types(struct change *c, const char *text)
{
	char copy[256], *rest = copy, *word;
	unsigned long type;

	c->rule.only_types = 0;
	if (!strcmp(text, "all"))
		return 0;
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		if (parse_type(word, &type))
			return fail("--only-type %s: want packet types, like ack or poll,nack, or "
				    "numbers from 0 to 63, or all",
				    text);
		c->rule.only_types |= 1ULL << type;
	}
	return 0;
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
		"qdisc replace dev tick0 root handle 10: tbf rate %dkbit burst 1100 limit 4000\n",
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

#endif
