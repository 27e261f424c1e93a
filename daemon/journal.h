/* SPDX-License-Identifier: BSD-2-Clause */
/* journal.h: lines for the administrator: to standard error, with priorities if systemd reads it. */
#ifndef DAEMON_JOURNAL_H
#define DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h> /* LOG_ERR ... LOG_DEBUG */

/* verbose: LOG_DEBUG lines too. */
void journal_init(bool verbose);
void journal(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says it at LOG_ERR and returns err. */
int journal_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Lines so far by level, also those that were not written. */
void journal_counts(uint64_t out[LOG_DEBUG + 1]);

#endif
