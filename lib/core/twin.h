/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * twin.h: the user-space twin of the XDP program: does for one UDP payload what the kernel side does
 * for a frame, with the same tracking code. For ports without XDP and for the simulator.
 */
#ifndef CORE_TWIN_H
#define CORE_TWIN_H

#include <stdbool.h>
#include <stdint.h>
#include "core/packet.h"
#include "mroce/rate.h"
#include "core/port.h"

#define TWIN_REPLY_MAX MROCE_ACK_LEN

enum twin_verdict {
	TWIN_DELIVER = 0, /* to engine_rx() with tracked = true */
	TWIN_SETUP = 1,	  /* to engine_rx() with tracked = false */
	TWIN_DONE = 2,	  /* POLL or PROBE: the reply is all */
			  /* negative: -enum mroce_reason, drop it */
};

/*
 * `ce`: arrived with the CE mark. `queue`: receive queue it came by. If *reply_len is not 0 afterwards,
 * send that many bytes of `reply` (TWIN_REPLY_MAX) to the packet's source address, from the packet's UDP
 * source port; that goes with TWIN_DONE, and with TWIN_DELIVER when the packet reveals a gap (a NACK).
 */
int twin_rx(struct port *port, const void *payload, uint32_t len, bool ce, uint32_t queue,
	    void *reply, uint32_t *reply_len);

/*
 * The TC egress program's work for letters handed over: `payload` has a preliminary header (mroce/post.h). 0,
 * and it is a packet that is to leave from *sport; or -enum mroce_reason, and it is to be dropped. For ports
 * without a kernel.
 */
int twin_post(struct post_tables *t, void *payload, uint32_t len, uint64_t now, uint16_t *sport);

/* A packet of so many bytes of UDP payload arrives: does the port's virtual queue mark it? */
static inline bool twin_mark(struct port *port, uint32_t payload, uint64_t now)
{
	return port->vq.rate &&
	       vqueue_pass(&port->vq_state, &port->vq, now, payload + MROCE_WIRE_OVERHEAD);
}

#endif
