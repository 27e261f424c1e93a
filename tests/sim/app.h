/* SPDX-License-Identifier: BSD-2-Clause */
/* app.h: what the rooms of the application share: message.c, lane.c, check.c, pair.c. */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "sim.h"

#define TX_ID (1ull << 63) /* in the id of a completion: a request, not a receive */
#define TOO_LONG_ROOM 64

/* message.c */
const char *status_text(uint32_t status);
bool opcode_is_send(uint8_t opcode);
bool opcode_is_write(uint8_t opcode);
bool opcode_has_imm(uint8_t opcode);
enum mroce_status fault_status(uint8_t fault);
enum mroce_status fault_recv_status(uint8_t fault);
bool msg_takes_receive(const struct msg *m);
void msg_make(struct lane *l, struct msg *m);

/* lane.c */
void app_wake(struct host *h);
void lane_finish(struct lane *l);
void end_post(struct end *e);

/* check.c */
void lane_sent(struct end *e, struct lane *l, uint32_t seq, const struct engine_completion *c);
void lane_received(struct end *e, struct lane *l, uint32_t number,
		   const struct engine_completion *c);

static inline struct end *lane_tx_end(const struct lane *l)
{
	return &l->pair->end[l->p.from];
}

static inline struct end *lane_rx_end(const struct lane *l)
{
	return &l->pair->end[!l->p.from];
}

static inline bool end_alive(const struct end *e)
{
	return e->state == END_UP && e->life == e->host->life;
}

#endif
