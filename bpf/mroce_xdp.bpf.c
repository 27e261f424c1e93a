// SPDX-License-Identifier: GPL-2.0
/*
 * mroce_xdp: the first to see a received frame. What is not ours passes untouched. Ours is checked,
 * sequenced, and then answered in place (POLL, PROBE), handed to the daemon's AF_XDP socket, or
 * dropped for a counted reason.
 *
 * Loads on 6.1: bpf_xdp_get_buff_len() and xdp.frags are of 5.18, atomics and lookups in an XSKMAP
 * older. Only headers need to lie in linear memory; payloads may be in fragments.
 */
#define MARK_MAP mroce_vq_rx
#include "bpf_maps.h"
#include "count.h"
#include "parse.h"
#include "conn.h"
#include "reply.h"
#include "ack.h"
#include "mark.h"
#include "trace.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MROCE_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} mroce_xsks SEC(".maps");

static __always_inline void *frame_start(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

/* Without a socket nobody would ever get the frame: the daemon is not running. */
static __always_inline int socket_exists(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;

	return bpf_map_lookup_elem(&mroce_xsks, &queue) != NULL;
}

static __always_inline int to_daemon(struct xdp_md *ctx)
{
	count(MROCE_COUNT_RX_REDIRECT);
	return bpf_redirect_map(&mroce_xsks, ctx->rx_queue_index, XDP_PASS);
}

/*
 * XDP cannot clone, so a gap-revealing packet goes up through the stack with a note in front; TC
 * ingress makes the NACK of a clone. Where the driver leaves no room for notes the sender learns of
 * the gap by its next POLL.
 */
static __always_inline int gap_to_tc(struct xdp_md *ctx)
{
	struct mroce_note *note;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note)))
		return to_daemon(ctx);
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > frame_start(ctx))
		return to_daemon(ctx);
	note->magic = MROCE_NOTE_MAGIC;
	note->ifindex = ctx->ingress_ifindex;
	count(MROCE_COUNT_RX_PASS_GAP);
	return XDP_PASS;
}

static __always_inline int sequenced(struct xdp_md *ctx, const struct packet *p,
				     struct mroce_path_rx *rx, int nack)
{
	struct track_packet t = packet_track(p);
	int verdict = track_rx(rx, &t);

	if (verdict < 0)
		return verdict;
	if (verdict == TRACK_GAP && nack)
		return gap_to_tc(ctx);
	return to_daemon(ctx);
}

/* The longest headers before UDP, in words of eight bytes: two tags and IPv6, or fewer. */
#define MOVED_WORDS 8

/* Copies the headers from data + by down to data. What lies between is larger than a header. */
static __always_inline void move_headers(void *data, void *end, __u32 by)
{
	__u64 *to = data, *from;

	KEEP_VALUE(by);
	by &= 127; /* resize() has seen to it; older verifiers would lose the bound on the way here */
	from = data + by;
	KEEP_VALUE(from);
	if ((void *)(from + MOVED_WORDS) > end || (void *)(to + MOVED_WORDS) > end)
		return;
#pragma clang loop unroll(full)
	for (int i = 0; i < MOVED_WORDS; i++)
		to[i] = from[i]; /* upwards, since the two overlap */
}

/*
 * Makes the frame as long as the answer. 0, or -errno and it is unchanged.
 *
 * A frame grows at its head: XDP has room there by contract. At its tail it need not: newer veths copy
 * a small packet into a buffer that just fits, and an ACK would not go into the place of a POLL.
 */
static __always_inline int resize(struct xdp_md *ctx, const struct packet *p, __u32 body_len)
{
	int more = (int)reply_frame_len(p, body_len) - (int)bpf_xdp_get_buff_len(ctx);
	int err;

	if (more <= 0)
		return more ? bpf_xdp_adjust_tail(ctx, more) : 0;
	if (more > (int)sizeof(struct mroce_ack))
		return -1;
	err = bpf_xdp_adjust_head(ctx, -more);
	if (!err)
		move_headers(frame_start(ctx), frame_end(ctx), more);
	return err;
}

/* Turns all headers up to UDP round. NULL, or where the mroce header goes, with body_len after it. */
static __always_inline struct mroce_hdr *turn(void *data, void *end, const struct packet *p,
					      __u32 body_len)
{
	__u32 udp_len = sizeof(struct udphdr) + MROCE_HDR_LEN + body_len;
	void *l3 = data + p->l3;
	struct udphdr *udp;

	KEEP_VALUE(l3);
	udp = l3 + reply_ip_len(p);
	if ((void *)udp + udp_len > end)
		return NULL;
	reply_ether(data);
	if (p->v6)
		reply_ip6(l3, p, udp_len);
	else
		reply_ip4(l3, p, udp_len);
	reply_udp(udp, p, udp_len);
	return (void *)(udp + 1);
}

/* The daemon answers what the driver has no room for. */
static __always_inline int no_room(struct xdp_md *ctx)
{
	count(MROCE_COUNT_REPLY_NO_ROOM);
	return to_daemon(ctx);
}

static __always_inline int poll(struct xdp_md *ctx, const struct packet *p,
				const struct mroce_conn_entry *conn, struct mroce_path_rx *rx)
{
	struct track_packet t = packet_track(p);
	struct mroce_hdr *h;
	int err;

	err = track_poll(rx, &t);
	if (err)
		return err;
	if (resize(ctx, p, sizeof(struct mroce_ack)))
		return no_room(ctx);
	h = turn(frame_start(ctx), frame_end(ctx), p, sizeof(struct mroce_ack));
	if (!h)
		return -MROCE_DROP_TRUNCATED;
	ack_make(h, (void *)(h + 1), MROCE_ACK, p, conn, rx);
	count(MROCE_COUNT_TX_ACK);
	return XDP_TX;
}

static __always_inline int probe(struct xdp_md *ctx, const struct packet *p,
				 const struct mroce_conn_entry *conn)
{
	struct mroce_hdr *h;

	if (resize(ctx, p, 0))
		return no_room(ctx);
	h = turn(frame_start(ctx), frame_end(ctx), p, 0);
	if (!h)
		return -MROCE_DROP_TRUNCATED;
	probe_reply_make(h, p, conn);
	count(MROCE_COUNT_TX_PROBE_REPLY);
	return XDP_TX;
}

/* A checked header: who is it for? An XDP action, or -enum mroce_reason. */
static __always_inline int dispatch(struct xdp_md *ctx, const struct packet *p, int nack)
{
	struct mroce_conn_entry *conn;
	struct mroce_path_rx *rx;
	int err;

	if (p->type == MROCE_HELLO || p->type == MROCE_ACCEPT || p->type == MROCE_READY) {
		count(MROCE_COUNT_RX_PASS_CTL);
		return XDP_PASS;
	}
	err = conn_find(p, &conn);
	if (err)
		return err;
	if (packet_has_ce(p))
		count(MROCE_COUNT_RX_CE);
	else if (p->marked)
		count(MROCE_COUNT_MARKED);
	if (names_own_path(p->type))
		return to_daemon(ctx);
	if (p->type == MROCE_PROBE)
		return probe(ctx, p, conn);
	rx = path_find(p);
	if (!rx)
		return -MROCE_DROP_PATH;
	path_queue(rx, ctx->rx_queue_index);
	if (p->type == MROCE_POLL)
		return poll(ctx, p, conn, rx);
	return sequenced(ctx, p, rx, nack);
}

SEC("xdp.frags")
int mroce_xdp(struct xdp_md *ctx)
{
	const struct mroce_bpf_config *config = config_get();
	struct packet p = {};
	int err;

	if (!config)
		return XDP_PASS;
	if (config->mark)
		p.marked = mark_pass(config, ctx->ingress_ifindex, bpf_xdp_get_buff_len(ctx));
	if (parse_udp(frame_start(ctx), frame_end(ctx), config->udp_port, &p))
		return XDP_PASS;
	if (!packet_is_local(&p, config))
		return XDP_PASS;
	if (!socket_exists(ctx)) {
		count(MROCE_COUNT_RX_NO_SOCKET);
		return XDP_PASS;
	}
	err = parse_header(frame_start(ctx), frame_end(ctx), bpf_xdp_get_buff_len(ctx), &p);
	if (err == PARSE_OTHER)
		return XDP_PASS;
	if (err)
		return drop(err);
	err = dispatch(ctx, &p, config->nack);
	if (config->trace && (config->trace == p.cid || config->trace == MROCE_TRACE_ALL))
		trace_packet(ctx, p.cid, err);
	return err < 0 ? drop(err) : err;
}

char _license[] SEC("license") = "GPL";
