/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h: how far a transfer is: a bar on a terminal, a line now and then elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	uint64_t total; /* bytes expected; what is done may come out larger */
	bool quiet, terminal;
	double start, last; /* clock_seconds() */
	uint64_t last_done;
	double rate; /* bit/s, of late */
	bool drawn;
};

/* One line without line end; width: columns of the terminal, the bar takes what is left. */
void progress_line(char *buf, size_t size, uint64_t done, uint64_t total, double rate, int width);

void progress_start(struct progress *p, uint64_t total, bool quiet);
/* Draws if it is time to. Cheap enough to be called for every block. */
void progress_update(struct progress *p, uint64_t done);
/* Takes the bar away, so that the summary can stand in its place. */
void progress_end(struct progress *p);

#endif
