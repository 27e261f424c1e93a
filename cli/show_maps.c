// SPDX-License-Identifier: BSD-2-Clause
/*
 * show_maps.c: `mroce show counters --maps`: counters out of the BPF maps of the programs on this host's
 * interfaces, without the daemon: for when it hangs, was killed or is of another version.
 */
#include <errno.h>
#include "cmd.h"
#include "core/reasons.h"
#include "programs.h"
#include "show.h"

#define PROGRAMS_MAX 64

struct reading {
	uint64_t counters[MROCE_COUNTERS];
	uint32_t seen[PROGRAMS_MAX]; /* ids of counter maps: interfaces may share one */
	uint32_t nseen;
	json_t *interfaces;
};

static bool is_new(struct reading *r, uint32_t map_id)
{
	for (uint32_t i = 0; i < r->nseen; i++)
		if (r->seen[i] == map_id)
			return false;
	if (r->nseen < PROGRAMS_MAX)
		r->seen[r->nseen++] = map_id;
	return true;
}

static int read_program(void *ctx, struct program *p)
{
	struct reading *r = ctx;
	uint32_t map_id = p->tables.id[TABLE_COUNTERS];

	if (is_new(r, map_id))
		tables_counters(&p->tables, r->counters);
	json_array_append_new(r->interfaces,
			      json_pack("{s:s, s:I, s:I, s:b}", "name", p->interface, "prog_id",
					(json_int_t)p->found.prog_id, "counters_map_id",
					(json_int_t)map_id, "adopted", !p->found.link_id));
	tables_close(&p->tables);
	return 0;
}

static json_t *counter_list(const uint64_t counters[MROCE_COUNTERS])
{
	json_t *list = json_array();

	for (size_t i = 0; i < nreasons; i++)
		json_array_append_new(list, json_pack("{s:s,s:i,s:s,s:I,s:s}", "name",
						      reasons[i].name, "number", reasons[i].number,
						      "kind", reasons[i].kind, "kernel",
						      (json_int_t)counters[reasons[i].number],
						      "text", reasons[i].text));
	return list;
}

int show_maps_read(json_t **out)
{
	struct reading r = { .interfaces = json_array() };
	int err = programs_each(read_program, &r);

	if (!err && !json_array_size(r.interfaces))
		err = -ENOENT;
	if (err) {
		json_decref(r.interfaces);
		return err;
	}
	*out = json_pack("{s:o, s:o}", "interfaces", r.interfaces, "counters",
			 counter_list(r.counters));
	return 0;
}
