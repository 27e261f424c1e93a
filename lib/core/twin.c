// SPDX-License-Identifier: BSD-2-Clause
#include "core/twin.h"

#include <arpa/inet.h>
#include "core/crc.h"
#include "mroce/post.h"

static uint32_t probe_reply(void *out, const struct mroce_conn_entry *c, const struct packet *p)
{
	struct packet r = {
		.type = MROCE_PROBE_REPLY,
		.path = p->path,
		.epoch = p->epoch,
		.cid = c->peer_cid,
		.token = c->peer_token,
		.psn = p->psn,
		.una = p->una,
		.ts = p->ts,
	};

	packet_seal(out, &r);
	return MROCE_HDR_LEN;
}

static uint32_t reply_ack(void *out, struct mroce_path_rx *rx, const struct mroce_conn_entry *c,
			  const struct packet *p, uint8_t type)
{
	return ack_build(out, rx, type, p->path, p->epoch, c->peer_cid, c->peer_token,
			 (uint16_t)c->hint, p->ts, p->psn);
}

static void note_queue(struct mroce_path_rx *rx, uint32_t queue)
{
	if (rx->queue == queue)
		return;
	rx->queue = queue;
	rx->queue_moves++;
}

int twin_rx(struct port *port, const void *payload, uint32_t len, bool ce, uint32_t queue,
	    void *reply, uint32_t *reply_len)
{
	const struct mroce_conn_entry *c;
	struct track_packet t;
	struct mroce_path_rx *rx;
	struct packet p;
	uint32_t slot;
	int err = packet_parse(payload, len, &p);

	*reply_len = 0;
	if (err)
		return err;
	if (packet_is_setup(p.type))
		return TWIN_SETUP;
	slot = p.cid & (MROCE_MAX_CONNS - 1);
	c = &port->conns[slot];
	if (p.cid == 0 || c->cid != p.cid)
		return -MROCE_DROP_NO_CONN;
	if (c->token != p.token)
		return -MROCE_DROP_TOKEN;
	if (p.path >= MROCE_MAX_PATHS)
		return -MROCE_DROP_PATH;
	if (p.type == MROCE_ACK || p.type == MROCE_NACK || p.type == MROCE_PROBE_REPLY)
		return TWIN_DELIVER;
	if (p.path >= c->npaths)
		return -MROCE_DROP_PATH;
	if (p.type == MROCE_PROBE) {
		*reply_len = probe_reply(reply, c, &p);
		return TWIN_DONE;
	}
	t = (struct track_packet){
		.psn = p.psn, .una = p.una, .ts = p.ts, .bytes = len, .epoch = p.epoch, .ce = ce
	};
	rx = &port->paths[slot * MROCE_MAX_PATHS + p.path];
	note_queue(rx, queue);
	if (p.type == MROCE_POLL) {
		err = track_poll(rx, &t);
		if (err)
			return err;
		*reply_len = reply_ack(reply, rx, c, &p, MROCE_ACK);
		return TWIN_DONE;
	}
	err = track_rx(rx, &t);
	if (err < 0)
		return err;
	if (err == TRACK_GAP)
		*reply_len = reply_ack(reply, rx, c, &p, MROCE_NACK);
	return TWIN_DELIVER;
}

static bool is_letter(const struct mroce_hdr *h)
{
	return ntohl(h->hdr_crc) == post_seal(ntohl(h->una), ntohl(h->psn));
}

static void make_envelope(struct mroce_hdr *h, const struct post_envelope *v, uint32_t ts)
{
	h->path = (uint8_t)v->path;
	h->epoch = htons((uint16_t)v->epoch);
	h->psn = htonl(v->psn);
	h->una = htonl(v->una);
	h->ts = htonl(ts);
	h->hdr_crc = htonl(crc32c(h, MROCE_HDR_CRC_LEN));
}

int twin_post(struct post_tables *t, void *payload, uint32_t len, uint64_t now, uint16_t *sport)
{
	struct post_envelope v = { 0 };
	struct mroce_post_conn *c;
	struct mroce_hdr h; /* frames are not aligned */
	uint32_t cid, cookie, ts = packet_clock(now);
	int err;

	if (len < sizeof(h))
		return -MROCE_DROP_TRUNCATED;
	memcpy(&h, payload, sizeof(h));
	if (!is_letter(&h))
		return -MROCE_DROP_HDR_CRC;
	cid = ntohl(h.una);
	cookie = ntohl(h.psn);
	c = &t->conns[cid & (MROCE_MAX_CONNS - 1)];
	err = post_check(c, cid, cookie);
	if (err)
		return err;
	err = post_take(c, ntohs(h.epoch), h.path, &v);
	post_tell(&t->posted[cookie & (MROCE_POSTED - 1)], cookie, ts, err, &v);
	if (err)
		return err;
	make_envelope(&h, &v, ts);
	memcpy(payload, &h, sizeof(h));
	*sport = (uint16_t)v.sport;
	return 0;
}
