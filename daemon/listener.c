/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.c: the socket that applications knock at, and who owns it. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "daemon/client.h"
#include "daemon/journal.h"

#define LISTEN_BACKLOG 128
#define ACCEPTS_PER_TURN 16
/* Sockets that a user may have besides those of contexts: `mroce show` and the like. */
#define EXTRA_SOCKETS 64
#define LOCK_WAIT_MS 500
#define LOCK_PAUSE_MS 10

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Out of descriptors. Who knocks must not keep us busy: take him in and close. */
static void refuse_one(struct daemon *d)
{
	int fd;

	journal(LOG_WARNING, "no descriptor left for another application (limit of open files)");
	close(d->spare);
	fd = accept4(d->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void welcome(struct daemon *d, int fd)
{
	struct client *c;

	if (control_adopt(d, fd, &c)) {
		close(fd);
		return;
	}
	if (c->quota->sockets > d->cfg->contexts + EXTRA_SOCKETS)
		client_break(c, "its user has too many sockets, see [quota] contexts");
}

static void on_knock(struct watch *w, uint32_t events)
{
	struct daemon *d = container_of(w, struct daemon, listener);

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			welcome(d, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE)
			refuse_one(d);
		return;
	}
}

/* ---- ownership of the path ---- */

static int make_folder(const char *path)
{
	char *copy = strdup(path);
	int err = 0;

	if (!copy)
		return -ENOMEM;
	if (mkdir(dirname(copy), 0755) && errno != EEXIST)
		err = -errno;
	free(copy);
	return err;
}

/* One that was just killed leaves its lock to the guardian for as long as that takes to let go of what it inherited. */
static int lock_soon(int fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };

	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		if (i == LOCK_WAIT_MS / LOCK_PAUSE_MS)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* A lock dies with its holder, a socket file does not: the lock tells whether the file is in use. */
static int lock_path(struct daemon *d, const char *path)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];
	struct stat mine, there;

	snprintf(name, sizeof(name), "%s.lock", path);
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return journal_error(-errno, "%s: %s", name, strerror(errno));
		if (lock_soon(fd)) {
			close(fd);
			return journal_error(
				-EADDRINUSE,
				"%s: another mroced is using this socket; stop it, or give "
				"this one another --socket",
				path);
		}
		/* A daemon that has just ended may have removed the file between our two calls. */
		if (fstat(fd, &mine) == 0 && stat(name, &there) == 0 && mine.st_ino == there.st_ino) {
			d->lock = fd;
			return 0;
		}
		close(fd);
	}
}

static void unlock_path(struct daemon *d, const char *path)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];

	if (d->lock < 0)
		return;
	snprintf(name, sizeof(name), "%s.lock", path);
	unlink(name);
	close(d->lock);
	d->lock = -1;
}

static int bind_path(int fd, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;

	strcpy(addr.sun_path, path);
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return journal_error(-EEXIST,
				     "%s is there and is no socket: remove it, or give another "
				     "--socket",
				     path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || chmod(path, 0666) ||
	    listen(fd, LISTEN_BACKLOG))
		return journal_error(-errno, "%s: %s", path, strerror(errno));
	return 0;
}

int control_open(struct daemon *d)
{
	const char *path = d->cfg->socket;
	int fd;
	int err;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return journal_error(-ENAMETOOLONG,
				     "--socket %s: longer than a socket's path may be", path);
	err = make_folder(path);
	if (err)
		return journal_error(err, "making the folder of %s: %s", path, strerror(-err));
	err = lock_path(d, path);
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = fd < 0 ? journal_error(-errno, "control socket: %s", strerror(errno))
		     : bind_path(fd, path);
	if (!err) {
		d->listener = (struct watch){ on_knock, fd };
		err = daemon_watch(d, &d->listener, EPOLLIN);
	}
	if (!err) {
		d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	d->listener.fd = -1;
	unlock_path(d, path);
	return err;
}

void control_close(struct daemon *d)
{
	if (d->listener.fd < 0)
		return;
	daemon_unwatch(d, &d->listener);
	unlink(d->cfg->socket);
	close(d->listener.fd);
	d->listener.fd = -1;
	if (d->spare >= 0)
		close(d->spare);
	d->spare = -1;
	unlock_path(d, d->cfg->socket);
}
