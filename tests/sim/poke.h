/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_POKE_H
#define TESTS_SIM_POKE_H

#include <stdint.h>

struct conn;

/* Gives all paths of a connection this epoch; to be called before anything was sent on them. */
void poke_epochs(struct conn *c, uint16_t epoch);

#endif
