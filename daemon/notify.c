/* SPDX-License-Identifier: BSD-2-Clause */
/* notify.c: what systemd is told about us: ready, reloading, stopping, and numbers for `systemctl status`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include "daemon/daemon.h"

#define NS_PER_S ((uint64_t)1000000000)
#define NS_PER_US 1000

static bool listening(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void write_status(struct daemon *d, uint64_t span, char *text, size_t size)
{
	uint64_t packets = d->rx_packets - d->told_rx_packets;
	struct engine_stats stats;
	uint32_t up, all;

	engine_stats(d->engine, &stats);
	d->driver->planes(d->ports, &up, &all);
	snprintf(text, size,
		 "%u of %u plane%s up, %u application%s, %u connection%s, %u region%s, %" PRIu64
		 " packets/s in, %.0f %% busy",
		 up, all, plural(all), d->nclients, plural(d->nclients), stats.conns,
		 plural(stats.conns), stats.regions, plural(stats.regions),
		 span ? packets * NS_PER_S / span : 0, d->busy_ratio * 100);
}

void notify_ready(struct daemon *d)
{
	char text[sizeof(d->told)];

	if (!listening())
		return;
	write_status(d, 0, text, sizeof(text));
	sd_notifyf(0, "READY=1\nSTATUS=%s", text);
}

void notify_status(struct daemon *d, uint64_t span)
{
	char text[sizeof(d->told)];

	if (!listening())
		return;
	write_status(d, span, text, sizeof(text));
	d->told_rx_packets = d->rx_packets;
	if (strcmp(text, d->told) == 0)
		return;
	memcpy(d->told, text, sizeof(text));
	sd_notifyf(0, "STATUS=%s", text);
}

void notify_reloading(struct daemon *d)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, d->now / NS_PER_US);
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1\nSTATUS=Telling peers");
}
