// SPDX-License-Identifier: BSD-2-Clause
/* show.c: `mroce show`: what the daemon says of itself, as a table, JSON or lines for scripts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "link.h"
#include "options.h"
#include "show.h"
#include "units.h"

static bool want_dump, from_maps;

static const struct opt show_opts[] = {
	{ 'd', "dump", NULL, "tab-separated, a line an object, for scripts", OPT_FLAG, &want_dump,
	  0, 0 },
	{ 0, "maps", NULL, "counters: from the BPF maps of interfaces here, without mroced",
	  OPT_FLAG, &from_maps, 0, 0 },
	{ 0 },
};

static const struct opt_table show_table = {
	.command = "mroce show",
	.args = "[OPTIONS] [port | conn | path | stream | counters | config | errors | all] "
		"[CONN-ID]",
	.about = "Shows what mroced on this host is doing; without an argument, a summary.",
	.opts = show_opts,
	.json = true,
};

struct view {
	const char *what; /* as asked of the daemon */
	const char *key;  /* of the array in its answer */
	void (*print)(const json_t *list);
};

static const struct view views[] = {
	{ "port", "ports", show_ports },	   { "conn", "connections", show_conns },
	{ "path", "paths", show_paths },	   { "stream", "streams", show_streams },
	{ "counters", "counters", show_counters }, { "config", "config", show_config },
	{ "errors", "errors", show_errors },
};

#define VIEWS (sizeof(views) / sizeof(views[0]))

static const struct view *view_named(const char *name)
{
	for (size_t i = 0; i < VIEWS; i++)
		if (!strcmp(views[i].what, name) || !strcmp(views[i].key, name))
			return &views[i];
	return NULL;
}

/* ---- forms ---- */

static void print_json(const json_t *root)
{
	json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
}

static void dump_value(const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		/* A tab in a name would shift the columns. */
		for (const char *c = json_string_value(value); *c; c++)
			putchar(*c == '\t' || *c == '\n' ? ' ' : *c);
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
	fputs(text ? text : "", stdout);
	free(text);
}

static void dump_object(const char *kind, json_t *object)
{
	const char *key;
	json_t *value;

	fputs(kind, stdout);
	json_object_foreach(object, key, value)
	{
		putchar('\t');
		dump_value(value);
	}
	putchar('\n');
}

static void dump_list(const struct view *view, const json_t *root)
{
	json_t *object;
	size_t i;

	json_array_foreach(json_object_get(root, view->key), i, object)
		dump_object(view->what, object);
}

static void dump(const struct view *view, const json_t *root)
{
	dump_object("daemon", json_object_get(root, "daemon"));
	for (size_t i = 0; i < VIEWS; i++)
		if (!view || view == &views[i])
			dump_list(&views[i], root);
}

static void print_view(const struct view *view, const json_t *root)
{
	const json_t *list = json_object_get(root, view->key);

	if (!json_array_size(list))
		printf("no %s\n", view->key);
	else
		view->print(list);
}

static void print_every_view(const json_t *root)
{
	show_daemon(json_object_get(root, "daemon"));
	for (size_t i = 0; i < VIEWS; i++) {
		printf("\n%s\n", views[i].key);
		print_view(&views[i], root);
	}
}

/* ---- the command ---- */

static int ask_maps(json_t **root)
{
	int err = show_maps_read(root);

	if (!err)
		return EXIT_SUCCESS;
	if (err == -ENOENT)
		return fail("no interface here has mroce's XDP program: mroced does not run, or "
			    "uses sockets "
			    "(--port socket), or is in another network namespace");
	return fail("the maps cannot be read: %s%s", strerror(-err),
		    err == -EPERM ? "; use sudo" : "");
}

static int ask(const char *what, uint32_t id, json_t **root)
{
	char text[512];
	int err = link_show(what, id, root);

	if (!err)
		return EXIT_SUCCESS;
	if (err == -ENOENT && id)
		return fail("there is no connection 0x%x; 'mroce show conn' lists them", id);
	link_explain(err, text, sizeof(text));
	return fail("%s", text);
}

static int show(const char *what, uint32_t id)
{
	const struct view *view = view_named(what);
	bool summary = !strcmp(what, "summary");
	json_t *root;
	int status;

	if (!view && !summary && strcmp(what, "all"))
		return opt_misuse(&show_table, "cannot show '%s'", what);
	if (from_maps && (!view || strcmp(view->what, "counters")))
		return opt_misuse(&show_table, "--maps goes with counters");
	status = from_maps ? ask_maps(&root) : ask(view ? view->what : "all", id, &root);
	if (status)
		return status;
	if (cli.json)
		print_json(root);
	else if (want_dump)
		dump(view, root);
	else if (view)
		print_view(view, root);
	else if (summary)
		show_summary(root);
	else
		print_every_view(root);
	json_decref(root);
	return EXIT_SUCCESS;
}

/* A bare id is a number that no keyword starts with. */
static int parse_id(const char *text, uint32_t *id)
{
	uint64_t value;

	if (parse_number(text, &value) || !value || value > UINT32_MAX)
		return opt_misuse(&show_table,
				  "'%s' is not the id of a connection, which look like 0x1a2b0003",
				  text);
	*id = (uint32_t)value;
	return 0;
}

int cmd_show(int argc, char **argv)
{
	const char *what = "summary";
	uint32_t id = 0;
	int first;

	switch (opt_parse(&show_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	argc -= first;
	argv += first;
	if (argc > 2)
		return opt_misuse(&show_table, "too many arguments");
	if (argc)
		what = argv[0];
	/* `mroce show dump`, as in `wg show all dump` */
	if (!strcmp(what, "dump")) {
		want_dump = true;
		what = "all";
	}
	if (argc == 2 && !strcmp(argv[1], "dump"))
		want_dump = true;
	else if (argc == 2 && parse_id(argv[1], &id))
		return EXIT_USAGE;
	return show(what, id);
}
