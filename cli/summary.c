// SPDX-License-Identifier: BSD-2-Clause
/* summary.c: the closing line of a transfer. */
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "digest.h"
#include "summary.h"
#include "units.h"

static double gbit(const struct summary *s)
{
	return s->seconds > 0 ? s->bytes * 8 / s->seconds / 1e9 : 0;
}

static void print_json(const struct summary *s)
{
	json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:s}", "peer", s->peer, "result",
			      s->failed ? "incomplete" : "ok", "files", (json_int_t)s->files,
			      "bytes", (json_int_t)s->bytes, "failed", (json_int_t)s->failed,
			      "seconds", s->seconds, "gbit_per_s", gbit(s), "digest",
			      digest_name(s->digest));

	if (s->repairs.known) {
		json_object_set_new(o, "repairs", json_integer(s->repairs.repairs));
		json_object_set_new(o, "spurious_repairs", json_integer(s->repairs.spurious));
	}
	json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	fflush(stdout);
	json_decref(o);
}

void summary_print(const struct summary *s)
{
	char files[UNIT_TEXT], bytes[UNIT_TEXT];

	if (cli.json) {
		print_json(s);
		return;
	}
	printf("%s %s %s %s: %s files, %s bytes in %.3f s, %.3f Gbit/s", s->verb,
	       s->failed ? "in part" : "and verified", *s->verb == 's' ? "to" : "from", s->peer,
	       format_count(files, s->files), format_count(bytes, s->bytes), s->seconds, gbit(s));
	if (s->repairs.known)
		printf(", %llu repairs, %llu spurious", (unsigned long long)s->repairs.repairs,
		       (unsigned long long)s->repairs.spurious);
	if (s->failed)
		printf(", %llu FAILED", (unsigned long long)s->failed);
	putchar('\n');
	fflush(stdout);
}
