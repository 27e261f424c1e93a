/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/ctl.h"

const char *ctl_socket_path(const char *given)
{
	const char *path = given && *given ? given : getenv(ABI_SOCKET_ENV);

	return path && *path ? path : ABI_SOCKET_DEFAULT;
}

int ctl_connect(const char *path, int timeout_ms)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval limit = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	struct timeval none = { 0 };
	int fd;
	int err;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* A full backlog makes connect() wait as long as a send would. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		err = errno == EAGAIN ? -ETIMEDOUT : -errno;
		close(fd);
		return err;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return fd;
}

int ctl_send(int fd, const struct abi_msg *msg, const int *fds, int nfds)
{
	char control[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)msg, sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (nfds > CTL_MAX_FDS)
		return -EINVAL;
	if (nfds > 0) {
		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&mh);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, nfds * sizeof(int));
	}
	if (sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	switch (errno) {
	case EAGAIN:
	case ENOBUFS:
	case EINTR: return -EAGAIN;
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN: return -EPIPE;
	}
	return -errno;
}

static void take_fds(struct msghdr *mh, int fds[CTL_MAX_FDS])
{
	struct cmsghdr *cmsg;
	int taken = 0;

	for (cmsg = CMSG_FIRSTHDR(mh); cmsg; cmsg = CMSG_NXTHDR(mh, cmsg)) {
		size_t n;

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (taken < CTL_MAX_FDS)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
}

int ctl_recv(int fd, struct abi_msg *msg, int fds[CTL_MAX_FDS])
{
	char control[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))];
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control) };
	ssize_t n;

	for (int i = 0; i < CTL_MAX_FDS; i++)
		fds[i] = -1;
	n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	take_fds(&mh, fds);
	/* On SOCK_SEQPACKET an empty message and the end look alike; neither is ours. */
	if (n == 0) {
		ctl_close_fds(fds);
		return -EPIPE;
	}
	if (n != sizeof(*msg) || (mh.msg_flags & MSG_TRUNC) || msg->magic != ABI_MAGIC) {
		ctl_close_fds(fds);
		return -EPROTO;
	}
	return 0;
}

void ctl_close_fds(int fds[CTL_MAX_FDS])
{
	for (int i = 0; i < CTL_MAX_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

int ctl_take_fd(int fds[CTL_MAX_FDS], int i)
{
	int fd = fds[i];

	fds[i] = -1;
	return fd;
}

int ctl_wait(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, timeout_ms);

	if (n > 0)
		return 0;
	return n == 0 ? -ETIMEDOUT : -errno;
}
