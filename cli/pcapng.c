// SPDX-License-Identifier: BSD-2-Clause
/* pcapng.c: blocks of draft-ietf-opsawg-pcapng. All numbers in host order, which the first block tells. */
#include <string.h>
#include "pcapng.h"

#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1
#define BLOCK_PACKET 6
#define LINK_ETHERNET 1
#define OPTION_COMMENT 1
#define OPTION_IF_NAME 2
#define OPTION_IF_TSRESOL 9
#define OPTION_FLAGS 2
#define FLAG_IN 1u
#define FLAG_OUT 2u
#define PAD(n) (((n) + 3u) & ~3u)

static void put32(FILE *f, uint32_t v)
{
	fwrite(&v, sizeof(v), 1, f);
}

static void put16(FILE *f, uint16_t v)
{
	fwrite(&v, sizeof(v), 1, f);
}

static void put_padded(FILE *f, const void *data, uint32_t len)
{
	static const char zeros[4];

	fwrite(data, 1, len, f);
	fwrite(zeros, 1, PAD(len) - len, f);
}

static uint32_t option_len(uint32_t len)
{
	return 4 + PAD(len);
}

static void put_option(FILE *f, uint16_t code, const void *data, uint32_t len)
{
	put16(f, code);
	put16(f, (uint16_t)len);
	put_padded(f, data, len);
}

void pcapng_begin(FILE *f)
{
	put32(f, BLOCK_SECTION);
	put32(f, 28);
	put32(f, 0x1a2b3c4d);
	put16(f, 1); /* version 1.0 */
	put16(f, 0);
	put32(f, UINT32_MAX); /* length of the section: not known */
	put32(f, UINT32_MAX);
	put32(f, 28);
}

void pcapng_interface(FILE *f, const char *name, uint32_t snap_max)
{
	const uint8_t nanoseconds = 9;
	uint32_t len = 20 + option_len((uint32_t)strlen(name)) + option_len(1) + 4;

	put32(f, BLOCK_INTERFACE);
	put32(f, len);
	put16(f, LINK_ETHERNET);
	put16(f, 0);
	put32(f, snap_max);
	put_option(f, OPTION_IF_NAME, name, (uint32_t)strlen(name));
	put_option(f, OPTION_IF_TSRESOL, &nanoseconds, 1);
	put32(f, 0); /* end of options */
	put32(f, len);
}

void pcapng_packet(FILE *f, const struct pcapng_packet *p)
{
	uint32_t flags = p->out ? FLAG_OUT : FLAG_IN, comment = (uint32_t)strlen(p->comment);
	uint32_t len = 32 + PAD(p->snap) + option_len(comment) + option_len(sizeof(flags)) + 4;

	put32(f, BLOCK_PACKET);
	put32(f, len);
	put32(f, p->interface);
	put32(f, (uint32_t)(p->ns >> 32));
	put32(f, (uint32_t)p->ns);
	put32(f, p->snap);
	put32(f, p->len);
	put_padded(f, p->frame, p->snap);
	put_option(f, OPTION_COMMENT, p->comment, comment);
	put_option(f, OPTION_FLAGS, &flags, sizeof(flags));
	put32(f, 0);
	put32(f, len);
}
