/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop_port.h: a port that leads back to its own engine, for tests of daemon and library without a network.
 * It can lose packets. One thread.
 */
#ifndef TESTS_UNIT_LOOP_PORT_H
#define TESTS_UNIT_LOOP_PORT_H

#include <stdint.h>
#include "core/engine.h"

#define LOOP_ADDRESS "127.0.0.1"

struct loop_port;

/* Adds itself to the engine. Aborts if memory is short. */
struct loop_port *loop_port_new(struct engine *e);
void loop_port_free(struct loop_port **l);
/* Of a million packets, lose so many. */
void loop_port_lose(struct loop_port *l, uint32_t ppm);
/* Delivers at most `budget` packets to the engine. */
uint32_t loop_port_rx(struct loop_port *l, uint64_t now, uint32_t budget);
/* The connection table's entry of a connection. */
const struct mroce_conn_entry *loop_port_conn(const struct loop_port *l, uint32_t cid);
/* One packet from outside; straight to the engine, or through the tracker first. */
void loop_port_inject(struct loop_port *l, const void *payload, uint32_t len, bool straight,
		      uint64_t now);

#endif
