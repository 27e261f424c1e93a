// SPDX-License-Identifier: BSD-2-Clause
/* fileproto.c: encoding and decoding; see fileproto.h. */
#include <errno.h>
#include <string.h>
#include "fileproto.h"

/* ---- writing: a cursor that remembers having run out ---- */

struct out {
	uint8_t *at, *end;
	bool full;
};

static void put(struct out *o, uint64_t value, int bytes)
{
	if (o->full || o->end - o->at < bytes) {
		o->full = true;
		return;
	}
	while (bytes--)
		*o->at++ = (uint8_t)(value >> (8 * bytes));
}

static void put_bytes(struct out *o, const void *from, size_t len)
{
	if (o->full || (size_t)(o->end - o->at) < len) {
		o->full = true;
		return;
	}
	memcpy(o->at, from, len);
	o->at += len;
}

static void put_text(struct out *o, const char *text)
{
	size_t len = strlen(text);

	put(o, len, 2);
	put_bytes(o, text, len);
}

/* ---- reading: the same, each byte once ---- */

struct in {
	const volatile uint8_t *at, *end;
	bool bad;
};

static uint64_t get(struct in *in, int bytes)
{
	uint64_t value = 0;

	if (in->bad || in->end - in->at < bytes) {
		in->bad = true;
		return 0;
	}
	while (bytes--)
		value = value << 8 | *in->at++;
	return value;
}

static void get_bytes(struct in *in, void *to, size_t len)
{
	uint8_t *out = to;

	if (in->bad || (size_t)(in->end - in->at) < len) {
		in->bad = true;
		return;
	}
	while (len--)
		*out++ = *in->at++;
}

/* `size` counts the final 0. */
static void get_text(struct in *in, char *to, size_t size)
{
	size_t len = get(in, 2);

	if (len >= size)
		in->bad = true;
	get_bytes(in, to, len);
	if (in->bad)
		len = 0;
	to[len] = '\0';
	if (strlen(to) != len)
		in->bad = true;
}

/* ---- control messages ---- */

static void pack_body(struct out *o, const struct fp_msg *m)
{
	switch (m->type) {
	case FP_HELLO:
		put(o, m->hello.streams, 4);
		put(o, m->hello.digest, 4);
		put(o, m->hello.files, 8);
		put(o, m->hello.bytes, 8);
		return;
	case FP_WELCOME:
		put(o, (uint32_t)m->welcome.error, 4);
		put(o, m->welcome.streams, 4);
		put(o, m->welcome.slots, 4);
		put(o, m->welcome.block, 4);
		put(o, m->welcome.addr, 8);
		put(o, m->welcome.rkey, 4);
		return;
	case FP_CONSUMED: put(o, m->consumed.blocks, 8); return;
	case FP_FAILED:
		put(o, (uint32_t)m->failed.error, 4);
		put_text(o, m->failed.path);
		put_text(o, m->failed.text);
		return;
	case FP_RESULT:
		put(o, m->result.files, 8);
		put(o, m->result.bytes, 8);
		put(o, m->result.failed, 8);
		return;
	}
	o->full = true;
}

size_t fp_msg_pack(const struct fp_msg *msg, void *buf, size_t size)
{
	struct out o = { buf, (uint8_t *)buf + size, false };

	put(&o, FP_MAGIC, 4);
	put(&o, FP_VERSION, 2);
	put(&o, msg->type, 2);
	pack_body(&o, msg);
	return o.full ? 0 : (size_t)(o.at - (uint8_t *)buf);
}

static void unpack_welcome(struct in *in, struct fp_msg *m)
{
	m->welcome.error = (int32_t)get(in, 4);
	m->welcome.streams = get(in, 4);
	m->welcome.slots = get(in, 4);
	m->welcome.block = get(in, 4);
	m->welcome.addr = get(in, 8);
	m->welcome.rkey = get(in, 4);
	if (m->welcome.error)
		return;
	if (!m->welcome.streams || m->welcome.streams > FP_STREAMS_MAX || !m->welcome.slots ||
	    m->welcome.slots > FP_SLOTS_MAX || m->welcome.slots % m->welcome.streams ||
	    m->welcome.block < FP_BLOCK_MIN || m->welcome.block > FP_BLOCK_MAX)
		in->bad = true;
}

static void unpack_body(struct in *in, struct fp_msg *m)
{
	switch (m->type) {
	case FP_HELLO:
		m->hello.streams = get(in, 4);
		m->hello.digest = get(in, 4);
		m->hello.files = get(in, 8);
		m->hello.bytes = get(in, 8);
		return;
	case FP_WELCOME: unpack_welcome(in, m); return;
	case FP_CONSUMED: m->consumed.blocks = get(in, 8); return;
	case FP_FAILED:
		m->failed.error = (int32_t)get(in, 4);
		get_text(in, m->failed.path, sizeof(m->failed.path));
		get_text(in, m->failed.text, sizeof(m->failed.text));
		return;
	case FP_RESULT:
		m->result.files = get(in, 8);
		m->result.bytes = get(in, 8);
		m->result.failed = get(in, 8);
		return;
	}
	in->bad = true;
}

int fp_msg_unpack(struct fp_msg *msg, const void *buf, size_t len)
{
	struct in in = { buf, (const uint8_t *)buf + len, false };
	uint32_t version;

	if (get(&in, 4) != FP_MAGIC)
		return -EPROTO;
	version = get(&in, 2);
	msg->type = (enum fp_msg_type)get(&in, 2);
	if (!in.bad && version != FP_VERSION)
		return -EPROTONOSUPPORT;
	unpack_body(&in, msg);
	return in.bad || in.at != in.end ? -EPROTO : 0;
}

/* ---- records ---- */

static void put_meta(struct out *o, const struct fp_rec *rec)
{
	put(o, rec->mode, 4);
	put(o, (uint64_t)rec->mtime, 8);
	put(o, rec->mtime_ns, 4);
}

static void put_rec_body(struct out *o, const struct fp_rec *rec)
{
	switch (rec->type) {
	case FP_DIR: put_text(o, rec->path); return;
	case FP_DIR_DONE:
		put_meta(o, rec);
		put_text(o, rec->path);
		return;
	case FP_FILE:
		put_meta(o, rec);
		put(o, rec->size, 8);
		put_text(o, rec->path);
		return;
	case FP_END:
		put(o, rec->size, 8);
		put(o, (uint32_t)rec->error, 4);
		put_bytes(o, rec->digest, FP_DIGEST_MAX);
		return;
	case FP_LINK:
		put_text(o, rec->path);
		put_text(o, rec->target);
		return;
	case FP_FINISH:
		put(o, rec->files, 8);
		put(o, rec->size, 8);
		return;
	case FP_DATA: break;
	}
	o->full = true;
}

bool fp_put(struct fp_writer *w, const struct fp_rec *rec)
{
	struct out o = { w->buf + w->used, w->buf + w->size, false };

	put(&o, rec->type, 1);
	put_rec_body(&o, rec);
	if (o.full)
		return false;
	w->used = o.at - w->buf;
	return true;
}

size_t fp_data_room(const struct fp_writer *w)
{
	size_t room = w->size - w->used;

	return room > FP_DATA_HEAD ? room - FP_DATA_HEAD : 0;
}

uint8_t *fp_data_at(const struct fp_writer *w)
{
	return w->buf + w->used + FP_DATA_HEAD;
}

void fp_data_put(struct fp_writer *w, size_t len)
{
	struct out o = { w->buf + w->used, w->buf + w->size, false };

	put(&o, FP_DATA, 1);
	put(&o, len, 4);
	w->used += FP_DATA_HEAD + len;
}

static void get_meta(struct in *in, struct fp_rec *rec)
{
	rec->mode = get(in, 4);
	rec->mtime = (int64_t)get(in, 8);
	rec->mtime_ns = get(in, 4);
	if (rec->mtime_ns >= 1000000000)
		in->bad = true;
}

static void get_data(struct in *in, struct fp_rec *rec)
{
	rec->data_len = get(in, 4);
	rec->data = (const uint8_t *)in->at;
	if (in->bad || (size_t)(in->end - in->at) < rec->data_len) {
		in->bad = true;
		return;
	}
	in->at += rec->data_len;
}

static void get_rec_body(struct in *in, struct fp_rec *rec)
{
	switch (rec->type) {
	case FP_DIR: get_text(in, rec->path, sizeof(rec->path)); return;
	case FP_DIR_DONE:
		get_meta(in, rec);
		get_text(in, rec->path, sizeof(rec->path));
		return;
	case FP_FILE:
		get_meta(in, rec);
		rec->size = get(in, 8);
		get_text(in, rec->path, sizeof(rec->path));
		return;
	case FP_DATA: get_data(in, rec); return;
	case FP_END:
		rec->size = get(in, 8);
		rec->error = (int32_t)get(in, 4);
		get_bytes(in, rec->digest, FP_DIGEST_MAX);
		return;
	case FP_LINK:
		get_text(in, rec->path, sizeof(rec->path));
		get_text(in, rec->target, sizeof(rec->target));
		return;
	case FP_FINISH:
		rec->files = get(in, 8);
		rec->size = get(in, 8);
		return;
	}
	in->bad = true;
}

int fp_next(struct fp_reader *r, struct fp_rec *rec)
{
	struct in in = { r->at, r->end, false };

	if (r->at == r->end)
		return 0;
	rec->type = (enum fp_rec_type)get(&in, 1);
	get_rec_body(&in, rec);
	if (in.bad)
		return -EPROTO;
	r->at = (const uint8_t *)in.at;
	return 1;
}
