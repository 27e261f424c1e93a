// SPDX-License-Identifier: BSD-2-Clause
/*
 * sim: runs the scenarios and reports in TAP. A scenario that fails prints its seed, the virtual time, the
 * last events and the command that repeats it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim.h"

#define DEFAULT_SEED 1
#define DEFAULT_RANDOM 100

struct options {
	const char *scenario;
	uint64_t seed;
	uint32_t random, distribution;
	bool only_random, trace, list, repeat, times;
};

static const struct scenario *const tables[] = {
	traffic_scenarios,   life_scenarios,  fault_scenarios, hostile_scenarios,
	speed_scenarios,     scale_scenarios, cc_scenarios,    plane_scenarios,
	tolerance_scenarios, self_scenarios,  figure_scenarios
};

struct totals {
	uint32_t run, failed;
	uint64_t packets;
};

static const struct option long_options[] = {
	{ "scenario", required_argument, NULL, 'n' },
	{ "seed", required_argument, NULL, 's' },
	{ "random", required_argument, NULL, 'r' },
	{ "distribution", required_argument, NULL, 'd' },
	{ "trace", no_argument, NULL, 't' },
	{ "repeat", no_argument, NULL, 'R' },
	{ "times", no_argument, NULL, 'T' },
	{ "list", no_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to,
		"Usage: sim [OPTION...]\n"
		"Run the protocol engine over a simulated network. Without options: every "
		"scenario\n"
		"and %u random ones, with seed %u.\n"
		"  --scenario NAME  only this scenario (or all whose name begins with NAME)\n"
		"  --seed S         seed of all randomness\n"
		"  --random N       only N random scenarios, seeds S, S + 1, ...\n"
		"  --distribution N only the figures (fig_...), N seeds of each, S, S + 1, ...\n"
		"  --trace          print every event\n"
		"  --repeat         run each scenario twice; both must happen in the same way\n"
		"  --times          tell the real time that each scenario takes\n"
		"  --list           name the scenarios\n"
		"  --help\n",
		DEFAULT_RANDOM, DEFAULT_SEED);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void report_failure(struct sim *s, const struct scenario *sc, uint64_t seed)
{
	trace_dump(s);
	printf("# %s failed at virtual time %llu.%09llu s, seed %llu:\n# %s\n", sc->name,
	       (unsigned long long)(s->now / SEC), (unsigned long long)(s->now % SEC),
	       (unsigned long long)seed, s->failure);
	if (strcmp(sc->name, "random"))
		printf("# again: build/tests/sim/sim --scenario %s --seed %llu --trace\n", sc->name,
		       (unsigned long long)seed);
	else
		printf("# again: build/tests/sim/sim --random 1 --seed %llu --trace\n",
		       (unsigned long long)seed);
}

/* Returns the hash of the trace; *failed says how it went. */
static uint64_t run_once(const struct scenario *sc, const struct options *o, uint64_t seed,
			 bool report, bool *failed, struct totals *t)
{
	struct sim *s = calloc(1, sizeof(*s));
	uint64_t hash;

	if (!s)
		abort();
	s->scenario = sc->name;
	s->cfg = sc->cfg;
	s->seed = seed;
	s->distribution = o->distribution;
	s->trace.print = o->trace && report;
	if (sc->run)
		sc->run(s);
	else
		world_standard(s);
	if (s->failed && report)
		report_failure(s, sc, seed);
	*failed = s->failed;
	world_free(s);
	if (s->failed && !*failed) { /* found while cleaning up */
		*failed = true;
		printf("# %s\n", s->failure);
	}
	if (s->notes[0] && report)
		printf("# %s: %s\n", sc->name, s->notes);
	hash = s->trace.hash ^ s->trace.count;
	t->packets += s->packets;
	free(s);
	return hash;
}

static void run_scenario(const struct scenario *sc, const struct options *o, uint64_t seed,
			 struct totals *t)
{
	double start = seconds();
	bool failed, again = false;
	uint64_t hash = run_once(sc, o, seed, true, &failed, t);

	if (o->repeat && run_once(sc, o, seed, false, &again, t) != hash) {
		printf("# %s: two runs of seed %llu were not the same\n", sc->name,
		       (unsigned long long)seed);
		failed = true;
	}
	t->run++;
	t->failed += failed;
	printf("%s %u - %s", failed ? "not ok" : "ok", t->run, sc->name);
	if (!strcmp(sc->name, "random"))
		printf(" %llu", (unsigned long long)seed);
	if (sc->what)
		printf(": %s", sc->what);
	if (o->times)
		printf(" (%.0f ms)", (seconds() - start) * 1e3);
	printf("\n");
	fflush(stdout);
}

static bool wanted(const struct options *o, const struct scenario *sc)
{
	return !o->scenario || !strncmp(sc->name, o->scenario, strlen(o->scenario));
}

static void run_tables(const struct options *o, struct totals *t)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		for (const struct scenario *sc = tables[i]; sc->name; sc++) {
			if (!wanted(o, sc) || (o->distribution && tables[i] != figure_scenarios))
				continue;
			if (o->list)
				printf("%-24s %s\n", sc->name, sc->what);
			else
				run_scenario(sc, o, o->seed, t);
		}
	}
}

static void run_random(const struct options *o, struct totals *t)
{
	for (uint32_t i = 0; i < o->random; i++) {
		struct scenario sc = { .name = "random", .run = random_run };

		random_config(o->seed + i, &sc.cfg);
		run_scenario(&sc, o, o->seed + i, t);
	}
}

static int parse(int argc, char **argv, struct options *o)
{
	int c;

	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (c) {
		case 'n': o->scenario = optarg; break;
		case 's': o->seed = strtoull(optarg, NULL, 0); break;
		case 'r':
			o->random = (uint32_t)strtoul(optarg, NULL, 0);
			o->only_random = true;
			break;
		case 'd': o->distribution = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 't': o->trace = true; break;
		case 'R': o->repeat = true; break;
		case 'T': o->times = true; break;
		case 'l': o->list = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); return -1;
		}
	}
	return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct options o = { .seed = DEFAULT_SEED, .random = DEFAULT_RANDOM };
	struct totals t = { 0 };
	double start = seconds();

	if (parse(argc, argv, &o))
		return 2;
	if (!o.only_random)
		run_tables(&o, &t);
	if (!o.scenario && !o.list && !o.distribution)
		run_random(&o, &t);
	if (o.list)
		return 0;
	if (!t.run)
		printf("# no scenario begins with '%s'; sim --list names them\n", o.scenario);
	printf("# %llu packets, %.1f s\n", (unsigned long long)t.packets, seconds() - start);
	printf("1..%u\n", t.run);
	return t.failed || !t.run;
}
