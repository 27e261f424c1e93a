// SPDX-License-Identifier: BSD-2-Clause
/* detach.c: `mroce detach`: takes everything of ours off interfaces, whoever left it there. */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include "cmd.h"
#include "daemon/port/portset.h"
#include "link.h"
#include "options.h"

static bool quiet;

static const struct opt detach_opts[] = {
	{ 'q', "quiet", NULL, "only errors", OPT_FLAG, &quiet, 0, 0 },
	{ 0 },
};

static const struct opt_table detach_table = {
	.command = "mroce detach",
	.args = "[OPTIONS] [INTERFACE...]",
	.about = "Removes mroce's XDP and TC programs from the interfaces, by default from all. A "
		 "daemon\n"
		 "that still runs loses them; other programs are left alone.",
	.opts = detach_opts,
};

static void log_line(int level, const char *fmt, ...)
{
	va_list args;

	if (quiet && level > LOG_WARNING)
		return;
	va_start(args, fmt);
	vfprintf(level <= LOG_WARNING ? stderr : stdout, fmt, args);
	va_end(args);
	fputc('\n', level <= LOG_WARNING ? stderr : stdout);
}

/* An interface may vanish while all are gone through; one that was named must be there. */
static int detach_one(const char *name, bool named, int *removed)
{
	int n = portset_detach(name, log_line);

	if (n == -ENODEV && !named)
		return EXIT_SUCCESS;
	if (n == -EPERM || n == -EACCES)
		return fail("%s: taking programs off needs CAP_NET_ADMIN and CAP_BPF: use sudo",
			    name);
	if (n < 0)
		return fail("%s: cannot be cleaned: %s", name, strerror(-n));
	if (named && !n && !quiet)
		printf("%s: nothing of mroce's was there\n", name);
	*removed += n;
	return EXIT_SUCCESS;
}

static int detach_all(int *removed)
{
	struct if_nameindex *list = if_nameindex();
	int status = EXIT_SUCCESS;

	if (!list)
		return fail("cannot list the interfaces: %s", strerror(errno));
	for (struct if_nameindex *i = list; i->if_index && !status; i++)
		status = detach_one(i->if_name, false, removed);
	if_freenameindex(list);
	return status;
}

int cmd_detach(int argc, char **argv)
{
	int status = EXIT_SUCCESS;
	int removed = 0;
	int first;

	switch (opt_parse(&detach_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (first == argc)
		status = detach_all(&removed);
	for (int i = first; i < argc; i++)
		if (detach_one(argv[i], true, &removed))
			status = EXIT_FAILURE;
	if (!quiet)
		printf("%d thing%s removed\n", removed, removed == 1 ? "" : "s");
	return status;
}
