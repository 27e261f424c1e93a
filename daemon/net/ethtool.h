/* SPDX-License-Identifier: BSD-2-Clause */
/* ethtool.h: what the driver tells of an interface. Works in whatever namespace the process is, unlike /sys. */
#ifndef NET_ETHTOOL_H
#define NET_ETHTOOL_H

#include <stdbool.h>
#include <stdint.h>

struct ethtool_facts {
	uint32_t rx_queues, tx_queues; /* in use; 0 unknown */
	uint32_t rx_ring;	       /* descriptors of the driver's receive ring; 0 unknown */
	uint32_t speed;		       /* Mbit/s; 0 unknown */
	bool lro;		       /* large receive offload is on */
	bool hash_known, hash_ports;   /* are UDP flows spread over queues by their ports? */
};

/* What cannot be learned stays 0. */
void ethtool_read(const char *interface, struct ethtool_facts *out);

#endif
