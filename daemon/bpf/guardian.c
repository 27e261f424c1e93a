// SPDX-License-Identifier: BSD-2-Clause
#include "guardian.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pin.h"
#include "share.h"
#include "tc.h"

enum job_kind {
	JOB_TC,
	JOB_TABLES,
	JOB_SHARE,
	JOB_PINS,
	JOB_RELEASE,
};

struct job {
	enum job_kind kind;
	uint32_t ifindex;
	bool clsact_is_ours;
	uint32_t id[TABLES];
};

/* TC, and tables or a shared dispatcher, of every port; more for interfaces that came back: the oldest give way. */
#define JOBS_MAX 128
_Static_assert(JOBS_MAX >= 2 * MROCE_MAX_PORTS, "two jobs a port");

/* A process that was killed has this long to give back its memory. */
#define END_MS 10000

void guardian_init(struct guardian *g)
{
	g->pipe = -1;
	g->pid = 0;
}

/* ---- in the child ---- */

static void silence_tables(const struct job *job)
{
	struct mroce_bpf_config config = { 0 };
	struct mroce_conn_entry conn = { 0 };
	uint32_t key = 0;
	int fd = bpf_map_get_fd_by_id(job->id[TABLE_CONFIG]);

	if (fd >= 0)
		bpf_map_update_elem(fd, &key, &config, BPF_ANY);
	fd = bpf_map_get_fd_by_id(job->id[TABLE_CONNS]);
	for (key = 0; fd >= 0 && key < MROCE_MAX_CONNS; key++)
		bpf_map_update_elem(fd, &key, &conn, BPF_ANY);
}

/*
 * Mappings outlive descriptors: rings of a packet socket would keep its queue from being opened anew by the daemon, and
 * tables their map in the kernel.
 */
static void leave_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, " socket:[") && !strstr(line, " anon_inode:"))
			continue;
		if (sscanf(line, "%lx-%lx", &from, &to) == 2)
			munmap((void *)from, to - from);
	}
	if (f)
		fclose(f);
}

/* The pipe may close before the locks on the folders go: until the process is a zombie. */
static void sweep_pins(int daemon)
{
	struct pollfd p = { .fd = daemon, .events = POLLIN };

	while (daemon >= 0 && poll(&p, 1, END_MS) < 0 && errno == EINTR)
		;
	pin_sweep(log_nothing);
}

static void do_job(const struct job *job)
{
	switch (job->kind) {
	case JOB_TC: tc_remove(job->ifindex, job->clsact_is_ours, log_nothing); break;
	case JOB_TABLES: silence_tables(job); break;
	case JOB_SHARE: share_detach(job->ifindex); break;
	case JOB_PINS:
	case JOB_RELEASE: break;
	}
}

/* Signals meant for the daemon reach its whole group: the child waits for the pipe to close. */
static void leave_group(int pipe)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2 };
	sigset_t none;

	setsid();
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "mroced-guard");
	if (pipe != 3)
		dup2(pipe, 3);
	close_range(4, ~0u, 0); /* above all the daemon's sockets */
}

/* A port that is opened again and again has one place, lest it take those of others. */
static uint32_t place_of(const struct job *jobs, uint32_t n, const struct job *job)
{
	for (uint32_t i = 0; i < n && i < JOBS_MAX; i++) {
		if (jobs[i].kind == job->kind && jobs[i].ifindex == job->ifindex &&
		    !memcmp(jobs[i].id, job->id, sizeof(job->id)))
			return i;
	}
	return n;
}

static void __attribute__((noreturn)) stand_guard(int pipe, pid_t parent)
{
	struct job jobs[JOBS_MAX], job;
	uint32_t n = 0, at;
	bool pins = false;
	int daemon;
	ssize_t got;

	leave_group(pipe);
	leave_mappings();
	daemon = pidfd_open(parent, 0); /* -1: it has gone */
	for (;;) {
		got = read(3, &job, sizeof(job)); /* writes of this size are atomic */
		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(job))
			break;
		if (job.kind == JOB_RELEASE)
			_exit(0);
		if (job.kind == JOB_PINS) { /* one for all, and the last, since it waits */
			pins = true;
			continue;
		}
		at = place_of(jobs, n, &job);
		n += at == n;
		jobs[at % JOBS_MAX] = job;
	}
	for (uint32_t i = 0; i < n && i < JOBS_MAX; i++)
		do_job(&jobs[i]);
	if (pins)
		sweep_pins(daemon);
	_exit(0);
}

/* ---- in the daemon ---- */

static int start(struct guardian *g)
{
	pid_t daemon = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	g->pid = fork();
	if (g->pid < 0) {
		int err = -errno;

		close(ends[0]);
		close(ends[1]);
		return err;
	}
	if (g->pid == 0) {
		close(ends[1]);
		stand_guard(ends[0], daemon);
	}
	close(ends[0]);
	g->pipe = ends[1];
	return 0;
}

static int tell(struct guardian *g, const struct job *job, log_fn log)
{
	int err = g->pipe < 0 ? start(g) : 0;

	if (!err && write(g->pipe, job, sizeof(*job)) != sizeof(*job))
		err = -errno;
	if (err)
		log(LOG_ERR,
		    "the guardian process, which cleans up after a crash, does not work: %s",
		    strerror(-err));
	return err;
}

int guardian_watch_tc(struct guardian *g, uint32_t ifindex, bool clsact_is_ours, log_fn log)
{
	struct job job = { .kind = JOB_TC, .ifindex = ifindex, .clsact_is_ours = clsact_is_ours };

	return tell(g, &job, log);
}

int guardian_watch_tables(struct guardian *g, const struct tables *t, log_fn log)
{
	struct job job = { .kind = JOB_TABLES };

	memcpy(job.id, t->id, sizeof(job.id));
	return tell(g, &job, log);
}

int guardian_watch_shared(struct guardian *g, uint32_t ifindex, log_fn log)
{
	struct job job = { .kind = JOB_SHARE, .ifindex = ifindex };

	return tell(g, &job, log);
}

int guardian_watch_pins(struct guardian *g, log_fn log)
{
	struct job job = { .kind = JOB_PINS };

	return tell(g, &job, log);
}

void guardian_release(struct guardian *g)
{
	struct job job = { .kind = JOB_RELEASE };

	if (g->pipe < 0)
		return;
	tell(g, &job, log_nothing);
	close(g->pipe);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	guardian_init(g);
}
