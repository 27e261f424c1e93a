// SPDX-License-Identifier: BSD-2-Clause
#include "frame.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>

#define IP_DF 0x4000
#define IP_FRAGMENT 0x3fff /* more fragments, or an offset */
#define HOPS 64

static uint32_t sum_words(const uint8_t *at, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i += 2)
		sum += frame_get16(at + i);
	return sum;
}

static void template_ipv4(struct frame_template *t, uint8_t *ip, const struct frame_ends *ends)
{
	ip[0] = 0x45;
	ip[1] = FRAME_ECT0;
	frame_put16(ip + 6, IP_DF);
	ip[8] = HOPS;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, ends->src.a + 12, 4);
	memcpy(ip + 16, ends->dst.a + 12, 4);
	t->sum = sum_words(ip, FRAME_IPV4_LEN);
}

static void template_ipv6(uint8_t *ip, const struct frame_ends *ends)
{
	ip[0] = 0x60 | (FRAME_ECT0 >> 4);
	ip[1] = (uint8_t)(FRAME_ECT0 << 4);
	ip[6] = IPPROTO_UDP;
	ip[7] = HOPS;
	memcpy(ip + 8, ends->src.a, 16);
	memcpy(ip + 24, ends->dst.a, 16);
}

void frame_template_init(struct frame_template *t, const struct frame_ends *ends)
{
	uint8_t *udp;

	memset(t, 0, sizeof(*t));
	memcpy(t->bytes, ends->dst_mac, 6);
	memcpy(t->bytes + 6, ends->src_mac, 6);
	t->v6 = !ip_is_v4(&ends->dst);
	frame_put16(t->bytes + 12, t->v6 ? ETH_P_IPV6 : ETH_P_IP);
	if (t->v6)
		template_ipv6(t->bytes + FRAME_ETH_LEN, ends);
	else
		template_ipv4(t, t->bytes + FRAME_ETH_LEN, ends);
	udp = t->bytes + FRAME_ETH_LEN + (t->v6 ? FRAME_IPV6_LEN : FRAME_IPV4_LEN);
	frame_put16(udp + 2, ends->dport);
	t->len = udp + FRAME_UDP_LEN - t->bytes;
}

/* Both: *at and *len are moved to the UDP header and cut to what the IP header says. */
static int parse_ipv4(const uint8_t **at, uint32_t *len, struct ip *remote)
{
	const uint8_t *ip = *at;
	uint32_t header, total;

	if (*len < FRAME_IPV4_LEN || ip[0] >> 4 != 4)
		return -EPROTO;
	header = (ip[0] & 15) * 4;
	total = frame_get16(ip + 2);
	if (header < FRAME_IPV4_LEN || total < header || total > *len || ip[9] != IPPROTO_UDP ||
	    frame_get16(ip + 6) & IP_FRAGMENT)
		return -EPROTO;
	*remote = ip_from_v4(ip + 12);
	*at += header;
	*len = total - header;
	return 0;
}

static int parse_ipv6(const uint8_t **at, uint32_t *len, struct ip *remote)
{
	const uint8_t *ip = *at;
	uint32_t total;

	if (*len < FRAME_IPV6_LEN || ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP)
		return -EPROTO;
	total = frame_get16(ip + 4);
	if (total > *len - FRAME_IPV6_LEN)
		return -EPROTO;
	*remote = ip_from_v6(ip + 8);
	*at += FRAME_IPV6_LEN;
	*len = total;
	return 0;
}

int frame_parse(const uint8_t *frame, uint32_t len, uint16_t dport, struct frame_payload *out)
{
	const uint8_t *at = frame + FRAME_ETH_LEN;
	struct ip remote;
	uint16_t type, udp_len;
	int err;

	if (len < FRAME_ETH_LEN)
		return -EPROTO;
	len -= FRAME_ETH_LEN;
	type = frame_get16(at - 2);
	for (int i = 0; i < FRAME_VLAN_TAGS && (type == ETH_P_8021Q || type == ETH_P_8021AD); i++) {
		if (len < 4)
			return -EPROTO;
		type = frame_get16(at + 2);
		at += 4;
		len -= 4;
	}
	if (type == ETH_P_IP)
		err = parse_ipv4(&at, &len, &remote);
	else if (type == ETH_P_IPV6)
		err = parse_ipv6(&at, &len, &remote);
	else
		return -EPROTO;
	if (err || len < FRAME_UDP_LEN)
		return -EPROTO;
	udp_len = frame_get16(at + 4);
	if (frame_get16(at + 2) != dport || udp_len < FRAME_UDP_LEN || udp_len > len)
		return -EPROTO;
	*out = (struct frame_payload){
		.data = at + FRAME_UDP_LEN,
		.len = udp_len - FRAME_UDP_LEN,
		.sport = frame_get16(at),
		.remote = remote,
	};
	return 0;
}
