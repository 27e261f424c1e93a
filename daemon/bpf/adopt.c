// SPDX-License-Identifier: BSD-2-Clause
#include "adopt.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <string.h>
#include <unistd.h>
#include "load.h"
#include "share.h"

#define MAPS_MAX 32

static void find_name(struct adopt_found *found)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(found->prog_id);

	if (fd < 0)
		return;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0) {
		memcpy(found->name, info.name, sizeof(found->name) - 1);
		found->ours = strcmp(found->name, BPF_XDP_PROGRAM) == 0;
	}
	close(fd);
}

/* Interface numbers repeat in other namespaces, program ids do not. */
static void find_link(struct adopt_found *found)
{
	uint32_t id = 0;

	while (!found->link_id && bpf_link_get_next_id(id, &id) == 0) {
		struct bpf_link_info info = { 0 };
		uint32_t len = sizeof(info);
		int fd = bpf_link_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
		    info.type == BPF_LINK_TYPE_XDP && info.prog_id == found->prog_id)
			found->link_id = id;
		close(fd);
	}
}

static void find_shared(uint32_t ifindex, struct adopt_found *found)
{
	uint32_t id = share_find(ifindex);

	found->shared = true;
	if (!id)
		return;
	found->prog_id = id;
	found->ours = true;
	strcpy(found->name, BPF_XDP_PROGRAM);
}

int adopt_find(uint32_t ifindex, struct adopt_found *out)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, query);
	int err = bpf_xdp_query((int)ifindex, 0, &query);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	out->prog_id = query.drv_prog_id ? query.drv_prog_id : query.prog_id;
	out->generic = query.attach_mode == XDP_ATTACHED_SKB;
	if (!out->prog_id)
		return 0;
	find_name(out);
	if (strcmp(out->name, SHARE_DISPATCHER) == 0)
		find_shared(ifindex, out);
	else
		find_link(out);
	return 0;
}

static void keep_map(int fd, const char *name, struct tables *t, int *xsks)
{
	for (int i = 0; i < TABLES; i++) {
		if (t->fd[i] < 0 && strcmp(name, table_shapes[i].name) == 0) {
			t->fd[i] = fd;
			return;
		}
	}
	if (*xsks < 0 && strcmp(name, MROCE_MAP_XSKS) == 0)
		*xsks = fd;
	else
		close(fd);
}

/* The numbers of the program's maps. How many, or -errno. */
static int map_ids(uint32_t prog_id, uint32_t ids[MAPS_MAX])
{
	struct bpf_prog_info prog = { .nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)ids };
	uint32_t len = sizeof(prog);
	int fd = bpf_prog_get_fd_by_id(prog_id);
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_obj_get_info_by_fd(fd, &prog, &len) ? -errno : 0;
	close(fd);
	if (err)
		return err;
	return prog.nr_map_ids < MAPS_MAX ? (int)prog.nr_map_ids : MAPS_MAX;
}

/* A descriptor and the name, or -errno. */
static int open_map(uint32_t id, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id), err;

	if (fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(fd, &info, &len)) {
		err = -errno;
		close(fd);
		return err;
	}
	memcpy(name, info.name, BPF_OBJ_NAME_LEN);
	return fd;
}

static int collect_maps(uint32_t prog_id, struct tables *t, int *xsks)
{
	uint32_t ids[MAPS_MAX] = { 0 };
	char name[BPF_OBJ_NAME_LEN];
	int n = map_ids(prog_id, ids);

	for (int i = 0; i < n; i++) {
		int fd = open_map(ids[i], name);

		if (fd < 0)
			return fd;
		keep_map(fd, name, t, xsks);
	}
	return n < 0 ? n : 0;
}

static bool complete(const struct tables *t, int xsks)
{
	for (int i = 0; i < TABLES; i++) {
		if (t->fd[i] < 0)
			return false;
	}
	return xsks >= 0;
}

int adopt_maps(const struct adopt_found *found, const char *interface, struct tables *t, int *xsks,
	       log_fn log)
{
	int err;

	tables_init(t);
	*xsks = -1;
	err = collect_maps(found->prog_id, t, xsks);
	if (!err && !complete(t, *xsks))
		err = -ENOENT;
	if (err)
		log(LOG_ERR,
		    "%s: the attached program %s (id %u) cannot be used, its maps are not to be "
		    "had: "
		    "%s%s; `ip link set dev %s xdp off` removes it",
		    interface, found->name, found->prog_id, strerror(-err),
		    err == -EPERM ? " (needs CAP_SYS_ADMIN)" : "", interface);
	else
		err = tables_map(t, interface, log);
	if (!err)
		return 0;
	tables_close(t);
	if (*xsks >= 0)
		close(*xsks);
	*xsks = -1;
	return err;
}

int adopt_map(uint32_t prog_id, const char *wanted)
{
	uint32_t ids[MAPS_MAX] = { 0 };
	char name[BPF_OBJ_NAME_LEN];
	int n = map_ids(prog_id, ids);

	for (int i = 0; i < n; i++) {
		int fd = open_map(ids[i], name);

		if (fd < 0 || strcmp(name, wanted) == 0)
			return fd;
		close(fd);
	}
	return n < 0 ? n : -ENOENT;
}

static int with_program(uint32_t prog_id, int (*each)(void *ctx, int fd, const char *name),
			void *ctx)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(prog_id);
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_obj_get_info_by_fd(fd, &info, &len) ? -errno : each(ctx, fd, info.name);
	close(fd);
	return err;
}

int adopt_each(uint32_t prog_id, int (*each)(void *ctx, int fd, const char *name), void *ctx)
{
	uint32_t ids[MAPS_MAX] = { 0 };
	char name[BPF_OBJ_NAME_LEN];
	int n = map_ids(prog_id, ids);
	int err = n < 0 ? n : with_program(prog_id, each, ctx);

	for (int i = 0; i < n && !err; i++) {
		int fd = open_map(ids[i], name);

		err = fd < 0 ? fd : each(ctx, fd, name);
		if (fd >= 0)
			close(fd);
	}
	return err;
}
