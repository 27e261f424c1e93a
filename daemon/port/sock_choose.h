/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PORT_SOCK_CHOOSE_H
#define PORT_SOCK_CHOOSE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include "mroce/maps.h"

struct sock_choice {
	char names[MROCE_MAX_PORTS][IFNAMSIZ];
	uint32_t n;
	uint32_t left_out; /* beyond MROCE_MAX_PORTS */
	bool by_default_route;
};

/* Interfaces for socket ports when none was named. 0, -ENODEV if there is none, or -errno. */
int sock_choose(struct sock_choice *out);

#endif
