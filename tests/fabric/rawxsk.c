// SPDX-License-Identifier: BSD-2-Clause
/*
 * How much AF_XDP can carry between two namespaces when nobody does anything with the packets: the ceiling of all
 * that is built upon it, on this machine, at this moment.
 *
 *	rawxsk drop|copy NETNS:INTERFACE NETNS:INTERFACE PAYLOAD MS
 *
 * One process sends by AF_XDP as fast as it can, from the first to the second interface. drop: an XDP program counts
 * and drops there. copy: another process receives by AF_XDP and copies each payload once, into 16 MiB of memory.
 * Prints Gbit/s of payload that arrived. Frames are as long as ours would be for so much payload.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_xdp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <xdp/xsk.h>
#include "netctl.h"
#include "raw.skel.h"

#define PROTO_RAW 0x88b5
#define HEADERS (14 + 28 + 80) /* Ethernet, IP, UDP, ours */
#define FRAME 4096u
#define RING 2048u
#define FRAMES (2 * RING)
#define BATCH 64u
#define WARM_UP_MS 200
#define MEMORY (16u << 20)

struct xsk {
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons done, rx;
	uint8_t *frames;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "rawxsk: %s: %s\n", what, strerror(err));
	exit(1);
}

/* NETNS:INTERFACE; returns the interface. Leaves the process in the namespace. */
static const char *enter(const char *name)
{
	const char *colon = strchr(name, ':');
	char netns[64];

	if (!colon)
		die(name, EINVAL);
	snprintf(netns, sizeof(netns), "%.*s", (int)(colon - name), name);
	if (net_enter(netns) || !if_nametoindex(colon + 1))
		die(name, ENODEV);
	return colon + 1;
}

static void mac_of(const char *interface, uint8_t *mac)
{
	struct ifreq ifr = { 0 };
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0 || net_ifreq(sock, interface, SIOCGIFHWADDR, &ifr))
		die(interface, errno);
	memcpy(mac, ifr.ifr_hwaddr.sa_data, ETH_ALEN);
	close(sock);
}

/* The queue of a socket that has just been closed is busy for a moment. */
static int create_socket(struct xsk *x, const char *interface)
{
	const struct xsk_socket_config cfg = {
		.rx_size = RING,
		.tx_size = RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_COPY,
	};
	int err = -EBUSY;

	for (int tries = 0; tries < 100 && err == -EBUSY; tries++) {
		err = xsk_socket__create(&x->socket, interface, 0, x->umem, &x->rx, &x->tx, &cfg);
		if (err == -EBUSY)
			usleep(10000);
	}
	return err;
}

static void xsk_open(struct xsk *x, const char *interface)
{
	const struct xsk_umem_config cfg = {
		.fill_size = 2 * RING, .comp_size = RING, .frame_size = FRAME, .frame_headroom = 0
	};
	uint32_t at;
	int err;

	x->frames = mmap(NULL, FRAMES * FRAME, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (x->frames == MAP_FAILED)
		die("memory", errno);
	err = xsk_umem__create(&x->umem, x->frames, FRAMES * FRAME, &x->fill, &x->done, &cfg);
	if (err)
		die("umem", -err);
	err = create_socket(x, interface);
	if (err)
		die(interface, -err);
	/*
	 * The first half of the frames is received into, the second half sent from. The fill ring has room for twice as
	 * many, since the kernel tells late that it has taken one.
	 */
	if (xsk_ring_prod__reserve(&x->fill, RING, &at) != RING)
		die("fill ring", ENOBUFS);
	for (uint32_t i = 0; i < RING; i++)
		*xsk_ring_prod__fill_addr(&x->fill, at + i) = (uint64_t)i * FRAME;
	xsk_ring_prod__submit(&x->fill, RING);
}

/* ---- sending ---- */

static uint32_t reap(struct xsk *x)
{
	uint32_t at, n = xsk_ring_cons__peek(&x->done, RING, &at);

	xsk_ring_cons__release(&x->done, n);
	return n;
}

static _Noreturn void blast(struct xsk *x, uint32_t len)
{
	uint32_t free = RING, next = 0;

	for (;;) {
		uint32_t at, n = free < BATCH ? free : BATCH;

		n = n ? xsk_ring_prod__reserve(&x->tx, n, &at) : 0;
		for (uint32_t i = 0; i < n; i++) {
			struct xdp_desc *d = xsk_ring_prod__tx_desc(&x->tx, at + i);

			*d = (struct xdp_desc){ .addr = (uint64_t)(RING + next++ % RING) * FRAME,
						.len = len };
		}
		if (n)
			xsk_ring_prod__submit(&x->tx, n);
		free -= n;
		if (sendto(xsk_socket__fd(x->socket), NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 &&
		    errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
			die("send", errno);
		free += reap(x);
	}
}

static _Noreturn void send_all(const char *from, const uint8_t *mac, uint32_t len)
{
	const char *interface = enter(from);
	struct xsk x = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	xsk_open(&x, interface);
	for (uint32_t i = RING; i < FRAMES; i++) {
		struct ethhdr *eth = (void *)(x.frames + (size_t)i * FRAME);

		memcpy(eth->h_dest, mac, ETH_ALEN);
		mac_of(interface, eth->h_source);
		eth->h_proto = htons(PROTO_RAW);
		memset(eth + 1, (int)i, len - sizeof(*eth));
	}
	blast(&x, len);
}

/* ---- receiving ---- */

static uint64_t counted(struct fabric_raw *skel)
{
	uint64_t per_cpu[1024] = { 0 }, sum = 0;
	uint32_t zero = 0;

	bpf_map_lookup_elem(bpf_map__fd(skel->maps.raw_packets), &zero, per_cpu);
	for (int i = 0; i < libbpf_num_possible_cpus() && i < 1024; i++)
		sum += per_cpu[i];
	return sum;
}

/* Packets taken until `until`. */
static uint64_t take_all(struct xsk *x, uint32_t payload, uint64_t until)
{
	static uint8_t *memory;
	static size_t at_byte;
	uint64_t packets = 0;

	if (!memory)
		memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die("memory", errno);
	while (now_ms() < until) {
		struct pollfd fd = { .fd = xsk_socket__fd(x->socket), .events = POLLIN };
		uint32_t rx, fill, n = xsk_ring_cons__peek(&x->rx, BATCH, &rx);

		if (!n) {
			poll(&fd, 1, 10);
			continue;
		}
		if (xsk_ring_prod__reserve(&x->fill, n, &fill) != n)
			die("fill ring", ENOBUFS);
		for (uint32_t i = 0; i < n; i++) {
			const struct xdp_desc *d = xsk_ring_cons__rx_desc(&x->rx, rx + i);

			if (at_byte + payload > MEMORY)
				at_byte = 0;
			memcpy(memory + at_byte, x->frames + d->addr + HEADERS, payload);
			at_byte += payload;
			*xsk_ring_prod__fill_addr(&x->fill, fill + i) = d->addr &
									~(uint64_t)(FRAME - 1);
		}
		xsk_ring_prod__submit(&x->fill, n);
		xsk_ring_cons__release(&x->rx, n);
		packets += n;
	}
	return packets;
}

static double receive(struct fabric_raw *skel, const char *interface, bool copy, uint32_t payload,
		      uint64_t ms)
{
	struct xsk x = { 0 };
	uint64_t start, packets;
	uint32_t zero = 0;
	int fd;

	if (copy) {
		xsk_open(&x, interface);
		fd = xsk_socket__fd(x.socket);
		if (bpf_map_update_elem(bpf_map__fd(skel->maps.raw_socket), &zero, &fd, 0))
			die("socket map", errno);
		take_all(&x, payload, now_ms() + WARM_UP_MS);
		start = now_ms();
		packets = take_all(&x, payload, start + ms);
	} else {
		usleep(WARM_UP_MS * 1000);
		packets = counted(skel);
		start = now_ms();
		usleep((useconds_t)(ms * 1000));
		packets = counted(skel) - packets;
	}
	return (double)packets * payload * 8 / ((double)(now_ms() - start) * 1e6);
}

int main(int argc, char **argv)
{
	struct fabric_raw *skel;
	struct bpf_link *link;
	const char *interface;
	uint32_t payload;
	uint8_t mac[ETH_ALEN];
	double rate;
	pid_t sender;
	bool copy;

	if (argc != 6 || (strcmp(argv[1], "drop") && strcmp(argv[1], "copy")))
		die("usage: rawxsk drop|copy NETNS:IF NETNS:IF PAYLOAD MS", EINVAL);
	copy = !strcmp(argv[1], "copy");
	payload = (uint32_t)strtoul(argv[4], NULL, 10);
	if (!payload || payload + HEADERS > FRAME - XDP_PACKET_HEADROOM)
		die("PAYLOAD", EINVAL);
	interface = enter(argv[3]);
	mac_of(interface, mac);
	skel = fabric_raw__open_and_load();
	if (!skel)
		die("loading the XDP program", errno);
	link = bpf_program__attach_xdp(copy ? skel->progs.raw_take : skel->progs.raw_drop,
				       (int)if_nametoindex(interface));
	if (!link)
		die("attaching the XDP program", errno);
	sender = fork();
	if (sender == 0)
		send_all(argv[2], mac, payload + HEADERS);
	rate = receive(skel, interface, copy, payload, strtoull(argv[5], NULL, 10));
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	bpf_link__destroy(link);
	fabric_raw__destroy(skel);
	printf("%.3f\n", rate);
	return rate > 0 ? 0 : 1;
}
