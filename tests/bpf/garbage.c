// SPDX-License-Identifier: BSD-2-Clause
/* Packets cut off at every byte, and packets with seeded damage: never ours when too short, never harm. */
#include "bpf_test.h"
#include <linux/bpf.h>
#include <string.h>

#define MUTANTS 20000
/* The kernel takes no shorter frame for a test run. */
#define SHORTEST 14

static uint64_t state = 20240824;

static uint32_t below(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % n;
}

static void cut(struct bed *bed, const char *name, const struct spec *spec)
{
	static struct frame whole, part;
	static struct run run;
	uint32_t bad = 0, passed = 0, dropped = 0;

	frame_make(&whole, spec);
	for (uint32_t len = SHORTEST; len < whole.len; len++) {
		uint32_t want = len < whole.h ? XDP_PASS : XDP_DROP;

		bed_reset(bed);
		part = whole;
		part.len = len;
		run_xdp(bed, &part, &run, 1);
		bad += run.err || run.verdict != want || run.out.len != len ||
		       memcmp(run.out.b, whole.b, len) || bed_path(bed, 0)->rx_packets ||
		       bed_counted(bed) != (want == XDP_DROP ? MROCE_DROP_TRUNCATED : 0u);
		passed += run.verdict == XDP_PASS;
		dropped += run.verdict == XDP_DROP;
	}
	if (!tap(!bad && dropped, "garbage: cut off at every byte: %s", name))
		tap_note("%u wrong, %u passed, %u dropped of %u", bad, passed, dropped, whole.len);
}

static void mutate(struct frame *f)
{
	for (uint32_t n = 1 + below(4); n > 0; n--)
		f->b[below(f->len < 120 ? f->len : 120)] = (uint8_t)below(256);
	if (below(4) == 0)
		f->len = SHORTEST + below(f->len - SHORTEST + 1);
	if (below(3) && f->len > f->h + MROCE_HDR_LEN)
		frame_seal(f);
}

/* Whatever comes: a verdict of ours, an untouched frame unless answered, and our answers' length. */
static bool is_sound(struct bed *bed, const struct run *run, const struct frame *in)
{
	uint32_t answer = in->h + MROCE_HDR_LEN + sizeof(struct mroce_ack);

	if (run->err)
		return false;
	switch (run->verdict) {
	case XDP_PASS: return !memcmp(run->out.b + run->meta, in->b, in->len);
	case XDP_DROP:
		return bed_counted(bed) > 0 && bed_counted(bed) < 32 &&
		       !memcmp(run->out.b, in->b, in->len);
	case XDP_REDIRECT:
		return bed_counted(bed) == MROCE_COUNT_RX_REDIRECT &&
		       !memcmp(run->out.b, in->b, in->len);
	case XDP_TX: return run->out.len <= answer;
	}
	return false;
}

static void mutants(struct bed *bed)
{
	static const struct spec specs[] = {
		{ .type = MROCE_DATA, .body = 100 },
		{ .type = MROCE_POLL },
		{ .type = MROCE_PROBE, .body = 30 },
		{ .type = MROCE_DATA, .body = 100, .v6 = true },
		{ .type = MROCE_POLL, .v6 = true, .vlans = 1 },
		{ .type = MROCE_POLL, .options = 4 },
		{ .type = MROCE_CREDIT, .body = 8, .vlans = 2 },
	};
	static struct frame f;
	static struct run run;
	uint32_t verdicts[8] = { 0 }, bad = 0;

	for (int i = 0; i < MUTANTS; i++) {
		frame_make(&f, &specs[below(7)]);
		mutate(&f);
		bed_reset(bed);
		run_xdp(bed, &f, &run, 1);
		if (!is_sound(bed, &run, &f) && ++bad < 5)
			tap_note("mutant %d: error %d, verdict %u, counter %u", i, run.err,
				 run.verdict, bed_counted(bed));
		verdicts[run.verdict & 7]++;
	}
	tap_note("verdicts: drop %u, pass %u, tx %u, redirect %u", verdicts[XDP_DROP],
		 verdicts[XDP_PASS], verdicts[XDP_TX], verdicts[XDP_REDIRECT]);
	tap(!bad, "garbage: %d seeded mutants", MUTANTS);
	tap(verdicts[XDP_DROP] && verdicts[XDP_PASS] && verdicts[XDP_TX] && verdicts[XDP_REDIRECT],
	    "garbage: every verdict was seen");
}

void test_garbage(struct bed *bed)
{
	cut(bed, "DATA", &(struct spec){ .type = MROCE_DATA, .body = 60 });
	cut(bed, "DATA, IPv6", &(struct spec){ .type = MROCE_DATA, .body = 60, .v6 = true });
	cut(bed, "POLL, two VLAN tags", &(struct spec){ .type = MROCE_POLL, .vlans = 2 });
	cut(bed, "POLL, IPv4 with options", &(struct spec){ .type = MROCE_POLL, .options = 5 });
	mutants(bed);
}
