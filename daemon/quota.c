/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include "daemon/quota.h"

struct quota *quota_get(struct quota **all, uid_t uid)
{
	struct quota *q;

	HASH_FIND(hh, *all, &uid, sizeof(uid), q);
	if (!q) {
		q = calloc(1, sizeof(*q));
		if (!q)
			return NULL;
		q->uid = uid;
		HASH_ADD(hh, *all, uid, sizeof(q->uid), q);
	}
	q->users++;
	return q;
}

void quota_put(struct quota **all, struct quota **qp)
{
	struct quota *q = *qp;

	*qp = NULL;
	if (!q || --q->users)
		return;
	HASH_DELETE(hh, *all, q);
	free(q);
}
