// SPDX-License-Identifier: BSD-2-Clause
/*
 * pingpong.c: one small message to and fro over TCP with TCP_NODELAY, beside which `mroce perf -l` is
 * measured. Prints half a round trip in microseconds: median, 99 %.
 *
 *	pingpong serve PORT wait|spin
 *	pingpong ADDRESS PORT wait|spin BYTES COUNT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MAX 65536
#define WARM_UP 200
#define CONNECT_TRIES 200
#define CONNECT_WAIT_NS 10000000

static int fail(const char *what)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, strerror(errno));
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int no_delay(int fd)
{
	int one = 1;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* False at the end of the connection. */
static int take(int fd, uint8_t *buf, size_t len, int flags)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(fd, buf + got, len - got, flags);

		if (n > 0)
			got += n;
		else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			return 0;
	}
	return 1;
}

static int serve(uint16_t port, int flags)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;
	uint8_t buf[BYTES_MAX];
	uint32_t bytes;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		return fail("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0 || no_delay(fd))
		return fail("accept");
	if (!take(fd, (uint8_t *)&bytes, sizeof(bytes), 0) || ntohl(bytes) > BYTES_MAX)
		return fail("size of the messages");
	bytes = ntohl(bytes);
	while (take(fd, buf, bytes, flags)) {
		if (send(fd, buf, bytes, 0) != (ssize_t)bytes)
			return fail("send");
	}
	return 0;
}

static int reach(const struct sockaddr_in *to)
{
	struct timespec pause = { .tv_nsec = CONNECT_WAIT_NS };

	for (int i = 0; i < CONNECT_TRIES; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
			return fd;
		close(fd);
		nanosleep(&pause, NULL);
	}
	return -1;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int ask(const char *address, uint16_t port, int flags, uint32_t bytes, uint32_t count)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	uint32_t announced = htonl(bytes);
	uint64_t *took = calloc(count, sizeof(*took));
	uint8_t buf[BYTES_MAX] = { 0 };
	int fd;

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || !took)
		return fail(address);
	fd = reach(&to);
	if (fd < 0 || no_delay(fd))
		return fail(address);
	if (send(fd, &announced, sizeof(announced), 0) != sizeof(announced))
		return fail("send");
	for (uint32_t i = 0; i < WARM_UP + count; i++) {
		uint64_t start = now_ns();

		if (send(fd, buf, bytes, 0) != (ssize_t)bytes || !take(fd, buf, bytes, flags))
			return fail("exchange");
		if (i >= WARM_UP)
			took[i - WARM_UP] = now_ns() - start;
	}
	close(fd);
	qsort(took, count, sizeof(*took), by_size);
	printf("%.3f %.3f\n", took[(count - 1) / 2] / 2e3, took[(count - 1) * 99ull / 100] / 2e3);
	free(took);
	return 0;
}

static int flags_of(const char *how)
{
	return strcmp(how, "spin") ? 0 : MSG_DONTWAIT;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(atoi(argv[2]), flags_of(argv[3]));
	if (argc == 6 && atoi(argv[4]) > 0 && atoi(argv[4]) <= BYTES_MAX && atoi(argv[5]) > 0)
		return ask(argv[1], atoi(argv[2]), flags_of(argv[3]), atoi(argv[4]), atoi(argv[5]));
	fprintf(stderr, "Usage: pingpong serve PORT wait|spin\n"
			"       pingpong ADDRESS PORT wait|spin BYTES COUNT\n");
	return 2;
}
