/* SPDX-License-Identifier: BSD-2-Clause */
/* loop_driver.h: loop_port.h as the daemon's worker wants its ports. */
#ifndef TESTS_UNIT_LOOP_DRIVER_H
#define TESTS_UNIT_LOOP_DRIVER_H

#include <string.h>
#include <sys/eventfd.h>
#include "daemon/daemon.h"
#include "loop_port.h"

static uint32_t loop_driver_rx(struct portset *ps, uint64_t now, uint32_t budget)
{
	return loop_port_rx((struct loop_port *)ps, now, budget);
}

static bool loop_driver_tx(struct portset *ps)
{
	(void)ps;
	return false;
}

static int loop_driver_fd(const struct portset *ps)
{
	(void)ps;
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static void loop_driver_housekeep(struct portset *ps, uint64_t now)
{
	(void)ps;
	(void)now;
}

static void loop_driver_counters(const struct portset *ps, uint64_t out[MROCE_COUNTERS])
{
	(void)ps;
	memset(out, 0, MROCE_COUNTERS * sizeof(out[0]));
}

static void loop_driver_planes(const struct portset *ps, uint32_t *up, uint32_t *all)
{
	(void)ps;
	*up = *all = 1;
}

static json_t *loop_driver_show(const struct portset *ps)
{
	(void)ps;
	return json_array();
}

static int loop_driver_listen(struct portset *ps, bool on)
{
	(void)ps;
	(void)on;
	return 0;
}

static const struct port_driver loop_driver = {
	.rx = loop_driver_rx,
	.tx = loop_driver_tx,
	.fd = loop_driver_fd,
	.listen = loop_driver_listen,
	.housekeep = loop_driver_housekeep,
	.counters = loop_driver_counters,
	.show = loop_driver_show,
	.planes = loop_driver_planes,
};

#endif
