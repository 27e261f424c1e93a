/* SPDX-License-Identifier: BSD-2-Clause */
/* all_to_all.c: something else from everybody to everybody. */
#include <errno.h>
#include <string.h>
#include "collective/internal.h"

static int direct(struct operation *o)
{
	struct message *m = comm_messages(o->comm, o->comm->size);
	int err;

	if (!m)
		return -ENOMEM;
	err = direct_receive_shares(o, m, o->out, o->out_count);
	if (!err)
		err = direct_send_shares(o, o->in, o->in_count);
	return err ? err : direct_await_shares(o, m, o->out_count, o->out, NULL);
}

int mroce_all_to_all(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, const struct mroce_coll_options *options)
{
	const struct request r = { .type = type,
				   .options = options,
				   .in = in,
				   .out = out,
				   .in_count = count * comm->size,
				   .out_count = count * comm->size };
	struct operation o;
	size_t own;
	int err;

	if (count > SIZE_MAX / 4096)
		return comm_fail(comm, -EINVAL, "%zu elements are too many", count);
	if (count && in == out)
		return comm_fail(comm, -EINVAL, "all-to-all needs two buffers");
	err = operation_begin(comm, &r, &o);
	if (err)
		return err;
	own = comm->rank * count * o.unit;
	if (count)
		memcpy(o.out + own, o.in + own, count * o.unit);
	return operation_end(&o, direct(&o));
}
