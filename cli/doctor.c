// SPDX-License-Identifier: BSD-2-Clause
/* doctor.c: `mroce doctor`: what keeps mroce from working here, and how to mend it. */
#include <string.h>
#include "cmd.h"
#include "options.h"
#include "report.h"

static const struct opt_table doctor_table = {
	.command = "mroce doctor",
	.args = "[OPTIONS] [INTERFACE...]",
	.about = "Checks kernel, rights, mroced and interfaces (by default those that mroced "
		 "uses), and says\n"
		 "how to mend what is wrong. Changes nothing. Exit status 1 if anything FAILs.",
	.json = true,
};

static const json_t *port_named(const json_t *root, const char *name)
{
	const json_t *port;
	size_t i;

	json_array_foreach(json_object_get(root, "ports"), i, port)
	{
		const char *port_name = json_string_value(json_object_get(port, "name"));

		if (port_name && !strcmp(port_name, name))
			return port;
	}
	return NULL;
}

static void check_ports(struct report *r, const json_t *root)
{
	const json_t *port;
	size_t i;

	json_array_foreach(json_object_get(root, "ports"), i, port)
		doctor_interface(r, json_string_value(json_object_get(port, "name")), port);
}

int cmd_doctor(int argc, char **argv)
{
	struct report r;
	json_t *root;
	int first;

	switch (opt_parse(&doctor_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	report_start(&r);
	doctor_host(&r);
	root = doctor_daemon(&r);
	if (first == argc)
		check_ports(&r, root);
	for (int i = first; i < argc; i++)
		doctor_interface(&r, argv[i], port_named(root, argv[i]));
	doctor_leftovers(&r, root);
	json_decref(root);
	return report_end(&r);
}
