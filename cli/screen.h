/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * screen.h: a terminal drawn as a whole, with ANSI sequences alone. Whatever ends the program, the terminal is
 * as it was before; suspending, continuing and resizing work.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>

/* 0, or -ENOTTY. Catches the signals that matter, cli_stop among what they set. */
int screen_open(void);
void screen_close(void);
/* Draws the text from the top, cut to the size of the terminal. */
void screen_draw(const char *text);
/* Waits for a key, a new size, or the end of the time. The key; 0: draw again; -1: time is over or cli_stop. */
int screen_wait(double seconds);

#endif
