// SPDX-License-Identifier: BSD-2-Clause
#include "tables.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct table_shape table_shapes[TABLES] = {
	[TABLE_CONFIG] = { MROCE_MAP_CONFIG, BPF_MAP_TYPE_ARRAY, sizeof(struct mroce_bpf_config), 1 },
	[TABLE_CONNS] = { MROCE_MAP_CONNS, BPF_MAP_TYPE_ARRAY, sizeof(struct mroce_conn_entry),
			  MROCE_MAX_CONNS },
	[TABLE_PATHS] = { MROCE_MAP_PATHS, BPF_MAP_TYPE_ARRAY, sizeof(struct mroce_path_rx),
			  MROCE_MAX_CONNS *MROCE_MAX_PATHS },
	[TABLE_COUNTERS] = { MROCE_MAP_COUNTERS, BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(uint64_t),
			     MROCE_COUNTERS },
};

void tables_init(struct tables *t)
{
	memset(t, 0, sizeof(*t));
	for (int i = 0; i < TABLES; i++)
		t->fd[i] = -1;
}

static int check_shape(const struct tables *t, enum table which, uint32_t *id,
		       const char *interface, log_fn log)
{
	const struct table_shape *shape = &table_shapes[which];
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(t->fd[which], &info, &len))
		return -errno;
	*id = info.id;
	if (info.type == shape->type && info.key_size == sizeof(uint32_t) &&
	    info.value_size == shape->value_size && info.max_entries == shape->entries)
		return 0;
	log(LOG_ERR,
	    "%s: map %s has %u entries of %u bytes, this daemon needs %u of %u: the program is "
	    "of another version; `mroce detach %s` removes it, then start mroced again",
	    interface, shape->name, info.max_entries, info.value_size, shape->entries,
	    shape->value_size, interface);
	return -EPROTO;
}

/* The schema that a map's BTF states, or 0: none. */
static uint32_t stated_schema(uint32_t btf_id)
{
	struct btf *btf = btf_id ? btf__load_from_kernel_by_id(btf_id) : NULL;
	uint32_t n = btf ? btf__type_cnt(btf) : 0, schema = 0;
	const size_t len = strlen(MROCE_SCHEMA_TAG);

	for (uint32_t i = 1; i < n && !schema; i++) {
		const struct btf_type *type = btf__type_by_id(btf, i);
		const char *name = btf__name_by_offset(btf, type->name_off);

		if (btf_is_decl_tag(type) && strncmp(name, MROCE_SCHEMA_TAG, len) == 0)
			schema = (uint32_t)strtoul(name + len, NULL, 10);
	}
	btf__free(btf);
	return schema;
}

/* Maps of the same size may mean something else. A program without BTF states nothing, and is taken at its maps' word. */
static int check_schema(const struct tables *t, const char *interface, log_fn log)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), schema;

	if (bpf_obj_get_info_by_fd(t->fd[TABLE_CONFIG], &info, &len))
		return -errno;
	schema = stated_schema(info.btf_id);
	if (!schema || schema == MROCE_MAP_SCHEMA)
		return 0;
	log(LOG_ERR,
	    "%s: the attached program's maps are laid out by schema %u, this daemon's by %u: the "
	    "program "
	    "is of another version; `mroce detach %s` removes it, then start mroced again",
	    interface, schema, MROCE_MAP_SCHEMA, interface);
	return -EPROTO;
}

static size_t mapped_size(enum table which)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t size = (size_t)table_shapes[which].value_size * table_shapes[which].entries;

	return (size + page - 1) / page * page;
}

static void *map_one(const struct tables *t, enum table which)
{
	void *at = mmap(NULL, mapped_size(which), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd[which],
			0);

	return at == MAP_FAILED ? NULL : at;
}

static void unmap(struct tables *t)
{
	if (t->config)
		munmap(t->config, mapped_size(TABLE_CONFIG));
	if (t->conns)
		munmap(t->conns, mapped_size(TABLE_CONNS));
	if (t->paths)
		munmap(t->paths, mapped_size(TABLE_PATHS));
	t->config = NULL;
	t->conns = NULL;
	t->paths = NULL;
}

int tables_map(struct tables *t, const char *interface, log_fn log)
{
	int err;

	for (int i = 0; i < TABLES; i++) {
		err = check_shape(t, i, &t->id[i], interface, log);
		if (err)
			return err;
	}
	err = check_schema(t, interface, log);
	if (err)
		return err;
	t->config = map_one(t, TABLE_CONFIG);
	t->conns = map_one(t, TABLE_CONNS);
	t->paths = map_one(t, TABLE_PATHS);
	if (t->config && t->conns && t->paths)
		return 0;
	err = -errno;
	log(LOG_ERR, "%s: BPF maps cannot be mapped into memory: %s", interface, strerror(-err));
	unmap(t);
	return err;
}

void tables_close(struct tables *t)
{
	unmap(t);
	for (int i = 0; i < TABLES; i++) {
		if (t->fd[i] >= 0)
			close(t->fd[i]);
	}
	tables_init(t);
}

void tables_silence(struct tables *t)
{
	__atomic_store_n(&t->config->schema, 0, __ATOMIC_RELEASE);
	t->config->mark = 0;
	memset(t->config->vqueue, 0, sizeof(t->config->vqueue));
	for (uint32_t i = 0; i < MROCE_MAX_CONNS; i++)
		__atomic_store_n(&t->conns[i].cid, 0, __ATOMIC_RELEASE);
	memset(t->conns, 0, sizeof(*t->conns) * MROCE_MAX_CONNS);
}

void tables_activate(struct tables *t, uint16_t udp_port, bool nack)
{
	t->config->udp_port = udp_port;
	t->config->nack = nack;
	__atomic_store_n(&t->config->schema, MROCE_MAP_SCHEMA, __ATOMIC_RELEASE);
}

void tables_local(struct tables *t, uint32_t index, const struct ip *addr)
{
	/* A packet that meets half an address passes to the stack: no harm. */
	memcpy(&t->config->local[index], addr, sizeof(t->config->local[index]));
}

void tables_mark(struct tables *t, uint32_t index, uint32_t ifindex, uint32_t mbps)
{
	vqueue_set(&t->config->vqueue[index], ifindex, mbps);
	if (mbps)
		__atomic_store_n(&t->config->mark, 1, __ATOMIC_RELEASE);
}

void tables_counters(const struct tables *t, uint64_t out[MROCE_COUNTERS])
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values;

	if (cpus <= 0 || !tables_present(t))
		return;
	values = calloc(cpus, sizeof(*values));
	if (!values)
		return;
	for (uint32_t i = 0; i < MROCE_COUNTERS; i++) {
		if (bpf_map_lookup_elem(t->fd[TABLE_COUNTERS], &i, values))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			out[i] += values[cpu];
	}
	free(values);
}
