/* SPDX-License-Identifier: BSD-2-Clause */
/* ifstate.h: what a port of either kind makes of the state of its interface. */
#ifndef PORT_IFSTATE_H
#define PORT_IFSTATE_H

#include <stdbool.h>
#include "core/port.h"
#include "daemon/net/ethtool.h"
#include "daemon/net/mirror.h"
#include "log.h"

/*
 * The address that peers are told: the one `wanted` (may be NULL); else `current` as long as it is there, since peers
 * know it; else the first. False, and *out unset, if there is none.
 */
bool ifstate_address(const struct mirror_if *mif, const struct ip *wanted, const struct ip *current,
		     struct ip *out);
/* Before a port is opened: 0 or -errno, explained. */
int ifstate_check(const struct mirror_if *mif, const struct ip *wanted, log_fn log);
/* Mbit/s: what was configured, else the driver's word; 0 unknown, and said if packets are to be marked by it. */
uint32_t ifstate_speed(const char *name, uint32_t configured, const struct ethtool_facts *facts,
		       bool mark, log_fn log);
/* After a change. */
void ifstate_tell(const struct mirror_if *mif, const struct port *port, bool was_up, log_fn log);

#endif
