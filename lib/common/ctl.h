/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h: sending and receiving control messages (abi.h), with file descriptors. Never waits unless it
 * says so. Descriptors received are close-on-exec.
 */
#ifndef COMMON_CTL_H
#define COMMON_CTL_H

#include <stdint.h>
#include "common/abi.h"

#define CTL_MAX_FDS 4

/* The path to use: `given`, or $MROCE_SOCKET, or the default. */
const char *ctl_socket_path(const char *given);
/* Connects to a daemon, waiting at most timeout_ms for it to take the connection. fd or -errno. */
int ctl_connect(const char *path, int timeout_ms);
/* 0, -EAGAIN (the other side reads too slowly), -EPIPE (it is gone). fds stay the caller's. */
int ctl_send(int fd, const struct abi_msg *msg, const int *fds, int nfds);
/*
 * 0, -EAGAIN (nothing there), -EPIPE (the other side is gone), -EPROTO (not one of our messages; its
 * descriptors are closed). fds holds CTL_MAX_FDS; unused ones become -1.
 */
int ctl_recv(int fd, struct abi_msg *msg, int fds[CTL_MAX_FDS]);
void ctl_close_fds(int fds[CTL_MAX_FDS]);
/* Takes descriptor i out of fds, so that ctl_close_fds() leaves it alone. -1 if there is none. */
int ctl_take_fd(int fds[CTL_MAX_FDS], int i);
/* Waits for poll(2) events on fd. 0, -ETIMEDOUT, -EINTR. timeout_ms < 0: without limit. */
int ctl_wait(int fd, short events, int timeout_ms);

#endif
