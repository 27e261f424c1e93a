/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PORT_LOG_H
#define PORT_LOG_H

#include <syslog.h>

/* level as in syslog; one line, without a newline */
typedef void (*log_fn)(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For what is tried again and again, and was told once. */
static inline void log_nothing(int level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

#endif
