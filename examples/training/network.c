/* SPDX-License-Identifier: BSD-2-Clause */
/* network.c: three dense layers, ReLU between them, softmax and cross entropy behind. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "training.h"

/* The weights of a layer, [out][in], and behind them its biases. */
static size_t layer_at(const struct network *n, int layer)
{
	size_t at = 0;

	for (int l = 0; l < layer; l++)
		at += ((size_t)n->width[l] + 1) * n->width[l + 1];
	return at;
}

/* He's initialisation, from a sum of uniform numbers. */
static void draw_weights(struct network *n, uint32_t seed)
{
	uint64_t state = seed + 88172645463325252ull;

	for (int l = 0; l < LAYERS; l++) {
		size_t count = (size_t)n->width[l] * n->width[l + 1];
		float *w = n->weight + layer_at(n, l), scale = sqrtf(2.0f / (float)n->width[l]);

		for (size_t i = 0; i < count; i++) {
			float sum = 0;

			for (int k = 0; k < 3; k++) {
				state = state * 6364136223846793005ull + 1442695040888963407ull;
				sum += (float)(state >> 40) / (float)(1u << 23) - 1;
			}
			w[i] = sum * scale;
		}
	}
}

int network_init(struct network *n, uint32_t hidden1, uint32_t hidden2, uint32_t batch,
		 uint32_t seed)
{
	const uint32_t width[LAYERS + 1] = { PIXELS, hidden1, hidden2, CLASSES };
	bool good;

	memset(n, 0, sizeof(*n));
	memcpy(n->width, width, sizeof(width));
	n->parameters = layer_at(n, LAYERS);
	n->weight = calloc(n->parameters, sizeof(float));
	n->velocity = calloc(n->parameters, sizeof(float));
	good = n->weight && n->velocity;
	for (int l = 0; l <= LAYERS; l++) {
		n->activation[l] = calloc((size_t)batch * width[l], sizeof(float));
		n->delta[l] = calloc((size_t)batch * width[l], sizeof(float));
		good = good && n->activation[l] && n->delta[l];
	}
	if (!good) {
		network_free(n);
		return -ENOMEM;
	}
	draw_weights(n, seed);
	return 0;
}

void network_free(struct network *n)
{
	free(n->weight);
	free(n->velocity);
	for (int l = 0; l <= LAYERS; l++) {
		free(n->activation[l]);
		free(n->delta[l]);
	}
	memset(n, 0, sizeof(*n));
}

/* ---- forward ---- */

/* Eight sums side by side, so that the compiler may use vectors without changing the order of anything. */
static float dot(const float *restrict a, const float *restrict b, uint32_t n)
{
	float part[8] = { 0 }, sum = 0;
	uint32_t i = 0;

	for (; i + 8 <= n; i += 8)
		for (uint32_t k = 0; k < 8; k++)
			part[k] += a[i + k] * b[i + k];
	for (; i < n; i++)
		sum += a[i] * b[i];
	for (uint32_t k = 0; k < 8; k++)
		sum += part[k];
	return sum;
}

static void forward_layer(struct network *n, int l, uint32_t count)
{
	uint32_t in = n->width[l], out = n->width[l + 1];
	const float *w = n->weight + layer_at(n, l), *bias = w + (size_t)in * out;

	for (uint32_t o = 0; o < out; o++) {
		for (uint32_t s = 0; s < count; s++) {
			float x = bias[o] +
				  dot(w + (size_t)o * in, n->activation[l] + (size_t)s * in, in);

			n->activation[l + 1][(size_t)s * out + o] = l + 1 < LAYERS && x < 0 ? 0 : x;
		}
	}
}

static void forward(struct network *n, const struct digits *d, const uint32_t *sample,
		    uint32_t first, uint32_t count)
{
	for (uint32_t s = 0; s < count; s++)
		memcpy(n->activation[0] + (size_t)s * PIXELS,
		       d->pixels + (size_t)(sample ? sample[s] : first + s) * PIXELS,
		       PIXELS * sizeof(float));
	for (int l = 0; l < LAYERS; l++)
		forward_layer(n, l, count);
}

/* ---- backward ---- */

/* Turns outputs into probabilities; their difference from the truth is the last delta. Returns the loss. */
static float softmax(const float *out, uint8_t label, float *delta)
{
	float most = out[0], sum = 0;

	for (int c = 1; c < CLASSES; c++)
		most = out[c] > most ? out[c] : most;
	for (int c = 0; c < CLASSES; c++) {
		delta[c] = expf(out[c] - most);
		sum += delta[c];
	}
	for (int c = 0; c < CLASSES; c++)
		delta[c] /= sum;
	sum = -logf(delta[label] > 1e-30f ? delta[label] : 1e-30f);
	delta[label] -= 1;
	return sum;
}

static void add_scaled(float *restrict to, const float *restrict x, float by, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] += x[i] * by;
}

static void backward_layer(struct network *n, int l, uint32_t count, float *gradient)
{
	uint32_t in = n->width[l], out = n->width[l + 1];
	const float *w = n->weight + layer_at(n, l);
	float *g = gradient + layer_at(n, l), *bias = g + (size_t)in * out;

	memset(n->delta[l], 0, (size_t)count * in * sizeof(float));
	for (uint32_t o = 0; o < out; o++) {
		for (uint32_t s = 0; s < count; s++) {
			float d = n->delta[l + 1][(size_t)s * out + o];

			if (d == 0)
				continue;
			add_scaled(g + (size_t)o * in, n->activation[l] + (size_t)s * in,
				   d / (float)count, in);
			add_scaled(n->delta[l] + (size_t)s * in, w + (size_t)o * in, d, in);
			bias[o] += d / (float)count;
		}
	}
	for (size_t i = 0; l && i < (size_t)count * in; i++)
		if (n->activation[l][i] <= 0)
			n->delta[l][i] = 0;
}

float network_gradient(struct network *n, const struct digits *d, const uint32_t *sample,
		       uint32_t count, float *gradient)
{
	float loss = 0;

	forward(n, d, sample, 0, count);
	memset(gradient, 0, n->parameters * sizeof(float));
	for (uint32_t s = 0; s < count; s++)
		loss += softmax(n->activation[LAYERS] + (size_t)s * CLASSES, d->label[sample[s]],
				n->delta[LAYERS] + (size_t)s * CLASSES);
	for (int l = LAYERS - 1; l >= 0; l--)
		backward_layer(n, l, count, gradient);
	return loss / (float)count;
}

void network_step(struct network *n, const float *gradient, float rate, float momentum)
{
	for (size_t i = 0; i < n->parameters; i++) {
		n->velocity[i] = momentum * n->velocity[i] - rate * gradient[i];
		n->weight[i] += n->velocity[i];
	}
}

static bool is_right(const float *out, uint8_t label)
{
	for (int c = 0; c < CLASSES; c++)
		if (c != label && out[c] >= out[label])
			return false;
	return true;
}

double network_accuracy(struct network *n, const struct digits *d, uint32_t batch)
{
	uint32_t right = 0;

	for (uint32_t first = d->train; first < d->count; first += batch) {
		uint32_t count = d->count - first < batch ? d->count - first : batch;

		forward(n, d, NULL, first, count);
		for (uint32_t s = 0; s < count; s++)
			right += is_right(n->activation[LAYERS] + (size_t)s * CLASSES,
					  d->label[first + s]);
	}
	return (double)right / (d->count - d->train);
}
