/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confine: runs a program under the seccomp filters that systemd would make of a unit.
 *
 *	confine CALLS FAMILIES COMMAND [ARGUMENT...]
 *
 * CALLS is a file with the names of the system calls allowed, FAMILIES the numbers of the address families
 * that socket() may be asked for, separated by commas. Whatever else is called fails with EPERM, as with
 * SystemCallErrorNumber=EPERM. Memory is never both writable and executable (MemoryDenyWriteExecute=).
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void die(const char *what, int err)
{
	fprintf(stderr, "confine: %s: %s\n", what, strerror(-err));
	exit(125);
}

static void allow(scmp_filter_ctx ctx, const char *name)
{
	int call = seccomp_syscall_resolve_name(name);
	int err;

	/* systemd's lists name calls of all machines. socket() has rules of its own. */
	if (call == __NR_SCMP_ERROR || call < 0 || call == SCMP_SYS(socket))
		return;
	err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, call, 0);
	if (err)
		die(name, err);
}

static void allow_calls(scmp_filter_ctx ctx, const char *path)
{
	char name[64];
	FILE *f = fopen(path, "re");

	if (!f)
		die(path, -errno);
	while (fscanf(f, "%63s", name) == 1)
		allow(ctx, name);
	fclose(f);
}

static void allow_families(scmp_filter_ctx ctx, char *list)
{
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		int err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					   SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)atoi(word)));

		if (err)
			die("socket", err);
	}
}

static void load(scmp_filter_ctx ctx)
{
	int err = seccomp_load(ctx);

	if (err)
		die("seccomp_load", err);
	seccomp_release(ctx);
}

/* A filter of its own, since an allow-list cannot take back what it allowed. */
static void deny_write_execute(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	const scmp_datum_t both = PROT_EXEC | PROT_WRITE;

	if (!ctx ||
	    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, both, both)) ||
	    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)))
		die("rules for memory", -EINVAL);
	load(ctx);
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx;

	if (argc < 4) {
		fprintf(stderr, "Usage: confine CALLS FAMILIES COMMAND [ARGUMENT...]\n");
		return 2;
	}
	ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!ctx)
		die("seccomp_init", -ENOMEM);
	allow_calls(ctx, argv[1]);
	allow_families(ctx, argv[2]);
	deny_write_execute();
	load(ctx);
	execvp(argv[3], argv + 3);
	die(argv[3], -errno);
}
