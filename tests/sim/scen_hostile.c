// SPDX-License-Identifier: BSD-2-Clause
/* Garbage, forgery and peers that lie: whatever comes, nothing crashes and no memory is touched. */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include "sim.h"

/* ---- garbage ---- */

static struct frame *forged(struct sim *s, uint32_t to, uint32_t len)
{
	struct frame *p = frame_new(s, len);

	p->from_host = !to;
	p->to_host = (uint8_t)to;
	p->src = net_address(s, !to, 0);
	p->dst = net_address(s, to, 0);
	p->sport = (uint16_t)rng_next(&s->net_rng);
	p->len = len;
	for (uint32_t i = 0; i < len; i++)
		p->data[i] = (uint8_t)rng_next(&s->net_rng);
	return p;
}

static void random_bytes(struct sim *s, void *a, uint64_t left)
{
	struct rng *r = &s->net_rng;
	struct frame *p = forged(s, (uint32_t)rng_below(r, 2), (uint32_t)rng_below(r, 1400));

	if (rng_below(r, 2) && p->len >= MROCE_HDR_LEN) { /* gets past the first checks */
		p->data[0] = MROCE_WIRE_VERSION;
		p->data[1] = (uint8_t)rng_below(r, MROCE_TYPE_MAX + 1);
		p->data[3] &= 15;
		frame_seal(p);
	}
	net_inject(s, p);
	if (left)
		sim_after(s, 2 * US, random_bytes, a, left - 1);
}

static void garbage(struct sim *s)
{
	world_build(s);
	world_connect(s);
	random_bytes(s, NULL, 20000);
	world_traffic(s);
	world_wait_lanes(s);
	world_wait(s, 50 * MS);
	world_finish(s);
}

/* Straight into the engine, as if a tracker had passed it. */
static void garbage_engine(struct sim *s)
{
	struct rng *r = &s->net_rng;

	s->hostile = true;
	world_build(s);
	world_connect(s);
	world_traffic(s);
	for (uint32_t i = 0; i < 20000 && !s->failed; i++) {
		struct host *h = s->hosts[i & 1];
		struct rx_info info = { .remote = net_address(s, !(i & 1), 0),
					.sport = (uint16_t)rng_next(r),
					.tracked = rng_below(r, 2) };
		struct frame *p = forged(s, i & 1, (uint32_t)rng_below(r, 300));
		struct mroce_hdr *hdr = (void *)p->data;
		uint32_t slot = (uint32_t)rng_below(r, 4);

		if (p->len >= MROCE_HDR_LEN && i % 4) {
			hdr->version = MROCE_WIRE_VERSION;
			hdr->type = (uint8_t)(1 + rng_below(r, MROCE_TYPE_MAX - 1));
			hdr->path &= 7;
			hdr->cid = htonl(h->ports[0].port.conns[slot].cid);
			hdr->token = htonl(h->ports[0].port.conns[slot].token);
			frame_seal(p);
		}
		engine_rx(h->engine, &h->ports[0].port, p->data, p->len, &info, s->now);
		engine_rx_flush(h->engine, s->now);
		frame_free(s, p);
		h->app_dirty = true;
		host_wake(h, s->now);
		if (i % 8 == 0)
			world_wait(s, 5 * US);
	}
	world_finish(s);
}

/* ---- forgery: right in all but the secret ---- */

static bool sniff(struct sim *s, struct frame *p)
{
	struct frame *copy;
	struct mroce_hdr *h;

	if (p->ctl || p->len < MROCE_HDR_LEN || rng_below(&s->net_rng, 4))
		return true;
	copy = frame_copy(s, p);
	h = (void *)copy->data;
	if (rng_below(&s->net_rng, 2))
		h->token = htonl(ntohl(h->token) ^ 1u << rng_below(&s->net_rng, 32));
	else
		h->cid = htonl(ntohl(h->cid) ^ 1u << (16 + rng_below(&s->net_rng, 16)));
	if (copy->len > MROCE_HDR_LEN) /* would do harm if it were believed */
		copy->data[copy->len - 1] ^= 0xff;
	frame_seal(copy);
	net_inject(s, copy);
	return true;
}

static void forged_tokens(struct sim *s)
{
	s->tap = sniff;
	world_standard(s);
}

/* ---- lies ---- */

enum lie {
	LIE_HIGHEST,
	LIE_BASE_AHEAD,
	LIE_BASE_BACK,
	LIE_SEEN,
	LIE_ECHO,
	LIE_LATE,
	LIE_ACK_ANY,
	LIE_DATA_MSG_LEN,
	LIE_DATA_CHUNK,
	LIE_DATA_CHUNK_SIZE,
	LIE_DATA_CHUNK_SIZE_0,
	LIE_DATA_MSG,
	LIE_DATA_STREAM,
	LIE_DATA_OP,
	LIE_DATA_RSEQ,
	LIE_DATA_RKEY,
	LIE_DATA_SHORT,
	LIE_DATA_ANY,
	LIE_PSN_AHEAD,
	LIE_UNA_AHEAD,
	LIE_EPOCH,
	LIE_CREDIT_BACK,
	LIE_CREDIT_AHEAD,
	LIE_READ_LEN,
	LIE_READ_ANY,
	LIE_ERROR_ANY,
	LIE_BECOMES_ERROR,
	LIE_BECOMES_CREDIT,
	LIE_BECOMES_CLOSE,
	LIE_PORT_STATUS,
	LIE_MAX
};

static void add32(__be32 *field, uint32_t value)
{
	*field = htonl(ntohl(*field) + value);
}

static void any_byte(struct sim *s, struct frame *p)
{
	uint32_t body = p->len - MROCE_HDR_LEN;

	if (body > 96)
		body = 96;
	if (body)
		p->data[MROCE_HDR_LEN + rng_below(&s->net_rng, body)] = (uint8_t)rng_next(
			&s->net_rng);
}

static void lie_in_ack(struct sim *s, struct frame *p, enum lie lie)
{
	struct mroce_ack *a = (void *)(p->data + MROCE_HDR_LEN);

	if (frame_type(p) != MROCE_ACK && frame_type(p) != MROCE_NACK)
		return;
	switch ((uint32_t)lie) {
	case LIE_HIGHEST: add32(&a->highest, 1000); break;
	case LIE_BASE_AHEAD:
		add32(&a->base, 100000);
		add32(&a->highest, 100000);
		break;
	case LIE_BASE_BACK: add32(&a->base, (uint32_t)-700); break;
	case LIE_SEEN: a->seen[rng_below(&s->net_rng, 4)] = htobe64(rng_next(&s->net_rng)); break;
	case LIE_ECHO: a->echo_ts = htonl((uint32_t)rng_next(&s->net_rng)); break;
	case LIE_LATE: a->late = htons((uint16_t)rng_next(&s->net_rng)); break;
	case LIE_ACK_ANY: any_byte(s, p); break;
	}
}

static void lie_in_data(struct sim *s, struct frame *p, enum lie lie)
{
	struct mroce_data *d = (void *)(p->data + MROCE_HDR_LEN);
	uint32_t any = (uint32_t)rng_next(&s->net_rng);

	if (frame_type(p) != MROCE_DATA)
		return;
	switch ((uint32_t)lie) {
	case LIE_DATA_MSG_LEN: d->msg_len = htobe64(rng_next(&s->net_rng) >> any % 64); break;
	case LIE_DATA_CHUNK: add32(&d->chunk, any >> any % 32); break;
	case LIE_DATA_CHUNK_SIZE: d->chunk_size = htons((uint16_t)any); break;
	case LIE_DATA_CHUNK_SIZE_0: d->chunk_size = 0; break;
	case LIE_DATA_MSG: add32(&d->msg, any >> any % 32); break;
	case LIE_DATA_STREAM: d->stream = htonl(any); break;
	case LIE_DATA_OP: d->op = (uint8_t)any; break;
	case LIE_DATA_RSEQ: d->rseq = htonl(any >> any % 32); break;
	case LIE_DATA_RKEY: d->rkey = htonl(any); break;
	case LIE_DATA_SHORT: p->len -= any % (p->len - MROCE_HDR_LEN); break;
	case LIE_DATA_ANY: any_byte(s, p); break;
	}
}

static void lie_in_header(struct sim *s, struct frame *p, enum lie lie)
{
	struct mroce_hdr *h = (void *)p->data;
	uint32_t any = (uint32_t)rng_next(&s->net_rng);

	switch ((uint32_t)lie) {
	case LIE_PSN_AHEAD: add32(&h->psn, any % 300); break;
	case LIE_UNA_AHEAD: h->una = htonl(ntohl(h->psn) - any % 10); break;
	case LIE_EPOCH: h->epoch = htons((uint16_t)any); break;
	}
}

static void become(struct sim *s, struct frame *p, uint8_t type, uint32_t body)
{
	if (frame_type(p) != MROCE_DATA || p->len < MROCE_HDR_LEN + body)
		return;
	p->data[1] = type;
	p->len = MROCE_HDR_LEN + body;
	if (type == MROCE_PORT_STATUS)
		p->data[MROCE_HDR_LEN] = (uint8_t)rng_below(&s->net_rng, 10);
	else if (type != MROCE_CLOSE)
		any_byte(s, p);
}

static void lie_in_control(struct sim *s, struct frame *p, enum lie lie)
{
	struct mroce_credit *c = (void *)(p->data + MROCE_HDR_LEN);
	struct mroce_read_req *r = (void *)(p->data + MROCE_HDR_LEN);
	uint8_t type = frame_type(p);

	switch ((uint32_t)lie) {
	case LIE_CREDIT_BACK:
	case LIE_CREDIT_AHEAD:
		if (type == MROCE_CREDIT)
			add32(&c->posted, lie == LIE_CREDIT_BACK ? (uint32_t)-5 : 100000);
		break;
	case LIE_READ_LEN:
		if (type == MROCE_READ_REQ)
			r->len = htobe64(rng_next(&s->net_rng));
		break;
	case LIE_READ_ANY:
		if (type == MROCE_READ_REQ)
			any_byte(s, p);
		break;
	case LIE_ERROR_ANY:
		if (type == MROCE_ERROR)
			any_byte(s, p);
		break;
	case LIE_BECOMES_ERROR: become(s, p, MROCE_ERROR, sizeof(struct mroce_error)); break;
	case LIE_BECOMES_CREDIT: become(s, p, MROCE_CREDIT, sizeof(*c)); break;
	case LIE_BECOMES_CLOSE:
		if (!rng_below(&s->net_rng, 50))
			become(s, p, MROCE_CLOSE, sizeof(struct mroce_close));
		break;
	case LIE_PORT_STATUS:
		become(s, p, MROCE_PORT_STATUS, sizeof(struct mroce_port_status));
		break;
	}
}

static bool liar(struct sim *s, struct frame *p)
{
	enum lie lie = (enum lie)s->tap_state[0];

	if (p->ctl || p->from_host != 1 || p->len < MROCE_HDR_LEN ||
	    !rng_ppm(&s->net_rng, 20 * PERCENT))
		return true;
	if (lie < LIE_DATA_MSG_LEN)
		lie_in_ack(s, p, lie);
	else if (lie < LIE_PSN_AHEAD)
		lie_in_data(s, p, lie);
	else if (lie < LIE_CREDIT_BACK)
		lie_in_header(s, p, lie);
	else
		lie_in_control(s, p, lie);
	frame_seal(p);
	return true;
}

/* One world per lie, so that each begins with a sound connection. */
static void one_lie(struct sim *s, enum lie lie)
{
	struct sim *other = world_child(s, &s->cfg);

	other->hostile = true;
	other->tap = liar;
	other->tap_state[0] = lie;
	world_build(other);
	if (world_connect(other)) {
		world_traffic(other);
		sim_run(other, other->now + 300 * MS, world_lanes_done);
	}
	other->tap = NULL;
	world_finish(other);
	if (other->failed)
		sim_fail(s, "lie %u: %s", lie, other->failure);
	world_child_end(s, other);
}

static void lying_acks(struct sim *s)
{
	for (uint32_t lie = 0; lie < LIE_DATA_MSG_LEN && !s->failed; lie++)
		one_lie(s, (enum lie)lie);
}

static void lying_data(struct sim *s)
{
	for (uint32_t lie = LIE_DATA_MSG_LEN; lie < LIE_PSN_AHEAD && !s->failed; lie++)
		one_lie(s, (enum lie)lie);
}

static void lying_headers(struct sim *s)
{
	for (uint32_t lie = LIE_PSN_AHEAD; lie < LIE_CREDIT_BACK && !s->failed; lie++)
		one_lie(s, (enum lie)lie);
}

static void lying_control(struct sim *s)
{
	for (uint32_t lie = LIE_CREDIT_BACK; lie < LIE_MAX && !s->failed; lie++)
		one_lie(s, (enum lie)lie);
}

/* ACKs of what was never sent are dropped whole: honest ones are enough to get everything done. */
static void acks_unsent(struct sim *s)
{
	s->tap = liar;
	s->tap_state[0] = LIE_BASE_AHEAD;
	world_build(s);
	world_connect(s);
	world_traffic(s);
	world_wait_lanes(s);
	if (!s->failed)
		CHECK(s, host_reason(s->hosts[0], MROCE_DROP_ACK_UNSENT) > 0,
		      "ACK_UNSENT was not counted");
	world_finish(s);
}

/* A man in the middle changes set-up packets. */
static bool garble_setup(struct sim *s, struct frame *p)
{
	if (!p->ctl || p->len <= MROCE_HDR_LEN || rng_below(&s->net_rng, 2))
		return true;
	p->data[MROCE_HDR_LEN + rng_below(&s->net_rng, p->len - MROCE_HDR_LEN)] = (uint8_t)rng_next(
		&s->net_rng);
	frame_seal(p);
	return true;
}

static void garbled_setup(struct sim *s)
{
	s->hostile = true;
	s->tap = garble_setup;
	world_build(s);
	for (uint32_t i = 0; i < 40 && !s->failed; i++) {
		struct pair *p = pair_new(s, i & 1, !(i & 1));
		struct lane_params lp = {
			.kinds = 1 << MROCE_WR_SEND, .max = 100, .count = 3, .window = 2
		};

		p->may_end = true;
		pair_connect(p);
		world_wait(s, 100 * MS);
		if (p->end[0].state == END_UP && p->end[1].state == END_UP)
			lane_new(p, &lp);
		world_wait(s, 100 * MS);
	}
	s->tap = NULL;
	world_wait(s, 15 * SEC);
	world_finish(s);
}

const struct scenario hostile_scenarios[] = {
	{ "garbage", "random packets among the traffic", { .count = 300, .rate_mbps = 1000 }, garbage },
	{ "garbage_engine", "random bytes into engine_rx()", { .count = 20000 }, garbage_engine },
	{ "forged_tokens", "copies with wrong secrets", { .count = 200 }, forged_tokens },
	{ "acks_unsent",
	  "every fifth ACK acknowledges what was never sent",
	  { .count = 300, .imp.loss = PERCENT },
	  acks_unsent },
	{ "lying_acks", "a peer whose ACKs lie", { .count = 60, .imp.loss = PERCENT }, lying_acks },
	{ "lying_data",
	  "a peer whose data packets lie",
	  { .count = 60, .imp.loss = PERCENT },
	  lying_data },
	{ "lying_headers",
	  "absurd PSNs, unas and epochs",
	  { .count = 60, .imp.loss = PERCENT },
	  lying_headers },
	{ "lying_control",
	  "absurd credits, reads, errors, closes",
	  { .count = 60, .imp.loss = PERCENT },
	  lying_control },
	{ "garbled_setup", "set-up packets changed on their way", { 0 }, garbled_setup },
	{ NULL, NULL, { 0 }, NULL },
};
