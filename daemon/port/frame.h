/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h: Ethernet frames around our UDP payloads: built from a template per destination, parsed with
 * every bound checked, since a frame's bytes come from the network.
 */
#ifndef PORT_FRAME_H
#define PORT_FRAME_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "daemon/net/ip.h"

#define FRAME_ETH_LEN 14
#define FRAME_IPV4_LEN 20
#define FRAME_IPV6_LEN 40
#define FRAME_UDP_LEN 8
/* What the XDP program skips, too (VLAN_TAGS_MAX): a frame it takes must not be strange here. */
#define FRAME_VLAN_TAGS 2
#define FRAME_HEADERS_MAX (FRAME_ETH_LEN + FRAME_IPV6_LEN + FRAME_UDP_LEN)
#define FRAME_ECT0 0x02

/*
 * The largest IP packet that fits a single XDP buffer: a page less 256 bytes of headroom and the
 * kernel's skb_shared_info (320), an Ethernet header and two VLAN tags.
 */
#define FRAME_IP_MAX 3498

struct frame_ends {
	uint8_t src_mac[6], dst_mac[6];
	struct ip src, dst; /* of one family */
	uint16_t dport;	    /* host order */
};

struct frame_template {
	uint8_t bytes[FRAME_HEADERS_MAX];
	uint8_t len;
	bool v6;
	uint32_t sum; /* IPv4: of the header's words with the total length and checksum 0 */
};

void frame_template_init(struct frame_template *t, const struct frame_ends *ends);

static inline void frame_put16(uint8_t *at, uint16_t host_order)
{
	uint16_t be = htons(host_order);

	memcpy(at, &be, sizeof(be));
}

static inline uint16_t frame_get16(const uint8_t *at)
{
	uint16_t be;

	memcpy(&be, at, sizeof(be));
	return ntohs(be);
}

/* Writes t->len bytes of headers for `len` bytes of UDP payload. */
static inline void frame_fill(const struct frame_template *t, uint8_t *hdr, uint16_t sport,
			      uint32_t len)
{
	uint32_t sum;

	if (t->v6) {
		memcpy(hdr, t->bytes, FRAME_ETH_LEN + FRAME_IPV6_LEN + FRAME_UDP_LEN);
		frame_put16(hdr + FRAME_ETH_LEN + 4, FRAME_UDP_LEN + len);
		hdr += FRAME_ETH_LEN + FRAME_IPV6_LEN;
	} else {
		memcpy(hdr, t->bytes, FRAME_ETH_LEN + FRAME_IPV4_LEN + FRAME_UDP_LEN);
		len += FRAME_IPV4_LEN + FRAME_UDP_LEN;
		sum = t->sum + len;
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		frame_put16(hdr + FRAME_ETH_LEN + 2, len);
		frame_put16(hdr + FRAME_ETH_LEN + 10, ~sum);
		len -= FRAME_IPV4_LEN + FRAME_UDP_LEN;
		hdr += FRAME_ETH_LEN + FRAME_IPV4_LEN;
	}
	frame_put16(hdr, sport);
	frame_put16(hdr + 4, FRAME_UDP_LEN + len);
}

struct frame_payload {
	const uint8_t *data;
	uint32_t len;
	uint16_t sport;
	struct ip remote;
};

/* 0 and *out; -EPROTO if it is not a whole UDP datagram for `dport` (VLAN tags are allowed). */
int frame_parse(const uint8_t *frame, uint32_t len, uint16_t dport, struct frame_payload *out);

#endif
