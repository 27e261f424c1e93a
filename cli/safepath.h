/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * safepath.h: which names a receiver takes from a sender it does not know. Pure string rules; the
 * receiver additionally opens everything with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS.
 */
#ifndef CLI_SAFEPATH_H
#define CLI_SAFEPATH_H

#include <stddef.h>

#define SAFEPATH_MAX 4095 /* bytes of a path, without the final 0 */

/*
 * NULL if `path` may be made below the destination: relative, no empty, "." or ".." component, none
 * longer than 255 bytes. Otherwise the reason, as the end of a sentence.
 */
const char *safepath_refusal(const char *path, size_t len);
/* The same for a symbolic link at `path` (already accepted): its target must be relative and may
 * not lead above the destination at any point. */
const char *safepath_link_refusal(const char *path, const char *target);
/*
 * The name under which a command line argument is sent: its last component; "" for ".", ".." and
 * whatever ends with a slash: their contents are sent without a folder around them. `out` has room
 * for 256 bytes.
 */
void safepath_name(const char *argument, char *out);

#endif
