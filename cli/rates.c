// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "json.h"
#include "rates.h"

/* A counter, and the rate that is made of it. */
struct rate {
	const char *counter, *name;
	double factor;
};

#define IDS 2
#define NAME_MAX_LEN 160

struct kind {
	const char *list;     /* key of the array */
	const char *ids[IDS]; /* that together name an object */
	const char *keep[12]; /* taken over as they are */
	struct rate rates[10];
};

static const struct kind kinds[] = {
	{ .list = "ports",
	  .ids = { "name" },
	  .keep = { "name", "up", "speed_mbps" },
	  .rates = { { "rx_packets", "rx_pps", 1 },
		     { "tx_packets", "tx_pps", 1 },
		     { "rx_dropped", "drops_ps", 1 },
		     { "rx_ring_full", "ring_full_ps", 1 } } },
	{ .list = "connections",
	  .ids = { "id" },
	  .keep = { "id", "peer", "service", "state", "owner_pid", "paths", "queued_requests" },
	  .rates = { { "tx_bytes", "tx_bps", 8 },
		     { "rx_bytes", "rx_bps", 8 },
		     { "tx_messages", "tx_msgs_ps", 1 },
		     { "rx_messages", "rx_msgs_ps", 1 },
		     { "repairs", "repairs_ps", 1 },
		     { "spurious_repairs", "spurious_ps", 1 } } },
	{ .list = "paths",
	  .ids = { "conn", "path" },
	  .keep = { "conn", "path", "port", "state", "reason", "srtt_us", "cwnd", "in_flight" },
	  .rates = { { "tx_bytes", "tx_bps", 8 },
		     { "tx_packets", "tx_pps", 1 },
		     { "rx_packets", "rx_pps", 1 },
		     { "repairs", "repairs_ps", 1 },
		     { "ce_bytes", "ce_bps", 8 },
		     { "rtos", "rtos_ps", 1 } } },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What names the object: its ids, one behind the other. */
static const char *name_of(const struct kind *k, const json_t *o, char name[NAME_MAX_LEN])
{
	char text[IDS][64] = { "" };

	for (int i = 0; i < IDS && k->ids[i]; i++) {
		const json_t *id = json_object_get(o, k->ids[i]);

		if (json_is_string(id))
			snprintf(text[i], sizeof(text[i]), "%s", json_string_value(id));
		else
			snprintf(text[i], sizeof(text[i]), "%.0f", json_number_value(id));
	}
	snprintf(name, NAME_MAX_LEN, "%s %s", text[0], text[1]);
	return name;
}

/* Object of the objects of before, by name. */
static json_t *index_of(const struct kind *k, const json_t *root)
{
	json_t *by_name = json_object();
	char name[NAME_MAX_LEN];
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(root, k->list), i, o)
		json_object_set(by_name, name_of(k, o, name), o);
	return by_name;
}

/* Counters of 32 bits wrap, those of a connection whose number was given again begin anew. */
static double growth(double before, double now)
{
	if (now >= before)
		return now - before;
	return before > 3e9 && before < 4294967296.0 && now < 1e9 ? now + 4294967296.0 - before
								  : now;
}

static json_t *rate_of(const struct kind *k, const json_t *before, const json_t *now, double seconds)
{
	json_t *out = json_object();

	for (size_t i = 0; i < sizeof(k->keep) / sizeof(k->keep[0]) && k->keep[i]; i++)
		if (json_object_get(now, k->keep[i]))
			json_object_set(out, k->keep[i], json_object_get(now, k->keep[i]));
	for (size_t i = 0; i < sizeof(k->rates) / sizeof(k->rates[0]) && k->rates[i].counter; i++) {
		const struct rate *r = &k->rates[i];
		double grown = growth(json_num(before, r->counter), json_num(now, r->counter));

		json_object_set_new(out, r->name, json_real(r->factor * grown / seconds));
	}
	return out;
}

static double busyness(const json_t *o)
{
	return json_num(o, "tx_bps") + json_num(o, "rx_bps");
}

static int by_busyness(const void *a, const void *b)
{
	double x = busyness(*(json_t *const *)a), y = busyness(*(json_t *const *)b);

	return (x < y) - (x > y);
}

static json_t *sorted(json_t *list)
{
	size_t n = json_array_size(list);
	json_t **objects = calloc(n + 1, sizeof(*objects));
	json_t *out = json_array();

	if (!objects)
		abort();
	for (size_t i = 0; i < n; i++)
		objects[i] = json_array_get(list, i);
	qsort(objects, n, sizeof(*objects), by_busyness);
	for (size_t i = 0; i < n; i++)
		json_array_append(out, objects[i]);
	free(objects);
	json_decref(list);
	return out;
}

static json_t *rates_of(const struct kind *k, const json_t *before, const json_t *now,
			double seconds)
{
	json_t *old = index_of(k, before), *out = json_array();
	char name[NAME_MAX_LEN];
	json_t *o;
	size_t i;

	json_array_foreach(json_object_get(now, k->list), i, o) json_array_append_new(
		out, rate_of(k, json_object_get(old, name_of(k, o, name)), o, seconds));
	json_decref(old);
	return out;
}

json_t *rates_between(const json_t *before, const json_t *now, double seconds)
{
	json_t *out = json_pack("{s:f, s:O}", "interval_s", seconds, "daemon",
				json_object_get(now, "daemon"));

	for (size_t i = 0; i < KINDS; i++) {
		json_t *list = rates_of(&kinds[i], before, now, seconds);

		if (!strcmp(kinds[i].list, "connections"))
			list = sorted(list);
		json_object_set_new(out, kinds[i].list, list);
	}
	return out;
}
