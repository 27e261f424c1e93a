/* SPDX-License-Identifier: BSD-2-Clause */
/* all_gather.c: every rank's elements to all. */
#include <errno.h>
#include <string.h>
#include "collective/internal.h"

static uint8_t *own_share(const struct operation *o)
{
	return o->out + o->comm->rank * o->in_count * o->unit;
}

static int direct(struct operation *o)
{
	struct message *m = comm_messages(o->comm, o->comm->size);
	int err;

	if (!m)
		return -ENOMEM;
	err = direct_receive_shares(o, m, o->out, o->out_count);
	if (!err)
		err = direct_send_same(o, own_share(o), o->in_count, o->tolerance);
	return err ? err : direct_await_shares(o, m, o->out_count, o->out, NULL);
}

int mroce_all_gather(struct mroce_comm *comm, const void *in, void *out, size_t count,
		     enum mroce_coll_type type, const struct mroce_coll_options *options)
{
	const struct request r = { .type = type,
				   .options = options,
				   .in = in,
				   .out = out,
				   .in_count = count,
				   .out_count = count * comm->size,
				   .rings = true,
				   .in_moves = true };
	struct operation o;
	int err = count > SIZE_MAX / 4096
			  ? comm_fail(comm, -EINVAL, "%zu elements are too many", count)
			  : operation_begin(comm, &r, &o);

	if (err)
		return err;
	if (count)
		memmove(own_share(&o), in, count * o.unit);
	err = o.ring ? ring_run(&o, false, true, NULL) : direct(&o);
	return operation_end(&o, err);
}
