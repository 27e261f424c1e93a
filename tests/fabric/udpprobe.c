// SPDX-License-Identifier: BSD-2-Clause
/*
 * Measures what a network does to a train of numbered UDP packets.
 *
 *	udpprobe recv COUNT [PORT]	prints the account, as name=value lines, once nothing has come for
 *					0.3 s after the first packet (or for ten before it)
 *	udpprobe send ADDRESS COUNT [-p PORT] [-s SIZE] [-t TYPES] [-f FLOWS] [-g GAP_US] [-c]
 *
 * Byte 1 of a packet is its type: TYPES in turn (1 unless given). FLOWS source ports are used in
 * turn. Late is a packet that a later one of its own flow has overtaken: two flows may take two ways, and
 * no network keeps an order between them. Packets carry ECT(0) and, without -c, no UDP checksum, so that damage reaches the socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PORT 4797
#define MAX_FLOWS 256
#define MAX_SIZE 9000
#define SILENCE_MS 300
#define FIRST_WAIT_MS 10000

struct probe {
	uint8_t version;
	uint8_t type;
	uint16_t flow;
	uint32_t number;
	uint32_t not_number;
	uint32_t size;
	uint64_t sent_ns; /* CLOCK_MONOTONIC, the same in every namespace */
	uint64_t not_sent_ns;
};

static int die(const char *what)
{
	fprintf(stderr, "udpprobe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t filler(uint32_t number, size_t at)
{
	return (number * 2654435761U + at * 40503U) >> 13;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ------------------------------------------------------------------ send */

struct sender {
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
	socklen_t to_len;
	int port, size, gap_us, flows, n_types;
	bool checksum;
	uint8_t types[16];
	int sock[MAX_FLOWS];
};

static void address_parse(struct sender *s, const char *text)
{
	memset(&s->to, 0, sizeof(s->to));
	if (inet_pton(AF_INET, text, &s->to.v4.sin_addr) == 1) {
		s->to.v4.sin_family = AF_INET;
		s->to.v4.sin_port = htons(s->port);
		s->to_len = sizeof(s->to.v4);
		return;
	}
	if (inet_pton(AF_INET6, text, &s->to.v6.sin6_addr) != 1) {
		errno = EINVAL;
		die(text);
	}
	s->to.v6.sin6_family = AF_INET6;
	s->to.v6.sin6_port = htons(s->port);
	s->to_len = sizeof(s->to.v6);
}

static int sender_socket(const struct sender *s)
{
	int one = 1, ect0 = 2, sock = socket(s->to.sa.sa_family, SOCK_DGRAM, 0);

	if (sock < 0)
		die("socket");
	setsockopt(sock, IPPROTO_IP, IP_TOS, &ect0, sizeof(ect0));
	if (s->to.sa.sa_family == AF_INET6) {
		setsockopt(sock, IPPROTO_IPV6, IPV6_TCLASS, &ect0, sizeof(ect0));
		if (!s->checksum)
			setsockopt(sock, SOL_UDP, UDP_NO_CHECK6_TX, &one, sizeof(one));
	} else if (!s->checksum) {
		setsockopt(sock, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one));
	}
	if (connect(sock, &s->to.sa, s->to_len))
		die("connect");
	return sock;
}

static void send_one(const struct sender *s, uint32_t number)
{
	uint8_t buf[MAX_SIZE];
	struct probe probe = { .version = 1,
			       .type = s->types[number % s->n_types],
			       .flow = number % s->flows,
			       .number = number,
			       .not_number = ~number,
			       .size = s->size };

	for (int i = sizeof(probe); i < s->size; i++)
		buf[i] = filler(number, i);
	probe.sent_ns = now_ns();
	probe.not_sent_ns = ~probe.sent_ns;
	memcpy(buf, &probe, sizeof(probe));
	while (send(s->sock[number % s->flows], buf, s->size, 0) < 0) {
		if (errno != ENOBUFS && errno != EAGAIN && errno != ECONNREFUSED)
			die("send");
		usleep(50);
	}
}

static void types_parse(struct sender *s, const char *text)
{
	char *end = (char *)text;

	for (s->n_types = 0; s->n_types < 16; text = end + 1) {
		s->types[s->n_types++] = strtoul(text, &end, 0);
		if (*end != ',')
			return;
	}
}

/*
 * The kernel's backlog is a queue per CPU: who moves from one to another between two packets may overtake himself,
 * and the order of packets would say nothing about the network.
 */
static void stay_on_cpu(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		die("sched_setaffinity");
}

static int cmd_send(int argc, char **argv)
{
	struct sender s = {
		.port = DEFAULT_PORT, .size = 200, .flows = 1, .n_types = 1, .types = { 1 }
	};
	struct timespec gap = {};
	uint32_t count;
	int opt;

	while ((opt = getopt(argc, argv, "p:s:t:f:g:c")) != -1) {
		switch (opt) {
		case 'p': s.port = atoi(optarg); break;
		case 's': s.size = atoi(optarg); break;
		case 't': types_parse(&s, optarg); break;
		case 'f': s.flows = atoi(optarg); break;
		case 'g': s.gap_us = atoi(optarg); break;
		case 'c': s.checksum = true; break;
		default: return 2;
		}
	}
	if (argc - optind != 2 || s.size < (int)sizeof(struct probe) || s.size > MAX_SIZE ||
	    s.flows < 1 || s.flows > MAX_FLOWS)
		return 2;
	stay_on_cpu();
	address_parse(&s, argv[optind]);
	count = strtoul(argv[optind + 1], NULL, 0);
	for (int i = 0; i < s.flows; i++)
		s.sock[i] = sender_socket(&s);
	gap.tv_nsec = s.gap_us * 1000L;
	for (uint32_t i = 0; i < count; i++) {
		send_one(&s, i);
		if (s.gap_us)
			nanosleep(&gap, NULL);
	}
	return 0;
}

/* ------------------------------------------------------------------ receive */

struct account {
	uint32_t count; /* packets sent */
	uint8_t *seen;	/* times each has come */
	uint32_t arrived, unique, duplicates, damaged, shortened, ce, late, max_late;
	uint64_t late_sum;
	uint32_t next[MAX_FLOWS]; /* of each flow: the highest number that has come, and 1 */
	uint64_t first_ns, last_ns, bytes;
	uint64_t min_way_ns, way_sum_ns; /* from send to receive */
};

static bool is_intact(const uint8_t *buf, size_t len, const struct probe *probe)
{
	for (size_t i = sizeof(*probe); i < len; i++) {
		if (buf[i] != filler(probe->number, i))
			return false;
	}
	return true;
}

static void account_order(struct account *a, const struct probe *probe)
{
	uint32_t *next = &a->next[probe->flow], late;

	if (probe->number >= *next) {
		*next = probe->number + 1;
		return;
	}
	late = *next - 1 - probe->number;
	a->late++;
	a->late_sum += late;
	a->max_late = late > a->max_late ? late : a->max_late;
}

static void account_packet(struct account *a, const uint8_t *buf, size_t len)
{
	struct probe probe;
	uint64_t way;

	a->arrived++;
	a->bytes += len;
	a->last_ns = now_ns();
	if (!a->first_ns)
		a->first_ns = a->last_ns;
	if (len < sizeof(probe)) {
		a->shortened++;
		return;
	}
	memcpy(&probe, buf, sizeof(probe));
	if (probe.number != ~probe.not_number || probe.number >= a->count || probe.version != 1 ||
	    probe.size > MAX_SIZE || probe.sent_ns != ~probe.not_sent_ns || probe.flow >= MAX_FLOWS) {
		a->damaged++;
		return;
	}
	if (len < probe.size)
		a->shortened++;
	else if (!is_intact(buf, len, &probe))
		a->damaged++;
	if (a->seen[probe.number]++) {
		a->duplicates++;
		return;
	}
	a->unique++;
	way = a->last_ns - probe.sent_ns;
	a->way_sum_ns += way;
	a->min_way_ns = !a->min_way_ns || way < a->min_way_ns ? way : a->min_way_ns;
	account_order(a, &probe);
}

static void account_print(const struct account *a)
{
	uint32_t bursts = 0, lost = 0;
	uint64_t us = (a->last_ns - a->first_ns) / 1000;

	for (uint32_t i = 0; i < a->count; i++) {
		if (a->seen[i])
			continue;
		lost++;
		bursts += i == 0 || a->seen[i - 1];
	}
	printf("arrived=%u\nunique=%u\nlost=%u\nbursts=%u\nmean_burst_x100=%u\nduplicates=%u\n",
	       a->arrived, a->unique, lost, bursts, bursts ? lost * 100 / bursts : 0, a->duplicates);
	printf("damaged=%u\nshortened=%u\nce=%u\nlate=%u\nmax_late=%u\nmean_late_x100=%u\n",
	       a->damaged, a->shortened, a->ce, a->late, a->max_late,
	       a->late ? (unsigned int)(a->late_sum * 100 / a->late) : 0);
	printf("min_way_us=%llu\nmean_way_us=%llu\n", (unsigned long long)a->min_way_ns / 1000,
	       (unsigned long long)(a->unique ? a->way_sum_ns / a->unique / 1000 : 0));
	printf("us=%llu\nkbit=%llu\n", (unsigned long long)us,
	       (unsigned long long)(us ? a->bytes * 8000 / us : 0));
}

static int receiver_socket(int port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int one = 1, big = 1 << 28, sock = socket(AF_INET6, SOCK_DGRAM, 0);

	if (sock < 0)
		die("socket");
	setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	setsockopt(sock, SOL_UDP, UDP_NO_CHECK6_RX, &one, sizeof(one));
	setsockopt(sock, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(sock, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
	if (bind(sock, (struct sockaddr *)&any, sizeof(any)))
		die("bind");
	return sock;
}

static bool has_ce(struct msghdr *msg)
{
	int v6;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			return (*CMSG_DATA(c) & 3) == 3;
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			memcpy(&v6, CMSG_DATA(c), sizeof(v6));
			return (v6 & 3) == 3;
		}
	}
	return false;
}

static int cmd_recv(int argc, char **argv)
{
	struct account a = { .count = argc > 1 ? strtoul(argv[1], NULL, 0) : 0 };
	struct pollfd pfd = { .events = POLLIN };
	uint8_t buf[MAX_SIZE], control[128];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg;
	ssize_t len;

	if (!a.count)
		return 2;
	a.seen = calloc(a.count, 1);
	if (!a.seen)
		die("memory");
	pfd.fd = receiver_socket(argc > 2 ? atoi(argv[2]) : DEFAULT_PORT);
	while (poll(&pfd, 1, a.arrived ? SILENCE_MS : FIRST_WAIT_MS) > 0) {
		msg = (struct msghdr){ .msg_iov = &iov,
				       .msg_iovlen = 1,
				       .msg_control = control,
				       .msg_controllen = sizeof(control) };
		len = recvmsg(pfd.fd, &msg, 0);
		if (len < 0)
			continue;
		a.ce += has_ce(&msg);
		account_packet(&a, buf, len);
	}
	account_print(&a);
	free(a.seen);
	return 0;
}

int main(int argc, char **argv)
{
	int rc = 2;

	if (argc > 1 && !strcmp(argv[1], "send"))
		rc = cmd_send(argc - 1, argv + 1);
	else if (argc > 1 && !strcmp(argv[1], "recv"))
		rc = cmd_recv(argc - 1, argv + 1);
	if (rc == 2)
		fprintf(stderr, "usage: udpprobe recv COUNT [PORT]\n"
				"       udpprobe send ADDRESS COUNT [-p PORT] [-s SIZE] [-t TYPES] "
				"[-f FLOWS] [-g GAP_US] [-c]\n");
	return rc;
}
