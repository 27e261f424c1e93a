// SPDX-License-Identifier: BSD-2-Clause
/* A fixed window, for experiments; and the list of what there is. */
#include <string.h>
#include "core/cc.h"
#include "mroce/wire.h"

#define FIXED_WINDOW 64

void cc_set_window(struct cc *cc, uint64_t window, uint32_t least)
{
	if (window < least)
		window = least;
	if (window > MROCE_WINDOW * CC_UNIT)
		window = MROCE_WINDOW * CC_UNIT;
	cc->window = (uint32_t)window;
	cc->cwnd = (cc->window + CC_UNIT - 1) / CC_UNIT;
}

static void fixed_init(struct cc *cc, uint64_t now)
{
	(void)now;
	memset(cc, 0, sizeof(*cc));
	cc_set_window(cc, FIXED_WINDOW * CC_UNIT, CC_UNIT);
}

static void fixed_ack(struct cc *cc, const struct cc_ack *a)
{
	(void)cc;
	(void)a;
}

static void fixed_timeout(struct cc *cc, uint64_t now)
{
	(void)cc;
	(void)now;
}

const struct cc_ops cc_fixed = {
	.name = "fixed",
	.init = fixed_init,
	.ack = fixed_ack,
	.timeout = fixed_timeout,
};

const struct cc_ops *cc_find(const char *name)
{
	static const struct cc_ops *const all[] = { &cc_ecn, &cc_delay, &cc_fixed };

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(all[i]->name, name))
			return all[i];
	}
	return NULL;
}
