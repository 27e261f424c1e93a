// SPDX-License-Identifier: BSD-2-Clause
/* mroce_tc egress by test run: marked clones become NACKs, everything else passes untouched. */
#include "bpf_test.h"
#include <arpa/inet.h>
#include <linux/pkt_cls.h>
#include <string.h>

static const struct {
	const char *name;
	struct spec spec;
} clones[] = {
	{ "grows from 8 bytes of body", { .type = MROCE_CREDIT, .body = 8 } },
	{ "keeps its size", { .type = MROCE_DATA, .body = 96 } },
	{ "shrinks from 1400", { .type = MROCE_DATA, .body = 1400 } },
	{ "shrinks from 3300", { .type = MROCE_DATA, .body = 3300 } },
	{ "IPv6", { .type = MROCE_DATA, .body = 1400, .v6 = true } },
	{ "IPv6, grows", { .type = MROCE_CREDIT, .body = 8, .v6 = true } },
	{ "IPv4 with options", { .type = MROCE_DATA, .body = 1400, .options = 5 } },
	{ "VLAN tag in the data", { .type = MROCE_DATA, .body = 1400, .vlans = 1 } },
	{ "two VLAN tags, IPv6, DSCP, CE",
	  { .type = MROCE_DATA, .body = 1400, .vlans = 2, .v6 = true, .tos = 0xb3 } },
	{ "path 3, epoch 9", { .type = MROCE_DATA, .body = 100, .path = 3, .epoch = 9 } },
};

static void note_difference(const struct frame *got, const struct frame *want)
{
	tap_note("%u bytes instead of %u", got->len, want->len);
	for (uint32_t i = 0; i < got->len && i < want->len; i++)
		if (got->b[i] != want->b[i])
			tap_note("byte %u: %02x instead of %02x", i, got->b[i], want->b[i]);
}

static void becomes_nack(struct bed *bed, const char *name, struct spec s)
{
	static struct frame in, want;
	static struct run run;
	struct spec answer;
	uint32_t ts_at;
	bool good;

	s.psn = 4;
	answer = s;
	answer.answer = true;
	answer.type = MROCE_NACK;
	answer.body = sizeof(struct mroce_ack);
	answer.options = 0;
	answer.tos = (uint8_t)((s.tos & ~3) | 2);
	bed_reset(bed);
	frame_make(&in, &s);
	run_xdp(bed, &in, &run, 1); /* finds the gap */
	run_egress(bed, &in, MROCE_NACK_MARK, (uint32_t)bed->ifindex, &run);
	frame_make(&want, &answer);
	frame_ack(&want, bed_path(bed, s.path), &s);
	ts_at = want.h + offsetof(struct mroce_hdr, ts);
	memcpy(want.b + ts_at, run.out.b + ts_at, 4);
	frame_seal(&want);
	good = !run.err && (int)run.verdict == TC_ACT_UNSPEC && run.mark == 0 &&
	       bed_counter(bed, MROCE_COUNT_TX_NACK) == 1 && run.out.len == want.len &&
	       !memcmp(run.out.b, want.b, want.len);
	if (tap(good, "tc: clone becomes a NACK: %s", name))
		return;
	tap_note("error %d, verdict %d, mark %u", run.err, (int)run.verdict, run.mark);
	note_difference(&run.out, &want);
}

static void stays(struct bed *bed, const char *name, const struct spec *spec, uint32_t mark,
		  uint32_t ingress)
{
	static struct frame in;
	static struct run run;

	frame_make(&in, spec);
	run_egress(bed, &in, mark, ingress, &run);
	tap(!run.err && (int)run.verdict == TC_ACT_UNSPEC && run.mark == mark &&
		    bed_counted(bed) == 0 && run.out.len == in.len &&
		    !memcmp(run.out.b, in.b, in.len),
	    "tc: untouched: %s", name);
}

static void is_dropped(struct bed *bed, const char *name, struct frame *in)
{
	static struct run run;

	run_egress(bed, in, MROCE_NACK_MARK, (uint32_t)bed->ifindex, &run);
	tap(!run.err && run.verdict == TC_ACT_SHOT && bed_counted(bed) == MROCE_COUNT_NACK_FAILED,
	    "tc: clone is dropped: %s", name);
}

void test_tc(struct bed *bed)
{
	static const struct spec data = { .type = MROCE_DATA, .body = 100 };
	static const struct spec other = { .type = MROCE_DATA, .body = 100, .port_off = 1 };
	static struct frame f;
	uint32_t self = (uint32_t)bed->ifindex;

	for (size_t i = 0; i < sizeof(clones) / sizeof(clones[0]); i++)
		becomes_nack(bed, clones[i].name, clones[i].spec);
	bed_reset(bed);
	stays(bed, "ours without the mark", &data, 0, self);
	stays(bed, "another mark", &data, MROCE_NACK_MARK + 1, self);
	stays(bed, "the mark, but sent by this host", &data, MROCE_NACK_MARK, 0);
	stays(bed, "the mark, but another port", &other, MROCE_NACK_MARK, self);
	bed->config->schema = 0;
	stays(bed, "not configured", &data, MROCE_NACK_MARK, self);
	bed_reset(bed);
	bed->conns[TEST_SLOT].cid = 0;
	frame_make(&f, &data);
	is_dropped(bed, "the connection has closed", &f);
	bed_reset(bed);
	frame_hdr(&f)->hdr_crc ^= 1;
	is_dropped(bed, "header CRC wrong", &f);
}
