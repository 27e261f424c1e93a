// SPDX-License-Identifier: BSD-2-Clause
/* sink.c: records into files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "sink.h"

#define MODE_KEPT 0777

/* Below `root`, through no symbolic link whatever. Descriptor or -errno. */
static int open_beneath(int root, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static void failed(struct sink *s, const char *path, int err, const char *text)
{
	s->failed++;
	s->on_failed(s->ctx, path, err, text ? text : strerror(err));
}

int sink_open(struct sink *s, const char *folder, enum fp_digest_kind kind,
	      sink_failed_fn *on_failed, void *ctx)
{
	int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	memset(s, 0, sizeof(*s));
	s->root = s->parent = root;
	s->fd = -1;
	s->kind = kind;
	s->can_unnamed = !access("/proc/self/fd", X_OK);
	s->on_failed = on_failed;
	s->ctx = ctx;
	return 0;
}

static void drop_parent(struct sink *s)
{
	if (s->parent != s->root)
		close(s->parent);
	s->parent = s->root;
	s->parent_path[0] = '\0';
}

/* Opens the folder that `path` is in, usually the same as last time. Name in it, or NULL. */
static const char *enter_parent(struct sink *s, const char *path, int *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? slash - path : 0;
	int fd;

	if (strlen(s->parent_path) == len && !memcmp(s->parent_path, path, len))
		return slash ? slash + 1 : path;
	drop_parent(s);
	if (!slash)
		return path;
	memcpy(s->parent_path, path, len);
	s->parent_path[len] = '\0';
	fd = open_beneath(s->root, s->parent_path, O_PATH | O_DIRECTORY);
	if (fd < 0) {
		s->parent_path[0] = '\0';
		*err = -fd;
		return NULL;
	}
	s->parent = fd;
	return slash + 1;
}

/* The name of a path that may be used, in its open folder; otherwise NULL, and it was reported. */
static const char *accept_path(struct sink *s, const char *path)
{
	const char *why = safepath_refusal(path, strlen(path));
	const char *name;
	int err = 0;

	if (why) {
		failed(s, path, EINVAL, why);
		return NULL;
	}
	name = enter_parent(s, path, &err);
	if (!name)
		failed(s, path, err,
		       err == ELOOP ? "leads through a symbolic link, which is not followed" : NULL);
	return name;
}

static void new_temp_name(struct sink *s)
{
	snprintf(s->temp, sizeof(s->temp), ".mroce-%08x%08x.part", randombytes_random(),
		 randombytes_random());
}

/* ---- folders and links ---- */

static void take_dir(struct sink *s, const struct fp_rec *rec)
{
	const char *name = accept_path(s, rec->path);
	int fd;

	if (!name || !mkdirat(s->parent, name, 0777))
		return;
	if (errno != EEXIST) {
		failed(s, rec->path, errno, NULL);
		return;
	}
	fd = open_beneath(s->root, rec->path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		failed(s, rec->path, -fd, "exists and is not a folder");
	else
		close(fd);
}

static void take_dir_done(struct sink *s, const struct fp_rec *rec)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { rec->mtime, rec->mtime_ns } };
	int fd;

	/* What is wrong with the name was said at its DIR record. */
	if (safepath_refusal(rec->path, strlen(rec->path)))
		return;
	fd = open_beneath(s->root, rec->path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return;
	if (fchmod(fd, rec->mode & MODE_KEPT) || futimens(fd, times))
		failed(s, rec->path, errno, NULL);
	close(fd);
}

static void take_link(struct sink *s, const struct fp_rec *rec)
{
	const char *name = accept_path(s, rec->path);
	const char *why;

	if (!name)
		return;
	why = safepath_link_refusal(rec->path, rec->target);
	if (why) {
		failed(s, rec->path, EINVAL, why);
		return;
	}
	new_temp_name(s);
	if (symlinkat(rec->target, s->parent, s->temp)) {
		failed(s, rec->path, errno, NULL);
		return;
	}
	if (renameat(s->parent, s->temp, s->parent, name)) {
		failed(s, rec->path, errno, NULL);
		unlinkat(s->parent, s->temp, 0);
		return;
	}
	s->files++;
}

/* ---- files ---- */

static void remove_temp(struct sink *s)
{
	if (s->fd < 0)
		return;
	close(s->fd);
	s->fd = -1;
	if (s->named)
		unlinkat(s->parent, s->temp, 0);
}

/* A file without a name vanishes with us, however we end. */
static int open_temp(struct sink *s)
{
	int fd = -1;

	s->named = false;
	if (s->can_unnamed)
		fd = openat(s->parent, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	s->named = true;
	new_temp_name(s);
	return openat(s->parent, s->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      0600);
}

static void take_file(struct sink *s, const struct fp_rec *rec)
{
	s->in_file = true;
	s->got = 0;
	s->mode = rec->mode & MODE_KEPT;
	s->mtime = rec->mtime;
	s->mtime_ns = rec->mtime_ns;
	strcpy(s->path, rec->path);
	digest_start(&s->digest, s->kind);
	if (!accept_path(s, rec->path))
		return;
	s->fd = open_temp(s);
	if (s->fd < 0)
		failed(s, rec->path, errno, NULL);
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		data += n;
		len -= n;
	}
	return 0;
}

static void take_data(struct sink *s, const struct fp_rec *rec)
{
	int err;

	s->got += rec->data_len;
	s->taken += rec->data_len;
	if (s->fd < 0)
		return;
	digest_add(&s->digest, rec->data, rec->data_len);
	err = write_all(s->fd, rec->data, rec->data_len);
	if (!err)
		return;
	remove_temp(s);
	failed(s, s->path, err, NULL);
}

/* NULL if the file is what the sender read. */
static const char *verify(struct sink *s, const struct fp_rec *rec, int *err)
{
	uint8_t digest[FP_DIGEST_MAX];

	*err = EIO;
	if (rec->error) {
		*err = rec->error;
		return "could not be read by the sender";
	}
	if (rec->size != s->got)
		return "length differs from what the sender read";
	digest_end(&s->digest, digest);
	*err = EBADMSG;
	if (memcmp(digest, rec->digest, sizeof(digest)))
		return "digest differs from the sender's: not kept";
	return NULL;
}

/* Gives the unnamed file the name itself if it is free, otherwise a temporary one to be renamed. */
static int give_name(struct sink *s, const char *name)
{
	char fd_path[40];

	snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", s->fd);
	if (!linkat(AT_FDCWD, fd_path, s->parent, name, AT_SYMLINK_FOLLOW))
		return 0;
	if (errno != EEXIST)
		return errno;
	new_temp_name(s);
	if (linkat(AT_FDCWD, fd_path, s->parent, s->temp, AT_SYMLINK_FOLLOW))
		return errno;
	s->named = true;
	return 0;
}

static int publish(struct sink *s)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { s->mtime, s->mtime_ns } };
	const char *slash = strrchr(s->path, '/');
	const char *name = slash ? slash + 1 : s->path;
	int err;

	if (fchmod(s->fd, s->mode) || futimens(s->fd, times))
		return errno;
	err = s->named ? 0 : give_name(s, name);
	if (err)
		return err;
	if (s->named && renameat(s->parent, s->temp, s->parent, name))
		return errno;
	s->named = false;
	/* Some file systems tell only now that a write failed. */
	err = close(s->fd) ? errno : 0;
	s->fd = -1;
	if (err)
		unlinkat(s->parent, name, 0);
	return err;
}

static void take_end(struct sink *s, const struct fp_rec *rec)
{
	const char *why;
	int err;

	s->in_file = false;
	if (s->fd < 0)
		return;
	why = verify(s, rec, &err);
	if (!why) {
		err = publish(s);
		if (!err) {
			s->files++;
			s->bytes += s->got;
			return;
		}
	}
	remove_temp(s);
	failed(s, s->path, err, why);
}

int sink_take(struct sink *s, const struct fp_rec *rec)
{
	bool of_file = rec->type == FP_DATA || rec->type == FP_END;

	if (s->finished || s->in_file != of_file)
		return -EPROTO;
	switch (rec->type) {
	case FP_DIR: take_dir(s, rec); return 0;
	case FP_DIR_DONE: take_dir_done(s, rec); return 0;
	case FP_FILE: take_file(s, rec); return 0;
	case FP_DATA: take_data(s, rec); return 0;
	case FP_END: take_end(s, rec); return 0;
	case FP_LINK: take_link(s, rec); return 0;
	case FP_FINISH: s->finished = true; return 0;
	}
	return -EPROTO;
}

void sink_close(struct sink *s)
{
	remove_temp(s);
	drop_parent(s);
	if (s->root >= 0)
		close(s->root);
	s->root = s->parent = -1;
}
