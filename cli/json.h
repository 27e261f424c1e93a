/* SPDX-License-Identifier: BSD-2-Clause */
/* json.h: members of objects that mroced describes itself with. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>

/* "-" if it is not there, or no string. */
static inline const char *json_str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "-";
}

/* 0 if it is not there, or no number. */
static inline double json_num(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

#endif
