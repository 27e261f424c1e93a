// SPDX-License-Identifier: BSD-2-Clause
/* safepath.c: which names may be made below the destination folder. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "safepath.h"

#define COMPONENT_MAX 255

static const char *component_refusal(const char *name, size_t len)
{
	if (!len)
		return "has an empty component";
	if (len > COMPONENT_MAX)
		return "has a component longer than 255 bytes";
	if (len == 1 && name[0] == '.')
		return "has a '.' component";
	if (len == 2 && name[0] == '.' && name[1] == '.')
		return "has a '..' component";
	return NULL;
}

const char *safepath_refusal(const char *path, size_t len)
{
	const char *end = path + len;

	if (!len)
		return "is empty";
	if (len > SAFEPATH_MAX)
		return "is longer than 4095 bytes";
	if (memchr(path, '\0', len))
		return "contains a zero byte";
	if (*path == '/')
		return "is absolute";
	while (path <= end) {
		const char *slash = memchr(path, '/', end - path);
		const char *stop = slash ? slash : end;
		const char *why = component_refusal(path, stop - path);

		if (why)
			return why;
		path = stop + 1;
	}
	return NULL;
}

static int folders_above(const char *path)
{
	int depth = 0;

	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

const char *safepath_link_refusal(const char *path, const char *target)
{
	int depth = folders_above(path);

	if (!*target)
		return "is a link to nothing";
	if (*target == '/')
		return "is a link to an absolute path";
	while (*target) {
		size_t len = strcspn(target, "/");

		if (len == 2 && target[0] == '.' && target[1] == '.')
			depth--;
		else if (len && !(len == 1 && *target == '.'))
			depth++;
		if (depth < 0)
			return "is a link that leads out of the destination";
		target += len;
		target += strspn(target, "/");
	}
	return NULL;
}

void safepath_name(const char *argument, char *out)
{
	size_t end = strlen(argument);
	size_t start;

	start = end;
	while (start && argument[start - 1] != '/')
		start--;
	if (end - start > COMPONENT_MAX)
		end = start + COMPONENT_MAX;
	snprintf(out, COMPONENT_MAX + 1, "%.*s", (int)(end - start), argument + start);
	if (!strcmp(out, ".") || !strcmp(out, ".."))
		*out = '\0';
}
