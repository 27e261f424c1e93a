// SPDX-License-Identifier: BSD-2-Clause
/*
 * trace.c: `mroce trace`: tells the XDP programs to put the packets of one connection into their ring buffer, and
 * prints them or writes them as pcapng. The daemon is not asked.
 */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cmd.h"
#include "core/packet.h"
#include "core/reasons.h"
#include "options.h"
#include "pcapng.h"
#include "programs.h"
#include "units.h"

#define SETS_MAX 8
#define POLL_MS 200

static const char *file_name;
static uint64_t want_count, want_path = UINT64_MAX;
static bool off, take_over;

static const struct opt trace_opts[] = {
	{ 'c', "count", "N", "end after so many packets", OPT_NUMBER, &want_count, 1, UINT32_MAX },
	{ 'p', "path", "N", "only packets of this path of the peer", OPT_NUMBER, &want_path, 0,
	  MROCE_MAX_PATHS - 1 },
	{ 'w', "write", "FILE", "write pcapng, which Wireshark reads; - is standard output",
	  OPT_STRING, &file_name, 0, 0 },
	{ 'f', "force", NULL, "though another trace is on", OPT_FLAG, &take_over, 0, 0 },
	{ 0, "off", NULL, "only turn off what a killed trace has left on", OPT_FLAG, &off, 0, 0 },
	{ 0 },
};

static const struct opt_table trace_table = {
	.command = "mroce trace",
	.args = "[OPTIONS] CONN-ID | all\n--off",
	.about = "Shows each packet of a connection that arrives here, and what the kernel's "
		 "program did with it.",
	.opts = trace_opts,
};

/* Tables that interfaces share, or one interface's own. */
struct set {
	struct tables t;
	int ring;
};

struct trace {
	struct set sets[SETS_MAX];
	int nsets;
	uint32_t ifindex[MROCE_MAX_PORTS];
	uint32_t nifs;
	uint64_t offset; /* of the clock of day to that of events */
	FILE *file;
	uint64_t seen;
	uint32_t id; /* 0: what an earlier trace has left in the ring is thrown away */
};

/* ---- the programs ---- */

static bool have_set(const struct trace *tr, uint32_t map_id)
{
	for (int i = 0; i < tr->nsets; i++)
		if (tr->sets[i].t.id[TABLE_CONFIG] == map_id)
			return true;
	return false;
}

static int add_program(void *ctx, struct program *p)
{
	struct trace *tr = ctx;
	int ring;

	if (tr->nifs < MROCE_MAX_PORTS)
		tr->ifindex[tr->nifs++] = p->ifindex;
	if (have_set(tr, p->tables.id[TABLE_CONFIG]) || tr->nsets == SETS_MAX) {
		tables_close(&p->tables);
		return 0;
	}
	ring = adopt_map(p->found.prog_id, MROCE_MAP_TRACE);
	if (ring < 0) {
		tables_close(&p->tables);
		return ring;
	}
	tr->sets[tr->nsets++] = (struct set){ p->tables, ring };
	return 0;
}

static int find_programs(struct trace *tr)
{
	int err = programs_each(add_program, tr);

	return err ? err : tr->nsets ? 0 : -ENOENT;
}

static void set_all(struct trace *tr, uint32_t id)
{
	for (int i = 0; i < tr->nsets; i++)
		__atomic_store_n(&tr->sets[i].t.config->trace, id, __ATOMIC_RELEASE);
}

static bool is_on(const struct trace *tr)
{
	for (int i = 0; i < tr->nsets; i++)
		if (tr->sets[i].t.config->trace)
			return true;
	return false;
}

static void close_programs(struct trace *tr)
{
	for (int i = 0; i < tr->nsets; i++) {
		close(tr->sets[i].ring);
		tables_close(&tr->sets[i].t);
	}
}

/* ---- one event ---- */

/* Offset of the mroce header in the frame; 0: cut off before its end. */
static uint32_t header_at(const uint8_t *frame, uint32_t snap)
{
	uint32_t at = 12;

	while (at + 2 <= snap && (frame[at] << 8 | frame[at + 1]) != 0x0800 &&
	       (frame[at] << 8 | frame[at + 1]) != 0x86dd)
		at += 4;
	at += 2;
	if (at >= snap)
		return 0;
	at += frame[at] >> 4 == 4 ? (frame[at] & 15) * 4u : 40;
	at += 8;
	return at + MROCE_HDR_LEN <= snap ? at : 0;
}

static const char *verdict_text(int verdict, char buf[96])
{
	switch (verdict) {
	case XDP_TX: return "answered";
	case XDP_REDIRECT: return "to mroced";
	case XDP_PASS: return "passed to the stack";
	}
	snprintf(buf, 96, "DROPPED: %s", reason_text(-verdict));
	return buf;
}

static void print_event(const struct mroce_trace_event *e, const struct mroce_hdr *h, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char name[IF_NAMESIZE] = "?", clock[16], verdict[96];
	const char *type = packet_type_name(h->type);
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
	if_indextoname(e->ifindex, name);
	printf("%s.%09llu %s q%u 0x%08x %s path %u psn %u una %u len %u: %s\n", clock,
	       (unsigned long long)(ns % 1000000000), name, e->queue, e->cid, type ? type : "?",
	       h->path, ntohl(h->psn), ntohl(h->una), e->frame_len,
	       verdict_text(e->verdict, verdict));
	fflush(stdout);
}

static uint32_t interface_number(const struct trace *tr, uint32_t ifindex)
{
	for (uint32_t i = 0; i < tr->nifs; i++)
		if (tr->ifindex[i] == ifindex)
			return i;
	return 0;
}

static void write_event(struct trace *tr, const struct mroce_trace_event *e, uint64_t ns)
{
	char verdict[96];
	struct pcapng_packet p = {
		.interface = interface_number(tr, e->ifindex),
		.ns = ns,
		.len = e->frame_len,
		.snap = e->snap,
		.frame = e->frame,
		.out = e->verdict == XDP_TX,
		.comment = verdict_text(e->verdict, verdict),
	};

	pcapng_packet(tr->file, &p);
	fflush(tr->file);
}

static int on_event(void *ctx, void *data, size_t size)
{
	const struct mroce_trace_event *e = data;
	struct trace *tr = ctx;
	struct mroce_hdr h;
	uint32_t at;

	if (size < sizeof(*e) || !tr->id || (tr->id != MROCE_TRACE_ALL && e->cid != tr->id))
		return 0;
	if (e->snap > MROCE_TRACE_SNAP || (want_count && tr->seen >= want_count))
		return 0;
	at = header_at(e->frame, e->snap);
	if (!at)
		return 0;
	memcpy(&h, e->frame + at, sizeof(h));
	if (want_path != UINT64_MAX && h.path != want_path)
		return 0;
	tr->seen++;
	if (tr->file)
		write_event(tr, e, e->ns + tr->offset);
	else
		print_event(e, &h, e->ns + tr->offset);
	return 0;
}

/* ---- the command ---- */

static uint64_t clock_of(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int open_file(struct trace *tr)
{
	if (!file_name)
		return 0;
	tr->file = strcmp(file_name, "-") ? fopen(file_name, "we") : stdout;
	if (!tr->file)
		return fail("%s: %s", file_name, strerror(errno));
	pcapng_begin(tr->file);
	for (uint32_t i = 0; i < tr->nifs; i++) {
		char name[IF_NAMESIZE] = "?";

		if_indextoname(tr->ifindex[i], name);
		pcapng_interface(tr->file, name, MROCE_TRACE_SNAP);
	}
	fflush(tr->file);
	return 0;
}

/* Another trace has taken over if the word is not ours any more. */
static bool is_ours(const struct trace *tr, uint32_t id)
{
	for (int i = 0; i < tr->nsets; i++)
		if (__atomic_load_n(&tr->sets[i].t.config->trace, __ATOMIC_ACQUIRE) != id)
			return false;
	return true;
}

static void end_ours(struct trace *tr, uint32_t id)
{
	for (int i = 0; i < tr->nsets; i++) {
		uint32_t expected = id;

		__atomic_compare_exchange_n(&tr->sets[i].t.config->trace, &expected, 0, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}

static int open_rings(struct trace *tr, struct ring_buffer **out)
{
	struct ring_buffer *rb = ring_buffer__new(tr->sets[0].ring, on_event, tr, NULL);
	int err = rb ? 0 : -errno;

	for (int i = 1; i < tr->nsets && !err; i++)
		err = ring_buffer__add(rb, tr->sets[i].ring, on_event, tr);
	if (err)
		ring_buffer__free(rb);
	*out = err ? NULL : rb;
	return err;
}

static int follow(struct trace *tr, uint32_t id)
{
	FILE *out = tr->file ? tr->file : stdout;
	struct ring_buffer *rb;
	int err = open_rings(tr, &rb);
	bool ours = true;

	if (err)
		return fail("the ring buffer cannot be read: %s", strerror(-err));
	ring_buffer__consume(rb);
	tr->id = id;
	set_all(tr, id);
	while (!cli_stop && (!want_count || tr->seen < want_count) && !ferror(out) && ours) {
		err = ring_buffer__poll(rb, POLL_MS);
		if (err < 0 && err != -EINTR)
			break;
		ours = is_ours(tr, id);
	}
	end_ours(tr, id);
	ring_buffer__free(rb);
	if (err < 0 && err != -EINTR)
		return fail("the ring buffer cannot be read: %s", strerror(-err));
	if (tr->file && ferror(out))
		return fail("%s: cannot be written any more", file_name);
	if (!ours)
		return fail("ended: another trace has taken over, or 'mroce trace --off' was run");
	return ferror(out) ? EXIT_FAILURE : EXIT_SUCCESS; /* whoever read it has gone */
}

static int run(struct trace *tr, uint32_t id)
{
	int status;

	if (off) {
		printf("%s\n", is_on(tr) ? "turned off" : "it was off");
		set_all(tr, 0);
		return EXIT_SUCCESS;
	}
	if (is_on(tr) && !take_over)
		return fail("another trace is on, or was killed: 'mroce trace --off' ends it, "
			    "--force takes over");
	tr->offset = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_MONOTONIC);
	status = open_file(tr);
	if (!status)
		status = follow(tr, id);
	if (tr->file && tr->file != stdout && fclose(tr->file))
		status = fail("%s: %s", file_name, strerror(errno));
	if (tr->file && tr->file != stdout && !status)
		fprintf(stderr, "%llu packets\n", (unsigned long long)tr->seen);
	return status;
}

static int parse_what(int n, char **words, uint32_t *id)
{
	uint64_t value;

	if (off)
		return n ? opt_misuse(&trace_table, "--off takes no connection") : 0;
	if (n != 1)
		return opt_misuse(&trace_table,
				  "name one connection, or all; 'mroce show conn' has their ids");
	*id = MROCE_TRACE_ALL;
	if (!strcmp(words[0], "all"))
		return 0;
	if (parse_number(words[0], &value) || !value || value > UINT32_MAX)
		return opt_misuse(&trace_table,
				  "'%s' is not the id of a connection, which look like 0x1a2b0003",
				  words[0]);
	*id = (uint32_t)value;
	return 0;
}

int cmd_trace(int argc, char **argv)
{
	struct trace tr = { 0 };
	uint32_t id = 0;
	int first, err, status;

	switch (opt_parse(&trace_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (parse_what(argc - first, argv + first, &id))
		return EXIT_USAGE;
	signals_catch();
	err = find_programs(&tr);
	if (err == -ENOENT)
		status = fail(
			"no interface here has an mroce XDP program of this version: mroced does "
			"not run, or uses "
			"sockets (then tcpdump sees all), or is in another network namespace");
	else if (err)
		status = fail("the programs cannot be reached: %s%s", strerror(-err),
			      err == -EPERM ? "; use sudo" : "");
	else
		status = run(&tr, id);
	close_programs(&tr);
	return status;
}
