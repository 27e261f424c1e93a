/* SPDX-License-Identifier: BSD-2-Clause */
/* The port of the unit tests, for targets that need an engine which is connected to itself. */
#include "../unit/loop_port.c"
