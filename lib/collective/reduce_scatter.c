/* SPDX-License-Identifier: BSD-2-Clause */
/* reduce_scatter.c: every rank reduces its share. */
#include <errno.h>
#include "collective/internal.h"

static int direct(struct operation *o)
{
	struct message *m = comm_messages(o->comm, o->comm->size);
	int err;

	if (!m)
		return -ENOMEM;
	err = direct_receive_contributions(o, m);
	if (!err)
		err = direct_send_shares(o, o->in, o->in_count);
	return err ? err : direct_reduce(o, m, o->out, 0);
}

int mroce_reduce_scatter(struct mroce_comm *comm, const void *in, void *out, size_t count,
			 enum mroce_coll_type type, enum mroce_coll_op op,
			 const struct mroce_coll_options *options)
{
	const struct request r = { .type = type,
				   .op = op,
				   .options = options,
				   .in = in,
				   .out = out,
				   .in_count = count * comm->size,
				   .out_count = count,
				   .reduces = true,
				   .rings = true };
	struct operation o;
	int err = count > SIZE_MAX / 4096
			  ? comm_fail(comm, -EINVAL, "%zu elements are too many", count)
			  : operation_begin(comm, &r, &o);

	if (err)
		return err;
	err = o.ring ? ring_run(&o, true, false, o.out) : direct(&o);
	return operation_end(&o, err);
}
