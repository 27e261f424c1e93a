// SPDX-License-Identifier: BSD-2-Clause
#include "pin.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include "adopt.h"
#include "mroce/maps.h"

#define PIN_PREFIX "mroce_"
#define NETNS_FILE "/proc/self/ns/net"
/* A killed daemon's lock goes a moment after it, or its guardian is sweeping. */
#define TRIES 1000
#define TRIES_AGAIN 10
#define WAIT_NS 1000000

/* ---- folders ---- */

static bool is_bpffs(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == BPF_FS_MAGIC;
}

/* Is what was opened still what the path leads to? */
static bool still_there(int fd, const char *path)
{
	struct stat opened, named;

	return !fstat(fd, &opened) && !stat(path, &named) && opened.st_dev == named.st_dev &&
	       opened.st_ino == named.st_ino;
}

/* A descriptor, or -errno. Where anybody may write to bpffs, a folder of another user's is none of ours. */
static int open_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && is_bpffs(fd))
		return fd;
	close(fd);
	return -EPERM;
}

/* The same with a lock: LOCK_EX or LOCK_SH. -EWOULDBLOCK: a living daemon has it. -ENOENT: it was removed. */
static int lock_folder(const char *path, int lock)
{
	int fd = open_folder(path), err = 0;

	if (fd < 0)
		return fd;
	if (flock(fd, lock | LOCK_NB))
		err = -errno;
	else if (!still_there(fd, path))
		err = -ENOENT;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int make_folders(const char *path)
{
	char part[PIN_PATH_MAX + 1];

	snprintf(part, sizeof(part), "%s/", path);
	for (char *slash = part + strlen(PIN_ROOT); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0700) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

static void remove_pins(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((e = readdir(dir))) {
		if (e->d_type == DT_REG && !strncmp(e->d_name, PIN_PREFIX, strlen(PIN_PREFIX)))
			unlinkat(fd, e->d_name, 0);
	}
	closedir(dir);
}

/* And those above it that are empty then. 0 if at least the folder itself has gone, or -errno. */
static int remove_folder(int fd, const char *path)
{
	char part[PIN_PATH_MAX];

	remove_pins(fd);
	if (!still_there(fd, path))
		return 0;
	if (rmdir(path))
		return -errno;
	snprintf(part, sizeof(part), "%s", path);
	do
		*strrchr(part, '/') = '\0';
	while (strcmp(part, PIN_BPFFS) && !rmdir(part));
	return 0;
}

/* ---- names ---- */

static unsigned long long namespace_inode(void)
{
	struct stat st;

	return stat(NETNS_FILE, &st) ? 0 : (unsigned long long)st.st_ino;
}

/* As a folder is called: bpffs takes no dots. */
static void name_folder(char out[16], const char *interface)
{
	snprintf(out, 16, "%s", interface);
	for (char *c = out; *c; c++) {
		if (*c == '.')
			*c = ':';
	}
}

/* Calls each() with every folder of an interface; netns NULL: of all namespaces. Returns the sum. */
static int for_each_folder(const char *netns, int (*each)(void *ctx, const char *path), void *ctx)
{
	char pattern[PIN_PATH_MAX];
	int sum = 0;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/v*/%s/*", PIN_ROOT, netns ? netns : "netns-*");
	if (glob(pattern, GLOB_NOSORT | GLOB_ONLYDIR, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (strlen(found.gl_pathv[i]) < PIN_PATH_MAX)
			sum += each(ctx, found.gl_pathv[i]);
	}
	globfree(&found);
	return sum;
}

/* ---- pinning ---- */

__attribute__((format(printf, 2, 3))) static void give_up(struct pins *p, const char *fmt, ...)
{
	char why[sizeof(p->why)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	pin_close(p, why);
	p->log(LOG_WARNING, "pin = yes, but nothing is pinned: %s", p->why);
}

static void explain(struct pins *p, const char *path, int err)
{
	switch (-err) {
	case EROFS:
	case EACCES:
	case EPERM:
		give_up(p,
			"%s: %s: mroced has to be root, and its unit needs "
			"BindPaths=-" PIN_BPFFS,
			path, strerror(-err));
		break;
	case EWOULDBLOCK: give_up(p, "another mroced holds %s", path); break;
	default: give_up(p, "%s: %s", path, strerror(-err));
	}
}

/* The locked folder, or -errno. */
static int claim(const char *path, int tries)
{
	struct timespec wait = { .tv_nsec = WAIT_NS };
	int fd;

	for (int i = 0;; i++) {
		int err = make_folders(path);

		fd = err ? err : lock_folder(path, LOCK_EX);
		if ((fd != -EWOULDBLOCK && fd != -ENOENT) || i == tries)
			return fd;
		nanosleep(&wait, NULL);
	}
}

static bool bpffs_mounted(void)
{
	struct statfs fs;

	return !statfs(PIN_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
}

void pin_init(struct pins *p, const char *why, log_fn log)
{
	memset(p, 0, sizeof(*p));
	p->fd = -1;
	p->log = log;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

void pin_open(struct pins *p, const char *interface, bool again, struct guardian *g)
{
	char folder[16], path[PIN_PATH_MAX];
	int fd;

	name_folder(folder, interface);
	snprintf(path, sizeof(path), "%s/v%d/netns-%llu/%s", PIN_ROOT, MROCE_MAP_SCHEMA,
		 namespace_inode(), folder);
	if (!bpffs_mounted()) {
		give_up(p,
			"%s: no bpffs is mounted on " PIN_BPFFS ": `mount -t bpf bpf " PIN_BPFFS
			"`; `ip netns exec` hides it, `nsenter --net=/run/netns/NAME` does not",
			interface);
		return;
	}
	if (guardian_watch_pins(g, p->log)) {
		give_up(p, "%s: nobody would remove it after a crash", interface);
		return;
	}
	fd = claim(path, again ? TRIES_AGAIN : TRIES);
	if (fd < 0) {
		explain(p, path, fd);
		return;
	}
	remove_pins(fd);
	p->fd = fd;
	p->why[0] = '\0';
	memcpy(p->path, path, sizeof(p->path));
	p->log(LOG_INFO, "%s: maps and programs are pinned in %s", interface, path);
}

/* Two objects may have a map in common. Constants of a program, which have a dot in their name, are left out. */
static int pin_one(void *ctx, int fd, const char *name)
{
	struct pins *p = ctx;
	char path[PIN_PATH_MAX + 32];
	int err;

	if (p->fd < 0 || strchr(name, '.'))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	err = bpf_obj_pin(fd, path);
	if (!err || err == -EEXIST)
		return 0;
	explain(p, path, err);
	return err;
}

void pin_object(struct pins *p, const struct bpf_object *object)
{
	struct bpf_program *program;
	struct bpf_map *map;

	bpf_object__for_each_program(program, object)
		pin_one(p, bpf_program__fd(program), bpf_program__name(program));
	bpf_object__for_each_map(map, object)
		pin_one(p, bpf_map__fd(map), bpf_map__name(map));
}

void pin_program(struct pins *p, uint32_t prog_id)
{
	int err = p->fd < 0 ? 0 : adopt_each(prog_id, pin_one, p);

	if (err && p->fd >= 0)
		explain(p, p->path, err);
}

void pin_close(struct pins *p, const char *why)
{
	if (p->fd >= 0) {
		remove_folder(p->fd, p->path);
		close(p->fd);
	}
	pin_init(p, why, p->log);
}

void pin_show(const struct pins *p, json_t *port)
{
	json_object_set_new(port, "pins", json_string(p->path));
	json_object_set_new(port, "pins_reason", json_string(p->why));
}

/* ---- pins of others ---- */

struct removal {
	const char *folder; /* only those called so; NULL: those that nobody holds */
	log_fn log;
};

static int tell_removed(const struct removal *r, const char *path, int err)
{
	if (err)
		r->log(LOG_WARNING, "%s: cannot be removed: %s", path,
		       err == -ENOTEMPTY ? "there are files in it that are not mroce's" :
					   strerror(-err));
	else
		r->log(LOG_INFO, "%s: pins removed", path);
	return err ? 0 : 1;
}

static int sweep_folder(void *ctx, const char *path)
{
	int fd = lock_folder(path, LOCK_EX), err;

	if (fd < 0)
		return 0;
	err = remove_folder(fd, path);
	close(fd);
	return tell_removed(ctx, path, err);
}

static int remove_named(void *ctx, const char *path)
{
	const struct removal *r = ctx;
	int fd, err;

	if (strcmp(strrchr(path, '/') + 1, r->folder))
		return 0;
	fd = open_folder(path);
	if (fd < 0)
		return 0;
	err = remove_folder(fd, path);
	close(fd);
	return tell_removed(r, path, err);
}

int pin_sweep(log_fn log)
{
	struct removal r = { NULL, log };

	return for_each_folder(NULL, sweep_folder, &r);
}

int pin_remove(const char *interface, log_fn log)
{
	char netns[32], folder[16];
	struct removal r = { folder, log };

	name_folder(folder, interface);
	snprintf(netns, sizeof(netns), "netns-%llu", namespace_inode());
	return for_each_folder(netns, remove_named, &r);
}

struct telling {
	void (*tell)(void *ctx, const char *path);
	void *ctx;
};

static int tell_stale(void *ctx, const char *path)
{
	const struct telling *t = ctx;
	int fd = lock_folder(path, LOCK_SH);

	if (fd < 0)
		return 0;
	close(fd);
	t->tell(t->ctx, path);
	return 1;
}

void pin_each_stale(void (*tell)(void *ctx, const char *path), void *ctx)
{
	struct telling t = { tell, ctx };

	for_each_folder(NULL, tell_stale, &t);
}
