/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal.h: lines for the administrator: to standard error, with priorities if systemd reads it; events with
 * fields of their own to the journal. The same error or warning is written once a minute, with a count.
 */
#ifndef DAEMON_JOURNAL_H
#define DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h> /* LOG_ERR ... LOG_DEBUG */
#include <jansson.h>
#include "core/engine.h"

/* verbose: LOG_DEBUG lines too. */
void journal_init(bool verbose);
void journal(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says it at LOG_ERR and returns err. */
int journal_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An event: the line, and in systemd's journal also MESSAGE_ID and MROCE_* fields. */
void journal_note(int level, const struct engine_note *n, const char *line);
/* Lines so far by level, also those that were not written. */
void journal_counts(uint64_t out[LOG_DEBUG + 1]);
/* Distinct errors and warnings: array of {level, count, first_s, last_s (ages), text (the last)}. */
json_t *journal_errors(void);

#endif
