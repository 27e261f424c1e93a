// SPDX-License-Identifier: BSD-2-Clause
/* What happened, for people and as a hash: two runs of one seed must have the same. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/packet.h"
#include "sim.h"

static const char *const kind_names[] = {
	[TR_TX] = "tx",		 [TR_RX] = "rx",   [TR_DROP] = "drop", [TR_REPLY] = "reply",
	[TR_RING_FULL] = "full", [TR_APP] = "app", [TR_LOG] = "log",   [TR_EVENT] = "event",
};

static void print_time(uint64_t at)
{
	printf("# %4llu.%09llu ", (unsigned long long)(at / SEC), (unsigned long long)(at % SEC));
}

static void print_record(const struct trace_record *r)
{
	const char *type = packet_type_name(r->type);

	print_time(r->at);
	if (r->text[0]) {
		printf("h%u %-5s %s\n", r->host, kind_names[r->kind], r->text);
		return;
	}
	printf("h%u.%u %-5s %-8s path %u psn %u una %u len %u sport %u", r->host, r->port,
	       kind_names[r->kind], type ? type : "?", r->path, r->psn, r->una, r->len, r->sport);
	if (r->type == MROCE_DATA)
		printf(" msg %u chunk %u%s", r->extra >> 16, r->extra & 0xffff,
		       r->flags & MROCE_FLAG_REPAIR ? " repair" : "");
	else if (r->type == MROCE_ACK || r->type == MROCE_NACK)
		printf(" base %u", r->extra);
	printf("%s%s\n", r->note ? " " : "", r->note ? r->note : "");
}

static struct trace_record *trace_next(struct sim *s)
{
	struct trace_record *r = &s->trace.ring[s->trace.count++ % TRACE_KEEP];

	r->at = s->now;
	r->note = NULL;
	r->text[0] = 0;
	return r;
}

static void trace_hash(struct trace *t, uint64_t a, uint64_t b)
{
	t->hash = (t->hash ^ a) * 0x100000001b3ULL;
	t->hash = (t->hash ^ (t->hash >> 29) ^ b) * 0xbf58476d1ce4e5b9ULL;
}

static void record_header(struct trace_record *r, const struct frame *p)
{
	const struct mroce_hdr *h = (const void *)p->data;
	const struct mroce_data *d = (const void *)(p->data + MROCE_HDR_LEN);
	const struct mroce_ack *a = (const void *)(p->data + MROCE_HDR_LEN);

	r->type = r->path = r->flags = 0;
	r->psn = r->una = r->extra = 0;
	if (p->len < MROCE_HDR_LEN)
		return;
	r->type = h->type;
	r->path = h->path;
	r->flags = h->flags;
	r->psn = ntohl(h->psn);
	r->una = ntohl(h->una);
	if (h->type == MROCE_DATA && p->len >= MROCE_HDR_LEN + sizeof(*d))
		r->extra = ntohl(d->msg) << 16 | (ntohl(d->chunk) & 0xffff);
	else if (p->len >= MROCE_HDR_LEN + sizeof(*a))
		r->extra = ntohl(a->base);
}

void trace_frame(struct sim *s, enum trace_kind kind, int host, int port, const struct frame *p,
		 const char *note)
{
	struct trace_record *r = trace_next(s);

	r->kind = (uint8_t)kind;
	r->host = (uint8_t)host;
	r->port = (uint8_t)port;
	r->len = p->len;
	r->sport = p->sport;
	r->note = note;
	record_header(r, p);
	trace_hash(&s->trace, s->now ^ (uint64_t)kind << 56 ^ (uint64_t)host << 48,
		   (uint64_t)r->psn << 32 ^ (uint64_t)p->len << 16 ^ r->type ^ r->extra);
	if (s->trace.print)
		print_record(r);
}

void trace_text(struct sim *s, enum trace_kind kind, int host, const char *fmt, ...)
{
	struct trace_record *r = trace_next(s);
	va_list args;

	r->kind = (uint8_t)kind;
	r->host = (uint8_t)host;
	va_start(args, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, args);
	va_end(args);
	for (const char *c = r->text; *c; c++)
		s->trace.hash = (s->trace.hash ^ (uint8_t)*c) * 0x100000001b3ULL;
	trace_hash(&s->trace, s->now, (uint64_t)kind);
	if (s->trace.print)
		print_record(r);
}

void trace_dump(struct sim *s)
{
	uint64_t from = s->trace.count > TRACE_KEEP ? s->trace.count - TRACE_KEEP : 0;

	if (s->trace.print)
		return;
	printf("# the last %llu events of %llu:\n", (unsigned long long)(s->trace.count - from),
	       (unsigned long long)s->trace.count);
	for (uint64_t i = from; i < s->trace.count; i++)
		print_record(&s->trace.ring[i % TRACE_KEEP]);
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list args;

	if (s->failed)
		return;
	s->failed = true;
	va_start(args, fmt);
	vsnprintf(s->failure, sizeof(s->failure), fmt, args);
	va_end(args);
	trace_text(s, TR_EVENT, 0, "FAILED: %.100s", s->failure);
}

void sim_note(struct sim *s, const char *fmt, ...)
{
	size_t used = strlen(s->notes);
	va_list args;

	if (used + 2 >= sizeof(s->notes))
		return;
	if (used)
		strcat(s->notes, ", "), used += 2;
	va_start(args, fmt);
	vsnprintf(s->notes + used, sizeof(s->notes) - used, fmt, args);
	va_end(args);
}
