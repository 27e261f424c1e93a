/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the test groups of this folder share: TAP, a frame builder, and the loaded programs inside a
 * network namespace of their own.
 */
#ifndef BPF_TEST_H
#define BPF_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mroce/drop_reasons.h>
#include <mroce/track.h>
#include <mroce/wire.h>
#include "mroce_tc.skel.h"
#include "mroce_xdp.skel.h"

/* ---- TAP ---- */

/* One result. Returns good. */
bool tap(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tap_skip(const char *name, const char *reason);

/* ---- frames ---- */

#define FRAME_MAX 9100

struct frame {
	uint8_t b[FRAME_MAX];
	uint32_t len;
	uint32_t l3, l4, h; /* offsets of the IP, UDP and mroce headers */
};

/* A frame to be built. All zero but type gives a good packet of the test's connection, PSN 0. */
struct spec {
	int vlans;
	bool v6;
	uint32_t options;  /* IPv4: words of options */
	uint16_t fragment; /* IPv4: the field, host order */
	uint8_t tos;
	uint16_t port_off; /* added to the destination port */
	uint8_t type, path;
	uint32_t cid_xor, token_xor;
	uint32_t psn, una; /* relative to FIRST_PSN */
	uint16_t epoch;
	uint16_t body; /* bytes */
	bool answer;   /* as BPF sends: turned round, to the peer's connection, no PSN */
};

#define TEST_CID 0x12340007u
#define TEST_SLOT (TEST_CID & (MROCE_MAX_CONNS - 1))
#define TEST_TOKEN 0xfeedbeefu
#define TEST_PEER_CID 0xabcd0042u
#define TEST_PEER_TOKEN 0x0badcafeu
#define TEST_HINT 0x1234u
#define TEST_PATHS 4
#define TEST_TS 0x01020304u
#define FIRST_PSN 0xfffffff0u /* so that PSNs wrap in the tables */

void frame_make(struct frame *f, const struct spec *spec);
/* The address that frames which are no answers go to. */
void frame_host(bool v6, struct mroce_address *out);
/* Both CRCs anew after a change. */
void frame_seal(struct frame *f);
static inline struct mroce_hdr *frame_hdr(struct frame *f)
{
	return (struct mroce_hdr *)(f->b + f->h);
}
/* Makes of f (an answer with room for it) an ACK or NACK with this state. */
void frame_ack(struct frame *f, struct mroce_path_rx *rx, const struct spec *question);

/* ---- the programs ---- */

struct bed {
	struct mroce_xdp *xdp;
	struct mroce_tc *tc;
	struct mroce_bpf_config *config; /* the maps' memory */
	struct mroce_conn_entry *conns;
	struct mroce_path_rx *paths;
	struct xsk_umem *umem;
	struct xsk_socket *xsk;
	void *umem_area;
	int ifindex; /* of mrbpf0, with the socket on queue 0; its peer is mrbpf1 */
	int cpus;
};

/* 0 or -errno, with a note about what failed. */
int bed_up(struct bed *bed);
void bed_down(struct bed *bed);
/* Configuration, connection and path 0 to 3 as at the start, all counters zero. */
void bed_reset(struct bed *bed);
struct mroce_path_rx *bed_path(struct bed *bed, uint32_t path);
uint64_t bed_counter(struct bed *bed, uint32_t counter);
/* The one counter that is not zero; 0 if none is; MROCE_COUNTERS if several are. RX_CE is left out. */
uint32_t bed_counted(struct bed *bed);

/* Result of one BPF_PROG_TEST_RUN. */
struct run {
	int err;
	uint32_t verdict;
	uint32_t meta; /* bytes of metadata at the start of out */
	struct frame out;
	uint32_t ns;
	uint32_t mark;
};

void run_xdp(struct bed *bed, struct frame *in, struct run *run, int repeat);
void run_egress(struct bed *bed, struct frame *in, uint32_t mark, uint32_t ingress, struct run *run);

/* ---- groups of tests ---- */

void test_layout(struct bed *bed);
void test_xdp(struct bed *bed);
void test_garbage(struct bed *bed);
void test_tc(struct bed *bed);
void test_mark(struct bed *bed);
void test_trace(struct bed *bed);
void test_post(struct bed *bed);
void test_live(struct bed *bed);
void report_speed(struct bed *bed);

#endif
