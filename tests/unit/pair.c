// SPDX-License-Identifier: BSD-2-Clause
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/twin.h"
#include "pair.h"

#define PAYLOAD_MAX 1452
#define FRAME_MAX 4096
#define SERVICE 7
#define STEP 1000000ull

struct pair_packet {
	struct pair_packet *next;
	uint64_t at;
	struct port *to;
	struct ip from_addr;
	uint16_t sport;
	int to_side;
	uint32_t len;
	bool seen_only, corrupt;
	uint8_t data[FRAME_MAX];
};

struct pair_port {
	struct pair_side *side;
	uint32_t index;
	struct pair_packet *open;
	struct flow *flow;
	/* letters handed over, and those that come too late */
	struct pair_packet *letters, **last, *late;
	struct ip letters_to;
};

bool pair_hands_over;

static struct ip address(int side, uint32_t plane)
{
	return (struct ip){ { [10] = 0xff, [11] = 0xff, 10, (uint8_t)plane, 0, (uint8_t)(side + 1) } };
}

uint32_t pair_rand(struct pair *p)
{
	p->rng ^= p->rng << 13;
	p->rng ^= p->rng >> 17;
	p->rng ^= p->rng << 5;
	return p->rng;
}

static void free_packets(struct pair_packet *list)
{
	while (list) {
		struct pair_packet *next = list->next;

		free(list);
		list = next;
	}
}

static void queue_packet(struct pair *p, struct pair_packet *pkt)
{
	struct pair_packet **at = &p->head;

	while (*at && (*at)->at <= pkt->at)
		at = &(*at)->next;
	pkt->next = *at;
	*at = pkt;
}

static void send_copy(struct pair *p, const struct pair_packet *pkt)
{
	struct pair_packet *copy = malloc(sizeof(*copy));

	*copy = *pkt;
	queue_packet(p, copy);
}

/* A packet leaves port `from` for `remote`. */
static void leave(struct pair_port *from, struct pair_packet *pkt, const struct ip *remote,
		  uint16_t sport)
{
	struct pair_side *side = from->side;
	struct pair *p = side->pair;
	enum pair_fate fate = PAIR_PASS;
	struct pair_side *other = &p->side[!side->index];
	struct packet pk;

	pkt->to = NULL;
	for (uint32_t i = 0; i < PAIR_PORTS; i++) {
		if (other->ports[i].ops && ip_equal(&other->ports[i].addr, remote))
			pkt->to = &other->ports[i];
	}
	pkt->to_side = !side->index;
	pkt->from_addr = side->ports[from->index].addr;
	pkt->sport = sport;
	pkt->at = p->now + p->delay_ns;
	pkt->seen_only = pkt->corrupt = false;
	p->packets++;
	ck_assert_int_eq(packet_parse(pkt->data, pkt->len, &pk), 0);
	if (p->fate)
		fate = p->fate(p, side->index, &pk, remote);
	if (!pkt->to || !pkt->to->up || !side->ports[from->index].up)
		fate = PAIR_DROP;
	if (fate == PAIR_DUPLICATE)
		send_copy(p, pkt);
	if (fate == PAIR_HOLD)
		pkt->at += p->hold_ns;
	pkt->seen_only = fate == PAIR_SEEN_ONLY;
	if (fate == PAIR_CORRUPT)
		pkt->data[pkt->len - 1] ^= 0x10;
	if (fate == PAIR_DROP)
		free(pkt);
	else
		queue_packet(p, pkt);
}

/* A packet that was begun and not ended is taken back. */
static void *begin(struct port *port, struct flow *flow, uint32_t len)
{
	struct pair_port *pp = port->priv;

	ck_assert_uint_le(len, port->payload_max);
	if (pp->side->pair->port_full)
		return NULL;
	if (!pp->open)
		pp->open = malloc(sizeof(*pp->open));
	pp->flow = flow;
	return pp->open->data;
}

static struct pair_packet *end(struct pair_port *pp, uint32_t len)
{
	struct pair_packet *pkt = pp->open;

	pp->open = NULL;
	pkt->len = len;
	return pkt;
}

static void *tx_begin(struct port *port, struct flow *flow, uint32_t len)
{
	ck_assert_ptr_null(((struct pair_port *)port->priv)->open);
	return begin(port, flow, len);
}

static void tx_end(struct port *port, uint32_t len)
{
	struct pair_port *pp = port->priv;

	leave(pp, end(pp, len), &pp->flow->remote, pp->flow->sport);
}

/* ---- letters handed over ---- */

static uint16_t post_sport(struct port *port, struct flow *flow)
{
	(void)port;
	return flow->sport;
}

static void post_end(struct port *port, uint32_t len)
{
	struct pair_port *pp = port->priv;
	struct pair_packet *pkt = end(pp, len);

	pkt->next = NULL;
	if (!pp->letters)
		pp->last = &pp->letters;
	*pp->last = pkt;
	pp->last = &pkt->next;
	pp->letters_to = pp->flow->remote;
}

static void post_one(struct pair_port *pp, struct pair_packet *pkt)
{
	struct pair_side *s = pp->side;
	struct pair *p = s->pair;
	uint16_t sport;

	if (twin_post(&s->tables, pkt->data, pkt->len, p->now, &sport)) {
		free(pkt);
		return;
	}
	p->letters++;
	leave(pp, pkt, &pp->letters_to, sport);
}

static enum pair_posting posting_of(struct pair *p, struct pair_packet *pkt)
{
	struct packet pk = { 0 };

	/* No receiver takes it for a packet. */
	ck_assert_int_eq(packet_parse(pkt->data, pkt->len, &pk), -MROCE_DROP_HDR_CRC);
	return p->posting ? p->posting(p, &pk) : PAIR_POST;
}

static bool post_flush(struct port *port)
{
	struct pair_port *pp = port->priv;
	struct pair_packet *pkt;

	free(pp->open); /* begun and taken back */
	pp->open = NULL;
	while ((pkt = pp->late)) {
		pp->late = pkt->next;
		post_one(pp, pkt);
	}
	while ((pkt = pp->letters)) {
		pp->letters = pkt->next;
		switch (posting_of(pp->side->pair, pkt)) {
		case PAIR_POST: post_one(pp, pkt); break;
		case PAIR_POST_SWALLOW: free(pkt); break;
		case PAIR_POST_LATE:
			pkt->next = pp->late;
			pp->late = pkt;
			break;
		}
	}
	return true;
}

static int ctl_send(struct port *port, const struct ip *remote, const void *payload, uint32_t len)
{
	struct pair_packet *pkt = malloc(sizeof(*pkt));

	memcpy(pkt->data, payload, len);
	pkt->len = len;
	leave(port->priv, pkt, remote, MROCE_UDP_PORT);
	return 0;
}

static bool full(struct port *port)
{
	return ((struct pair_port *)port->priv)->side->pair->port_full;
}

/* Planes are networks of their own. */
static bool reachable(struct port *port, const struct ip *remote)
{
	return port->addr.a[13] == remote->a[13];
}

static const struct port_ops ops = {
	.tx_begin = tx_begin,
	.tx_end = tx_end,
	.ctl_send = ctl_send,
	.full = full,
	.reachable = reachable,
	.post_sport = post_sport,
	.post_begin = begin,
	.post_end = post_end,
	.post_flush = post_flush,
};

/* ---- what the engines report ---- */

static void on_complete(void *ctx, struct conn *conn, const struct engine_completion *c)
{
	struct pair_side *s = ctx;

	(void)conn;
	ck_assert_uint_lt(s->ndone, PAIR_COMPLETIONS);
	ck_assert_int_eq(s->ended, 0);
	s->done[s->ndone] = *c;
	if (c->gaps) {
		s->gaps[s->ndone] = *c->gaps;
		s->done[s->ndone].gaps = &s->gaps[s->ndone];
	}
	s->ndone++;
}

static void on_event(void *ctx, struct conn *conn, enum conn_event ev, int code)
{
	struct pair_side *s = ctx;

	switch (ev) {
	case CONN_EVENT_CONNECTED: s->connected++; break;
	case CONN_EVENT_REFUSED: s->refused++; break;
	case CONN_EVENT_ACCEPTED:
		s->n_accepted++;
		s->accepted = conn;
		break;
	case CONN_EVENT_ENDED: s->ended++; break;
	}
	s->code = code;
}

static void on_log(void *ctx, int level, const char *line)
{
	struct pair_side *s = ctx;

	(void)level;
	s->logs++;
	if (getenv("PAIR_LOG"))
		fprintf(stderr, "# %d %llu: %s\n", s->index, (unsigned long long)s->pair->now, line);
	strncpy(s->last_log, line, sizeof(s->last_log) - 1);
}

static const struct engine_ops engine_ops = { .complete = on_complete,
					      .event = on_event,
					      .log = on_log };

/* ---- life ---- */

static void port_new(struct pair_side *s, uint32_t i, struct mroce_path_rx *paths,
		     struct mroce_conn_entry *conns)
{
	struct port *port = &s->ports[i];
	struct pair_port *pp = calloc(1, sizeof(*pp));

	pp->side = s;
	pp->index = i;
	*port = (struct port){
		.ops = &ops,
		.priv = pp,
		.up = true,
		.addr = address(s->index, i),
		.mtu = 1500,
		.payload_max = PAYLOAD_MAX,
		.speed = 1000,
		.paths = paths,
		.conns = conns,
	};
	snprintf(port->name, sizeof(port->name), "mem%u", i);
	ck_assert_int_eq(engine_port_add(s->engine, port), 0);
}

struct pair *pair_new(const struct engine_config *cfg, uint32_t nports)
{
	struct engine_config c;

	engine_config_default(&c);
	if (cfg)
		c = *cfg;
	return pair_new_unequal(&c, &c, nports, nports);
}

struct pair *pair_new_unequal(const struct engine_config *cfg0, const struct engine_config *cfg1,
			      uint32_t nports0, uint32_t nports1)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->now = STEP;
	p->delay_ns = 20000;
	p->hold_ns = 100000;
	p->rng = 12345;
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];
		struct mroce_path_rx *paths = NULL;
		struct mroce_conn_entry *conns;
		struct engine_config c = i ? *cfg1 : *cfg0;
		uint32_t nports = i ? nports1 : nports0;

		s->pair = p;
		s->index = i;
		c.seed = (uint64_t)(1000 + i);
		s->engine = engine_new(&c, &engine_ops, s);
		ck_assert_ptr_nonnull(s->engine);
		ck_assert_int_eq(posix_memalign((void **)&paths, 64,
						sizeof(*paths) * MROCE_MAX_CONNS * MROCE_MAX_PATHS),
				 0);
		conns = calloc(MROCE_MAX_CONNS, sizeof(*conns));
		for (uint32_t port = 0; port < nports; port++)
			port_new(s, port, paths, conns);
		if (pair_hands_over)
			pair_hand_over(p, i);
	}
	return p;
}

void pair_hand_over(struct pair *p, int side)
{
	struct pair_side *s = &p->side[side];

	s->tables.conns = calloc(MROCE_MAX_CONNS, sizeof(*s->tables.conns));
	s->tables.posted = calloc(MROCE_POSTED, sizeof(*s->tables.posted));
	s->tables.cookie = (uint32_t)-100; /* wraps soon */
	for (uint32_t i = 0; i < PAIR_PORTS && s->ports[i].ops; i++) {
		s->offices[i].tables = &s->tables;
		s->ports[i].post = &s->offices[i];
	}
}

void pair_free(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		struct pair_side *s = &p->side[i];

		engine_free(&s->engine);
		free(s->ports[0].paths);
		free(s->ports[0].conns);
		free(s->tables.conns);
		free(s->tables.posted);
		for (uint32_t port = 0; port < PAIR_PORTS; port++) {
			struct pair_port *pp = s->ports[port].priv;

			if (pp) {
				free(pp->open);
				free_packets(pp->letters);
				free_packets(pp->late);
			}
			free(pp);
		}
	}
	free_packets(p->head);
	free(p);
}

/* ---- time ---- */

static void reply(struct pair *p, struct pair_packet *pkt, const void *data, uint32_t len)
{
	struct pair_packet *answer = malloc(sizeof(*answer));

	(void)p;
	memcpy(answer->data, data, len);
	answer->len = len;
	leave(pkt->to->priv, answer, &pkt->from_addr, pkt->sport);
}

static void deliver(struct pair *p, struct pair_packet *pkt)
{
	struct pair_side *s = &p->side[pkt->to_side];
	struct rx_info info = { .remote = pkt->from_addr, .sport = pkt->sport };
	uint8_t answer[TWIN_REPLY_MAX];
	uint32_t len;
	int verdict = twin_rx(pkt->to, pkt->data, pkt->len, false, 0, answer, &len);

	if (len)
		reply(p, pkt, answer, len);
	if (verdict < 0 || verdict == TWIN_DONE || pkt->seen_only)
		return;
	info.tracked = verdict == TWIN_DELIVER;
	engine_rx(s->engine, pkt->to, pkt->data, pkt->len, &info, p->now);
}

/* Buffers are reused only after the flush. */
static void deliver_due(struct pair *p)
{
	struct pair_packet *batch = NULL;

	while (p->head && p->head->at <= p->now) {
		struct pair_packet *pkt = p->head;

		p->head = pkt->next;
		deliver(p, pkt);
		pkt->next = batch;
		batch = pkt;
	}
	for (int i = 0; i < 2; i++) {
		for (uint32_t port = 0; port < PAIR_PORTS; port++)
			p->side[i].ports[port].drained++;
		engine_rx_flush(p->side[i].engine, p->now);
	}
	free_packets(batch);
}

static uint64_t next_event(struct pair *p, uint64_t limit)
{
	uint64_t next = p->head && p->head->at < limit ? p->head->at : limit;

	for (int i = 0; i < 2; i++) {
		uint64_t at = engine_deadline(p->side[i].engine, p->now);

		if (at < next)
			next = at;
	}
	return next > p->now ? next : p->now + 100;
}

bool pair_run(struct pair *p, uint64_t ns, bool (*until)(struct pair *p))
{
	uint64_t limit = p->now + ns;

	while (p->now < limit) {
		if (until && until(p))
			return true;
		for (int i = 0; i < 2; i++)
			engine_run(p->side[i].engine, p->now, 64);
		p->now = next_event(p, limit);
		deliver_due(p);
	}
	return until && until(p);
}

static struct {
	int side;
	uint32_t n;
} waiting;

static bool has_come(struct pair *p)
{
	return p->side[waiting.side].ndone >= waiting.n;
}

void pair_wait(struct pair *p, int side, uint32_t n)
{
	waiting.side = side;
	waiting.n = n;
	ck_assert_msg(pair_run(p, 30000000000ull, has_come), "side %d: %u of %u completions", side,
		      p->side[side].ndone, n);
}

static bool both_connected(struct pair *p)
{
	return p->side[0].connected && p->side[1].n_accepted;
}

void pair_connect(struct pair *p)
{
	struct ip to = address(1, 0);

	ck_assert_int_eq(engine_listen(p->side[1].engine, SERVICE, NULL, 4), 0);
	ck_assert_int_eq(engine_connect(p->side[0].engine, &to, SERVICE, NULL, NULL, p->now,
					&p->side[0].conn),
			 0);
	ck_assert(pair_run(p, 5000000000ull, both_connected));
	p->side[1].conn = p->side[1].accepted;
	engine_conn_taken(p->side[1].conn);
}

uint32_t pair_region(struct pair *p, int side, void *mem, uint64_t len, uint32_t access)
{
	struct region_params r = { .iova = (uintptr_t)mem, .len = len, .access = access, .base = mem };
	uint32_t key = 0;

	ck_assert_int_eq(engine_region_add(p->side[side].engine, &r, &key), 0);
	ck_assert_uint_ne(key, 0);
	return key;
}

int pair_post(struct pair *p, int side, uint8_t opcode, uint32_t stream, uint64_t id, uint32_t key,
	      const void *mem, uint64_t len, const void *rmem, uint32_t rkey, uint32_t imm)
{
	struct work_request wr = {
		.id = id,
		.opcode = opcode,
		.stream = stream,
		.key = key,
		.addr = (uintptr_t)mem,
		.len = len,
		.raddr = (uintptr_t)rmem,
		.rkey = rkey,
		.imm = imm,
	};

	return engine_post(p->side[side].conn, &wr, p->now);
}
