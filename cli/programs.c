// SPDX-License-Identifier: BSD-2-Clause
#include "programs.h"

#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "daemon/bpf/load.h"

static void log_line(int level, const char *fmt, ...)
{
	va_list args;

	(void)level;
	va_start(args, fmt);
	fputs("mroce: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

static int look_at(const char *interface, uint32_t ifindex, int (*fn)(void *ctx, struct program *p),
		   void *ctx)
{
	struct program p = { .interface = interface, .ifindex = ifindex };
	int xsks, err = adopt_find(ifindex, &p.found);

	if (err == -ENODEV || (!err && !p.found.ours))
		return 0;
	if (!err)
		err = adopt_maps(&p.found, interface, &p.tables, &xsks, log_line);
	if (err)
		return err;
	close(xsks);
	return fn(ctx, &p);
}

int programs_each(int (*fn)(void *ctx, struct program *p), void *ctx)
{
	struct if_nameindex *list;
	int err = load_prepare(true, log_line);

	if (err)
		return err;
	list = if_nameindex();
	if (!list)
		return -errno;
	for (struct if_nameindex *i = list; i->if_index && !err; i++)
		err = look_at(i->if_name, i->if_index, fn, ctx);
	if_freenameindex(list);
	return err;
}
