// SPDX-License-Identifier: BSD-2-Clause
/* Builds frames field by field, from RFCs and wire.h and not from the code under test. */
#include "bpf_test.h"
#include <arpa/inet.h>
#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

static const uint8_t host_mac[6] = { 2, 0, 0, 0, 0, 1 }, peer_mac[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t host_ip4[4] = { 10, 77, 0, 1 }, peer_ip4[4] = { 10, 77, 0, 2 };
static const uint8_t host_ip6[16] = { 0xfd, [15] = 1 }, peer_ip6[16] = { 0xfd, [15] = 2 };

static uint32_t put(struct frame *f, const void *data, uint32_t len)
{
	memcpy(f->b + f->len, data, len);
	f->len += len;
	return f->len - len;
}

static void put16(struct frame *f, uint16_t value)
{
	uint16_t be = htons(value);

	put(f, &be, 2);
}

static uint32_t crc(uint8_t *p, uint32_t len)
{
	return ~crc32_iscsi(p, (int)len, 0xffffffff);
}

static void put_ether(struct frame *f, const struct spec *s)
{
	put(f, s->answer ? peer_mac : host_mac, 6);
	put(f, s->answer ? host_mac : peer_mac, 6);
	for (int i = 0; i < s->vlans; i++) {
		put16(f, i == 0 && s->vlans > 1 ? 0x88a8 : 0x8100);
		put16(f, (uint16_t)(0x6000 + 100 + i)); /* priority 3 */
	}
	put16(f, s->v6 ? 0x86dd : 0x0800);
}

static uint16_t ip_sum(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put_ip4(struct frame *f, const struct spec *s, uint32_t udp_len)
{
	uint32_t header = 20 + 4 * s->options;
	uint8_t ip[60] = { (uint8_t)(0x40 | header / 4), s->tos };
	uint16_t sum;

	ip[2] = (uint8_t)((header + udp_len) >> 8);
	ip[3] = (uint8_t)(header + udp_len);
	ip[5] = s->answer ? 0 : 9;
	ip[6] = (uint8_t)(s->answer ? 0x40 : s->fragment >> 8);
	ip[7] = (uint8_t)s->fragment;
	ip[8] = s->answer ? 64 : 33;
	ip[9] = 17;
	memcpy(ip + 12, s->answer ? host_ip4 : peer_ip4, 4);
	memcpy(ip + 16, s->answer ? peer_ip4 : host_ip4, 4);
	memset(ip + 20, 1, 4 * s->options); /* no operation */
	sum = ip_sum(ip, header);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	f->l3 = put(f, ip, header);
}

static void put_ip6(struct frame *f, const struct spec *s, uint32_t udp_len)
{
	uint8_t ip[40] = { (uint8_t)(0x60 | s->tos >> 4), (uint8_t)(s->tos << 4 | 0xa), 0xbc, 0xde };
	ip[4] = (uint8_t)(udp_len >> 8);
	ip[5] = (uint8_t)udp_len;
	ip[6] = 17;
	ip[7] = s->answer ? 64 : 33;
	memcpy(ip + 8, s->answer ? host_ip6 : peer_ip6, 16);
	memcpy(ip + 24, s->answer ? peer_ip6 : host_ip6, 16);
	f->l3 = put(f, ip, 40);
}

static void put_hdr(struct frame *f, const struct spec *s)
{
	struct mroce_hdr h = {
		.version = MROCE_WIRE_VERSION,
		.type = s->type,
		.path = s->path,
		.cid = htonl(s->answer ? TEST_PEER_CID : TEST_CID ^ s->cid_xor),
		.token = htonl(s->answer ? TEST_PEER_TOKEN : TEST_TOKEN ^ s->token_xor),
		.epoch = htons(s->epoch),
		.body_len = htons(s->body),
		.psn = htonl(s->answer ? 0 : FIRST_PSN + s->psn),
		.una = htonl(s->answer ? 0 : FIRST_PSN + s->una),
		.ts = htonl(TEST_TS),
	};

	f->h = put(f, &h, sizeof(h));
}

void frame_host(bool v6, struct mroce_address *out)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(out, v6 ? host_ip6 : prefix, v6 ? 16 : 12);
	if (!v6)
		memcpy((uint8_t *)out + 12, host_ip4, 4);
}

void frame_make(struct frame *f, const struct spec *s)
{
	uint32_t udp_len = 8 + MROCE_HDR_LEN + s->body;

	f->len = 0;
	put_ether(f, s);
	if (s->v6)
		put_ip6(f, s, udp_len);
	else
		put_ip4(f, s, udp_len);
	f->l4 = f->len;
	put16(f, 50123);
	put16(f, (uint16_t)(MROCE_UDP_PORT + s->port_off));
	put16(f, (uint16_t)udp_len);
	put16(f, 0);
	put_hdr(f, s);
	for (uint32_t i = 0; i < s->body; i++)
		f->b[f->len++] = (uint8_t)(i * 7 + 1);
	frame_seal(f);
}

void frame_seal(struct frame *f)
{
	struct mroce_hdr h;
	uint32_t body = f->len - f->h - MROCE_HDR_LEN;

	memcpy(&h, f->b + f->h, sizeof(h));
	h.body_crc = body ? htonl(crc(f->b + f->h + MROCE_HDR_LEN, body)) : 0;
	h.hdr_crc = htonl(crc((uint8_t *)&h, MROCE_HDR_CRC_LEN));
	memcpy(f->b + f->h, &h, sizeof(h));
}

void frame_ack(struct frame *f, struct mroce_path_rx *rx, const struct spec *question)
{
	struct track_state s;
	struct mroce_ack ack = { 0 };

	track_ack(rx, &s);
	ack.base = htonl(s.base);
	ack.highest = htonl(s.highest);
	ack.rx_bytes = htonl(s.rx_bytes);
	ack.ce_bytes = htonl(s.ce_bytes);
	ack.echo_ts = htonl(TEST_TS);
	ack.echo_psn = htonl(FIRST_PSN + question->psn);
	ack.late = htons(s.late);
	ack.hint = htons(TEST_HINT);
	for (int w = 0; w < MROCE_WINDOW_WORDS; w++) {
		ack.seen[w] = htobe64(s.seen[w]);
		ack.placed[w] = htobe64(s.placed[w]);
	}
	memcpy(f->b + f->h + MROCE_HDR_LEN, &ack, sizeof(ack));
	frame_seal(f);
}
