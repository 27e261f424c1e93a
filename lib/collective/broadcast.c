/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * broadcast.c: from one to all. Short or tolerant ones directly; long ones in slices from rank to rank, so that the
 * root's link carries them once and not N - 1 times.
 */
#include <errno.h>
#include <string.h>
#include "collective/internal.h"

#define AHEAD 128

static int direct(struct operation *o, uint32_t root)
{
	struct mroce_comm *c = o->comm;
	struct message *m;
	int err;

	if (c->rank == root)
		return direct_send_same(o, o->out, o->out_count, o->tolerance);
	m = comm_messages(c, 1);
	if (!m)
		return -ENOMEM;
	err = comm_receive(c, root, o->out, o->out_count * o->unit, m);
	if (!err)
		err = comm_await(c, m);
	return err ? err : operation_note(o, m, 0);
}

struct chain {
	struct operation *o;
	size_t slice, slices;
	struct message *m;
	size_t posted;
	uint32_t before, after;
	bool receives, sends;
};

static size_t bytes_of(const struct chain *h, size_t s)
{
	size_t rest = h->o->out_count - s * h->slice;

	return (rest < h->slice ? rest : h->slice) * h->o->unit;
}

static uint8_t *at(const struct chain *h, size_t s)
{
	return h->o->out + s * h->slice * h->o->unit;
}

static int post_receives(struct chain *h, size_t until)
{
	int err = 0;

	for (; h->receives && h->posted < until && h->posted < h->slices && !err; h->posted++)
		err = comm_receive(h->o->comm, h->before, at(h, h->posted), bytes_of(h, h->posted),
				   &h->m[h->posted]);
	return err;
}

static int pass_on(struct chain *h, size_t s)
{
	int err = h->receives ? comm_await(h->o->comm, &h->m[s]) : 0;

	if (err || !h->sends)
		return err;
	return comm_send(h->o->comm, h->after, at(h, s), bytes_of(h, s), NULL);
}

static int along_chain(struct operation *o, uint32_t root)
{
	struct mroce_comm *c = o->comm;
	size_t slice = ring_slice(o, o->out_count);
	struct chain h = { .o = o,
			   .slice = slice,
			   .slices = (o->out_count + slice - 1) / slice,
			   .before = (c->rank + c->size - 1) % c->size,
			   .after = (c->rank + 1) % c->size,
			   .receives = c->rank != root };
	int err = 0;

	h.sends = h.after != root;
	h.m = comm_messages(c, h.slices);
	if (!h.m && h.slices)
		return -ENOMEM;
	for (size_t s = 0; s < h.slices && !err; s++) {
		err = post_receives(&h, s + AHEAD);
		if (!err)
			err = pass_on(&h, s);
	}
	return err;
}

int mroce_broadcast(struct mroce_comm *comm, void *buffer, size_t count, enum mroce_coll_type type,
		    uint32_t root, const struct mroce_coll_options *options)
{
	const struct request r = {
		.type = type, .options = options, .out = buffer, .out_count = count, .rings = true
	};
	struct operation o;
	int err;

	if (root >= comm->size)
		return comm_fail(comm, -EINVAL, "root %u: ranks are 0 to %u", root, comm->size - 1);
	err = operation_begin(comm, &r, &o);
	if (err)
		return err;
	/* Outside of registered memory the root sends from a copy. */
	if (comm->rank == root && count && o.out != buffer)
		memcpy(o.out, buffer, count * o.unit);
	err = o.ring ? along_chain(&o, root) : direct(&o, root);
	return operation_end(&o, err);
}
