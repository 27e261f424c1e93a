/* SPDX-License-Identifier: GPL-2.0 */
/* count.h: every exit of the programs has a number in drop_reasons.h, and is counted under it. */
#ifndef COUNT_H
#define COUNT_H

#include "bpf_maps.h"

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&mroce_counters, &what);

	if (n)
		*n += 1; /* per CPU, and XDP and TC of one CPU do not interrupt each other */
}

/* Ends an XDP program: `error` is -enum mroce_reason. */
static __always_inline int drop(int error)
{
	count(-error);
	return XDP_DROP;
}

#endif
