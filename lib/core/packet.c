// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include "core/crc.h"
#include "core/packet.h"

int packet_parse(const void *data, uint32_t len, struct packet *p)
{
	struct mroce_hdr h;

	if (len < MROCE_HDR_LEN)
		return -MROCE_DROP_TRUNCATED;
	memcpy(&h, data, sizeof(h));
	if (h.version != MROCE_WIRE_VERSION)
		return -MROCE_DROP_VERSION;
	if (h.type == 0 || h.type >= MROCE_TYPE_MAX)
		return -MROCE_DROP_TYPE;
	if (crc32c(data, MROCE_HDR_CRC_LEN) != ntohl(h.hdr_crc))
		return -MROCE_DROP_HDR_CRC;
	if (ntohs(h.body_len) > len - MROCE_HDR_LEN)
		return -MROCE_DROP_TRUNCATED;
	p->type = h.type;
	p->flags = h.flags;
	p->path = h.path;
	p->epoch = ntohs(h.epoch);
	p->body_len = ntohs(h.body_len);
	p->cid = ntohl(h.cid);
	p->token = ntohl(h.token);
	p->psn = ntohl(h.psn);
	p->una = ntohl(h.una);
	p->ts = ntohl(h.ts);
	p->body_crc = ntohl(h.body_crc);
	p->body = (const uint8_t *)data + MROCE_HDR_LEN;
	return 0;
}

bool packet_body_ok(const struct packet *p)
{
	if (!p->body_len)
		return p->body_crc == 0;
	return crc32c(p->body, p->body_len) == p->body_crc;
}

const char *packet_type_name(uint8_t type)
{
	static const char *const names[MROCE_TYPE_MAX] = {
		[MROCE_DATA] = "DATA",
		[MROCE_POLL] = "POLL",
		[MROCE_ACK] = "ACK",
		[MROCE_NACK] = "NACK",
		[MROCE_READ_REQ] = "READ_REQ",
		[MROCE_CREDIT] = "CREDIT",
		[MROCE_FORGIVE] = "FORGIVE",
		[MROCE_HELLO] = "HELLO",
		[MROCE_ACCEPT] = "ACCEPT",
		[MROCE_READY] = "READY",
		[MROCE_PROBE] = "PROBE",
		[MROCE_PROBE_REPLY] = "PROBE_REPLY",
		[MROCE_PORT_STATUS] = "PORT_STATUS",
		[MROCE_CLOSE] = "CLOSE",
		[MROCE_ERROR] = "ERROR",
	};

	return type < MROCE_TYPE_MAX ? names[type] : NULL;
}

bool packet_has_psn(uint8_t type)
{
	switch (type) {
	case MROCE_DATA:
	case MROCE_READ_REQ:
	case MROCE_CREDIT:
	case MROCE_FORGIVE:
	case MROCE_PORT_STATUS:
	case MROCE_CLOSE:
	case MROCE_ERROR: return true;
	}
	return false;
}

bool packet_is_setup(uint8_t type)
{
	return type == MROCE_HELLO || type == MROCE_ACCEPT || type == MROCE_READY;
}

typedef struct mroce_hdr frame_hdr __attribute__((aligned(1))); /* frames are not aligned */

/*
 * Fields are written to their place before the sum of the body is taken, which takes long enough for them to
 * have left the CPU's store buffer when the header is read for its own sum.
 */
void packet_seal(void *data, const struct packet *p)
{
	const uint8_t *body = (const uint8_t *)data + MROCE_HDR_LEN;
	frame_hdr *h = data;

	h->version = MROCE_WIRE_VERSION;
	h->type = p->type;
	h->flags = p->flags;
	h->path = p->path;
	h->cid = htonl(p->cid);
	h->token = htonl(p->token);
	h->epoch = htons(p->epoch);
	h->body_len = htons(p->body_len);
	h->psn = htonl(p->psn);
	h->una = htonl(p->una);
	h->ts = htonl(p->ts);
	h->body_crc = p->body_len ? htonl(crc32c(body, p->body_len)) : 0;
	h->hdr_crc = htonl(crc32c(h, MROCE_HDR_CRC_LEN));
}

uint32_t ack_build(void *out, struct mroce_path_rx *rx, uint8_t type, uint8_t path, uint16_t epoch,
		   uint32_t cid, uint32_t token, uint16_t hint, uint32_t echo_ts, uint32_t echo_psn)
{
	struct mroce_ack a;
	struct packet p = {
		.type = type,
		.path = path,
		.epoch = epoch,
		.body_len = sizeof(a),
		.cid = cid,
		.token = token,
	};
	struct track_state s;

	track_ack(rx, &s);
	a.base = htonl(s.base);
	a.highest = htonl(s.highest);
	a.rx_bytes = htonl(s.rx_bytes);
	a.ce_bytes = htonl(s.ce_bytes);
	a.echo_ts = htonl(echo_ts);
	a.echo_psn = htonl(echo_psn);
	a.late = htons(s.late);
	a.hint = htons(hint);
	a.reserved = 0;
	for (int w = 0; w < MROCE_WINDOW_WORDS; w++) {
		a.seen[w] = htobe64(s.seen[w]);
		a.placed[w] = htobe64(s.placed[w]);
	}
	memcpy((uint8_t *)out + MROCE_HDR_LEN, &a, sizeof(a));
	packet_seal(out, &p);
	return MROCE_ACK_LEN;
}
