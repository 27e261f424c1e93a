/* SPDX-License-Identifier: BSD-2-Clause */
/* digits.c: the handwritten digits, 8 x 8 pixels each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "training.h"

#define MOST 100000
#define BRIGHTEST 16
/* One in five is kept for the test. */
#define TRAIN_OF_FIVE 4

static int read_line(FILE *f, float *pixels, uint8_t *label)
{
	unsigned int value;

	for (int i = 0; i < PIXELS; i++) {
		if (fscanf(f, "%u,", &value) != 1)
			return i ? -EINVAL : -ENODATA;
		pixels[i] = (float)value / BRIGHTEST;
	}
	if (fscanf(f, "%u", &value) != 1 || value >= CLASSES)
		return -EINVAL;
	*label = (uint8_t)value;
	return 0;
}

static void swap(struct digits *d, uint32_t a, uint32_t b)
{
	float pixels[PIXELS];
	uint8_t label = d->label[a];

	memcpy(pixels, d->pixels + (size_t)a * PIXELS, sizeof(pixels));
	memmove(d->pixels + (size_t)a * PIXELS, d->pixels + (size_t)b * PIXELS, sizeof(pixels));
	memcpy(d->pixels + (size_t)b * PIXELS, pixels, sizeof(pixels));
	d->label[a] = d->label[b];
	d->label[b] = label;
}

/* The file is sorted by writer: mix, so that both parts have all of them. */
static void mix(struct digits *d)
{
	uint64_t state = 1;

	for (uint32_t i = d->count - 1; i > 0; i--) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		swap(d, i, (uint32_t)(state >> 33) % (i + 1));
	}
}

int digits_load(const char *path, struct digits *d)
{
	FILE *f = fopen(path, "re");
	int err = f ? 0 : -errno;

	memset(d, 0, sizeof(*d));
	if (!err) {
		d->pixels = malloc((size_t)MOST * PIXELS * sizeof(float));
		d->label = malloc(MOST);
		err = d->pixels && d->label ? 0 : -ENOMEM;
	}
	while (!err && d->count < MOST) {
		err = read_line(f, d->pixels + (size_t)d->count * PIXELS, d->label + d->count);
		d->count += !err;
	}
	if (f)
		fclose(f);
	if (err == -ENODATA && d->count >= CLASSES)
		err = 0;
	if (err) {
		fprintf(stderr, "training: %s: line %u: %s\n", path, d->count + 1, strerror(-err));
		digits_free(d);
		return err;
	}
	d->train = d->count * TRAIN_OF_FIVE / 5;
	mix(d);
	return 0;
}

void digits_free(struct digits *d)
{
	free(d->pixels);
	free(d->label);
	memset(d, 0, sizeof(*d));
}
