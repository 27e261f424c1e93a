// SPDX-License-Identifier: BSD-2-Clause
#include "door.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frame.h"

#define RECEIVE_BUFFER (8 << 20)

struct door_slot {
	uint8_t data[DOOR_PACKET_MAX];
	uint8_t control[64] __attribute__((aligned(8)));
	struct sockaddr_storage from;
	struct iovec iov;
};

static int option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* The UDP checksum is zero on every packet of ours, as in RoCEv2; CRC32C protects them. */
static int set_options(const struct door *d, const char *interface)
{
	int err = setsockopt(d->fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface))
			  ? -errno
			  : 0;

	if (!err)
		err = option(d->fd, SOL_SOCKET, SO_NO_CHECK, 1);
	if (!err)
		err = option(d->fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	if (!err && d->v6)
		err = option(d->fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!err && d->v6)
		err = option(d->fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
	if (!err && d->v6)
		err = option(d->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	if (err)
		return err;
	option(d->fd, IPPROTO_IP, IP_TOS, FRAME_ECT0);
	if (d->v6)
		option(d->fd, IPPROTO_IPV6, IPV6_TCLASS, FRAME_ECT0);
	/* FORCE goes beyond net.core.rmem_max and needs CAP_NET_ADMIN. */
	if (option(d->fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER))
		option(d->fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	return 0;
}

static int bind_any(const struct door *d)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(d->udp_port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(d->udp_port) };
	int err = d->v6 ? bind(d->fd, (struct sockaddr *)&any6, sizeof(any6))
			: bind(d->fd, (struct sockaddr *)&any4, sizeof(any4));

	return err ? -errno : 0;
}

static void prepare_slots(struct door *d)
{
	for (int i = 0; i < DOOR_BATCH; i++) {
		struct door_slot *slot = &d->slots[i];

		slot->iov = (struct iovec){ slot->data, sizeof(slot->data) };
		d->msgs[i].msg_hdr = (struct msghdr){
			.msg_name = &slot->from,
			.msg_iov = &slot->iov,
			.msg_iovlen = 1,
			.msg_control = slot->control,
		};
	}
}

static int explain(const char *interface, uint16_t udp_port, const char *step, int err, log_fn log)
{
	const char *advice = "";

	if (err == -EADDRINUSE)
		advice = ": another program (an mroced already running here?) has this port; stop "
			 "it "
			 "or choose another udp_port";
	else if (err == -EPERM || err == -EACCES)
		advice = ": capability CAP_NET_RAW or CAP_NET_ADMIN is missing";
	log(LOG_ERR, "%s: UDP port %u: %s: %s%s", interface, udp_port, step, strerror(-err), advice);
	return err;
}

int door_open(struct door *d, const char *interface, uint32_t ifindex, uint16_t udp_port, log_fn log)
{
	int err;

	memset(d, 0, sizeof(*d));
	d->ifindex = ifindex;
	d->udp_port = udp_port;
	d->v6 = true;
	d->fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0) {
		d->v6 = false;
		d->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	}
	if (d->fd < 0)
		return explain(interface, udp_port, "socket", -errno, log);
	d->slots = calloc(DOOR_BATCH, sizeof(*d->slots));
	err = d->slots ? set_options(d, interface) : -ENOMEM;
	if (err) {
		door_close(d);
		return explain(interface, udp_port, "socket options", err, log);
	}
	prepare_slots(d);
	err = bind_any(d);
	if (err) {
		door_close(d);
		return explain(interface, udp_port, "bind", err, log);
	}
	return 0;
}

void door_close(struct door *d)
{
	if (d->fd >= 0)
		close(d->fd);
	free(d->slots);
	d->fd = -1;
	d->slots = NULL;
}

static void take_overflow(struct door *d, struct msghdr *msg)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		uint32_t total;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_RXQ_OVFL)
			continue;
		memcpy(&total, CMSG_DATA(c), sizeof(total));
		d->dropped += (uint32_t)(total - d->overflow);
		d->overflow = total;
	}
}

static void sender_of(const struct sockaddr_storage *from, struct door_packet *out)
{
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)from;

		out->remote = ip_from_v6(&in6->sin6_addr);
		out->sport = ntohs(in6->sin6_port);
	} else {
		const struct sockaddr_in *in4 = (const void *)from;

		out->remote = ip_from_v4(&in4->sin_addr);
		out->sport = ntohs(in4->sin_port);
	}
}

uint32_t door_rx(struct door *d, struct door_packet *out, uint32_t max)
{
	int n;

	for (uint32_t i = 0; i < max; i++) {
		d->msgs[i].msg_hdr.msg_namelen = sizeof(d->slots[i].from);
		d->msgs[i].msg_hdr.msg_controllen = sizeof(d->slots[i].control);
	}
	n = recvmmsg(d->fd, d->msgs, max, MSG_DONTWAIT, NULL);
	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++) {
		take_overflow(d, &d->msgs[i].msg_hdr);
		out[i].data = d->slots[i].data;
		out[i].len = d->msgs[i].msg_len;
		sender_of(&d->slots[i].from, &out[i]);
	}
	d->rx_packets += n;
	return n;
}

/* The source address is named in every packet: the interface may have several. */
static void name_source(struct msghdr *msg, const struct door *d, const struct ip *src)
{
	struct cmsghdr *c = msg->msg_control;

	if (d->v6) {
		struct in6_pktinfo info = { .ipi6_ifindex = d->ifindex };

		memcpy(&info.ipi6_addr, src->a, 16);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	} else {
		struct in_pktinfo info = { .ipi_ifindex = (int)d->ifindex };

		memcpy(&info.ipi_spec_dst, src->a + 12, 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
	}
	msg->msg_controllen = CMSG_ALIGN(c->cmsg_len);
}

int door_send(struct door *d, const struct ip *src, const struct ip *remote, const void *payload,
	      uint32_t len)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(d->udp_port) };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(d->udp_port) };
	uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { (void *)payload, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };

	if (!d->v6 && !ip_is_v4(remote))
		return -EAFNOSUPPORT;
	memcpy(&to6.sin6_addr, remote->a, 16);
	memcpy(&to4.sin_addr, remote->a + 12, 4);
	if (IN6_IS_ADDR_LINKLOCAL(&to6.sin6_addr))
		to6.sin6_scope_id = d->ifindex;
	msg.msg_name = d->v6 ? (void *)&to6 : (void *)&to4;
	msg.msg_namelen = d->v6 ? sizeof(to6) : sizeof(to4);
	name_source(&msg, d, src);
	if (sendmsg(d->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	d->tx_packets++;
	return 0;
}
