/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables.h: the BPF maps that the programs and the daemon share, mapped into our memory. The programs that
 * we load ourselves share one set, however many interfaces there are; an adopted program has its own.
 */
#ifndef BPF_TABLES_H
#define BPF_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include "mroce/drop_reasons.h"
#include "mroce/maps.h"
#include "core/port.h"
#include "daemon/port/log.h"

enum table { TABLE_CONFIG, TABLE_CONNS, TABLE_PATHS, TABLE_COUNTERS, TABLES };

/* Name and shape of a table, as the programs declare it. */
struct table_shape {
	const char *name;
	uint32_t type, value_size, entries;
};

extern const struct table_shape table_shapes[TABLES];

struct tables {
	int fd[TABLES]; /* all -1: none yet */
	uint32_t id[TABLES];
	struct mroce_bpf_config *config;
	struct mroce_conn_entry *conns;
	struct mroce_path_rx *paths;
};

void tables_init(struct tables *t);
static inline bool tables_present(const struct tables *t)
{
	return t->fd[TABLE_CONFIG] >= 0;
}
/* Checks the shape of every fd, then maps them. 0 or -errno, explained. fds stay with the caller if it fails. */
int tables_map(struct tables *t, const char *interface, log_fn log);
void tables_close(struct tables *t);
/* No connections, no configuration: the programs pass every packet. */
void tables_silence(struct tables *t);
/* The programs begin to work. */
void tables_activate(struct tables *t, uint16_t udp_port, bool nack);
/* The address of port number `index`: packets to it are ours. */
void tables_local(struct tables *t, uint32_t index, const struct ip *addr);
/* The virtual queue of port number `index`. mbps 0: it marks nothing. */
void tables_mark(struct tables *t, uint32_t index, uint32_t ifindex, uint32_t mbps);
/* Adds the sums over all CPUs to out[]. */
void tables_counters(const struct tables *t, uint64_t out[MROCE_COUNTERS]);

#endif
