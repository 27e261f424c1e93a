// SPDX-License-Identifier: BSD-2-Clause
#include "post.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "load.h"

#define CONNS_BYTES (MROCE_MAX_CONNS * sizeof(struct mroce_post_conn))
#define POSTED_BYTES (MROCE_POSTED * sizeof(struct mroce_posted))

static int map_fd(const struct post *p, const char *name)
{
	return bpf_object__find_map_fd_by_name(p->object, name);
}

static void *map_memory(const struct post *p, const char *name, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd(p, name), 0);

	return at == MAP_FAILED ? NULL : at;
}

static int share_memory(struct post *p, log_fn log)
{
	static const enum table used[] = { TABLE_CONFIG, TABLE_COUNTERS };
	int err;

	p->letters.cookie = 1;
	p->letters.conns = map_memory(p, MROCE_MAP_POST, CONNS_BYTES);
	p->letters.posted = map_memory(p, MROCE_MAP_POSTED, POSTED_BYTES);
	p->tables.config = map_memory(p, MROCE_MAP_CONFIG, sizeof(*p->tables.config));
	if (!p->letters.conns || !p->letters.posted || !p->tables.config) {
		err = -errno;
		log(LOG_ERR, "maps of the BPF object mroce_post cannot be mapped into memory: %s",
		    strerror(-err));
		return err;
	}
	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		int fd = map_fd(p, table_shapes[used[i]].name);

		p->tables.fd[used[i]] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (p->tables.fd[used[i]] < 0)
			return -errno;
	}
	return 0;
}

int post_open(struct post *p, const char *object_dir, log_fn log)
{
	int err;

	memset(p, 0, sizeof(*p));
	tables_init(&p->tables);
	guardian_init(&p->guardian);
	err = load_prepare(false, log);
	if (!err)
		err = load_post(object_dir, &p->object, log);
	if (!err)
		err = share_memory(p, log);
	if (err)
		post_close(p);
	return err;
}

void post_close(struct post *p)
{
	guardian_release(&p->guardian);
	if (p->letters.conns)
		munmap(p->letters.conns, CONNS_BYTES);
	if (p->letters.posted)
		munmap(p->letters.posted, POSTED_BYTES);
	tables_close(&p->tables);
	if (p->object)
		bpf_object__close(p->object);
	memset(p, 0, sizeof(*p));
	tables_init(&p->tables);
	guardian_init(&p->guardian);
}

void post_activate(struct post *p, uint16_t udp_port)
{
	tables_activate(&p->tables, udp_port, false);
}

void post_silence(struct post *p)
{
	__atomic_store_n(&p->tables.config->schema, 0, __ATOMIC_RELEASE);
}

int post_attach(struct post *p, struct tc *tc, const char *interface, uint32_t ifindex, log_fn log)
{
	return tc_open_post(tc, p->object, interface, ifindex, &p->guardian, log);
}
