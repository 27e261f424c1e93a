/* SPDX-License-Identifier: BSD-2-Clause */
/* exchange_mroce.c: averaging by an all-reduce of libmroce-collective. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "mroce_collective.h"
#include "training.h"

struct exchange {
	struct mroce_comm *comm;
	struct mroce_coll_options options;
};

static int open_mroce(const struct exchange_config *config, size_t floats, struct exchange **out,
		      float **memory)
{
	const struct mroce_comm_config comm = { .socket = config->socket,
						.hosts = config->hosts,
						.size = config->size,
						.rank = config->rank,
						.seed = 1 };
	struct exchange *e = calloc(1, sizeof(*e));
	void *at = NULL;
	int err = e ? mroce_comm_open(&comm, &e->comm) : -ENOMEM;

	if (!err)
		err = mroce_comm_alloc(e->comm, floats * sizeof(float), &at);
	if (err) {
		fprintf(stderr, "training: rank %u: %s\n", config->rank,
			e && e->comm ? mroce_comm_last_error(e->comm) : mroce_comm_open_error());
		if (e)
			mroce_comm_close(&e->comm);
		free(e);
		return err;
	}
	e->options.max_missing = config->max_missing;
	e->options.deadline_us = config->deadline_us;
	e->options.flags = config->flags;
	*memory = at;
	*out = e;
	return 0;
}

static void close_mroce(struct exchange **e)
{
	mroce_comm_close(&(*e)->comm);
	free(*e);
	*e = NULL;
}

static int average_mroce(struct exchange *e, float *x, size_t count, bool exact, uint64_t *missing)
{
	struct mroce_coll_account account;
	int err = mroce_all_reduce(e->comm, x, x, count, MROCE_FLOAT32, MROCE_AVERAGE,
				   exact ? NULL : &e->options);

	if (err)
		fprintf(stderr, "training: %s\n", mroce_comm_last_error(e->comm));
	mroce_comm_account(e->comm, &account);
	*missing = account.missing;
	return err;
}

const struct exchange_ops exchange_mroce = { "mroce", open_mroce, close_mroce, average_mroce };
