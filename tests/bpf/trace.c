// SPDX-License-Identifier: BSD-2-Clause
/* mroce trace: what goes into the ring buffer, for whom, and that it changes no verdict. */
#include "bpf_test.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <string.h>

static struct mroce_trace_event last;
static int events;

static int on_event(void *ctx, void *data, size_t size)
{
	(void)ctx;
	if (size >= sizeof(last))
		memcpy(&last, data, sizeof(last));
	events++;
	return 0;
}

static int arrive(struct bed *bed, const struct spec *s, struct frame *f, struct run *run)
{
	frame_make(f, s);
	run_xdp(bed, f, run, 1);
	return run->err ? -1 : (int)run->verdict;
}

static int drain(struct ring_buffer *rb)
{
	events = 0;
	ring_buffer__consume(rb);
	return events;
}

static void test_who(struct bed *bed, struct ring_buffer *rb)
{
	static struct frame f;
	static struct run run;
	const struct spec data = { .type = MROCE_DATA, .body = 200 };
	const struct spec strange = { .type = MROCE_DATA, .body = 200, .cid_xor = 0x10000 };

	bed_reset(bed);
	arrive(bed, &data, &f, &run);
	tap(drain(rb) == 0, "trace: off: nothing");
	bed_reset(bed);
	bed->config->trace = TEST_CID ^ 1;
	arrive(bed, &data, &f, &run);
	tap(drain(rb) == 0, "trace: another connection: nothing");
	bed_reset(bed);
	bed->config->trace = TEST_CID;
	arrive(bed, &strange, &f, &run);
	tap(drain(rb) == 0, "trace: a packet of another connection: nothing");
	bed->config->trace = MROCE_TRACE_ALL;
	arrive(bed, &strange, &f, &run);
	tap(drain(rb) == 1 && last.verdict == -MROCE_DROP_NO_CONN && last.cid == (TEST_CID ^ 0x10000),
	    "trace: all: also those of nobody, with the reason");
}

static void test_what(struct bed *bed, struct ring_buffer *rb, bool v6)
{
	static struct frame f;
	static struct run run;
	const struct spec data = {
		.type = MROCE_DATA, .body = 1000, .psn = 1, .path = 2, .v6 = v6, .tos = 3
	};
	const struct spec poll = {
		.type = MROCE_POLL, .body = MROCE_POLL_BODY, .psn = 2, .path = 2, .v6 = v6
	};
	int verdict;

	bed_reset(bed);
	bed->config->trace = TEST_CID;
	verdict = arrive(bed, &data, &f, &run);
	tap(drain(rb) == 1 && last.verdict == verdict && verdict != XDP_DROP,
	    "trace: data: one event (IPv%d)", v6 ? 6 : 4);
	tap(last.cid == TEST_CID && last.ns && last.ifindex == (uint32_t)bed->ifindex &&
		    last.queue == 0,
	    "trace: data: its fields");
	tap(last.frame_len == f.len && last.snap == MROCE_TRACE_SNAP &&
		    !memcmp(last.frame, f.b, last.snap),
	    "trace: data: the beginning of the frame");
	verdict = arrive(bed, &data, &f, &run);
	tap(drain(rb) == 1 && verdict == XDP_DROP && last.verdict == -MROCE_DROP_DUPLICATE,
	    "trace: a duplicate: why it was dropped");
	verdict = arrive(bed, &poll, &f, &run);
	tap(drain(rb) == 1 && verdict == XDP_TX && last.verdict == XDP_TX && last.cid == TEST_CID &&
		    last.frame_len == run.out.len && last.snap == run.out.len &&
		    !memcmp(last.frame, run.out.b, last.snap),
	    "trace: a POLL: whole, as the ACK that it became");
}

static void test_verdicts(struct bed *bed, struct ring_buffer *rb)
{
	static const uint8_t types[] = { MROCE_DATA, MROCE_ACK,	  MROCE_CREDIT, MROCE_PROBE,
					 MROCE_POLL, MROCE_HELLO, MROCE_CLOSE };
	static struct frame f;
	static struct run run;
	bool same = true;

	for (size_t i = 0; i < sizeof(types); i++) {
		const struct spec s = { .type = types[i],
					.body = types[i] == MROCE_PROBE ? 0 : 96,
					.psn = 5 };
		uint32_t counted;
		int off, on;

		bed_reset(bed);
		off = arrive(bed, &s, &f, &run);
		counted = bed_counted(bed);
		bed_reset(bed);
		bed->config->trace = MROCE_TRACE_ALL;
		on = arrive(bed, &s, &f, &run);
		same &= off == on && counted == bed_counted(bed) && drain(rb) == 1;
	}
	tap(same, "trace: on or off, verdicts and counters are the same");
}

/* Nobody reads: what does not fit is left out, and packets go their way. */
static void test_full(struct bed *bed, struct ring_buffer *rb)
{
	static struct frame f;
	static struct run run;
	bool passed = true;
	int kept;

	bed_reset(bed);
	bed->config->trace = TEST_CID;
	for (uint32_t i = 0; i < 3000; i++)
		passed &= arrive(bed,
				 &(struct spec){ .type = MROCE_DATA, .body = 64, .psn = i, .una = i },
				 &f, &run) == XDP_REDIRECT;
	kept = drain(rb);
	tap(passed && kept > 500 && kept < 3000,
	    "trace: a full ring (%d of 3000 events) stops no packet", kept);
}

void test_trace(struct bed *bed)
{
	struct ring_buffer *rb = ring_buffer__new(bpf_map__fd(bed->xdp->maps.mroce_trace), on_event,
						  NULL, NULL);

	if (!tap(rb != NULL, "trace: the ring buffer opens"))
		return;
	test_who(bed, rb);
	test_what(bed, rb, false);
	test_what(bed, rb, true);
	test_verdicts(bed, rb);
	test_full(bed, rb);
	bed->config->trace = 0;
	ring_buffer__free(rb);
}
