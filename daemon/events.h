/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h: what the engine calls. */
#ifndef DAEMON_EVENTS_H
#define DAEMON_EVENTS_H

#include "core/engine.h"

/* ctx is the struct daemon. */
extern const struct engine_ops daemon_engine_ops;

#endif
