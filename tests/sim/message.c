// SPDX-License-Identifier: BSD-2-Clause
/* What a message is like: kind, size, what is wrong with it, and how it therefore has to end. */
#include "app.h"

static const char *const status_names[] = { "OK",	    "FLUSHED", "REMOTE_ACCESS",
					    "LOCAL_ACCESS", "LENGTH",  "PEER_GONE",
					    "PROTOCOL",	    "DAEMON",  "LOSS" };

const char *status_text(uint32_t status)
{
	return status < sizeof(status_names) / sizeof(*status_names) ? status_names[status] : "?";
}

static bool opcode_takes_receive(uint8_t opcode)
{
	return opcode == MROCE_WR_SEND || opcode == MROCE_WR_SEND_IMM ||
	       opcode == MROCE_WR_WRITE_IMM;
}

bool opcode_is_send(uint8_t opcode)
{
	return opcode == MROCE_WR_SEND || opcode == MROCE_WR_SEND_IMM;
}

bool opcode_is_write(uint8_t opcode)
{
	return opcode == MROCE_WR_WRITE || opcode == MROCE_WR_WRITE_IMM;
}

bool opcode_has_imm(uint8_t opcode)
{
	return opcode == MROCE_WR_SEND_IMM || opcode == MROCE_WR_WRITE_IMM;
}

static bool fault_fits(const struct msg *m, uint32_t fault)
{
	switch ((enum fault)fault) {
	case FAULT_NONE: return true;
	case FAULT_BAD_RKEY:
	case FAULT_BOUNDS:
	case FAULT_BELOW:
	case FAULT_WRAP:
	case FAULT_PERMISSION:
	case FAULT_OWNER: return m->len && !opcode_is_send(m->opcode);
	case FAULT_LOCAL_KEY:
	case FAULT_LOCAL_BOUNDS: return m->len != 0;
	case FAULT_TOO_LONG: return opcode_is_send(m->opcode);
	case FAULT_MAX: break;
	}
	return false;
}

enum mroce_status fault_status(uint8_t fault)
{
	switch ((enum fault)fault) {
	case FAULT_NONE: return MROCE_OK;
	case FAULT_BAD_RKEY:
	case FAULT_BOUNDS:
	case FAULT_BELOW:
	case FAULT_WRAP:
	case FAULT_PERMISSION:
	case FAULT_OWNER: return MROCE_E_REMOTE_ACCESS;
	case FAULT_LOCAL_KEY:
	case FAULT_LOCAL_BOUNDS: return MROCE_E_LOCAL_ACCESS;
	case FAULT_TOO_LONG: return MROCE_E_LENGTH;
	case FAULT_MAX: break;
	}
	return MROCE_E_PROTOCOL;
}

/* How the receive ends that the message has taken: for its owner it is his own region that says no. */
enum mroce_status fault_recv_status(uint8_t fault)
{
	enum mroce_status status = fault_status(fault);

	return status == MROCE_E_REMOTE_ACCESS ? MROCE_E_LOCAL_ACCESS : status;
}

bool msg_takes_receive(const struct msg *m)
{
	return opcode_takes_receive(m->opcode) && fault_status(m->fault) != MROCE_E_LOCAL_ACCESS;
}

static uint64_t random_size(struct rng *r, uint64_t min, uint64_t max)
{
	uint64_t span = max - min;

	if (span > 4096 && rng_below(r, 4)) /* mostly small ones, so that a mix is one */
		span = 1ull << rng_below(r, 64 - (uint32_t)__builtin_clzll(span));
	return min + rng_below(r, (span > max - min ? max - min : span) + 1);
}

static uint8_t random_opcode(struct rng *r, uint32_t kinds)
{
	uint8_t op;

	do
		op = (uint8_t)rng_below(r, 8);
	while (!(kinds >> op & 1));
	return op;
}

static uint8_t random_fault(struct rng *r, const struct lane_params *p, const struct msg *m)
{
	uint8_t fault;

	if (!rng_ppm(r, p->fault_ppm))
		return FAULT_NONE;
	fault = (uint8_t)rng_below(r, FAULT_MAX);
	return p->faults >> fault & 1 && fault_fits(m, fault) ? fault : FAULT_NONE;
}

/* Everything that may be said. */
static struct mroce_tolerance random_tolerance(struct rng *r, uint64_t len)
{
	static const uint32_t bounds[] = { 0, 1000, 10000, 50000, 300000, 1000000 };
	struct mroce_tolerance t = {
		.max_missing = bounds[rng_below(r, 6)],
		.deadline_us = rng_below(r, 3) ? (uint32_t)(1 + rng_below(r, 1u << rng_below(r, 16)))
					       : 0,
		.fill = (uint8_t)rng_below(r, 2),
		.over = (uint8_t)rng_below(r, 2),
	};

	if (rng_below(r, 3))
		return t;
	t.ncritical = (uint8_t)rng_below(r, MROCE_CRITICAL_MAX + 1);
	for (uint32_t i = 0; i < t.ncritical; i++) {
		t.critical[i].offset = rng_below(r, len + 1);
		t.critical[i].length = rng_below(r, len - t.critical[i].offset + 1) >>
				       rng_below(r, 8);
	}
	return t;
}

static void state_tolerance(struct lane *l, struct msg *m)
{
	if (rng_ppm(&l->s->app_rng, l->p.tolerant_ppm)) {
		m->tolerant = true;
		m->tol = random_tolerance(&l->s->app_rng, m->len);
	} else if (l->p.tolerance) {
		m->tolerant = true;
		m->tol = *l->p.tolerance;
	}
}

void msg_make(struct lane *l, struct msg *m)
{
	struct rng *r = &l->s->app_rng;

	m->opcode = random_opcode(r, l->p.kinds);
	m->len = random_size(r, l->p.min, l->p.max);
	m->pattern = rng_next(r);
	m->imm = (uint32_t)rng_next(r);
	m->fault = random_fault(r, &l->p, m);
	if (m->fault == FAULT_TOO_LONG)
		m->len = l->p.max + 1 + rng_below(r, TOO_LONG_ROOM);
	state_tolerance(l, m);
	if (msg_takes_receive(m)) {
		l->by_recv[l->need_recv] = (uint32_t)(m - l->msgs);
		m->recv = l->need_recv++;
	}
}
