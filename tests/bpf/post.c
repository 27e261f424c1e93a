// SPDX-License-Identifier: BSD-2-Clause
/* mroce_post: which path a letter gets, what its envelope says, what is refused, what passes. */
#include "bpf_test.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <mroce/post.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "mroce_post.skel.h"

#define OWN_CID 0x77770009u
#define OWN_SLOT (OWN_CID & (MROCE_MAX_CONNS - 1))
#define COOKIE 0xfffffffeu /* so that cookies wrap */
#define EPOCH 7
#define SPORT 51000u
#define WINDOW 16
#define FULL_AFTER 20 /* frames of 1.4 KB: more than the least threshold of a virtual queue holds */

static struct {
	struct mroce_post *object;
	struct mroce_bpf_config *config;
	struct mroce_post_conn *conns;
	struct mroce_posted *posted;
	int ifindex;
	uint32_t cookie;
} office;

static void *memory(const struct bpf_map *map, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool office_up(struct bed *bed)
{
	office.object = mroce_post__open_and_load();
	if (!office.object) {
		tap_note("mroce_post does not load: %s", strerror(errno));
		return false;
	}
	office.ifindex = bed->ifindex;
	office.config = memory(office.object->maps.mroce_config, sizeof(*office.config));
	office.conns = memory(office.object->maps.mroce_post,
			      MROCE_MAX_CONNS * sizeof(*office.conns));
	office.posted = memory(office.object->maps.mroce_posted,
			       MROCE_POSTED * sizeof(*office.posted));
	return office.config && office.conns && office.posted;
}

static struct mroce_post_path *path(uint32_t i)
{
	return &office.conns[OWN_SLOT].path[i];
}

/* Four paths, all empty. */
static void reset(void)
{
	struct mroce_post_conn *c = &office.conns[OWN_SLOT];

	*office.config = (struct mroce_bpf_config){ .schema = MROCE_MAP_SCHEMA,
						    .udp_port = MROCE_UDP_PORT };
	*c = (struct mroce_post_conn){ .cid = OWN_CID, .first = COOKIE };
	for (uint32_t i = 0; i < 4; i++)
		c->path[i] = (struct mroce_post_path){ .next = FIRST_PSN + 10 * i,
						       .una = FIRST_PSN + 10 * i,
						       .flown = FIRST_PSN + 10 * i,
						       .cwnd = WINDOW,
						       .window = WINDOW,
						       .epoch = (uint16_t)(EPOCH + i),
						       .sport = (uint16_t)(SPORT + i) };
	memset(office.posted, 0, MROCE_POSTED * sizeof(*office.posted));
	office.cookie = COOKIE;
}

/* So many packets of the path are in flight, of so large a window. */
static void fill(uint32_t i, uint32_t flying, uint32_t window)
{
	path(i)->next = path(i)->una + flying;
	path(i)->cwnd = path(i)->window = window;
}

static uint64_t counter(uint32_t which)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t values[cpus], sum = 0;

	bpf_map_lookup_elem(bpf_map__fd(office.object->maps.mroce_counters), &which, values);
	for (int i = 0; i < cpus; i++)
		sum += values[i];
	return sum;
}

static struct mroce_posted *told(uint32_t cookie)
{
	return &office.posted[cookie & (MROCE_POSTED - 1)];
}

/* Makes a preliminary header of a frame's. */
static void make_letter(struct frame *f, uint32_t cid, uint32_t cookie, uint32_t mask, uint8_t avoid)
{
	struct mroce_hdr h;

	memcpy(&h, f->b + f->h, sizeof(h));
	h.path = avoid;
	h.epoch = htons((uint16_t)mask);
	h.psn = htonl(cookie);
	h.una = htonl(cid);
	h.ts = 0;
	memcpy(f->b + f->h, &h, sizeof(h));
	frame_seal(f);
	frame_hdr(f)->hdr_crc = htonl(post_seal(cid, cookie));
}

static void run_post(const struct frame *in, uint32_t mark, uint32_t ingress, struct run *run)
{
	struct __sk_buff ctx_in = { .mark = mark,
				    .ingress_ifindex = ingress,
				    .ifindex = (uint32_t)office.ifindex };
	struct __sk_buff ctx_out = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->b, .data_size_in = in->len,
		    .data_out = run->out.b, .data_size_out = FRAME_MAX, .ctx_in = &ctx_in,
		    .ctx_size_in = sizeof(ctx_in), .ctx_out = &ctx_out,
		    .ctx_size_out = sizeof(ctx_out));

	run->err = bpf_prog_test_run_opts(bpf_program__fd(office.object->progs.mroce_tc_post),
					  &opts);
	run->verdict = opts.retval;
	run->out.len = opts.data_size_out;
	run->mark = ctx_out.mark;
}

static void hand_over(uint32_t mask, uint8_t avoid, struct run *run)
{
	static struct frame f;

	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 100 });
	make_letter(&f, OWN_CID, office.cookie, mask, avoid);
	run_post(&f, MROCE_LETTER_MARK, 0, run);
	office.cookie++;
}

/* ---- which path ---- */

/* The letter gets this path, and the path's next PSN; the daemon is told so. */
static void takes(const char *name, uint32_t mask, uint8_t avoid, uint32_t want)
{
	static struct run run;
	uint32_t psn = path(want)->next;
	const struct mroce_posted *r = told(office.cookie);
	uint32_t cookie = office.cookie;

	hand_over(mask, avoid, &run);
	if (!tap(!run.err && (int)run.verdict == TC_ACT_UNSPEC && run.mark == 0 &&
			 r->cookie == cookie && !r->reason && r->path == want && r->psn == psn &&
			 r->epoch == EPOCH + want && r->ts && path(want)->next == psn + 1,
		 "post: %s", name))
		tap_note("error %d, verdict %d, path %u, PSN %x, reason %u", run.err,
			 (int)run.verdict, r->path, r->psn, r->reason);
}

static void is_refused(const char *name, uint32_t mask, uint8_t avoid, uint32_t reason)
{
	static struct run run;
	static struct mroce_post_conn before;
	uint64_t counted = counter(reason);
	const struct mroce_posted *r = told(office.cookie);
	uint32_t cookie = office.cookie;

	before = office.conns[OWN_SLOT];
	hand_over(mask, avoid, &run);
	tap(!run.err && run.verdict == TC_ACT_SHOT && counter(reason) == counted + 1 &&
		    (reason != MROCE_DROP_POST_FULL || (r->cookie == cookie && r->reason == reason)) &&
		    (reason == MROCE_DROP_POST_FULL || r->cookie != cookie) &&
		    !memcmp(&before, &office.conns[OWN_SLOT], sizeof(before)),
	    "post: refused: %s", name);
}

static void test_choice(void)
{
	reset();
	for (uint32_t i = 0; i < 5; i++)
		takes("empty paths take turns", 0xf, MROCE_POST_ANY, i % 4);
	reset();
	fill(0, 3, 16), fill(1, 1, 16), fill(2, 2, 16), fill(3, 3, 16);
	takes("the one with the least in flight", 0xf, MROCE_POST_ANY, 1);
	fill(0, 4, 32), fill(1, 2, 8), fill(2, 3, 16), fill(3, 4, 8);
	takes("in relation to its window", 0xf, MROCE_POST_ANY, 0);
	reset();
	takes("only paths of the mask", 0x4, MROCE_POST_ANY, 2);
	takes("only paths of the mask, bits without a path", 0xfff8, MROCE_POST_ANY, 3);
	fill(1, 0, 16), fill(0, 1, 16), fill(2, 2, 16), fill(3, 3, 16);
	takes("not the path to be avoided", 0xf, 1, 0);
	takes("the path to be avoided, there being no other", 0x2, 1, 1);
	fill(0, 16, 16), fill(2, 16, 16), fill(3, 16, 16);
	takes("the path to be avoided, the others being full", 0xf, 1, 1);
	reset();
	fill(0, 15, 16);
	takes("the last place of a window", 0x1, MROCE_POST_ANY, 0);
	is_refused("its window is full", 0x1, MROCE_POST_ANY, MROCE_DROP_POST_FULL);
	path(0)->flown = path(0)->next - 3;
	takes("an ACK made room", 0x1, MROCE_POST_ANY, 0);
	path(0)->flown = path(0)->next;
	path(0)->una = path(0)->next - MROCE_WINDOW + 1;
	takes("PSN 255 after una", 0x1, MROCE_POST_ANY, 0);
	is_refused("PSN 256 after una", 0x1, MROCE_POST_ANY, MROCE_DROP_POST_FULL);
	is_refused("no path may be taken", 0, MROCE_POST_ANY, MROCE_DROP_POST_FULL);
	path(1)->cwnd = 0;
	is_refused("a window of nothing", 0x2, MROCE_POST_ANY, MROCE_DROP_POST_FULL);
}

static void test_cookies(void)
{
	reset();
	path(2)->next = path(2)->una = path(2)->flown = 0xffffffff;
	takes("PSN 2^32 - 1", 0x4, MROCE_POST_ANY, 2);
	takes("PSN 0", 0x4, MROCE_POST_ANY, 2);
	takes("cookie 0", 0x4, MROCE_POST_ANY, 2);
	office.cookie = COOKIE + MROCE_POSTED - 1;
	takes("the last cookie that counts", 0x1, MROCE_POST_ANY, 0);
	is_refused("a cookie too far ahead", 0x1, MROCE_POST_ANY, MROCE_DROP_POST_VOID);
	office.cookie = COOKIE - 1;
	is_refused("a void cookie", 0x1, MROCE_POST_ANY, MROCE_DROP_POST_VOID);
	office.cookie = COOKIE + 10;
	office.conns[OWN_SLOT].cid ^= 0x10000;
	is_refused("somebody else has the slot", 0x1, MROCE_POST_ANY, MROCE_DROP_NO_CONN);
	office.conns[OWN_SLOT].cid = 0;
	is_refused("the connection has ended", 0x1, MROCE_POST_ANY, MROCE_DROP_NO_CONN);
}

/* ---- what it becomes ---- */

static const struct {
	const char *name;
	struct spec spec;
} frames[] = {
	{ "IPv4", { .type = MROCE_DATA, .body = 1400, .tos = 2 } },
	{ "IPv6", { .type = MROCE_DATA, .body = 1400, .v6 = true, .tos = 2 } },
	{ "IPv4 with options", { .type = MROCE_DATA, .body = 700, .options = 10, .tos = 2 } },
	{ "VLAN tag", { .type = MROCE_READ_REQ, .body = 40, .vlans = 1, .tos = 2 } },
	{ "as large as a page", { .type = MROCE_DATA, .body = 3400, .v6 = true, .tos = 2 } },
	{ "one byte", { .type = MROCE_CREDIT, .body = 1 } },
};

static void becomes_packet(const char *name, const struct spec *s)
{
	static struct frame in, want;
	static struct run run;
	struct spec envelope = *s;
	uint32_t ts_at, i;
	uint16_t sport = htons(SPORT + 3);

	reset();
	path(3)->una = FIRST_PSN + 5;
	path(3)->next = path(3)->flown = FIRST_PSN + 30;
	frame_make(&in, s);
	make_letter(&in, OWN_CID, office.cookie, 0x8, MROCE_POST_ANY);
	run_post(&in, MROCE_LETTER_MARK, 0, &run);
	envelope.path = 3;
	envelope.epoch = EPOCH + 3;
	envelope.psn = 30;
	envelope.una = 5;
	frame_make(&want, &envelope);
	memcpy(want.b + want.l4, &sport, sizeof(sport));
	ts_at = want.h + offsetof(struct mroce_hdr, ts);
	memcpy(want.b + ts_at, run.out.b + ts_at, 4);
	frame_seal(&want);
	for (i = 0; i < want.len && i < run.out.len && want.b[i] == run.out.b[i]; i++)
		;
	if (!tap(!run.err && (int)run.verdict == TC_ACT_UNSPEC && run.out.len == want.len &&
			 i == want.len && memcmp(run.out.b + ts_at, "\0\0\0\0", 4),
		 "post: becomes a packet: %s", name))
		tap_note("error %d, verdict %d, %u bytes, first difference at %u", run.err,
			 (int)run.verdict, run.out.len, i);
}

/* ---- what is none ---- */

static void passes(const char *name, const struct frame *f, uint32_t mark, uint32_t ingress)
{
	static struct run run;
	static struct mroce_post_conn before;

	before = office.conns[OWN_SLOT];
	run_post(f, mark, ingress, &run);
	tap(!run.err && (int)run.verdict == TC_ACT_UNSPEC && run.mark == mark &&
		    run.out.len == f->len && !memcmp(run.out.b, f->b, f->len) &&
		    !memcmp(&before, &office.conns[OWN_SLOT], sizeof(before)),
	    "post: passes: %s", name);
}

static void test_others(void)
{
	static struct frame letter, f;

	reset();
	frame_make(&letter, &(struct spec){ .type = MROCE_DATA, .body = 100 });
	make_letter(&letter, OWN_CID, COOKIE, 0xf, MROCE_POST_ANY);
	passes("no mark", &letter, 0, 0);
	passes("another mark", &letter, MROCE_NACK_MARK, 0);
	passes("it came from elsewhere", &letter, MROCE_LETTER_MARK, (uint32_t)office.ifindex);
	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 100 });
	passes("a packet of ours with the mark", &f, MROCE_LETTER_MARK, 0);
	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 100, .port_off = 1 });
	make_letter(&f, OWN_CID, COOKIE, 0xf, MROCE_POST_ANY);
	passes("another UDP port", &f, MROCE_LETTER_MARK, 0);
	f = letter;
	f.b[f.h + 20] ^= 1;
	passes("a bit has flipped in its header", &f, MROCE_LETTER_MARK, 0);
	f = letter;
	f.len = f.h + MROCE_HDR_LEN - 1;
	passes("cut short", &f, MROCE_LETTER_MARK, 0);
	frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 100, .fragment = 0x2000 });
	make_letter(&f, OWN_CID, COOKIE, 0xf, MROCE_POST_ANY);
	passes("a fragment", &f, MROCE_LETTER_MARK, 0);
	office.config->schema = 0;
	passes("not configured", &letter, MROCE_LETTER_MARK, 0);
}

/* ---- marking ---- */

static void test_ce(void)
{
	static struct frame f;
	static struct run run;
	struct mroce_vqueue empty = { 0 };
	uint32_t port = 2, ce = 0;

	reset();
	path(0)->cwnd = path(0)->window = 100;
	vqueue_set(&office.config->vqueue[port], (uint32_t)office.ifindex, 1);
	office.config->mark = 1;
	bpf_map_update_elem(bpf_map__fd(office.object->maps.mroce_vq_tx), &port, &empty, 0);
	for (uint32_t i = 0; i < FULL_AFTER; i++) {
		frame_make(&f, &(struct spec){ .type = MROCE_DATA, .body = 1400, .tos = 2 });
		make_letter(&f, OWN_CID, office.cookie++, 0x1, MROCE_POST_ANY);
		run_post(&f, MROCE_LETTER_MARK, 0, &run);
		ce += (run.out.b[f.l3 + 1] & 3) == 3;
	}
	tap(ce > 5 && ce < 15 && (run.out.b[f.l3 + 1] & 3) == 3,
	    "post: above the threshold of the virtual queue letters leave with CE (%u of %u)", ce,
	    FULL_AFTER);
	frame_make(&f, &(struct spec){ .type = MROCE_POLL, .body = 96, .tos = 2 });
	run_post(&f, 0, 0, &run);
	tap((run.out.b[f.l3 + 1] & 3) == 3, "post: and so do other packets of ours");
}

void test_post(struct bed *bed)
{
	if (!tap(office_up(bed), "post: the object loads"))
		return;
	test_choice();
	test_cookies();
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		becomes_packet(frames[i].name, &frames[i].spec);
	test_others();
	test_ce();
	mroce_post__destroy(office.object);
}
