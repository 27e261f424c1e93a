/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * door.h: the second door of a port: a UDP socket that takes what XDP passes (set-up packets and packets
 * that revealed a gap) and sends set-up packets. Bound to one interface.
 */
#ifndef PORT_DOOR_H
#define PORT_DOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include "log.h"
#include "core/port.h"

#define DOOR_BATCH 32
#define DOOR_PACKET_MAX 4096

struct door_slot; /* buffers of one packet */

struct door {
	int fd;
	bool v6; /* an IPv6 socket that speaks IPv4 too; false: this host has no IPv6 */
	uint32_t ifindex;
	uint16_t udp_port;
	struct mmsghdr msgs[DOOR_BATCH];
	struct door_slot *slots;
	uint64_t rx_packets, tx_packets;
	uint64_t dropped;  /* by the kernel because the socket's buffer was full */
	uint32_t overflow; /* the kernel's counter when last seen */
};

struct door_packet {
	const void *data;
	uint32_t len;
	struct ip remote;
	uint16_t sport;
};

/* 0 or -errno, explained. */
int door_open(struct door *d, const char *interface, uint32_t ifindex, uint16_t udp_port,
	      log_fn log);
void door_close(struct door *d);
/* Takes up to max packets (<= DOOR_BATCH); they stay valid until the next call. Fewer than max: empty. */
uint32_t door_rx(struct door *d, struct door_packet *out, uint32_t max);
/* From src, by this interface. 0 or -errno. */
int door_send(struct door *d, const struct ip *src, const struct ip *remote, const void *payload,
	      uint32_t len);

#endif
