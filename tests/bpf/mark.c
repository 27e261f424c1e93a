// SPDX-License-Identifier: BSD-2-Clause
/* The virtual queues: what XDP counts as CE, what TC egress marks, what is left alone. */
#include "bpf_test.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <string.h>

#define FULL_AFTER 20 /* frames of 1.4 KB: more than the least threshold holds */

static void start(struct bed *bed, uint32_t mbps)
{
	struct mroce_vqueue empty = { 0 };
	uint32_t port = 3;

	bed_reset(bed);
	vqueue_set(&bed->config->vqueue[port], (uint32_t)bed->ifindex, mbps);
	bed->config->mark = 1;
	bpf_map_update_elem(bpf_map__fd(bed->xdp->maps.mroce_vq_rx), &port, &empty, 0);
	bpf_map_update_elem(bpf_map__fd(bed->tc->maps.mroce_vq_tx), &port, &empty, 0);
}

static void arrive(struct bed *bed, uint32_t n, bool other)
{
	static struct frame f;
	static struct run run;

	for (uint32_t i = 0; i < n; i++) {
		frame_make(&f, &(struct spec){ .type = MROCE_DATA,
					       .body = 1400,
					       .psn = i,
					       .tos = 2,
					       .port_off = other });
		run_xdp(bed, &f, &run, 1);
	}
}

static void test_arrivals(struct bed *bed)
{
	const struct mroce_path_rx *rx = bed_path(bed, 0);

	start(bed, 1);
	arrive(bed, 5, false);
	tap(rx->ce_packets == 0, "mark: xdp: a short queue marks nothing");
	start(bed, 1);
	arrive(bed, FULL_AFTER, false);
	tap(rx->ce_packets > 5 && rx->ce_packets < 15 &&
		    bed_counter(bed, MROCE_COUNT_MARKED) == rx->ce_packets &&
		    bed_counter(bed, MROCE_COUNT_RX_CE) == 0,
	    "mark: xdp: above the threshold packets count as CE (%u of %u)", rx->ce_packets,
	    FULL_AFTER);
	start(bed, 1);
	arrive(bed, FULL_AFTER, true);
	arrive(bed, 1, false);
	tap(rx->ce_packets == 1, "mark: xdp: what is not ours fills the queue too");
	start(bed, 1);
	bed->config->mark = 0;
	arrive(bed, FULL_AFTER, false);
	tap(rx->ce_packets == 0, "mark: xdp: off");
	start(bed, 1);
	bed->config->vqueue[3].ifindex++;
	arrive(bed, FULL_AFTER, false);
	tap(rx->ce_packets == 0, "mark: xdp: another interface's queue");
	start(bed, 10000000);
	arrive(bed, FULL_AFTER, false);
	tap(rx->ce_packets == 0, "mark: xdp: a fast link");
}

static void leave(struct bed *bed, const struct spec *s, struct frame *f, struct run *run)
{
	for (uint32_t i = 0; i < FULL_AFTER; i++) {
		frame_make(f, s);
		run_egress(bed, f, 0, 0, run);
	}
}

static void test_departures(struct bed *bed)
{
	static const struct {
		const char *name;
		struct spec s;
		int tos; /* afterwards */
	} rows[] = {
		{ "IPv4, ECT(0)", { .type = MROCE_DATA, .body = 1400, .tos = 2 }, 3 },
		{ "IPv4, ECT(1)", { .type = MROCE_DATA, .body = 1400, .tos = 1 }, 3 },
		{ "IPv4, DSCP", { .type = MROCE_DATA, .body = 1400, .tos = 0xb2 }, 0xb3 },
		{ "IPv4 in a VLAN", { .type = MROCE_DATA, .body = 1400, .tos = 2, .vlans = 1 }, 3 },
		{ "IPv6", { .type = MROCE_DATA, .body = 1400, .tos = 2, .v6 = true }, 3 },
		{ "IPv6, DSCP", { .type = MROCE_DATA, .body = 1400, .tos = 0xb2, .v6 = true }, 0xb3 },
		{ "not ECN-capable", { .type = MROCE_DATA, .body = 1400, .tos = 0 }, 0 },
		{ "marked already", { .type = MROCE_DATA, .body = 1400, .tos = 3 }, 3 },
		{ "not ours", { .type = MROCE_DATA, .body = 1400, .tos = 2, .port_off = 1 }, 2 },
	};
	static struct frame f, want;
	static struct run run;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct spec s = rows[i].s;

		start(bed, 1);
		leave(bed, &s, &f, &run);
		s.tos = (uint8_t)rows[i].tos;
		frame_make(&want, &s);
		tap(!run.err && (int)run.verdict == TC_ACT_UNSPEC && run.out.len == want.len &&
			    !memcmp(run.out.b, want.b, want.len),
		    "mark: tc: %s", rows[i].name);
	}
	start(bed, 10000000);
	leave(bed, &rows[0].s, &f, &run);
	tap(!memcmp(run.out.b, f.b, f.len), "mark: tc: a fast link");
}

void test_mark(struct bed *bed)
{
	test_arrivals(bed);
	test_departures(bed);
	bed_reset(bed);
}
