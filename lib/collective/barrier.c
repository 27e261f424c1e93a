/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * barrier.c: in round k every rank tells the one 2^k after it and hears from the one 2^k before it; after log2 N
 * rounds each has heard of all (Hensgen, Finkel and Manber's dissemination).
 */
#include <errno.h>
#include "collective/internal.h"

int mroce_barrier(struct mroce_comm *comm)
{
	struct message *m = comm_messages(comm, 32);
	uint32_t size = comm->size;
	int err = m ? comm->broken : -ENOMEM;

	for (uint32_t step = 1; step < size && !err; step *= 2, m++) {
		err = comm_receive_signal(comm, (comm->rank + size - step) % size, m);
		if (!err)
			err = comm_send_signal(comm, (comm->rank + step) % size);
		if (!err)
			err = comm_await(comm, m);
	}
	return err ? err : comm_drain(comm);
}
