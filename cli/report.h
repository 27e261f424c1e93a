/* SPDX-License-Identifier: BSD-2-Clause */
/* report.h: what `mroce doctor` found, a line a check. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <jansson.h>

enum verdict {
	VERDICT_OK,
	VERDICT_WARN, /* works, but worse than it could */
	VERDICT_FAIL, /* mroce cannot work */
};

struct report {
	json_t *checks;
	unsigned int warnings, failures;
};

void report_start(struct report *r);
/* Prints at once unless -j was given. `mend`: what to do, NULL or "" if there is nothing to do. */
void report_line(struct report *r, enum verdict verdict, const char *name, const char *mend,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Prints the closing line, or all of it as JSON; returns the exit status. */
int report_end(struct report *r);

/* The checks, by subject. */
void doctor_host(struct report *r);
/* The daemon's answer to `show all`, or NULL if it could not be had. */
json_t *doctor_daemon(struct report *r);
void doctor_interface(struct report *r, const char *name, const json_t *port);
void doctor_leftovers(struct report *r, const json_t *daemon);

#endif
