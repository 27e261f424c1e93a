/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packet.h: common header and ACK, between network and host form. Used by the engine and by the
 * user-space tracker.
 */
#ifndef CORE_PACKET_H
#define CORE_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include "mroce/track.h"
#include "mroce/wire.h"

#define MROCE_ACK_LEN (MROCE_HDR_LEN + (uint32_t)sizeof(struct mroce_ack))

/* The common header in host byte order. */
struct packet {
	uint8_t type, flags, path;
	uint16_t epoch, body_len;
	uint32_t cid, token, psn, una, ts, body_crc;
	const uint8_t *body;
};

/* Clock as packets carry it: units of 1024 ns; never 0, which means "no echo". */
static inline uint32_t packet_clock(uint64_t now)
{
	uint32_t ts = (uint32_t)(now >> 10);

	return ts ? ts : 1;
}

/* 0, or -enum mroce_reason. Checks lengths, version, type and header CRC, not the body. */
int packet_parse(const void *data, uint32_t len, struct packet *p);
/* Does the body's CRC hold? */
bool packet_body_ok(const struct packet *p);
/* Does a packet of this type take a PSN? */
/* "DATA"; NULL for a type that there is not. */
const char *packet_type_name(uint8_t type);
bool packet_has_psn(uint8_t type);
/* Is it one of the three set-up packets? */
bool packet_is_setup(uint8_t type);

/* Writes the header for the body that lies behind it already. */
void packet_seal(void *data, const struct packet *p);

/*
 * Fills MROCE_ACK_LEN bytes: an ACK or NACK (`type`) telling the state of rx, to the peer named by cid
 * and token. echo_ts 0: made by the daemon, no RTT can be taken from it. Returns the length.
 */
uint32_t ack_build(void *out, struct mroce_path_rx *rx, uint8_t type, uint8_t path, uint16_t epoch,
		   uint32_t cid, uint32_t token, uint16_t hint, uint32_t echo_ts, uint32_t echo_psn);

#endif
