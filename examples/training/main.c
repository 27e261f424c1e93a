/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * training: one worker of a data-parallel training.
 *
 *	training [OPTIONS] RANK FILE HOST...
 *
 * FILE has the digits (see digits.c), HOST... all workers in the order of their ranks. Rank 0 prints a line a step: step,
 * seconds (evaluations left out), loss, accuracy (of the last evaluation), milliseconds of the step and of its
 * exchange, bytes missing at rank 0; and in the end how far the weights of the ranks are apart.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mroce_collective.h"
#include "training.h"

#define MOMENTUM 0.9f

struct settings {
	struct exchange_config exchange;
	const struct exchange_ops *ops;
	const char *file;
	uint32_t steps, batch, hidden1, hidden2, evaluate, sync;
	float rate;
};

struct worker {
	const struct settings *s;
	struct digits digits;
	struct network net;
	struct exchange *exchange;
	float *gradient;
	uint32_t *sample;
	uint64_t started, away; /* ns: evaluations */
	double accuracy;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* All ranks draw the same samples and take one in `size` each. */
static void draw_samples(struct worker *w, uint32_t step)
{
	const struct settings *s = w->s;
	uint64_t state = step * 0x9e3779b97f4a7c15ull + 1;

	for (uint32_t i = 0; i < s->batch * s->exchange.size; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		if (i % s->exchange.size == s->exchange.rank)
			w->sample[i / s->exchange.size] = (uint32_t)(state >> 33) % w->digits.train;
	}
}

static void evaluate(struct worker *w)
{
	uint64_t start = now_ns();

	w->accuracy = network_accuracy(&w->net, &w->digits, w->s->batch);
	w->away += now_ns() - start;
}

/* Weights that have drifted apart are averaged. */
static int synchronise(struct worker *w)
{
	uint64_t missing;
	int err;

	memcpy(w->gradient, w->net.weight, w->net.parameters * sizeof(float));
	err = w->s->ops->average(w->exchange, w->gradient, w->net.parameters, true, &missing);
	memcpy(w->net.weight, w->gradient, w->net.parameters * sizeof(float));
	return err;
}

static int step(struct worker *w, uint32_t number)
{
	const struct settings *s = w->s;
	uint64_t start = now_ns(), exchange, end, missing;
	float loss;
	int err;

	draw_samples(w, number);
	loss = network_gradient(&w->net, &w->digits, w->sample, s->batch, w->gradient);
	exchange = now_ns();
	err = s->ops->average(w->exchange, w->gradient, w->net.parameters, false, &missing);
	end = now_ns();
	if (err)
		return err;
	network_step(&w->net, w->gradient, s->rate, MOMENTUM);
	if (s->sync && number % s->sync == 0)
		err = synchronise(w);
	if (s->exchange.rank)
		return err;
	if (number % s->evaluate == 0 || number == s->steps)
		evaluate(w);
	printf("%u %.6f %.5f %.4f %.3f %.3f %llu\n", number,
	       (double)(now_ns() - w->started - w->away) / 1e9, (double)loss, w->accuracy,
	       (double)(end - start) / 1e6, (double)(end - exchange) / 1e6,
	       (unsigned long long)missing);
	return err;
}

/* Root mean square distance of the weights from their mean, by that of the mean itself; the worst rank's. */
static int report_drift(struct worker *w)
{
	double off = 0, all = 0;
	uint64_t missing;
	int err;

	memcpy(w->gradient, w->net.weight, w->net.parameters * sizeof(float));
	err = w->s->ops->average(w->exchange, w->gradient, w->net.parameters, true, &missing);
	for (size_t i = 0; i < w->net.parameters; i++) {
		double mean = w->gradient[i], d = w->net.weight[i] - mean;

		off += d * d;
		all += mean * mean;
	}
	if (!err && w->s->exchange.rank == 0)
		printf("# accuracy %.4f drift %.3e parameters %zu exchange %s\n", w->accuracy,
		       sqrt(off / all), w->net.parameters, w->s->ops->name);
	return err;
}

static int train(struct worker *w)
{
	/* All start together; and TCP has its windows. */
	int err = synchronise(w);

	w->started = now_ns();
	for (uint32_t i = 1; i <= w->s->steps && !err; i++)
		err = step(w, i);
	return err ? err : report_drift(w);
}

static int work(const struct settings *s)
{
	struct worker w = { .s = s };
	int err = digits_load(s->file, &w.digits);

	if (!err)
		err = network_init(&w.net, s->hidden1, s->hidden2, s->batch, 1);
	w.sample = calloc(s->batch, sizeof(*w.sample));
	if (!err && !w.sample)
		err = -ENOMEM;
	if (!err)
		err = s->ops->open(&s->exchange, w.net.parameters, &w.exchange, &w.gradient);
	if (!err) {
		err = train(&w);
		s->ops->close(&w.exchange);
	}
	free(w.sample);
	network_free(&w.net);
	digits_free(&w.digits);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- options ---- */

static void usage(FILE *out)
{
	fputs("Usage: training [OPTIONS] RANK FILE HOST...\n"
	      "  --tcp             a ring over TCP instead of mroce\n"
	      "  --socket PATH     of mroced\n"
	      "  --max-missing PPM, --deadline US, --same, --hadamard   as in mroce-collective(1)\n"
	      "  --sync N          average the weights reliably every N steps\n"
	      "  --steps N         80 unless given\n"
	      "  --batch N         samples of a worker in a step: 16\n"
	      "  --hidden A,B      widths of the hidden layers: 1024,256\n"
	      "  --rate X          of learning: 0.02\n"
	      "  --evaluate N      every N steps: 4\n",
	      out);
}

static int number(const char *text, uint32_t *out)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!*text || *end || n > UINT32_MAX) {
		fprintf(stderr, "training: '%s' is no number\n", text);
		return -EINVAL;
	}
	*out = (uint32_t)n;
	return 0;
}

static int take_option(struct settings *s, int letter)
{
	switch (letter) {
	case 't': s->ops = &exchange_tcp; return 0;
	case 's': s->exchange.socket = optarg; return 0;
	case 'm': return number(optarg, &s->exchange.max_missing);
	case 'd': return number(optarg, &s->exchange.deadline_us);
	case 'a': s->exchange.flags |= MROCE_COLL_SAME; return 0;
	case 'h': s->exchange.flags |= MROCE_COLL_HADAMARD; return 0;
	case 'y': return number(optarg, &s->sync);
	case 'n': return number(optarg, &s->steps);
	case 'b': return number(optarg, &s->batch);
	case 'r': s->rate = strtof(optarg, NULL); return s->rate > 0 ? 0 : -EINVAL;
	case 'e': return number(optarg, &s->evaluate);
	case 'w': return sscanf(optarg, "%u,%u", &s->hidden1, &s->hidden2) == 2 ? 0 : -EINVAL;
	}
	return -EINVAL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "tcp", no_argument, NULL, 't' },
						 { "socket", required_argument, NULL, 's' },
						 { "max-missing", required_argument, NULL, 'm' },
						 { "deadline", required_argument, NULL, 'd' },
						 { "same", no_argument, NULL, 'a' },
						 { "hadamard", no_argument, NULL, 'h' },
						 { "sync", required_argument, NULL, 'y' },
						 { "steps", required_argument, NULL, 'n' },
						 { "batch", required_argument, NULL, 'b' },
						 { "rate", required_argument, NULL, 'r' },
						 { "evaluate", required_argument, NULL, 'e' },
						 { "hidden", required_argument, NULL, 'w' },
						 { NULL, 0, NULL, 0 } };
	struct settings s = { .ops = &exchange_mroce,
			      .steps = 80,
			      .batch = 16,
			      .hidden1 = 1024,
			      .hidden2 = 256,
			      .evaluate = 4,
			      .rate = 0.02f };
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (take_option(&s, letter)) {
			usage(stderr);
			return 2;
		}
	}
	if (argc - optind < 3 || number(argv[optind], &s.exchange.rank) || !s.batch ||
	    !s.evaluate || !s.hidden1 || !s.hidden2) {
		usage(stderr);
		return 2;
	}
	s.file = argv[optind + 1];
	s.exchange.hosts = (const char *const *)argv + optind + 2;
	s.exchange.size = (uint32_t)(argc - optind - 2);
	if (s.exchange.rank >= s.exchange.size) {
		fprintf(stderr, "training: rank %u of %u hosts\n", s.exchange.rank, s.exchange.size);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return work(&s);
}
