/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * training.h: data-parallel training of a small network on handwritten digits. Each worker computes a gradient from its
 * part of a batch; the workers' gradients are averaged; each applies the average to its own copy of the weights.
 */
#ifndef TRAINING_H
#define TRAINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIXELS 64
#define CLASSES 10
#define LAYERS 3

/* ---- digits.c ---- */

struct digits {
	float *pixels; /* PIXELS each, 0 .. 1 */
	uint8_t *label;
	uint32_t count, train; /* the first `train` are for training, in an order drawn once */
};

/* A file of lines with 64 pixels (0 .. 16) and the label, separated by commas. 0 or -errno, said. */
int digits_load(const char *path, struct digits *d);
void digits_free(struct digits *d);

/* ---- network.c ---- */

struct network {
	uint32_t width[LAYERS + 1]; /* PIXELS, two hidden layers, CLASSES */
	size_t parameters;
	float *weight, *velocity;
	float *activation[LAYERS + 1], *delta[LAYERS + 1]; /* of a batch */
};

/* The same seed gives the same weights. 0 or -ENOMEM. */
int network_init(struct network *n, uint32_t hidden1, uint32_t hidden2, uint32_t batch,
		 uint32_t seed);
void network_free(struct network *n);
/* The mean gradient of `count` samples into `gradient`; returns the mean loss. */
float network_gradient(struct network *n, const struct digits *d, const uint32_t *sample,
		       uint32_t count, float *gradient);
/* A step of gradient descent with momentum. */
void network_step(struct network *n, const float *gradient, float rate, float momentum);
/* The share of the digits not trained with that are recognised. */
double network_accuracy(struct network *n, const struct digits *d, uint32_t batch);

/* ---- exchange_mroce.c, exchange_tcp.c: two ways of averaging ---- */

struct exchange_config {
	const char *socket;
	const char *const *hosts;
	uint32_t size, rank;
	uint32_t max_missing, deadline_us, flags; /* as in struct mroce_coll_options */
};

struct exchange;

struct exchange_ops {
	const char *name;
	/* `memory` is where gradients will lie. 0 or -errno, said. */
	int (*open)(const struct exchange_config *config, size_t floats, struct exchange **out,
		    float **memory);
	void (*close)(struct exchange **e);
	/* In place. *missing: bytes that did not come here. Reliable if `exact`. */
	int (*average)(struct exchange *e, float *x, size_t count, bool exact, uint64_t *missing);
};

extern const struct exchange_ops exchange_mroce, exchange_tcp;

#endif
