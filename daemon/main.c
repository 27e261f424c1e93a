/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c: start and stop of mroced. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "daemon/daemon.h"
#include "daemon/journal.h"
#include "daemon/metrics.h"

#define EXIT_USAGE 2

/* Every application takes a handful of descriptors. */
static void raise_file_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

static int write_pid_file(const char *path)
{
	FILE *f;

	if (!path)
		return 0;
	f = fopen(path, "we");
	if (!f)
		return journal_error(-errno, "--pid-file %s: %s", path, strerror(errno));
	fprintf(f, "%d\n", getpid());
	if (fclose(f))
		return journal_error(-errno, "--pid-file %s: %s", path, strerror(errno));
	return 0;
}

static enum port_choice port_choice(const struct config *cfg)
{
	if (!strcmp(cfg->port, "socket"))
		return PORT_SOCKET;
	return strcmp(cfg->port, "auto") ? PORT_AFXDP : PORT_AUTO;
}

static int open_ports(const struct config *cfg, struct daemon *d, struct portset **ports)
{
	struct portset_config pc = {
		.port = port_choice(cfg),
		.udp_port = (uint16_t)cfg->udp_port,
		.allow_generic = cfg->allow_generic,
		.nack = cfg->nack,
		.handover = cfg->handover,
		.link_mbps = cfg->link_mbps,
		.mark = cfg->mark,
		.adopt = true,
		.share = cfg->share,
		.pin = cfg->pin,
		.ring_size = cfg->ring_size,
		.log = journal,
	};
	int err;

	for (int i = 0; i < MROCE_MAX_PORTS; i++)
		pc.interfaces[i] = cfg->interfaces[i];
	err = portset_open(&pc, d->engine, ports);
	if (!err)
		daemon_set_ports(d, &port_driver_real, *ports);
	return err;
}

static void serve(const struct config *cfg, struct daemon *d)
{
	char names[256] = "";
	size_t used = 0;

	for (int i = 0; cfg->interfaces[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %s",
					 cfg->interfaces[i]);
	if (!used)
		snprintf(names, sizeof(names), " the interfaces chosen above");
	journal(LOG_INFO, "ready: %s, UDP port %u, %u paths, on%s", cfg->socket, cfg->udp_port,
		cfg->paths, names);
	notify_ready(d);
	worker_run(d);
	notify_stopping();
	control_close(d);
	worker_farewell(d);
}

/* ---- reload ---- */

/* What the process was started with, for reading it again. */
static struct {
	struct config *cfg;
	int argc;
	char **argv;
} started;

static void tell_change(const char *section, const char *key, bool taken)
{
	if (taken)
		journal(LOG_NOTICE, "reload: [%s] %s changed", section, key);
	else
		journal(LOG_WARNING,
			"reload: [%s] %s differs, which needs a restart: systemctl restart mroced",
			section, key);
}

/* On any error everything stays as it is. */
static void reload(struct daemon *d)
{
	struct config fresh;
	enum config_action action;
	char error[1024];

	notify_reloading();
	config_init(&fresh);
	if (config_read(&fresh, started.argc, started.argv, &action, error, sizeof(error))) {
		journal(LOG_ERR, "reload: %s; nothing was changed", error);
	} else {
		config_update(started.cfg, &fresh, tell_change);
		journal_init(started.cfg->verbose);
		journal(LOG_INFO, "reload: done");
	}
	config_free(&fresh);
	notify_ready(d);
}

/* ---- run ---- */

static int run(const struct config *cfg)
{
	struct portset *ports = NULL;
	struct metrics *metrics = NULL;
	struct daemon *d;
	int err = daemon_new(cfg, &d);

	if (err)
		return err;
	d->reload = reload;
	err = worker_signals(d);
	/* The socket first: a second daemon must not touch the interfaces of the first. */
	if (!err)
		err = control_open(d);
	if (!err)
		err = open_ports(cfg, d, &ports);
	if (!err)
		err = metrics_open(d, &metrics);
	if (!err)
		err = write_pid_file(cfg->pid_file);
	if (!err)
		serve(cfg, d);
	metrics_close(&metrics);
	/* First the engine, whose tables and ports lie in what portset_close() unmaps. */
	daemon_free(&d);
	portset_close(&ports);
	if (!err && cfg->pid_file)
		unlink(cfg->pid_file);
	journal(LOG_INFO, err ? "stopped" : "stopped, everything put back");
	return err;
}

static int start(struct config *cfg, int argc, char **argv)
{
	uint8_t key[CONFIG_KEY_LEN];
	char error[1024];
	enum config_action action;
	int err = config_read(cfg, argc, argv, &action, error, sizeof(error));

	journal_init(cfg->verbose);
	if (err) {
		journal(LOG_ERR, "%s", error);
		return EXIT_USAGE;
	}
	switch (action) {
	case CONFIG_HELP: config_usage(stdout); return 0;
	case CONFIG_VERSION: puts("mroced " MROCE_VERSION); return 0;
	case CONFIG_RUN:
	case CONFIG_CHECK: break;
	}
	if (!cfg->interfaces[0] && port_choice(cfg) != PORT_SOCKET) {
		journal(LOG_ERR, "no interface named: use -i NAME, or 'interface = NAME' under "
				 "[ports] in " CONFIG_FILE_DEFAULT);
		return EXIT_USAGE;
	}
	if (action == CONFIG_CHECK) {
		err = config_psk(cfg, key, error, sizeof(error));
		sodium_memzero(key, sizeof(key));
		if (err < 0) {
			journal(LOG_ERR, "%s", error);
			return EXIT_USAGE;
		}
		printf("%s: configuration is fine\n", cfg->file ? cfg->file : "options");
		return 0;
	}
	started.cfg = cfg;
	started.argc = argc;
	started.argv = argv;
	raise_file_limit();
	return run(cfg) ? EXIT_FAILURE : 0;
}

int main(int argc, char **argv)
{
	struct config cfg;
	int status;

	config_init(&cfg);
	status = start(&cfg, argc, argv);
	config_free(&cfg);
	return status;
}
