// SPDX-License-Identifier: BSD-2-Clause
/*
 * Both programs attached to one end of a veth pair; frames go in at the other end through a packet socket.
 * A gap must bring a NACK back, and the packet that showed it must arrive at the UDP socket.
 */
#include "bpf_test.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE_MS 5000
#define GAPS 1000
#define NO_CHECK6_RX 102 /* UDP_NO_CHECK6_RX of linux/udp.h */

static int attach_tc(struct bpf_program *prog, int ifindex, enum bpf_tc_attach_point point)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(prog), .handle = 1, .priority = 1);

	return bpf_tc_attach(&hook, &opts);
}

/* What XDP_TX sends into a veth is lost unless the far end polls, which an XDP program makes it do. */
static int attach_far_end(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = BPF_F_XDP_HAS_FRAGS);
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "pass", "GPL", pass, 2, &opts), err;

	if (fd < 0)
		return fd;
	err = bpf_xdp_attach((int)if_nametoindex("mrbpf1"), fd, XDP_FLAGS_DRV_MODE, NULL);
	close(fd);
	return err;
}

static int attach(struct bed *bed)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = bed->ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int err = bpf_xdp_attach(bed->ifindex, bpf_program__fd(bed->xdp->progs.mroce_xdp),
				 XDP_FLAGS_DRV_MODE, NULL);

	if (!err)
		err = attach_far_end();
	if (!err)
		err = bpf_tc_hook_create(&hook);
	if (!err)
		err = attach_tc(bed->tc->progs.mroce_tc_egress, bed->ifindex, BPF_TC_EGRESS);
	if (!err)
		err = attach_tc(bed->tc->progs.mroce_tc_ingress, bed->ifindex, BPF_TC_INGRESS);
	return err;
}

static int packet_socket(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)if_nametoindex("mrbpf1") };
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1;
	int bytes = 8 << 20;

	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	return fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) ? fd : -1;
}

static int udp_socket(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(MROCE_UDP_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), one = 1, zero = 0, bytes = 8 << 20;

	setsockopt(fd, IPPROTO_UDP, NO_CHECK6_RX, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	return fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) ? fd : -1;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, DEADLINE_MS) == 1;
}

/* One frame that came in at mrbpf1; *tci is its tag, or -1. */
static bool receive(int fd, struct frame *f, int *tci)
{
	char control[256];
	struct sockaddr_ll from;
	struct iovec iov = { f->b, sizeof(f->b) };
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &m, 0);

	*tci = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct tpacket_auxdata aux;

		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (c->cmsg_type == PACKET_AUXDATA && (aux.tp_status & TP_STATUS_VLAN_VALID))
			*tci = aux.tp_vlan_tci;
	}
	f->len = n < 0 ? 0 : (uint32_t)n;
	return n > 0 && from.sll_pkttype != PACKET_OUTGOING;
}

/* The next frame that came in and is as long as want: others (neighbour discovery) are not ours. */
static bool receive_like(int fd, const struct frame *want, struct frame *got, int *tci)
{
	while (readable(fd))
		if (receive(fd, got, tci) && got->len == want->len &&
		    !memcmp(got->b + want->l4, want->b + want->l4, 4))
			return true;
	return false;
}

static bool same_but_ts(struct frame *want, const struct frame *got)
{
	uint32_t at = want->h + offsetof(struct mroce_hdr, ts);

	memcpy(want->b + at, got->b + at, 4);
	frame_seal(want);
	return !memcmp(want->b, got->b, want->len);
}

static bool original_arrives(int udp, const struct frame *f)
{
	uint8_t got[FRAME_MAX];
	ssize_t n;

	if (!readable(udp))
		return false;
	n = recv(udp, got, sizeof(got), 0);
	return n == (ssize_t)(f->len - f->h) && !memcmp(got, f->b + f->h, (size_t)n);
}

/* Sends PSN 2 as the first: a gap. */
static void gap(struct bed *bed, int raw, int udp, const char *name, struct spec s)
{
	static struct frame f, want, got;
	struct spec answer;
	int tci;

	bed_reset(bed);
	s.type = MROCE_DATA;
	s.psn = 2;
	answer = s;
	answer.answer = true;
	answer.type = MROCE_NACK;
	answer.body = sizeof(struct mroce_ack);
	answer.tos = 2;
	answer.vlans = 0; /* the stack keeps the tag beside the data */
	frame_make(&f, &s);
	frame_make(&want, &answer);
	tap(send(raw, f.b, f.len, 0) == (ssize_t)f.len && receive_like(raw, &want, &got, &tci),
	    "live: gap brings a NACK, %s", name);
	frame_ack(&want, bed_path(bed, 0), &s);
	tap(same_but_ts(&want, &got) && tci == (s.vlans ? 0x6064 : -1), "live: byte by byte, %s",
	    name);
	if (!s.vlans)
		tap(original_arrives(udp, &f), "live: the original goes to the UDP socket, %s",
		    name);
	tap(bed_counter(bed, MROCE_COUNT_RX_PASS_GAP) == 1 &&
		    bed_counter(bed, MROCE_COUNT_TX_NACK) == 1 &&
		    bed_counter(bed, MROCE_COUNT_NACK_FAILED) == 0,
	    "live: counters, %s", name);
}

static void poll_live(struct bed *bed, int raw, const char *name, struct spec s)
{
	static struct frame f, want, got;
	struct spec answer;
	int tci;

	bed_reset(bed);
	s.type = MROCE_POLL;
	s.psn = 1;
	answer = s;
	answer.answer = true;
	answer.type = MROCE_ACK;
	answer.body = sizeof(struct mroce_ack);
	answer.tos = 2;
	answer.vlans = 0; /* the stack keeps the tag beside the data */
	frame_make(&f, &s);
	frame_make(&want, &answer);
	tap(send(raw, f.b, f.len, 0) == (ssize_t)f.len && receive_like(raw, &want, &got, &tci),
	    "live: POLL brings an ACK, %s", name);
	frame_ack(&want, bed_path(bed, 0), &s);
	tap(same_but_ts(&want, &got) && tci == (s.vlans ? 0x6064 : -1),
	    "live: ACK byte by byte, %s", name);
}

/* Every second PSN: each one reveals a gap. None of the NACKs and none of the originals may be missing. */
static void many_gaps(struct bed *bed, int raw, int udp)
{
	static struct frame f, want, got;
	uint32_t nacks = 0, originals = 0;
	int tci;

	bed_reset(bed);
	frame_make(&want, &(struct spec){ .type = MROCE_NACK,
					  .body = sizeof(struct mroce_ack),
					  .answer = true });
	for (uint32_t i = 0; i < GAPS; i++) {
		uint32_t psn = 2 * i + 1;

		frame_make(&f, &(struct spec){ .type = MROCE_DATA,
					       .body = 1400,
					       .psn = psn,
					       .una = psn < 100 ? 0 : psn - 100 });
		if (send(raw, f.b, f.len, 0) != (ssize_t)f.len)
			break;
		originals += original_arrives(udp, &f);
		nacks += receive_like(raw, &want, &got, &tci) && got.b[want.h + 1] == MROCE_NACK;
	}
	tap(nacks == GAPS && originals == GAPS, "live: %d gaps, %u NACKs, %u originals", GAPS,
	    nacks, originals);
	tap(bed_path(bed, 0)->gaps == GAPS && bed_counter(bed, MROCE_COUNT_TX_NACK) == GAPS,
	    "live: all were counted");
}

void test_live(struct bed *bed)
{
	int raw = packet_socket(), udp = udp_socket(), err = attach(bed);

	if (!tap(!err && raw >= 0 && udp >= 0,
		 "live: both programs attach to a veth in driver mode")) {
		tap_note("error %d, packet socket %d, UDP socket %d", err, raw, udp);
		return;
	}
	gap(bed, raw, udp, "IPv4, large", (struct spec){ .body = 1400 });
	gap(bed, raw, udp, "IPv4, 8900 bytes in fragments", (struct spec){ .body = 8900 });
	gap(bed, raw, udp, "IPv4, small", (struct spec){ .body = 8 });
	gap(bed, raw, udp, "IPv6", (struct spec){ .body = 700, .v6 = true });
	gap(bed, raw, udp, "VLAN", (struct spec){ .body = 700, .vlans = 1 });
	poll_live(bed, raw, "IPv4", (struct spec){ 0 });
	poll_live(bed, raw, "IPv6", (struct spec){ .v6 = true });
	poll_live(bed, raw, "VLAN", (struct spec){ .vlans = 1 });
	many_gaps(bed, raw, udp);
	close(raw);
	close(udp);
	bpf_xdp_detach(bed->ifindex, XDP_FLAGS_DRV_MODE, NULL);
}
