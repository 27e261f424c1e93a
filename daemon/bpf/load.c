// SPDX-License-Identifier: BSD-2-Clause
#include "load.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include "mroce_post.skel.h"
#include "mroce_tc.skel.h"
#include "share.h"
#include "mroce_xdp.skel.h"

/* The end of what libbpf and the verifier said last: printed only when a load failed. */
static char said[2048];
static size_t said_len;

static int remember(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char text[1024];
	size_t len;

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), fmt, args);
	len = strlen(text);
	if (said_len + len >= sizeof(said)) {
		size_t keep = sizeof(said) - 1 - len;

		memmove(said, said + said_len - keep, keep);
		said_len = keep;
	}
	memcpy(said + said_len, text, len + 1);
	said_len += len;
	return 0;
}

static void forget(void)
{
	said_len = 0;
	said[0] = '\0';
}

void load_tell(log_fn log)
{
	char *save = NULL;

	for (char *line = strtok_r(said, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		log(LOG_ERR, "  %s", line);
	forget();
}

static void raise_memlock(void)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0 || getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

static bool capable(unsigned int capability)
{
	return capng_have_capability(CAPNG_EFFECTIVE, capability);
}

int load_prepare(bool afxdp, log_fn log)
{
	static const struct {
		unsigned int capability;
		const char *name, *why;
	} needed[] = {
		{ CAP_BPF, "CAP_BPF", "to load BPF programs" },
		{ CAP_PERFMON, "CAP_PERFMON", "to load those that read packets by pointer" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN", "to attach them to interfaces" },
		{ CAP_NET_RAW, "CAP_NET_RAW", "to open AF_XDP sockets" },
	};
	int err = 0;

	raise_memlock();
	libbpf_set_print(remember);
	if (capng_get_caps_process())
		return 0; /* what is missing will show */
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (capable(needed[i].capability) || capable(CAP_SYS_ADMIN))
			continue;
		if (needed[i].capability == CAP_NET_RAW && !afxdp)
			continue;
		log(LOG_ERR,
		    "capability %s is missing (%s): run as root, or with "
		    "AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN CAP_NET_RAW",
		    needed[i].name, needed[i].why);
		err = -EPERM;
	}
	return err;
}

static struct bpf_object *open_object(const char *dir, const char *name, const void *built_in,
				      size_t size, log_fn log)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name);
	struct bpf_object *object;
	char path[PATH_MAX];

	if (!dir) {
		object = bpf_object__open_mem(built_in, size, &opts);
		snprintf(path, sizeof(path), "built-in object %s", name);
	} else {
		snprintf(path, sizeof(path), "%s/%s.bpf.o", dir, name);
		object = bpf_object__open_file(path, &opts);
	}
	if (!object) {
		log(LOG_ERR, "%s cannot be opened: %s", path, strerror(errno));
		load_tell(log);
	}
	return object;
}

static int reuse_tables(struct bpf_object *object, const struct tables *t)
{
	if (!t || !tables_present(t))
		return 0;
	for (int i = 0; i < TABLES; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, table_shapes[i].name);
		int err = map ? bpf_map__reuse_fd(map, t->fd[i]) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* Duplicates, so that the tables outlive the object that made them. */
static int take_tables(const struct bpf_object *object, struct tables *t, const char *interface,
		       log_fn log)
{
	int err = 0;

	for (int i = 0; i < TABLES && !err; i++) {
		int fd = bpf_object__find_map_fd_by_name(object, table_shapes[i].name);

		t->fd[i] = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (t->fd[i] < 0)
			err = fd < 0 ? fd : -errno;
	}
	if (err)
		log(LOG_ERR, "%s: the BPF object lacks a map: %s", interface, strerror(-err));
	else
		err = tables_map(t, interface, log);
	if (err)
		tables_close(t);
	return err;
}

static int explain(const char *interface, const char *name, int err, log_fn log)
{
	struct utsname kernel = { 0 };

	uname(&kernel);
	log(LOG_ERR,
	    "%s: BPF object %s cannot be loaded: %s. Linux %s or newer is needed, this is %s",
	    interface, name, strerror(-err), BPF_KERNEL_NEEDED, kernel.release);
	load_tell(log);
	return err;
}

/* After loading; t NULL: the object has maps of its own. The object is closed if anything fails. */
static int keep(struct bpf_object *object, struct tables *t, const char *interface,
		struct bpf_object **out, log_fn log)
{
	int err = 0;

	if (t && !tables_present(t))
		err = take_tables(object, t, interface, log);
	if (err) {
		bpf_object__close(object);
		return err;
	}
	forget();
	*out = object;
	return 0;
}

static int load(struct bpf_object *object, const char *name, struct tables *t,
		const char *interface, struct bpf_object **out, log_fn log)
{
	int err;

	if (!object)
		return -ENOENT;
	err = reuse_tables(object, t);
	if (!err)
		err = bpf_object__load(object);
	if (err) {
		bpf_object__close(object);
		return explain(interface, name, err, log);
	}
	return keep(object, t, interface, out, log);
}

int load_xdp(const char *dir, struct tables *t, const char *interface, struct bpf_object **out,
	     log_fn log)
{
	size_t size;
	const void *bytes = mroce_xdp__elf_bytes(&size);

	return load(open_object(dir, "mroce_xdp", bytes, size, log), "mroce_xdp", t, interface, out,
		    log);
}

int load_xdp_shared(const char *dir, struct tables *t, const char *interface, uint32_t ifindex,
		    bool generic, struct bpf_object **out, log_fn log)
{
	size_t size;
	const void *bytes = mroce_xdp__elf_bytes(&size);
	struct bpf_object *object = open_object(dir, "mroce_xdp", bytes, size, log);
	int err;

	if (!object)
		return -ENOENT;
	err = reuse_tables(object, t);
	if (!err)
		err = share_attach(object, ifindex, generic);
	if (err) {
		bpf_object__close(object);
		return err;
	}
	err = keep(object, t, interface, out, log);
	if (err)
		share_detach(ifindex);
	return err;
}

int load_tc(const char *dir, struct tables *t, const char *interface, struct bpf_object **out,
	    log_fn log)
{
	size_t size;
	const void *bytes = mroce_tc__elf_bytes(&size);

	return load(open_object(dir, "mroce_tc", bytes, size, log), "mroce_tc", t, interface, out,
		    log);
}

int load_post(const char *dir, struct bpf_object **out, log_fn log)
{
	size_t size;
	const void *bytes = mroce_post__elf_bytes(&size);

	return load(open_object(dir, "mroce_post", bytes, size, log), "mroce_post", NULL,
		    "socket ports", out, log);
}

int load_program_fd(const struct bpf_object *object, const char *name)
{
	const struct bpf_program *program = bpf_object__find_program_by_name(object, name);

	return program ? bpf_program__fd(program) : -ENOENT;
}
