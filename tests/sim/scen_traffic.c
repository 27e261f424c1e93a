// SPDX-License-Identifier: BSD-2-Clause
/* Traffic over networks of every kind: all of it must arrive, once, in order, byte for byte. */
#include "poke.h"
#include "sim.h"

#define SENDS (1 << MROCE_WR_SEND | 1 << MROCE_WR_SEND_IMM)
#define WRITES (1 << MROCE_WR_WRITE | 1 << MROCE_WR_WRITE_IMM)
#define READS (1 << MROCE_WR_READ)
#define TYPE(t) (1u << MROCE_##t)

/* Payload of a chunk at an MTU, as the engine cuts it. */
#define CHUNK(mtu) (((mtu)-28 - 36 - 44) & ~7)

/* After the standard run: the loss must have been there, or the scenario shows nothing. */
static void lossy(struct sim *s)
{
	uint64_t lost = 0;

	world_standard(s);
	for (uint32_t i = 0; i < MROCE_TYPE_MAX; i++)
		lost += s->lost[i];
	CHECK(s, lost, "the network lost nothing");
}

static void chunk_edges(struct sim *s)
{
	uint64_t chunk = CHUNK(s->cfg.mtu);
	const uint64_t sizes[] = { 0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 4 * chunk - 1 };

	world_build(s);
	world_connect(s);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && !s->failed; i++) {
		struct lane_params p = {
			.stream = i,
			.from = i & 1,
			.kinds = SENDS | WRITES | READS,
			.min = sizes[i],
			.max = sizes[i],
			.count = 30,
			.window = 5,
		};

		lane_new(s->pairs[0], &p);
	}
	world_wait_lanes(s);
	world_finish(s);
}

static uint16_t epoch_of(struct sim *s)
{
	struct path_stats st = { 0 };

	if (engine_path_stats(s->pairs[0]->end[0].conn, 0, &st))
		sim_fail(s, "there is no path 0");
	return st.epoch;
}

/* Both sides believe to have come far already. */
static void late_epochs(struct sim *s, uint16_t epoch)
{
	for (uint32_t i = 0; i < 2 && !s->failed; i++) {
		poke_epochs(s->pairs[0]->end[i].conn, epoch);
		for (uint32_t j = 0; j < s->hosts[i]->nports; j++) {
			struct port *port = &s->hosts[i]->ports[j].port;

			for (uint32_t n = 0; n < s->cfg.max_conns * MROCE_MAX_PATHS; n++)
				port->paths[n].epoch = epoch;
		}
	}
}

/* Path 0 dies and comes back again and again: every time with a new epoch and source port. */
static void many_epochs(struct sim *s)
{
	world_build(s);
	world_connect(s);
	late_epochs(s, 0xfff0);
	for (uint32_t i = 0; i < 40 && !s->failed; i++) {
		host_link(s->hosts[0], 0, false);
		world_wait(s, 3 * MS);
		host_link(s->hosts[0], 0, true);
		world_wait(s, 30 * MS);
		if (i == 2)
			world_traffic(s);
	}
	if (!s->failed)
		CHECK(s, epoch_of(s) < 0x8000, "40 link flaps led only to epoch %u", epoch_of(s));
	world_wait_lanes(s);
	world_finish(s);
}

const struct scenario traffic_scenarios[] = {
	{ "plain", "a mix of all requests, nothing goes wrong", { .count = 200 }, NULL },
	{ "loss_0.1", "0.1 % random loss", { .imp.loss = 1000, .count = 400 }, lossy },
	{ "loss_1", "1 % random loss", { .imp.loss = PERCENT, .count = 200 }, lossy },
	{ "loss_10", "10 % random loss", { .imp.loss = 10 * PERCENT, .count = 200 }, lossy },
	{ "loss_30", "30 % random loss", { .imp.loss = 30 * PERCENT, .count = 200 }, lossy },
	{ "loss_60",
	  "60 % random loss",
	  { .imp.loss = 60 * PERCENT, .count = 30, .handshake_ns = 60 * SEC },
	  lossy },
	{ "loss_10_one_path",
	  "10 % on a single path",
	  { .imp.loss = 10 * PERCENT, .paths = 1, .count = 150 },
	  lossy },
	{ "bursts",
	  "bursts of 8 packets, 5 % in all",
	  { .imp = { .burst_start = 6500, .burst_end = 125000, .burst_loss = 1000000 },
	    .count = 300 },
	  lossy },
	{ "bursts_long",
	  "bursts of 100 packets",
	  { .imp = { .burst_start = 1000, .burst_end = 10000, .burst_loss = 950000 }, .count = 300 },
	  lossy },
	{ "reorder",
	  "10 % come up to 100 us late",
	  { .imp.reorder = 10 * PERCENT, .count = 300 },
	  NULL },
	{ "reorder_much",
	  "half come up to 2 ms late",
	  { .imp = { .reorder = 50 * PERCENT, .reorder_ns = 2 * MS }, .count = 150 },
	  NULL },
	{ "reorder_loss",
	  "both, and duplicates",
	  { .imp = { .reorder = 5 * PERCENT, .loss = 5 * PERCENT, .dup = 5 * PERCENT },
	    .count = 300 },
	  lossy },
	{ "duplicates", "every third packet twice", { .imp.dup = 33 * PERCENT, .count = 300 }, NULL },
	{ "corruption", "5 % with flipped bits", { .imp.corrupt = 5 * PERCENT, .count = 300 }, NULL },
	{ "truncation", "5 % cut short", { .imp.trunc = 5 * PERCENT, .count = 300 }, NULL },
	{ "everything",
	  "loss, bursts, reordering, duplicates, corruption, truncation",
	  { .imp = { .loss = 3 * PERCENT,
		     .burst_start = 2000,
		     .burst_end = 125000,
		     .burst_loss = 1000000,
		     .reorder = 3 * PERCENT,
		     .dup = 3 * PERCENT,
		     .corrupt = 3 * PERCENT,
		     .trunc = 2 * PERCENT },
	    .planes = 4,
	    .count = 300,
	    .lanes = 4 },
	  lossy },
	{ "lost_acks",
	  "70 % of the ACKs",
	  { .imp = { .types = TYPE(ACK), .type_loss = 70 * PERCENT }, .count = 200 },
	  lossy },
	{ "lost_polls",
	  "70 % of the POLLs",
	  { .imp = { .types = TYPE(POLL), .type_loss = 70 * PERCENT }, .count = 200 },
	  lossy },
	{ "lost_nacks",
	  "every NACK, and 3 % of all",
	  { .imp = { .types = TYPE(NACK), .type_loss = 1000000, .loss = 3 * PERCENT }, .count = 200 },
	  lossy },
	{ "lost_control",
	  "half of ACK, POLL, NACK, CREDIT, READ_REQ, ERROR",
	  { .imp = { .types = TYPE(ACK) | TYPE(POLL) | TYPE(NACK) | TYPE(CREDIT) | TYPE(READ_REQ) |
			      TYPE(ERROR),
		     .type_loss = 50 * PERCENT },
	    .count = 150 },
	  lossy },
	{ "sends",
	  "sends alone, few receives",
	  { .kinds = SENDS, .count = 300, .recv_window = 2, .imp.loss = PERCENT },
	  lossy },
	{ "writes", "writes alone", { .kinds = WRITES, .count = 300, .imp.loss = PERCENT }, lossy },
	{ "reads", "reads alone", { .kinds = READS, .count = 300, .imp.loss = PERCENT }, lossy },
	{ "reads_deep",
	  "more reads than a stream may have outstanding",
	  { .kinds = READS, .count = 300, .window = 64, .imp.loss = PERCENT },
	  lossy },
	{ "one_byte",
	  "many tiny messages",
	  { .min = 1, .max = 1, .count = 2000, .window = 64, .imp.loss = PERCENT },
	  lossy },
	{ "empty",
	  "messages of no bytes",
	  { .min = 0, .max = 0, .kinds = SENDS | WRITES, .count = 1000, .window = 32, .imp.loss = PERCENT },
	  lossy },
	{ "chunk_edges_1280",
	  "sizes around the chunk, MTU 1280",
	  { .mtu = 1280, .imp.loss = 3 * PERCENT },
	  chunk_edges },
	{ "chunk_edges_1500",
	  "sizes around the chunk, MTU 1500",
	  { .mtu = 1500, .imp.loss = 3 * PERCENT },
	  chunk_edges },
	{ "chunk_edges_3498",
	  "sizes around the chunk, MTU 3498",
	  { .mtu = 3498, .imp.loss = 3 * PERCENT },
	  chunk_edges },
	{ "mtu_9000",
	  "large frames",
	  { .mtu = 9000, .max = 300000, .count = 60, .imp.loss = 2 * PERCENT },
	  lossy },
	{ "small_chunk",
	  "chunks of 512 bytes by configuration",
	  { .chunk = 512, .count = 100, .imp.loss = 2 * PERCENT },
	  lossy },
	{ "ipv6",
	  "over IPv6 addresses",
	  { .ipv6 = true, .planes = 2, .imp.loss = PERCENT, .count = 200 },
	  lossy },
	{ "megabytes",
	  "messages of 4 MiB",
	  { .min = 4 * MIB - 5,
	    .max = 4 * MIB + 5,
	    .count = 3,
	    .window = 2,
	    .mtu = 3498,
	    .imp.loss = PERCENT },
	  lossy },
	{ "huge",
	  "a write of 64 MiB: several chunk spans",
	  { .kinds = 1 << MROCE_WR_WRITE,
	    .min = 64 * MIB,
	    .max = 64 * MIB,
	    .count = 1,
	    .window = 1,
	    .lanes = 1,
	    .mtu = 3498,
	    .mode = ARENA_VIRTUAL,
	    .planes = 4,
	    .imp.loss = 2000 },
	  lossy },
	{ "gibibyte",
	  "a write of 1 GiB",
	  { .kinds = 1 << MROCE_WR_WRITE,
	    .min = 1024 * MIB,
	    .max = 1024 * MIB,
	    .count = 1,
	    .window = 1,
	    .lanes = 1,
	    .mtu = 9000,
	    .mode = ARENA_VIRTUAL,
	    .planes = 4,
	    .imp.loss = 1000 },
	  lossy },
	{ "queues_wander",
	  "packets of a path come by any of four queues",
	  { .queues = 4, .queues_wander = true, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "huge_send",
	  "a send of 16 MiB",
	  { .kinds = SENDS,
	    .min = 16 * MIB,
	    .max = 16 * MIB,
	    .count = 1,
	    .window = 1,
	    .lanes = 1,
	    .mtu = 3498,
	    .mode = ARENA_VIRTUAL,
	    .planes = 2,
	    .imp.loss = 5000 },
	  lossy },
	{ "huge_read",
	  "a read of 16 MiB",
	  { .kinds = READS,
	    .min = 16 * MIB,
	    .max = 16 * MIB,
	    .count = 1,
	    .window = 1,
	    .lanes = 1,
	    .mtu = 3498,
	    .mode = ARENA_VIRTUAL,
	    .planes = 2,
	    .imp.loss = 5000 },
	  lossy },
	{ "paths_1", "one path", { .paths = 1, .count = 200, .imp.loss = PERCENT }, lossy },
	{ "paths_16",
	  "sixteen paths over four spines of unequal length",
	  { .paths = 16, .spines = 4, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "planes_4", "four planes", { .planes = 4, .count = 300, .imp.loss = PERCENT }, lossy },
	{ "planes_8",
	  "eight planes, sixteen paths",
	  { .planes = 8, .paths = 16, .spines = 2, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "planes_4_to_2",
	  "four planes here, two there",
	  { .planes = 4, .planes_b = 2, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "planes_1_to_4",
	  "one here, four there, routed",
	  { .planes = 1, .planes_b = 4, .routed = true, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "spines_uneven",
	  "eight spines, the longest 70 us longer",
	  { .spines = 8, .spine_step_ns = 10 * US, .count = 300, .imp.loss = PERCENT },
	  lossy },
	{ "psn_wrap",
	  "PSNs pass 2^32",
	  { .first_psn = 0xffffff80, .count = 300, .imp.loss = 3 * PERCENT },
	  lossy },
	{ "psn_wrap_sign",
	  "PSNs pass 2^31",
	  { .first_psn = 0x7fffff80, .count = 300, .imp.loss = 3 * PERCENT },
	  lossy },
	{ "msg_wrap",
	  "message numbers pass 2^32",
	  { .first_msg = 0xffffffc0, .count = 300, .imp.loss = 3 * PERCENT },
	  lossy },
	{ "all_wrap",
	  "both, on one path",
	  { .first_msg = 0xffffffe0,
	    .first_psn = 0xfffffff0,
	    .paths = 1,
	    .count = 200,
	    .imp = { .loss = 3 * PERCENT, .dup = 3 * PERCENT } },
	  lossy },
	{ "epochs",
	  "forty link flaps under load, epochs pass 2^16",
	  { .planes = 2, .imp.loss = PERCENT, .rate_mbps = 100, .count = 600 },
	  many_epochs },
	{ "streams_64",
	  "64 streams of 64 messages each way",
	  { .lanes = 128, .count = 64, .max = 3000, .window = 16, .imp.loss = PERCENT, .planes = 2 },
	  lossy },
	{ "shared_maps",
	  "all ports share one receive state",
	  { .planes = 4, .share_maps = true, .count = 200, .imp.loss = PERCENT },
	  lossy },
	{ "region_ops",
	  "memory behind operations",
	  { .mode = ARENA_OPS, .count = 200, .imp.loss = PERCENT },
	  lossy },
	{ "region_deferred",
	  "writes that happen at flush only",
	  { .mode = ARENA_DEFERRED, .count = 200, .imp = { .loss = PERCENT, .dup = PERCENT } },
	  lossy },
	{ "long_haul",
	  "10 ms one way",
	  { .delay_ns = 10 * MS, .imp.loss = PERCENT, .count = 100 },
	  lossy },
	{ "slow_link", "10 Mbit/s", { .rate_mbps = 10, .count = 30, .imp.loss = PERCENT }, lossy },
	{ "tiny_queue",
	  "a switch queue of five packets",
	  { .rate_mbps = 1000, .queue_bytes = 8000, .count = 200 },
	  lossy },
	{ "hosts_8",
	  "eight hosts, 24 connections",
	  { .hosts = 8, .pairs = 24, .count = 20, .imp.loss = PERCENT },
	  lossy },
	{ "conns_200",
	  "200 connections between two hosts",
	  { .pairs = 200,
	    .max_conns = 256,
	    .lanes = 2,
	    .count = 6,
	    .max = 6000,
	    .paths = 4,
	    .messages = 16384,
	    .imp.loss = PERCENT },
	  lossy },
	{ NULL, NULL, { 0 }, NULL },
};
