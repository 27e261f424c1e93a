// SPDX-License-Identifier: BSD-2-Clause
/* Nanoseconds per packet inside mroce_xdp. Not a test: the figures depend on the machine. */
#include "bpf_test.h"
#include <linux/bpf.h>

#define REPEAT 1000000
#define ROUNDS 5
#define SINGLE 20000

/*
 * A packet that changes the path or the frame cannot be repeated in one call: many calls of one packet
 * each, with cold caches and the kernel's reading of the clock in the figure.
 */
static void report_single(struct bed *bed, const char *name, const struct spec *spec, uint32_t step)
{
	static struct frame f;
	static struct run run;
	struct spec s = *spec;
	uint64_t sum = 0;

	bed_reset(bed);
	for (uint32_t i = 0; i < SINGLE; i++) {
		s.psn = i * step;
		s.una = s.psn < 200 ? 0 : s.psn - 200;
		frame_make(&f, &s);
		run_xdp(bed, &f, &run, 1);
		sum += run.ns;
	}
	tap_note("%-40s %4u ns (verdict %u, single)", name, (uint32_t)(sum / SINGLE), run.verdict);
}

static uint32_t repeated(struct bed *bed, const struct spec *spec, uint32_t *verdict)
{
	static struct frame f;
	static struct run run;

	bed_reset(bed);
	frame_make(&f, spec);
	run_xdp(bed, &f, &run, 1);
	run_xdp(bed, &f, &run, REPEAT);
	*verdict = run.verdict;
	return run.ns;
}

static void report(struct bed *bed, const char *name, const struct spec *spec)
{
	uint32_t verdict = 0, best = UINT32_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t ns = repeated(bed, spec, &verdict);

		best = ns < best ? ns : best;
	}
	tap_note("%-40s %4u ns (verdict %u)", name, best, verdict);
}

void report_speed(struct bed *bed)
{
	static const struct spec data = { .type = MROCE_DATA, .body = 1400 };
	static const struct spec other = { .type = MROCE_DATA, .body = 1400, .port_off = 1 };
	static const struct spec poll = { .type = MROCE_POLL, .body = MROCE_POLL_BODY };
	static const struct spec token = { .type = MROCE_DATA, .body = 1400, .token_xor = 1 };
	static const struct spec ack = { .type = MROCE_ACK, .body = sizeof(struct mroce_ack) };

	report(bed, "other UDP port", &other);
	report(bed, "wrong token", &token);
	report(bed, "DATA, duplicate", &data);
	report(bed, "ACK, to the socket", &ack);
	report_single(bed, "other UDP port", &other, 0);
	report_single(bed, "DATA, duplicate", &data, 0);
	report_single(bed, "DATA, new", &data, 1);
	report_single(bed, "DATA, gap", &data, 2);
	report_single(bed, "POLL to ACK", &poll, 0);
}
