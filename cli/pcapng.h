/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng.h: a capture file for Wireshark. */
#ifndef CLI_PCAPNG_H
#define CLI_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint32_t interface; /* in the order in which they were added, from 0 */
	uint64_t ns;	    /* since 1970 */
	uint32_t len, snap; /* of the frame; of these in the file */
	const void *frame;
	bool out;
	const char *comment;
};

void pcapng_begin(FILE *f);
void pcapng_interface(FILE *f, const char *name, uint32_t snap_max);
void pcapng_packet(FILE *f, const struct pcapng_packet *p);

#endif
