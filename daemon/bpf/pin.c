// SPDX-License-Identifier: BSD-2-Clause
#include "pin.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <net/if.h>
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
#define PIN_VERSIONS PIN_ROOT "/v[0-9]*"
#define PIN_NAMESPACES(inode) PIN_VERSIONS "/netns-" inode
#define NETNS_FILE "/proc/self/ns/net"
/* A killed daemon's lock goes a moment after it, or its guardian is sweeping. */
#define TRIES 1000
#define TRIES_AGAIN 10
#define WAIT_NS 1000000

/* ---- folders ---- */

bool pin_bpffs_mounted(void)
{
	struct statfs fs;

	return !statfs(PIN_BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC;
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
	struct statfs fs;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !fstatfs(fd, &fs) &&
	    fs.f_type == BPF_FS_MAGIC)
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

/* How many pins of ours a folder has, or had. */
static int count_pins(int fd, bool remove)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return 0;
	}
	while ((e = readdir(dir))) {
		if (e->d_type != DT_REG || strncmp(e->d_name, PIN_PREFIX, strlen(PIN_PREFIX)))
			continue;
		if (!remove || !unlinkat(fd, e->d_name, 0))
			count++;
	}
	closedir(dir);
	return count;
}

/* The folder stays if others have put something into it. Returns how many pins there were. */
static int remove_folder(int fd, const char *path)
{
	int count = count_pins(fd, true);

	if (still_there(fd, path))
		rmdir(path);
	return count;
}

/* Those above the folders of interfaces, if they are empty. Who is just making one of them tries again. */
static void remove_parents(void)
{
	static const char *const patterns[] = { PIN_NAMESPACES("*"), PIN_VERSIONS, PIN_ROOT };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		glob_t found;

		if (glob(patterns[i], GLOB_NOSORT | GLOB_ONLYDIR, NULL, &found))
			continue;
		for (size_t n = 0; n < found.gl_pathc; n++)
			rmdir(found.gl_pathv[n]);
		globfree(&found);
	}
}

/* ---- names ---- */

static unsigned long long namespace_inode(void)
{
	struct stat st;

	return stat(NETNS_FILE, &st) ? 0 : (unsigned long long)st.st_ino;
}

/* As a folder is called: bpffs takes no dots. */
static void name_folder(char out[IFNAMSIZ], const char *interface)
{
	snprintf(out, IFNAMSIZ, "%s", interface);
	for (char *c = out; *c; c++) {
		if (*c == '.')
			*c = ':';
	}
}

/* Calls each() with every folder of an interface; netns 0: of all namespaces. Returns the sum. */
static int for_each_folder(unsigned long long netns, int (*each)(void *ctx, const char *path),
			   void *ctx)
{
	char pattern[PIN_PATH_MAX] = PIN_NAMESPACES("*") "/*";
	int sum = 0;
	glob_t found;

	if (netns)
		snprintf(pattern, sizeof(pattern), PIN_NAMESPACES("%llu") "/*", netns);
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
			"ReadWritePaths=" PIN_ROOT " and that folder, see mroced.service",
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

void pin_init(struct pins *p, const char *why, log_fn log)
{
	p->wanted = why;
	p->fd = -1;
	p->log = log;
	pin_close(p, why ? why : "");
}

void pin_open(struct pins *p, const char *interface, bool again, struct guardian *g)
{
	char folder[IFNAMSIZ], path[PIN_PATH_MAX];
	int fd;

	name_folder(folder, interface);
	snprintf(path, sizeof(path), "%s/v%d/netns-%llu/%s", PIN_ROOT, MROCE_MAP_SCHEMA,
		 namespace_inode(), folder);
	if (!pin_bpffs_mounted()) {
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
	count_pins(fd, true);
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
	struct bpf_program *program = NULL;
	struct bpf_map *map = NULL;

	while ((program = bpf_object__next_program(object, program)))
		pin_one(p, bpf_program__fd(program), bpf_program__name(program));
	while ((map = bpf_object__next_map(object, map)))
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
		remove_parents();
	}
	p->fd = -1;
	p->path[0] = '\0';
	snprintf(p->why, sizeof(p->why), "%s", why);
}

void pin_show(const struct pins *p, json_t *port)
{
	json_object_set_new(port, "pins", p->wanted ? json_string(p->path) : json_null());
	json_object_set_new(port, "pins_reason", p->wanted ? json_string(p->why) : json_null());
}

/* ---- pins of others ---- */

struct removal {
	const char *folder; /* only those called so; NULL: those that nobody holds */
	log_fn log;
};

/* Takes the descriptor. 1 if there was something to remove. */
static int remove_and_tell(const struct removal *r, int fd, const char *path)
{
	int count = remove_folder(fd, path);

	close(fd);
	if (count)
		r->log(LOG_INFO, "%s: pins removed", path);
	return count > 0;
}

static int sweep_folder(void *ctx, const char *path)
{
	int fd = lock_folder(path, LOCK_EX);

	return fd < 0 ? 0 : remove_and_tell(ctx, fd, path);
}

static int remove_named(void *ctx, const char *path)
{
	const struct removal *r = ctx;
	int fd = strcmp(strrchr(path, '/') + 1, r->folder) ? -ENOENT : open_folder(path);

	return fd < 0 ? 0 : remove_and_tell(r, fd, path);
}

int pin_sweep(log_fn log)
{
	struct removal r = { NULL, log };
	int swept = for_each_folder(0, sweep_folder, &r);

	remove_parents();
	return swept;
}

int pin_remove(const char *interface, log_fn log)
{
	char folder[IFNAMSIZ];
	struct removal r = { folder, log };
	int removed;

	name_folder(folder, interface);
	removed = for_each_folder(namespace_inode(), remove_named, &r);
	remove_parents();
	return removed;
}

struct telling {
	void (*tell)(void *ctx, const char *path);
	void *ctx;
};

static int tell_stale(void *ctx, const char *path)
{
	const struct telling *t = ctx;
	int fd = lock_folder(path, LOCK_SH), count;

	if (fd < 0)
		return 0;
	count = count_pins(fd, false);
	close(fd);
	if (count)
		t->tell(t->ctx, path);
	return count > 0;
}

void pin_each_stale(void (*tell)(void *ctx, const char *path), void *ctx)
{
	struct telling t = { tell, ctx };

	for_each_folder(0, tell_stale, &t);
}
