/* SPDX-License-Identifier: BSD-2-Clause */
/* all_reduce.c: shares are reduced by one rank each, and told to all. */
#include <errno.h>
#include "collective/internal.h"

static int direct(struct operation *o)
{
	struct mroce_comm *c = o->comm;
	struct share own = share_of(c, o->in_count, c->rank);
	uint8_t *out = o->out + own.first * o->unit;
	const struct mroce_tolerance *told = o->options.flags & MROCE_COLL_SAME ? NULL
										: o->tolerance;
	struct message *m = comm_messages(c, 2 * (size_t)c->size);
	int err;

	if (!m)
		return -ENOMEM;
	err = direct_receive_contributions(o, m);
	if (!err)
		err = direct_receive_shares(o, m + c->size, o->out, o->out_count);
	if (!err)
		err = direct_send_shares(o, o->in, o->in_count);
	if (!err)
		err = direct_reduce(o, m, out, own.first);
	if (!err)
		err = direct_send_same(o, out, own.count, told);
	/* Of what is not told, this rank knows its own contribution; in place it lies there. */
	if (!err)
		err = direct_await_shares(o, m + c->size, o->out_count, o->out, o->in);
	return err;
}

int mroce_all_reduce(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, enum mroce_coll_op op,
		     const struct mroce_coll_options *options)
{
	const struct request r = { .type = type,
				   .op = op,
				   .options = options,
				   .in = in,
				   .out = out,
				   .in_count = count,
				   .out_count = count,
				   .reduces = true,
				   .rings = true };
	struct operation o;
	int err = operation_begin(comm, &r, &o);

	if (err)
		return err;
	if (o.ring)
		err = ring_run(&o, true, true,
			       o.out + share_of(comm, o.out_count, comm->rank).first * o.unit);
	else
		err = direct(&o);
	return operation_end(&o, err);
}
