// SPDX-License-Identifier: BSD-2-Clause
/* top.c: `mroce top`: rates of ports, connections and paths, again and again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cmd.h"
#include "json.h"
#include "link.h"
#include "options.h"
#include "rates.h"
#include "screen.h"
#include "table.h"
#include "units.h"
#include "mroce/wire.h"

static bool batch, want_paths;
static uint64_t rounds;
static double delay = 1;

static const struct opt top_opts[] = {
	{ 'b', "batch", NULL, "print one view after the other, for pipes and files", OPT_FLAG,
	  &batch, 0, 0 },
	{ 'd', "delay", "TIME", "between two views (1s)", OPT_SECONDS, &delay, 0, 3600 },
	{ 'n', "rounds", "N", "end after so many views", OPT_NUMBER, &rounds, 1, UINT32_MAX },
	{ 'p', "paths", NULL, "show the paths of connections too", OPT_FLAG, &want_paths, 0, 0 },
	{ 0 },
};

static const struct opt_table top_table = {
	.command = "mroce top",
	.args = "[OPTIONS]",
	.about = "Shows what goes through mroced's ports, connections and paths, per second. Keys: "
		 "p paths,\n"
		 "q end. With -j, a JSON object for each view, on a line of its own.",
	.opts = top_opts,
	.json = true,
};

/* ---- one view ---- */

static double sum(const json_t *list, const char *key)
{
	double total = 0;
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o) total += json_num(o, key);
	return total;
}

static void cell_rate(struct table *t, const json_t *o, const char *key)
{
	char buf[UNIT_TEXT];

	table_cell(t, "%s", format_rate(buf, json_num(o, key)));
}

static void cells_count(struct table *t, const json_t *o, const char *const *keys)
{
	for (; *keys; keys++)
		table_cell(t, "%.0f", json_num(o, *keys));
}

static void print_head(const json_t *rates, FILE *out)
{
	const json_t *d = json_object_get(rates, "daemon"),
		     *conns = json_object_get(rates, "connections");
	char up[UNIT_TEXT], tx[UNIT_TEXT], rx[UNIT_TEXT], clock[16];
	time_t now = time(NULL);
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(out, "mroced %s  %s  up %s  busy %.1f %%  clients %.0f  connections %zu\n",
		json_str(d, "version"), clock, format_span(up, json_num(d, "uptime_s")),
		100 * json_num(d, "busy_ratio"), json_num(d, "clients"), json_array_size(conns));
	fprintf(out, "sending %s  receiving %s  repairs %.0f/s\n",
		format_rate(tx, sum(conns, "tx_bps")), format_rate(rx, sum(conns, "rx_bps")),
		sum(conns, "repairs_ps"));
}

static void print_ports(const json_t *list, FILE *out)
{
	static const char *const heads[] = { "PORT",	 "STATE",	 ">RX-PKT/S", ">TX-PKT/S",
					     ">DROPS/S", ">RING-FULL/S", NULL };
	static const char *const keys[] = { "rx_pps", "tx_pps", "drops_ps", "ring_full_ps", NULL };
	struct table t;
	json_t *p;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, p)
	{
		table_cell(&t, "%s", json_str(p, "name"));
		table_cell(&t, "%s", json_is_true(json_object_get(p, "up")) ? "up" : "DOWN");
		cells_count(&t, p, keys);
	}
	table_end(&t, out);
}

/* One letter a path, in order: "uuduuuuu". */
static void paths_of(const json_t *paths, const char *conn, char text[MROCE_MAX_PATHS + 1])
{
	size_t n = 0, i;
	json_t *p;

	json_array_foreach(paths, i, p) if (!strcmp(json_str(p, "conn"), conn) &&
					    n < MROCE_MAX_PATHS) text[n++] = json_str(p, "state")[0];
	text[n] = '\0';
}

static void print_conns(const json_t *list, const json_t *paths, FILE *out)
{
	static const char *const heads[] = { "CONN",	"PEER",	     ">SERVICE",  ">TX",
					     ">RX",	">TX-MSG/S", ">RX-MSG/S", ">REPAIR/S",
					     ">QUEUED", "PATHS",     NULL };
	static const char *const keys[] = { "tx_msgs_ps", "rx_msgs_ps", "repairs_ps",
					    "queued_requests", NULL };
	char states[MROCE_MAX_PATHS + 1];
	struct table t;
	json_t *c;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, c)
	{
		table_cell(&t, "%s", json_str(c, "id"));
		table_cell(&t, "%s", json_str(c, "peer"));
		table_cell(&t, "%.0f", json_num(c, "service"));
		cell_rate(&t, c, "tx_bps");
		cell_rate(&t, c, "rx_bps");
		cells_count(&t, c, keys);
		paths_of(paths, json_str(c, "id"), states);
		table_cell(&t, "%s", states);
	}
	table_end(&t, out);
}

static void print_paths(const json_t *list, FILE *out)
{
	static const char *const heads[] = { "CONN",	  ">PATH",  ">PORT",	 "STATE",
					     "REASON",	  ">TX",    ">TX-PKT/S", ">RX-PKT/S",
					     ">REPAIR/S", ">RTO/S", ">SRTT-US",	 ">CWND",
					     ">INFL",	  NULL };
	static const char *const keys[] = { "tx_pps",  "rx_pps", "repairs_ps", "rtos_ps",
					    "srtt_us", "cwnd",	 "in_flight",  NULL };
	struct table t;
	json_t *p;
	size_t i;

	table_start(&t, heads);
	json_array_foreach(list, i, p)
	{
		table_cell(&t, "%s", json_str(p, "conn"));
		table_cell(&t, "%.0f", json_num(p, "path"));
		table_cell(&t, "%.0f", json_num(p, "port"));
		table_cell(&t, "%s", json_str(p, "state"));
		table_cell(&t, "%s", *json_str(p, "reason") ? json_str(p, "reason") : "-");
		cell_rate(&t, p, "tx_bps");
		cells_count(&t, p, keys);
	}
	table_end(&t, out);
}

static void print_view(const json_t *rates, FILE *out)
{
	const json_t *conns = json_object_get(rates, "connections");
	const json_t *paths = json_object_get(rates, "paths");

	print_head(rates, out);
	fputc('\n', out);
	print_ports(json_object_get(rates, "ports"), out);
	fputc('\n', out);
	if (!json_array_size(conns)) {
		fputs("no connections\n", out);
		return;
	}
	print_conns(conns, paths, out);
	if (!want_paths)
		return;
	fputc('\n', out);
	print_paths(paths, out);
}

static void print_json(const json_t *rates)
{
	json_dumpf(rates, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
}

static void draw(const json_t *rates)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	print_view(rates, out);
	fclose(out);
	screen_draw(text);
	free(text);
}

/* ---- round and round ---- */

struct sample {
	json_t *root;
	double at;
};

static int take(struct sample *s)
{
	char text[512];
	int err = link_show("all", 0, &s->root);

	s->at = clock_seconds();
	if (!err)
		return EXIT_SUCCESS;
	screen_close();
	link_explain(err, text, sizeof(text));
	return fail("%s", text);
}

/* False: end. */
static bool pause_batch(void)
{
	struct timespec left = { (time_t)delay, (long)((delay - (double)(time_t)delay) * 1e9) };

	fflush(stdout);
	return !ferror(stdout) && !nanosleep(&left, NULL) && !cli_stop;
}

/* Draws again as often as the user wishes, until the time is over. False: end. */
static bool pause_screen(const json_t *rates)
{
	double until = clock_seconds() + delay;

	for (;;) {
		double left = until - clock_seconds();
		int key = screen_wait(left > 0 ? left : 0);

		if (key < 0)
			return !cli_stop;
		if (key == 'q' || key == 'Q')
			return false;
		if (key == 'p')
			want_paths = !want_paths;
		if (rates)
			draw(rates);
	}
}

static void show(const json_t *rates)
{
	if (cli.json) {
		print_json(rates);
	} else if (batch) {
		print_view(rates, stdout);
		putchar('\n');
	} else {
		draw(rates);
	}
}

static int run(void)
{
	struct sample old, now;
	json_t *rates = NULL;
	int status = take(&old);
	bool alone = batch || cli.json;

	if (status)
		return status;
	for (uint64_t n = 0; !status && (!rounds || n < rounds); n++) {
		if (!(alone ? pause_batch() : pause_screen(rates)))
			break;
		status = take(&now);
		if (status)
			break;
		json_decref(rates);
		rates = rates_between(old.root, now.root, now.at - old.at);
		json_decref(old.root);
		old = now;
		show(rates);
	}
	json_decref(rates);
	json_decref(old.root);
	return status;
}

int cmd_top(int argc, char **argv)
{
	int first, status;

	switch (opt_parse(&top_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (first != argc)
		return opt_misuse(&top_table, "'%s': top takes no arguments", argv[first]);
	if (delay < 0.01)
		delay = 0.01;
	signals_catch();
	if (!batch && !cli.json && screen_open())
		return opt_misuse(&top_table, "this is no terminal: use -b");
	status = run();
	screen_close();
	return status;
}
