/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * rate.h: the rate hint of an ACK as a 16-bit float: 5 bits of exponent above 11 bits of mantissa, value =
 * mantissa x 2^exponent kbit/s; 0 means that there is no hint. 1 kbit/s to 4 Pbit/s, to 0.1 %.
 *
 * Rates count what a packet takes on an Ethernet link: MROCE_WIRE_OVERHEAD bytes more than its UDP
 * payload (gap, preamble, FCS, Ethernet, IPv4 and UDP headers; IPv6's 20 more are left to the margin).
 */
#ifndef MROCE_RATE_H
#define MROCE_RATE_H

#include <linux/types.h>

#define MROCE_RATE_MANTISSA 11
#define MROCE_WIRE_OVERHEAD 66

/* kbit/s, rounded down; never 0 for a rate that is not 0. */
static inline __u16 rate_encode(__u64 kbps)
{
	__u32 exponent = 0;

	while (kbps >> MROCE_RATE_MANTISSA) {
		kbps >>= 1;
		exponent++;
	}
	if (exponent > 31)
		return 0xffff;
	return (__u16)(exponent << MROCE_RATE_MANTISSA | kbps);
}

/* kbit/s; 0: no hint. A mantissa of 0 with any exponent is 0 too. */
static inline __u64 rate_decode(__u16 rate)
{
	return (__u64)(rate & ((1u << MROCE_RATE_MANTISSA) - 1)) << (rate >> MROCE_RATE_MANTISSA);
}

#endif
