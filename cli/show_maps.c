// SPDX-License-Identifier: BSD-2-Clause
/*
 * show_maps.c: `mroce show counters --maps`: counters out of the BPF maps of the programs on this host's
 * interfaces, without the daemon: for when it hangs, was killed or is of another version.
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cmd.h"
#include "daemon/bpf/adopt.h"
#include "daemon/bpf/load.h"
#include "daemon/bpf/tables.h"
#include "show.h"

#define PROGRAMS_MAX 64

struct reading {
	uint64_t counters[MROCE_COUNTERS];
	uint32_t seen[PROGRAMS_MAX]; /* ids of counter maps: interfaces may share one */
	uint32_t nseen;
	json_t *interfaces;
};

static void log_line(int level, const char *fmt, ...)
{
	va_list args;

	(void)level;
	va_start(args, fmt);
	fputs("mroce: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

static bool is_new(struct reading *r, uint32_t map_id)
{
	for (uint32_t i = 0; i < r->nseen; i++)
		if (r->seen[i] == map_id)
			return false;
	if (r->nseen < PROGRAMS_MAX)
		r->seen[r->nseen++] = map_id;
	return true;
}

static int read_interface(struct reading *r, const char *name, uint32_t ifindex)
{
	struct adopt_found found;
	struct tables t;
	int xsks, err = adopt_find(ifindex, &found);

	if (err == -ENODEV || (!err && !found.ours))
		return 0;
	if (!err)
		err = adopt_maps(&found, name, &t, &xsks, log_line);
	if (err)
		return err;
	if (is_new(r, t.id[TABLE_COUNTERS]))
		tables_counters(&t, r->counters);
	json_array_append_new(r->interfaces,
			      json_pack("{s:s, s:I, s:I, s:b}", "name", name, "prog_id",
					(json_int_t)found.prog_id, "counters_map_id",
					(json_int_t)t.id[TABLE_COUNTERS], "adopted", !found.link_id));
	tables_close(&t);
	close(xsks);
	return 0;
}

static int read_all(struct reading *r)
{
	struct if_nameindex *list = if_nameindex();
	int err = list ? 0 : -errno;

	for (struct if_nameindex *i = list; i && i->if_index && !err; i++)
		err = read_interface(r, i->if_name, i->if_index);
	if (list)
		if_freenameindex(list);
	return err;
}

static json_t *counter_list(const uint64_t counters[MROCE_COUNTERS])
{
	static const struct {
		const char *name;
		int number;
		const char *kind, *text;
	} rows[] = {
#define X(name, number, text) { #name, number, "drop", text },
		MROCE_DROP_LIST(X)
#undef X
#define X(name, number, text) { #name, number, "count", text },
			MROCE_COUNT_LIST(X)
#undef X
	};
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		json_array_append_new(
			list, json_pack("{s:s,s:i,s:s,s:I,s:s}", "name", rows[i].name, "number",
					rows[i].number, "kind", rows[i].kind, "kernel",
					(json_int_t)counters[rows[i].number], "text", rows[i].text));
	return list;
}

int show_maps_read(json_t **out)
{
	struct reading r = { 0 };
	int err = load_prepare(log_line);

	if (err)
		return err;
	r.interfaces = json_array();
	err = read_all(&r);
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
