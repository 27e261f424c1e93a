/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop_daemon.h: a whole mroced over loop_port.h in a child process, for tests of control side and library.
 * Not a .c file, because tests of the lower floors are linked without the daemon.
 */
#ifndef TESTS_UNIT_LOOP_DAEMON_H
#define TESTS_UNIT_LOOP_DAEMON_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "daemon/daemon.h"
#include "daemon/journal.h"
#include "loop_driver.h"
#include "unit.h"

struct loop_daemon {
	struct config cfg;
	char folder[40];
	char socket[64];
	uint32_t lose_ppm;
	pid_t pid, parent;
};

static inline void loop_daemon_main(struct loop_daemon *l, int ready)
{
	struct daemon *d;
	struct loop_port *port;

	/* A test that fails half way must not leave a daemon running. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != l->parent)
		_exit(1);
	journal_init(getenv("MROCED_VERBOSE") != NULL);
	if (daemon_new(&l->cfg, &d) || worker_signals(d) || control_open(d))
		_exit(1);
	port = loop_port_new(d->engine);
	loop_port_lose(port, l->lose_ppm);
	daemon_set_ports(d, &loop_driver, (struct portset *)port);
	if (write(ready, "", 1) != 1)
		_exit(1);
	worker_run(d);
	control_close(d);
	worker_farewell(d);
	close(d->port_watch.fd);
	daemon_free(&d);
	loop_port_free(&port);
	config_free(&l->cfg);
	/* exit() and not _exit(), so that leaks are looked for. */
	exit(0);
}

/* l->cfg may be changed between the two. */
static inline void loop_daemon_init(struct loop_daemon *l)
{
	memset(l, 0, sizeof(*l));
	config_init(&l->cfg);
	strcpy(l->folder, "/tmp/mroced-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(l->folder));
	snprintf(l->socket, sizeof(l->socket), "%s/mroced.sock", l->folder);
	free(l->cfg.socket);
	l->cfg.socket = strdup(l->socket);
}

static inline void loop_daemon_start(struct loop_daemon *l)
{
	int ready[2];
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	l->parent = getpid();
	l->pid = fork();
	ck_assert_int_ge(l->pid, 0);
	if (l->pid == 0)
		loop_daemon_main(l, ready[1]);
	close(ready[1]);
	ck_assert_msg(read(ready[0], &byte, 1) == 1, "the daemon did not start");
	close(ready[0]);
}

static inline void loop_daemon_kill(struct loop_daemon *l)
{
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	l->pid = 0;
}

/* Ends it as systemd would, and looks at what it leaves. */
static inline void loop_daemon_stop(struct loop_daemon *l)
{
	int status = 0;

	if (l->pid) {
		kill(l->pid, SIGTERM);
		ck_assert_int_eq(waitpid(l->pid, &status, 0), l->pid);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			      "the daemon ended with status %#x", status);
		ck_assert_msg(access(l->socket, F_OK) != 0, "the socket was left behind");
	}
	unlink(l->socket);
	strcat(l->socket, ".lock");
	unlink(l->socket);
	rmdir(l->folder);
	config_free(&l->cfg);
}

#endif
