/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exchange_tcp.c: averaging by a ring over TCP, to compare with: reduce-scatter, then all-gather, each piece
 * received from the rank before while one is sent to the rank after.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "training.h"

#define PORT 7300
#define TRIES 500
#define TRY_NS 20000000
#define SILENT_MS 300000

struct exchange {
	uint32_t size, rank;
	int before, after;
	float *memory, *piece;
	size_t each;
};

static int complain(const struct exchange *e, const char *what, int err)
{
	fprintf(stderr, "training: rank %u: %s: %s\n", e->rank, what, strerror(-err));
	return err;
}

static int listen_here(uint32_t rank)
{
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)(PORT + rank)) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, (const struct sockaddr *)&any, sizeof(any)) && !listen(fd, 1))
		return fd;
	on = -errno;
	close(fd);
	return on;
}

static int connect_once(const char *host, uint32_t rank)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char port[16];
	int fd, err = 0;

	snprintf(port, sizeof(port), "%u", PORT + rank);
	if (getaddrinfo(host, port, &hints, &found))
		return -EHOSTUNREACH;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen))
		err = -errno;
	freeaddrinfo(found);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static int connect_to(const char *host, uint32_t rank)
{
	const struct timespec pause = { .tv_nsec = TRY_NS };
	int fd = -1;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		fd = connect_once(host, rank);
		if (fd < 0)
			nanosleep(&pause, NULL);
	}
	return fd;
}

static int join(struct exchange *e, const struct exchange_config *config)
{
	uint32_t next = (e->rank + 1) % e->size;
	int listener = listen_here(e->rank), on = 1;

	if (listener < 0)
		return complain(e, "listen", listener);
	e->after = connect_to(config->hosts[next], next);
	if (e->after < 0) {
		close(listener);
		return complain(e, config->hosts[next], e->after);
	}
	/* It has as long to come as we had to find the next one. */
	if (poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1,
		 TRIES * (TRY_NS / 1000000)) == 0)
		errno = ETIMEDOUT;
	else
		e->before = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	if (e->before < 0)
		return complain(e, "accept", -errno);
	setsockopt(e->after, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}

static void close_tcp(struct exchange **out)
{
	struct exchange *e = *out;

	if (e->before >= 0)
		close(e->before);
	if (e->after >= 0)
		close(e->after);
	free(e->memory);
	free(e->piece);
	free(e);
	*out = NULL;
}

static int open_tcp(const struct exchange_config *config, size_t floats, struct exchange **out,
		    float **memory)
{
	struct exchange *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->size = config->size;
	e->rank = config->rank;
	e->before = e->after = -1;
	e->each = (floats + e->size - 1) / e->size;
	e->memory = calloc(e->each * e->size, sizeof(float));
	e->piece = calloc(e->each, sizeof(float));
	err = e->memory && e->piece ? join(e, config) : -ENOMEM;
	if (err) {
		close_tcp(&e);
		return err;
	}
	*memory = e->memory;
	*out = e;
	return 0;
}

/* Both at once, since all do both. */
static int swap(struct exchange *e, const void *out, size_t out_left, void *in, size_t in_left)
{
	while (out_left || in_left) {
		struct pollfd fds[] = { { out_left ? e->after : -1, POLLOUT, 0 },
					{ in_left ? e->before : -1, POLLIN, 0 } };
		ssize_t n;

		if (poll(fds, 2, SILENT_MS) <= 0)
			return complain(e, "TCP", -ETIMEDOUT);
		if (fds[0].revents) {
			n = send(e->after, out, out_left, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n < 0 && errno != EAGAIN)
				return complain(e, "send", -errno);
			out = (const char *)out + (n > 0 ? n : 0);
			out_left -= n > 0 ? (size_t)n : 0;
		}
		if (fds[1].revents) {
			n = recv(e->before, in, in_left, MSG_DONTWAIT);
			if (n == 0 || (n < 0 && errno != EAGAIN))
				return complain(e, "receive", n ? -errno : -ECONNRESET);
			in = (char *)in + (n > 0 ? n : 0);
			in_left -= n > 0 ? (size_t)n : 0;
		}
	}
	return 0;
}

static float *piece_at(struct exchange *e, float *x, uint32_t steps_back)
{
	return x + (size_t)((e->rank + 2 * e->size - steps_back) % e->size) * e->each;
}

static int average_tcp(struct exchange *e, float *x, size_t count, bool exact, uint64_t *missing)
{
	size_t bytes = e->each * sizeof(float);

	(void)exact; /* always */
	*missing = 0;
	/* Behind the end of the last piece. */
	memset(x + count, 0, (e->each * e->size - count) * sizeof(float));
	for (uint32_t step = 0; step + 1 < e->size; step++) {
		float *mine = piece_at(e, x, step + 2);
		int err = swap(e, piece_at(e, x, step + 1), bytes, e->piece, bytes);

		if (err)
			return err;
		for (size_t i = 0; i < e->each; i++)
			mine[i] += e->piece[i];
	}
	for (size_t i = 0; i < e->each; i++)
		piece_at(e, x, 0)[i] /= (float)e->size;
	for (uint32_t step = 0; step + 1 < e->size; step++) {
		int err = swap(e, piece_at(e, x, step), bytes, piece_at(e, x, step + 1), bytes);

		if (err)
			return err;
	}
	return 0;
}

const struct exchange_ops exchange_tcp = { "tcp", open_tcp, close_tcp, average_tcp };
