// SPDX-License-Identifier: BSD-2-Clause
/* link.c: the way to the local daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "cmd.h"
#include "common/abi.h"
#include "link.h"

#define SHOW_SECONDS 5
/* A second in all. */
#define QUEUE_PAUSE_NS 50000
#define QUEUE_TRIES 20000
#define SHOW_BYTES_MAX (256u << 20)

const char *link_socket(void)
{
	const char *path = cli.socket ? cli.socket : getenv(ABI_SOCKET_ENV);

	return path && *path ? path : ABI_SOCKET_DEFAULT;
}

void link_explain(int err, char *buf, size_t size)
{
	const char *path = link_socket();

	switch (-err) {
	case ENOENT:
	case ECONNREFUSED:
		snprintf(buf, size,
			 "mroced is not running on this host (%s: %s). Start it: "
			 "systemctl start mroced, or sudo mroced -i IFACE; or name its socket with "
			 "--socket",
			 path, err == -ENOENT ? "no such file" : "nobody listens");
		return;
	case EACCES:
	case EPERM:
		snprintf(
			buf, size,
			"no permission to use mroced's socket %s. Use sudo, or join the group that "
			"owns it (ls -l %s)",
			path, path);
		return;
	case EPROTO:
		snprintf(buf, size,
			 "mroced at %s speaks another version than this mroce (%s). Restart the "
			 "daemon after an upgrade: systemctl restart mroced",
			 path, MROCE_VERSION);
		return;
	case ETIMEDOUT:
	case EAGAIN:
		snprintf(buf, size,
			 "mroced at %s does not answer. See what it does: systemctl status mroced",
			 path);
		return;
	}
	snprintf(buf, size, "mroced at %s: %s", path, strerror(-err));
}

int link_open(struct mroce **out)
{
	char text[512];
	int err = mroce_open(link_socket(), out);

	if (!err)
		return 0;
	link_explain(err, text, sizeof(text));
	fail("%s", text);
	return err;
}

void link_connect_failed(const struct mroce *m, int err, const char *host, uint32_t service,
			 const char *listener)
{
	const char *detail = mroce_last_error(m);

	switch (-err) {
	case ECONNREFUSED:
		fail("%s: its mroced answers, but nobody listens on service %u. Start there: %s "
		     "--service %u",
		     host, service, listener, service);
		return;
	case EBUSY:
		fail("%s: service %u is busy (backlog full); try again, or see 'mroce show' there",
		     host, service);
		return;
	case EKEYREJECTED:
		fail("%s: its mroced answers, but the two hosts do not have the same pre-shared "
		     "key: "
		     "compare [security] psk_file of both",
		     host);
		return;
	case ETIMEDOUT:
		fail("%s: no answer from an mroced. Is it running there, is its interface on the "
		     "same "
		     "network, and does UDP port 4797 pass the firewalls? 'mroce doctor' on both "
		     "hosts "
		     "tells more",
		     host);
		return;
	case EPROTONOSUPPORT:
		fail("%s: its mroced speaks no protocol version that ours does; upgrade the older "
		     "one",
		     host);
		return;
	}
	if (!detail || !*detail)
		detail = strerror(-err);
	if (strncmp(detail, host, strlen(host)))
		fail("%s: %s", host, detail);
	else
		fail("%s", detail);
}

int link_connect(struct mroce *m, const char *host, uint32_t service, int timeout_ms,
		 const char *listener, struct mroce_conn **out)
{
	int err = mroce_connect(m, host, service, timeout_ms, out);

	if (err)
		link_connect_failed(m, err, host, service, listener);
	return err;
}

bool link_queue_full(int err, unsigned int *tries)
{
	const struct timespec pause = { .tv_nsec = QUEUE_PAUSE_NS };

	if (err != -EAGAIN || ++*tries > QUEUE_TRIES)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

const char *link_status(enum mroce_status status)
{
	switch (status) {
	case MROCE_OK: return "no error";
	case MROCE_E_FLUSHED: return "the other side closed the connection";
	case MROCE_E_REMOTE_ACCESS: return "the other side does not allow access to that memory";
	case MROCE_E_LOCAL_ACCESS: return "own memory cannot be accessed";
	case MROCE_E_LENGTH: return "message longer than the receive it met";
	case MROCE_E_PEER_GONE: return "the other side ended, died or cannot be reached any more";
	case MROCE_E_PROTOCOL: return "the other side broke the protocol";
	case MROCE_E_LOSS: return "at its deadline more was missing than was tolerated";
	case MROCE_E_DAEMON: return "the local mroced is gone; see journalctl -u mroced";
	}
	return "unknown status";
}

/* ---- show ---- */

static int control_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = SHOW_SECONDS };
	const char *path = link_socket();
	int err;
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* Receives one message and at most one descriptor; *fd is -1 if none came. */
static int receive_with_fd(int sock, struct abi_msg *msg, int *fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space) };
	struct cmsghdr *cmsg;
	ssize_t n;

	*fd = -1;
	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR && !cli_stop);
	if (n < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&mh);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
	if (n == 0)
		return -ECONNRESET;
	return n == sizeof(*msg) && msg->magic == ABI_MAGIC ? 0 : -EPROTO;
}

static int load_json(int fd, uint64_t bytes, json_t **out)
{
	json_error_t error;
	struct stat st;
	void *text;
	json_t *root;

	if (fstat(fd, &st))
		return -errno;
	if (!bytes || bytes > (uint64_t)st.st_size || bytes > SHOW_BYTES_MAX)
		return -EPROTO;
	text = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return -errno;
	root = json_loadb(text, strnlen(text, bytes), 0, &error);
	munmap(text, bytes);
	if (!root)
		return -EPROTO;
	*out = root;
	return 0;
}

static int ask_show(int sock, const char *what, uint32_t conn_id, json_t **out)
{
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = ABI_SHOW, .id = 1 };
	int fd;
	int err;

	snprintf(msg.show.what, sizeof(msg.show.what), "%s", what);
	msg.show.conn_id = conn_id;
	if (send(sock, &msg, sizeof(msg), MSG_NOSIGNAL) != sizeof(msg))
		return -errno;
	err = receive_with_fd(sock, &msg, &fd);
	if (!err && msg.status)
		err = msg.status;
	if (!err && fd < 0)
		err = -EPROTO;
	if (!err)
		err = load_json(fd, msg.show.bytes, out);
	if (fd >= 0)
		close(fd);
	return err;
}

int link_show(const char *what, uint32_t conn_id, json_t **out)
{
	int sock = control_connect();
	int err;

	if (sock < 0)
		return sock;
	err = ask_show(sock, what, conn_id, out);
	close(sock);
	return err;
}

int link_monitor(int *fd)
{
	struct abi_msg msg = { .magic = ABI_MAGIC, .type = ABI_MONITOR, .id = 1 };
	int sock = control_connect();
	int err;

	if (sock < 0)
		return sock;
	err = send(sock, &msg, sizeof(msg), MSG_NOSIGNAL) == sizeof(msg) ? 0 : -errno;
	if (!err)
		err = receive_with_fd(sock, &msg, fd);
	if (!err && msg.status)
		err = msg.status;
	if (!err && *fd < 0)
		err = -EPROTO;
	close(sock);
	return err;
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_number_value(json_object_get(object, key));
}

void link_repairs(uint32_t conn_id, struct link_repairs *out)
{
	json_t *root;
	const json_t *path;
	size_t i;

	memset(out, 0, sizeof(*out));
	if (link_show("path", conn_id, &root))
		return;
	json_array_foreach(json_object_get(root, "paths"), i, path)
	{
		out->repairs += number_of(path, "repairs");
		out->spurious += number_of(path, "spurious");
		out->tx_packets += number_of(path, "tx_packets");
	}
	out->known = i > 0;
	json_decref(root);
}

static double cpu_of(int pid)
{
	unsigned long user, system;
	char path[64];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	/* The second field may contain anything but its own closing bracket followed by a letter. */
	n = fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
		   &system);
	fclose(f);
	return n == 2 ? (double)(user + system) / sysconf(_SC_CLK_TCK) : -1;
}

double link_daemon_cpu(void)
{
	json_t *root;
	int pid;

	if (link_show("config", 0, &root))
		return -1;
	pid = (int)number_of(json_object_get(root, "daemon"), "pid");
	json_decref(root);
	return pid > 0 ? cpu_of(pid) : -1;
}
