// SPDX-License-Identifier: BSD-2-Clause
/* mroce_xdp packet by packet: what goes in, the verdict, the one counter, and what comes out. */
#include "bpf_test.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <xdp/xsk.h>

#define HDR(f) frame_hdr(f)

struct fixture {
	const char *name;
	struct spec spec;
	void (*change)(struct frame *f);
	uint32_t verdict;
	uint32_t counter; /* 0: none */
};

/* ---- changes ---- */

static void to_arp(struct frame *f)
{
	f->b[12] = 0x08;
	f->b[13] = 0x06;
}

static void to_icmp(struct frame *f)
{
	f->b[f->l3 + 9] = 1;
}

static void to_tcp(struct frame *f)
{
	f->b[f->l3 + 9] = 6;
}

static void to_icmp6(struct frame *f)
{
	f->b[f->l3 + 6] = 58;
}

static void to_hop_by_hop(struct frame *f)
{
	f->b[f->l3 + 6] = 0;
}

static void to_fragment6(struct frame *f)
{
	f->b[f->l3 + 6] = 44;
}

static void ip_version_5(struct frame *f)
{
	f->b[f->l3] = 0x55;
}

static void ihl_4(struct frame *f)
{
	f->b[f->l3] = 0x44;
}

static void third_tag(struct frame *f)
{
	memcpy(f->b + 20, "\x81\x00", 2);
}

static void ip_longer_than_frame(struct frame *f)
{
	f->b[f->l3 + 3]++;
	f->b[f->l4 + 5]++;
	HDR(f)->body_len = htons((uint16_t)(ntohs(HDR(f)->body_len) + 1));
	frame_seal(f);
}

static void udp_longer_than_ip(struct frame *f)
{
	f->b[f->l4 + 5]++;
}

static void udp_shorter_than_header(struct frame *f)
{
	f->b[f->l4 + 5] = 8 + MROCE_HDR_LEN - 1;
}

static void udp_of_four(struct frame *f)
{
	f->b[f->l4 + 5] = 4;
}

static void ip_of_nothing(struct frame *f)
{
	f->b[f->l3 + 3] = 0;
}

/* The last byte of the destination, in either family right before UDP. */
static void other_host(struct frame *f)
{
	f->b[f->l4 - 1] ^= 0x40;
}

static void body_len_longer(struct frame *f)
{
	HDR(f)->body_len = htons((uint16_t)(ntohs(HDR(f)->body_len) + 1));
	frame_seal(f);
}

static void body_len_shorter(struct frame *f)
{
	HDR(f)->body_len = htons((uint16_t)(ntohs(HDR(f)->body_len) - 1));
	frame_seal(f);
}

static void ethernet_padding(struct frame *f)
{
	memset(f->b + f->len, 0, 20);
	f->len += 20;
}

static void version_0(struct frame *f)
{
	HDR(f)->version = 0;
	frame_seal(f);
}

static void version_2(struct frame *f)
{
	HDR(f)->version = 2;
	frame_seal(f);
}

static void crc_of_header(struct frame *f)
{
	HDR(f)->hdr_crc ^= htonl(1);
}

static void psn_flipped(struct frame *f)
{
	HDR(f)->psn ^= htonl(0x40);
}

static void crc_of_body(struct frame *f)
{
	f->b[f->len - 1] ^= 1;
}

static void cid_zero(struct frame *f)
{
	HDR(f)->cid = 0;
	frame_seal(f);
}

static const struct fixture fixtures[] = {
	/* Not ours. */
	{ "ARP", { .type = MROCE_DATA, .body = 60 }, to_arp, XDP_PASS, 0 },
	{ "ICMP", { .type = MROCE_DATA, .body = 60 }, to_icmp, XDP_PASS, 0 },
	{ "TCP", { .type = MROCE_DATA, .body = 60 }, to_tcp, XDP_PASS, 0 },
	{ "ICMPv6", { .type = MROCE_DATA, .body = 60, .v6 = true }, to_icmp6, XDP_PASS, 0 },
	{ "UDP to another port", { .type = MROCE_DATA, .body = 60, .port_off = 1 }, NULL, XDP_PASS, 0 },
	{ "IPv4, first fragment",
	  { .type = MROCE_DATA, .body = 60, .fragment = 0x2000 },
	  NULL,
	  XDP_PASS,
	  0 },
	{ "IPv4, later fragment",
	  { .type = MROCE_DATA, .body = 60, .fragment = 0x2010 },
	  NULL,
	  XDP_PASS,
	  0 },
	{ "IPv4, last fragment",
	  { .type = MROCE_DATA, .body = 60, .fragment = 0x0010 },
	  NULL,
	  XDP_PASS,
	  0 },
	{ "IPv6, hop-by-hop options",
	  { .type = MROCE_DATA, .body = 60, .v6 = true },
	  to_hop_by_hop,
	  XDP_PASS,
	  0 },
	{ "IPv6, fragment header",
	  { .type = MROCE_DATA, .body = 60, .v6 = true },
	  to_fragment6,
	  XDP_PASS,
	  0 },
	{ "IP version 5", { .type = MROCE_DATA, .body = 60 }, ip_version_5, XDP_PASS, 0 },
	{ "IPv4 header of 16 bytes", { .type = MROCE_DATA, .body = 60 }, ihl_4, XDP_PASS, 0 },
	{ "three VLAN tags", { .type = MROCE_DATA, .body = 60, .vlans = 2 }, third_tag, XDP_PASS, 0 },
	/* New data in every envelope. */
	{ "DATA, IPv4",
	  { .type = MROCE_DATA, .body = 60 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, IPv6",
	  { .type = MROCE_DATA, .body = 60, .v6 = true },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, don't fragment set",
	  { .type = MROCE_DATA, .body = 60, .fragment = 0x4000 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, IPv4 with options",
	  { .type = MROCE_DATA, .body = 60, .options = 3 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, IPv4 with all options",
	  { .type = MROCE_DATA, .body = 60, .options = 10 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, VLAN",
	  { .type = MROCE_DATA, .body = 60, .vlans = 1 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, two VLAN tags",
	  { .type = MROCE_DATA, .body = 60, .vlans = 2 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, VLAN, IPv6",
	  { .type = MROCE_DATA, .body = 60, .vlans = 1, .v6 = true },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, Ethernet padding",
	  { .type = MROCE_DATA, .body = 60 },
	  ethernet_padding,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA, 9000 bytes in fragments",
	  { .type = MROCE_DATA, .body = 8900 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "DATA with a wrong body is the daemon's",
	  { .type = MROCE_DATA, .body = 60 },
	  crc_of_body,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	/* On its way through this host. */
	{ "DATA to another host", { .type = MROCE_DATA, .body = 60 }, other_host, XDP_PASS, 0 },
	{ "IPv6 DATA to another host",
	  { .type = MROCE_DATA, .body = 60, .v6 = true },
	  other_host,
	  XDP_PASS,
	  0 },
	{ "garbage to another host", { .type = 255, .body = 60, .v6 = true }, other_host, XDP_PASS, 0 },
	/* Ours, but wrong. */
	{ "IP says more than the frame has",
	  { .type = MROCE_DATA, .body = 60 },
	  ip_longer_than_frame,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "UDP says more than IP",
	  { .type = MROCE_DATA, .body = 60 },
	  udp_longer_than_ip,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "UDP shorter than a header",
	  { .type = MROCE_DATA, .body = 60 },
	  udp_shorter_than_header,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "UDP length 4",
	  { .type = MROCE_DATA, .body = 60 },
	  udp_of_four,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "IP length 0",
	  { .type = MROCE_DATA, .body = 60 },
	  ip_of_nothing,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "body_len too long",
	  { .type = MROCE_DATA, .body = 60 },
	  body_len_longer,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "body_len too short",
	  { .type = MROCE_DATA, .body = 60 },
	  body_len_shorter,
	  XDP_DROP,
	  MROCE_DROP_TRUNCATED },
	{ "version 0", { .type = MROCE_DATA, .body = 60 }, version_0, XDP_DROP, MROCE_DROP_VERSION },
	{ "version 2", { .type = MROCE_DATA, .body = 60 }, version_2, XDP_DROP, MROCE_DROP_VERSION },
	{ "type 0", { .type = 0 }, NULL, XDP_DROP, MROCE_DROP_TYPE },
	{ "first unknown type", { .type = MROCE_TYPE_MAX }, NULL, XDP_DROP, MROCE_DROP_TYPE },
	{ "type 255", { .type = 255 }, NULL, XDP_DROP, MROCE_DROP_TYPE },
	{ "header CRC wrong",
	  { .type = MROCE_DATA, .body = 60 },
	  crc_of_header,
	  XDP_DROP,
	  MROCE_DROP_HDR_CRC },
	{ "PSN flipped", { .type = MROCE_DATA, .body = 60 }, psn_flipped, XDP_DROP, MROCE_DROP_HDR_CRC },
	{ "cid of a free slot",
	  { .type = MROCE_DATA, .body = 60, .cid_xor = 1 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_NO_CONN },
	{ "cid of the slot's former owner",
	  { .type = MROCE_DATA, .body = 60, .cid_xor = 1 << 16 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_NO_CONN },
	{ "cid 0", { .type = MROCE_DATA, .body = 60 }, cid_zero, XDP_DROP, MROCE_DROP_NO_CONN },
	{ "wrong token",
	  { .type = MROCE_DATA, .body = 60, .token_xor = 1 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_TOKEN },
	{ "wrong token in a POLL",
	  { .type = MROCE_POLL, .token_xor = 1 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_TOKEN },
	{ "path the peer does not have",
	  { .type = MROCE_DATA, .body = 60, .path = TEST_PATHS },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_PATH },
	{ "path that nobody has",
	  { .type = MROCE_ACK, .body = 96, .path = MROCE_MAX_PATHS },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_PATH },
	{ "una above psn",
	  { .type = MROCE_DATA, .body = 60, .psn = 3, .una = 4 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_SEQUENCE },
	{ "una above psn in a POLL",
	  { .type = MROCE_POLL, .psn = 3, .una = 4 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_SEQUENCE },
	{ "beyond the window",
	  { .type = MROCE_DATA, .body = 60, .psn = 256 },
	  NULL,
	  XDP_DROP,
	  MROCE_DROP_AHEAD },
	/* Other types. */
	{ "HELLO, of nobody yet",
	  { .type = MROCE_HELLO, .body = 304, .cid_xor = TEST_CID, .token_xor = TEST_TOKEN },
	  NULL,
	  XDP_PASS,
	  MROCE_COUNT_RX_PASS_CTL },
	{ "ACCEPT", { .type = MROCE_ACCEPT, .body = 304 }, NULL, XDP_PASS, MROCE_COUNT_RX_PASS_CTL },
	{ "READY", { .type = MROCE_READY, .body = 304 }, NULL, XDP_PASS, MROCE_COUNT_RX_PASS_CTL },
	{ "ACK", { .type = MROCE_ACK, .body = 96 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "ACK of a path of which the peer has fewer",
	  { .type = MROCE_ACK, .body = 96, .path = 15 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "NACK", { .type = MROCE_NACK, .body = 96 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "PROBE_REPLY", { .type = MROCE_PROBE_REPLY }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "READ_REQ",
	  { .type = MROCE_READ_REQ, .body = 40 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "CREDIT", { .type = MROCE_CREDIT, .body = 8 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "FORGIVE", { .type = MROCE_FORGIVE, .body = 8 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "PORT_STATUS",
	  { .type = MROCE_PORT_STATUS, .body = 28 },
	  NULL,
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "CLOSE", { .type = MROCE_CLOSE, .body = 4 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "ERROR", { .type = MROCE_ERROR, .body = 12 }, NULL, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
};

static bool same(const struct frame *a, const struct frame *b)
{
	return a->len == b->len && !memcmp(a->b, b->b, a->len);
}

/* Every packet that is not answered must come out as it went in. */
static bool check(struct bed *bed, const char *name, struct frame *in, uint32_t verdict,
		  uint32_t counter)
{
	static struct run run;
	bool good;

	run_xdp(bed, in, &run, 1);
	good = !run.err && run.verdict == verdict && bed_counted(bed) == counter &&
	       same(&run.out, in);
	if (!tap(good, "xdp: %s", name))
		tap_note("error %d, verdict %u, counter %u, %u bytes out of %u", run.err,
			 run.verdict, bed_counted(bed), run.out.len, in->len);
	return good;
}

static void test_fixtures(struct bed *bed)
{
	static struct frame f;

	for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++) {
		const struct fixture *x = &fixtures[i];

		bed_reset(bed);
		frame_make(&f, &x->spec);
		if (x->change)
			x->change(&f);
		check(bed, x->name, &f, x->verdict, x->counter);
	}
}

/* ---- one after the other on one path ---- */

struct sequel {
	const char *name;
	struct spec spec;
	uint32_t verdict, counter;
};

static const struct sequel sequels[] = {
	{ "PSN 0: new", { .type = MROCE_DATA, .body = 60 }, XDP_REDIRECT, MROCE_COUNT_RX_REDIRECT },
	{ "PSN 0 again: duplicate",
	  { .type = MROCE_DATA, .body = 60 },
	  XDP_DROP,
	  MROCE_DROP_DUPLICATE },
	{ "PSN 1 on another path: gap of its own",
	  { .type = MROCE_DATA, .body = 60, .psn = 1, .path = 1 },
	  XDP_PASS,
	  MROCE_COUNT_RX_PASS_GAP },
	{ "PSN 3: gap",
	  { .type = MROCE_DATA, .body = 60, .psn = 3 },
	  XDP_PASS,
	  MROCE_COUNT_RX_PASS_GAP },
	{ "PSN 1: fills a hole",
	  { .type = MROCE_DATA, .body = 60, .psn = 1 },
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "PSN 20, una 20: given up is no gap, PSN wraps",
	  { .type = MROCE_DATA, .body = 60, .psn = 20, .una = 20 },
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "PSN 2: late", { .type = MROCE_DATA, .body = 60, .psn = 2 }, XDP_DROP, MROCE_DROP_LATE },
	{ "epoch 1",
	  { .type = MROCE_DATA, .body = 60, .psn = 21, .una = 21, .epoch = 1 },
	  XDP_REDIRECT,
	  MROCE_COUNT_RX_REDIRECT },
	{ "epoch 0: stale",
	  { .type = MROCE_DATA, .body = 60, .psn = 22, .una = 20 },
	  XDP_DROP,
	  MROCE_DROP_STALE_EPOCH },
	{ "epoch 0: stale POLL",
	  { .type = MROCE_POLL, .psn = 22, .una = 20 },
	  XDP_DROP,
	  MROCE_DROP_STALE_EPOCH },
	{ "CREDIT takes a PSN: duplicate",
	  { .type = MROCE_CREDIT, .body = 8, .psn = 21, .una = 21, .epoch = 1 },
	  XDP_DROP,
	  MROCE_DROP_DUPLICATE },
};

static void clear_counters(struct bed *bed)
{
	struct mroce_path_rx keep[MROCE_MAX_PATHS];

	memcpy(keep, bed_path(bed, 0), sizeof(keep));
	bed_reset(bed);
	memcpy(bed_path(bed, 0), keep, sizeof(keep));
}

static bool note_is_right(struct bed *bed, const struct run *run, const struct frame *in)
{
	struct mroce_note note;

	memcpy(&note, run->out.b, sizeof(note));
	return run->meta == sizeof(note) && note.magic == MROCE_NOTE_MAGIC &&
	       note.ifindex == (uint32_t)bed->ifindex && run->out.len == in->len + sizeof(note) &&
	       !memcmp(run->out.b + sizeof(note), in->b, in->len);
}

static void test_sequels(struct bed *bed)
{
	static struct frame f;
	static struct run run;

	bed_reset(bed);
	for (size_t i = 0; i < sizeof(sequels) / sizeof(sequels[0]); i++) {
		const struct sequel *s = &sequels[i];

		clear_counters(bed);
		frame_make(&f, &s->spec);
		if (s->verdict != XDP_PASS) {
			check(bed, s->name, &f, s->verdict, s->counter);
			continue;
		}
		run_xdp(bed, &f, &run, 1);
		tap(!run.err && run.verdict == s->verdict && bed_counted(bed) == s->counter &&
			    note_is_right(bed, &run, &f),
		    "xdp: %s", s->name);
	}
	tap(bed_path(bed, 0)->gaps == 1 && bed_path(bed, 1)->gaps == 1 &&
		    bed_path(bed, 0)->late == 1 && bed_path(bed, 0)->duplicate == 2 &&
		    bed_path(bed, 0)->stale == 2 && bed_path(bed, 0)->highest == FIRST_PSN + 21 &&
		    bed_path(bed, 0)->epoch == 1,
	    "xdp: the path's own counters agree");
}

static void test_settings(struct bed *bed)
{
	static struct frame f;
	uint32_t queue = 0;
	int fd = xsk_socket__fd(bed->xsk);

	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 60, .psn = 5 });
	bed_reset(bed);
	bed->config->nack = 0;
	check(bed, "gap without NACKs configured goes to the socket", &f, XDP_REDIRECT,
	      MROCE_COUNT_RX_REDIRECT);
	bed_reset(bed);
	bed->config->schema = 0;
	check(bed, "not configured: pass everything", &f, XDP_PASS, 0);
	bed_reset(bed);
	bed->config->schema = MROCE_MAP_SCHEMA + 1;
	check(bed, "other schema: pass everything", &f, XDP_PASS, 0);
	bed_reset(bed);
	bed->config->udp_port = MROCE_UDP_PORT + 1;
	check(bed, "other port configured", &f, XDP_PASS, 0);
	bed_reset(bed);
	bpf_map_delete_elem(bpf_map__fd(bed->xdp->maps.mroce_xsks), &queue);
	check(bed, "no socket on the queue", &f, XDP_PASS, MROCE_COUNT_RX_NO_SOCKET);
	tap(bed_path(bed, 0)->rx_packets == 0, "xdp: no socket: the path is not touched");
	tap(!bpf_map_update_elem(bpf_map__fd(bed->xdp->maps.mroce_xsks), &queue, &fd, 0),
	    "xdp: socket back");
	bed_reset(bed);
	bed->conns[TEST_SLOT].cid = 0;
	check(bed, "slot closed", &f, XDP_DROP, MROCE_DROP_NO_CONN);
}

static void test_ce(struct bed *bed)
{
	static struct frame f;
	static struct run run;
	struct mroce_path_rx *rx = bed_path(bed, 0);

	for (int v6 = 0; v6 < 2; v6++) {
		bed_reset(bed);
		for (uint8_t tos = 0; tos < 8; tos++) {
			frame_make(&f, &(struct spec){ .type = MROCE_DATA,
						       .body = 60,
						       .v6 = v6,
						       .psn = tos,
						       .tos = tos });
			run_xdp(bed, &f, &run, 1);
		}
		tap(rx->ce_packets == 2 && rx->ce_bytes == 2 * 96 && rx->rx_bytes == 8 * 96 &&
			    bed_counter(bed, MROCE_COUNT_RX_CE) == 2,
		    "xdp: CE is counted, IPv%d", v6 ? 6 : 4);
	}
}

static void test_queue(struct bed *bed)
{
	static struct frame f;
	static struct run run;
	struct mroce_path_rx *rx = bed_path(bed, 0);

	bed_reset(bed);
	rx->queue = 9;
	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 60 });
	run_xdp(bed, &f, &run, 1);
	tap(rx->queue == 0 && rx->queue_moves == 0, "xdp: the first packet is no queue move");
	rx->queue = 9;
	run_xdp(bed, &f, &run, 1);
	tap(rx->queue == 0 && rx->queue_moves == 1, "xdp: a queue move is counted");
}

/* ---- answers ---- */

/* The answer's own clock is the only thing that is not known beforehand. */
static void adopt_ts(struct frame *want, struct frame *got)
{
	if (got->len >= want->h + MROCE_HDR_LEN)
		memcpy(want->b + want->h + offsetof(struct mroce_hdr, ts),
		       got->b + want->h + offsetof(struct mroce_hdr, ts), 4);
	frame_seal(want);
}

static void check_answer(struct bed *bed, const char *name, struct frame *in, struct frame *want,
			 uint32_t counter)
{
	static struct run run;
	bool good;

	run_xdp(bed, in, &run, 1);
	adopt_ts(want, &run.out);
	good = !run.err && run.verdict == XDP_TX && bed_counted(bed) == counter &&
	       same(&run.out, want);
	if (tap(good, "xdp: %s", name))
		return;
	tap_note("error %d, verdict %u, counter %u, %u bytes instead of %u", run.err, run.verdict,
		 bed_counted(bed), run.out.len, want->len);
	for (uint32_t i = 0; i < run.out.len && i < want->len; i++)
		if (run.out.b[i] != want->b[i])
			tap_note("byte %u: %02x instead of %02x", i, run.out.b[i], want->b[i]);
}

static const struct {
	const char *name;
	struct spec spec;
} envelopes[] = {
	{ "IPv4", { 0 } },
	{ "IPv4, padded by one", { .body = 1 } },
	{ "IPv4, padded to the answer's length", { .body = MROCE_POLL_BODY } },
	{ "IPv6, padded beyond it", { .v6 = true, .body = 500 } },
	{ "IPv4, DSCP and CE", { .tos = 0xb3 } },
	{ "IPv4 with options", { .options = 2 } },
	{ "IPv4 with all options", { .options = 10 } },
	{ "IPv6", { .v6 = true } },
	{ "IPv6, DSCP and CE", { .v6 = true, .tos = 0xb3 } },
	{ "VLAN", { .vlans = 1 } },
	{ "VLAN, IPv6", { .vlans = 1, .v6 = true } },
	{ "two VLAN tags", { .vlans = 2 } },
	{ "two VLAN tags, IPv6, path 3, epoch 5", { .vlans = 2, .v6 = true, .path = 3, .epoch = 5 } },
};

static struct spec answer_spec(const struct spec *question, uint8_t type, uint16_t body)
{
	struct spec s = *question;

	s.answer = true;
	s.type = type;
	s.body = body;
	s.options = 0;
	s.tos = (uint8_t)((s.tos & ~3) | 2);
	return s;
}

/* Some history, so that the ACK has something to say. */
static void history(struct bed *bed, uint32_t path)
{
	struct mroce_path_rx *rx = bed_path(bed, path);

	for (uint32_t i = 0; i < 200; i++) {
		struct track_packet t = {
			.psn = FIRST_PSN + i, .una = FIRST_PSN, .bytes = 1000, .ce = i % 5 == 0
		};

		if (i % 7 == 3)
			continue;
		track_rx(rx, &t);
		if (i % 11)
			track_place(rx, FIRST_PSN + i);
		else
			track_miss(rx, FIRST_PSN + i);
	}
}

static void test_poll(struct bed *bed)
{
	static struct frame in, want;

	for (size_t i = 0; i < sizeof(envelopes) / sizeof(envelopes[0]); i++) {
		struct spec s = envelopes[i].spec, answer;
		struct track_packet t;
		struct mroce_path_rx twin;
		char name[80];

		bed_reset(bed);
		history(bed, s.path);
		s.type = MROCE_POLL;
		s.psn = 205;
		s.una = 2;
		answer = answer_spec(&s, MROCE_ACK, sizeof(struct mroce_ack));
		t = (struct track_packet){
			.psn = FIRST_PSN + s.psn,
			.una = FIRST_PSN + s.una,
			.ts = TEST_TS,
			.bytes = MROCE_HDR_LEN + s.body,
			.epoch = s.epoch,
			.ce = (s.tos & 3) == 3,
		};
		twin = *bed_path(bed, s.path);
		track_poll(&twin, &t);
		frame_make(&in, &s);
		frame_make(&want, &answer);
		frame_ack(&want, &twin, &s);
		snprintf(name, sizeof(name), "POLL to ACK, %s", envelopes[i].name);
		check_answer(bed, name, &in, &want, MROCE_COUNT_TX_ACK);
		tap(!memcmp(&twin, bed_path(bed, s.path), sizeof(twin)), "xdp: %s: same path state",
		    name);
	}
}

static void test_probe(struct bed *bed)
{
	static const uint16_t paddings[] = { 0, 1, 1400, 3300, 8900 };
	static struct frame in, want;

	for (size_t i = 0; i < sizeof(envelopes) / sizeof(envelopes[0]) * 5; i++) {
		struct spec s = envelopes[i / 5].spec, answer;
		struct mroce_path_rx before;
		char name[80];

		bed_reset(bed);
		before = *bed_path(bed, s.path);
		s.type = MROCE_PROBE;
		s.body = paddings[i % 5];
		s.psn = 77;
		answer = answer_spec(&s, MROCE_PROBE_REPLY, 0);
		frame_make(&in, &s);
		frame_make(&want, &answer);
		frame_hdr(&want)->psn = htonl(FIRST_PSN + 77);
		frame_hdr(&want)->una = htonl(FIRST_PSN);
		snprintf(name, sizeof(name), "PROBE padded with %u bytes, %s", s.body,
			 envelopes[i / 5].name);
		check_answer(bed, name, &in, &want, MROCE_COUNT_TX_PROBE_REPLY);
		if (memcmp(&before, bed_path(bed, s.path), sizeof(before)))
			tap(false, "xdp: %s: path untouched", name);
	}
}

void test_xdp(struct bed *bed)
{
	test_fixtures(bed);
	test_sequels(bed);
	test_settings(bed);
	test_ce(bed);
	test_queue(bed);
	test_poll(bed);
	test_probe(bed);
}
