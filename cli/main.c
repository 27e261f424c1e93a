// SPDX-License-Identifier: BSD-2-Clause
/* main.c: `mroce`: one table of subcommands; none means show. */
#include <stdio.h>
#include <string.h>
#include "cmd.h"
#include "options.h"

const struct command cli_commands[] = {
	{ "show", "ports, connections, paths, streams, counters of mroced", cmd_show },
	{ "monitor", "events as they happen: connections, paths, ports, stalls", cmd_monitor },
	{ "top", "what goes through ports, connections and paths, live", cmd_top },
	{ "trace", "packets of a connection, and what became of them", cmd_trace },
	{ "send", "send files and folders to a host", cmd_send },
	{ "recv", "receive them", cmd_recv },
	{ "perf", "measure bandwidth and latency", cmd_perf },
	{ "ping", "measure round trips", cmd_ping },
	{ "collective", "measure all-reduce and its kin among many hosts", cmd_collective },
	{ "doctor", "look for what keeps mroce from working here", cmd_doctor },
	{ "detach", "take mroce's programs off interfaces", cmd_detach },
	{ 0 },
};

static const struct opt_table main_table = {
	.command = "mroce",
	.args = "[COMMAND] [OPTIONS] [ARGUMENTS]",
	.about = "RDMA-style transport that takes loss as normal. Without COMMAND: show.",
	.json = true,
};

static void usage(FILE *out)
{
	opt_usage(&main_table, out);
	fputs("\nCommands, each with its own --help and man page (mroce-COMMAND):\n", out);
	for (const struct command *c = cli_commands; c->name; c++)
		fprintf(out, "  %-10s %s\n", c->name, c->summary);
}

static const struct command *command_named(const char *name)
{
	for (const struct command *c = cli_commands; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static bool asks_for_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "-h") || !strcmp(word, "--help");
}

int main(int argc, char **argv)
{
	char *const only_show[] = { "show", NULL };
	const struct command *command;
	int first;

	if (argc > 1 && asks_for_help(argv[1]))
		return usage(stdout), EXIT_SUCCESS;
	switch (opt_parse_leading(&main_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	if (first == argc)
		return cmd_show(1, (char **)only_show);
	command = command_named(argv[first]);
	if (!command)
		return opt_misuse(&main_table, "there is no command '%s'", argv[first]);
	return command->run(argc - first, argv + first);
}
