/* SPDX-License-Identifier: GPL-2.0 */
/* ack.h: the mroce packets that BPF makes: ACK, NACK and PROBE_REPLY. */
#ifndef ACK_H
#define ACK_H

#include "conn.h"
#include "crc.h"

#define TS_SHIFT 10 /* hdr.ts counts units of 1024 ns */

/* A header to the peer about the path that p came on. The caller adds body and checksums. */
static __always_inline void answer_header(struct mroce_hdr *h, __u8 type, const struct packet *p,
					  const struct mroce_conn_entry *conn)
{
	h->version = MROCE_WIRE_VERSION;
	h->type = type;
	h->flags = 0;
	h->path = p->path;
	h->cid = bpf_htonl(conn->peer_cid);
	h->token = bpf_htonl(conn->peer_token);
	h->epoch = bpf_htons(p->epoch);
	h->body_len = 0;
	h->psn = 0;
	h->una = 0;
	h->ts = bpf_htonl((__u32)(bpf_ktime_get_ns() >> TS_SHIFT));
	h->body_crc = 0;
}

static __always_inline void answer_seal(struct mroce_hdr *h)
{
	h->hdr_crc = bpf_htonl(crc32c_words(h, MROCE_HDR_CRC_LEN / 4));
}

static __always_inline void ack_body(struct mroce_ack *ack, const struct packet *p,
				     const struct mroce_conn_entry *conn, struct mroce_path_rx *rx)
{
	struct track_state s;

	track_ack(rx, &s);
	ack->base = bpf_htonl(s.base);
	ack->highest = bpf_htonl(s.highest);
	ack->rx_bytes = bpf_htonl(s.rx_bytes);
	ack->ce_bytes = bpf_htonl(s.ce_bytes);
	ack->echo_ts = bpf_htonl(p->ts);
	ack->echo_psn = bpf_htonl(p->psn);
	ack->late = bpf_htons(s.late);
	ack->hint = bpf_htons((__u16)TRACK_READ(conn->hint));
	ack->reserved = 0;
#pragma clang loop unroll(full)
	for (int w = 0; w < MROCE_WINDOW_WORDS; w++) {
		ack->seen[w] = bpf_cpu_to_be64(s.seen[w]);
		ack->placed[w] = bpf_cpu_to_be64(s.placed[w]);
	}
}

/* The two parts lie one behind the other: h, then ack. type: MROCE_ACK or MROCE_NACK. */
static __always_inline void ack_make(struct mroce_hdr *h, struct mroce_ack *ack, __u8 type,
				     const struct packet *p, const struct mroce_conn_entry *conn,
				     struct mroce_path_rx *rx)
{
	ack_body(ack, p, conn, rx);
	answer_header(h, type, p, conn);
	h->body_len = bpf_htons(sizeof(*ack));
	h->body_crc = bpf_htonl(crc32c_words(ack, sizeof(*ack) / 4));
	answer_seal(h);
}

/* psn and una come back as they were, so that a prober knows its probe again. */
static __always_inline void probe_reply_make(struct mroce_hdr *h, const struct packet *p,
					     const struct mroce_conn_entry *conn)
{
	answer_header(h, MROCE_PROBE_REPLY, p, conn);
	h->psn = bpf_htonl(p->psn);
	h->una = bpf_htonl(p->una);
	h->ts = bpf_htonl(p->ts);
	answer_seal(h);
}

#endif
