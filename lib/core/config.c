// SPDX-License-Identifier: BSD-2-Clause
#include "core/internal.h"

void engine_config_default(struct engine_config *cfg)
{
	*cfg = (struct engine_config){
		.max_conns = MROCE_MAX_CONNS,
		.paths = 8,
		.streams = 1024,
		.letters = 65536,
		.messages = 65536,
		.tries = 8,
		.silence_ns = 2 * SEC,
		.handshake_ns = 5 * SEC,
		.keepalive_ns = 1 * SEC,
		.rto_min_ns = 1 * MSEC,
		.pto_min_ns = 50 * USEC,
		.stall_ns = 3 * SEC,
		.cookies_above = 64,
		.cc = &cc_ecn,
	};
}
