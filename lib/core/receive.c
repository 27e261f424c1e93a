// SPDX-License-Identifier: BSD-2-Clause
/*
 * Letters that come in: what becomes of each decides what the path's receive state promises; ACKs made by
 * the daemon; the sweep for packets that the tracker saw and the daemon never got.
 */
#include <arpa/inet.h>
#include "core/internal.h"
#include "mroce/track.h"

/* Placed PSNs of a path after which the peer hears of them even if it does not ask. */
#define FRESH_MAX 64
#define SWEEP_EVERY (5 * MSEC)
#define SUSPECT_AGE (2 * MSEC)
#define ACTIVE_FOR (3 * SWEEP_EVERY)
/* So often a sweep looks at paths, too, by which nothing has reached us. */
#define SWEEP_ALL 4
/* Reordering that the tracker is to allow on a path that shows it, and for how long. */
#define TOLERANCE 3
#define TOLERANCE_LIFE (1 * SEC)

static struct mroce_path_rx *state_on(const struct rxpath *rp, const struct port *port)
{
	return &port->paths[rp->conn->slot * MROCE_MAX_PATHS + rp->index];
}

static struct mroce_path_rx *state_of(const struct rxpath *rp)
{
	return state_on(rp, rp->port);
}

void receive_ack_due(struct rxpath *rp, bool nack)
{
	rp->nack |= nack;
	if (rp->is_due || !rp->port)
		return;
	rp->is_due = true;
	TAILQ_INSERT_TAIL(&rp->conn->e->ack_due, rp, link);
}

/* All paths with news. */
void receive_ack_all(struct conn *c)
{
	for (uint32_t i = 0; i < c->peer_npaths; i++) {
		if (c->rxpaths[i].fresh)
			receive_ack_due(&c->rxpaths[i], false);
	}
}

static bool send_ack(struct rxpath *rp)
{
	struct conn *c = rp->conn;
	struct port *port = rp->port;
	struct mroce_path_rx *rx = state_of(rp);
	void *buf = port->ops->tx_begin(port, &rp->flow, MROCE_ACK_LEN);

	if (!buf)
		return false;
	ack_build(buf, rx, rp->nack ? MROCE_NACK : MROCE_ACK, rp->index, rp->epoch, c->peer_id,
		  c->peer_token, (uint16_t)port->conns[c->slot].hint, rp->echo_ts, 0);
	port->ops->tx_end(port, MROCE_ACK_LEN);
	c->e->sent++;
	rp->nack = false;
	rp->echo_ts = 0;
	rp->fresh = 0;
	return true;
}

void receive_send_acks(struct engine *e)
{
	struct rxpath *rp, *next;

	for (rp = TAILQ_FIRST(&e->ack_due); rp; rp = next) {
		next = TAILQ_NEXT(rp, link);
		if (e->blocked & 1u << rp->port->index)
			continue;
		/* Where only the way is closed it would wait for ever: the peer asks again. */
		if (rp->port->up && !send_ack(rp) && rp->port->ops->full(rp->port)) {
			e->blocked |= 1u << rp->port->index;
			continue;
		}
		TAILQ_REMOVE(&e->ack_due, rp, link);
		rp->is_due = false;
	}
}

void receive_placed(struct rxpath *rp, struct mroce_path_rx *rx, uint32_t psn)
{
	track_place(rx, psn);
	if (++rp->fresh >= FRESH_MAX)
		receive_ack_due(rp, false);
}

/* ---- letters ---- */

static enum placing error_rx(struct conn *c, const struct packet *p)
{
	struct mroce_error w;
	uint16_t code;

	if (p->body_len < sizeof(w)) {
		count(c->e, MROCE_DROP_BODY);
		conn_protocol_error(c, "a short error report");
		return BROKEN;
	}
	memcpy(&w, p->body, sizeof(w));
	code = ntohs(w.code);
	if (ntohl(w.stream) >= c->e->cfg.streams || code < MROCE_E_FLUSHED ||
	    code > MROCE_E_PROTOCOL) {
		count(c->e, MROCE_DROP_BODY);
		conn_protocol_error(c, "an error report out of range");
		return BROKEN;
	}
	if (code == MROCE_E_LOCAL_ACCESS)
		return rxmsg_abort_rx(c, &w);
	txmsg_error_rx(c, ntohl(w.stream), ntohl(w.msg), (uint8_t)code);
	return PLACED;
}

static enum placing credit_rx(struct conn *c, const struct packet *p)
{
	struct mroce_credit w;

	if (p->body_len < sizeof(w)) {
		count(c->e, MROCE_DROP_BODY);
		conn_protocol_error(c, "a short credit");
		return BROKEN;
	}
	memcpy(&w, p->body, sizeof(w));
	if (ntohl(w.stream) >= c->e->cfg.streams) {
		count(c->e, MROCE_DROP_STREAM);
		conn_protocol_error(c, "credit for a stream beyond those agreed");
		return BROKEN;
	}
	return stream_credit_rx(c, ntohl(w.stream), ntohl(w.posted));
}

/* Its letters go out again at once, on other paths or as soon as the new address answers. */
static void peer_moved(struct path *p, const struct mroce_wire_port *now)
{
	memcpy(p->flow.remote.a, now->addr, sizeof(p->flow.remote.a));
	if (p->dead)
		path_new_route(p);
	else
		path_die(p, PATH_PEER_MOVED);
	path_probe_soon(p);
}

static void peer_port_changed(struct path *p, const struct mroce_port_status *w, bool moved,
			      bool resized)
{
	if (moved)
		peer_moved(p, &w->now);
	if (!w->up && !p->dead)
		path_die(p, PATH_PEER_PORT_DOWN);
	else if (w->up && p->dead)
		path_probe_soon(p);
	else if (resized && !p->dead)
		mtu_changed(p);
}

static void port_status_rx(struct conn *c, const struct packet *p)
{
	struct mroce_port_status w;
	struct mroce_wire_port *known;
	bool moved, resized;

	if (p->body_len < sizeof(w)) {
		count(c->e, MROCE_DROP_BODY);
		return;
	}
	memcpy(&w, p->body, sizeof(w));
	if (w.port >= c->peer_nports)
		return;
	known = &c->peer_ports[w.port];
	if ((int16_t)(ntohs(w.now.serial) - ntohs(known->serial)) < 0)
		return;
	moved = memcmp(known->addr, w.now.addr, sizeof(known->addr)) != 0;
	resized = known->mtu != w.now.mtu;
	*known = w.now;
	for (uint32_t i = 0; i < c->npaths; i++) {
		if (c->paths[i].remote_port == w.port)
			peer_port_changed(&c->paths[i], &w, moved, resized);
	}
}

static void close_rx(struct conn *c, const struct packet *p)
{
	struct mroce_close w = { 0 };

	if (p->body_len >= sizeof(w))
		memcpy(&w, p->body, sizeof(w));
	conn_closed_by_peer(c, ntohl(w.code));
}

static enum placing dispatch(const struct arrival *a)
{
	struct conn *c = a->c;

	switch (a->p->type) {
	case MROCE_DATA: return rxmsg_data(a);
	case MROCE_READ_REQ: return rxmsg_read_req(a);
	case MROCE_CREDIT: return credit_rx(c, a->p);
	case MROCE_ERROR: return error_rx(c, a->p);
	case MROCE_PORT_STATUS: port_status_rx(c, a->p); break;
	case MROCE_CLOSE: close_rx(c, a->p); break;
	case MROCE_FORGIVE: return tolerance_forgive_rx(c, a->p);
	}
	return PLACED;
}

static void note_route(struct rxpath *rp, struct port *port, const struct packet *p,
		       const struct rx_info *info)
{
	rp->epoch = p->epoch;
	if (rp->port == port && rp->flow.sport == info->sport &&
	    ip_equal(&rp->flow.remote, &info->remote))
		return;
	rp->port = port;
	rp->flow = (struct flow){ .remote = info->remote,
				  .sport = info->sport,
				  .queue = info->queue };
}

static void note_active(struct conn *c, const struct rxpath *rp)
{
	c->rx_active_at = c->e->now;
	hint_arrival(c);
	c->uncounted |= (uint16_t)(1u << rp->index);
	c->unswept |= (uint16_t)(1u << rp->index);
	if (!c->sweep.place)
		timer_set(&c->e->timers, &c->sweep, c->e->now + SWEEP_EVERY);
}

static void letter_rx(struct conn *c, struct port *port, const struct packet *p,
		      const struct rx_info *info)
{
	struct rxpath *rp = &c->rxpaths[p->path];
	struct mroce_path_rx *rx = &port->paths[c->slot * MROCE_MAX_PATHS + p->path];
	struct arrival a = { .c = c, .rxpath = rp, .rx = rx, .p = p };
	enum placing how = PLACED;

	note_route(rp, port, p, info);
	track_una(rx, p->una);
	if (p->psn - rx->base >= MROCE_WINDOW || bitmap_test(rx->placed, p->psn)) {
		count(c->e, MROCE_DROP_LATE);
		return;
	}
	if (!packet_body_ok(p)) {
		count(c->e, MROCE_DROP_BODY_CRC);
		how = MISSED;
	} else if (c->state == CONN_OPEN) {
		how = dispatch(&a);
	} else if (p->type == MROCE_CLOSE) {
		conn_close_acked(c); /* both sides close: nobody waits for the other */
	} else if (c->state == CONN_CLOSING && p->type == MROCE_PORT_STATUS) {
		port_status_rx(c, p); /* or the CLOSE would go to where the peer was */
	} else {
		how = WITHHELD; /* an ACK would promise what nobody reads any more */
	}
	if (how == PLACED)
		receive_placed(rp, rx, p->psn);
	else if (how == MISSED)
		track_miss(rx, p->psn);
	if (how == MISSED || (p->flags & MROCE_FLAG_ACK_REQ))
		receive_ack_due(rp, how == MISSED);
	if (c->state == CONN_OPEN)
		note_active(c, rp);
}

/* The tracker noted this POLL, but could not answer in its place. */
static void poll_rx(struct conn *c, struct port *port, const struct packet *p,
		    const struct rx_info *info)
{
	struct rxpath *rp = &c->rxpaths[p->path];

	note_route(rp, port, p, info);
	rp->echo_ts = p->ts;
	receive_ack_due(rp, false);
}

static bool letter_expected(struct engine *e, const struct conn *c, const struct packet *p,
			    const struct rx_info *info)
{
	if (c->state == CONN_HELLO || !c->published || !info->tracked) {
		count(e, MROCE_DROP_STATE);
		return false;
	}
	if (p->path >= c->peer_npaths) {
		count(e, MROCE_DROP_PATH);
		return false;
	}
	return true;
}

void receive_rx(struct engine *e, struct port *port, const struct packet *p,
		const struct rx_info *info)
{
	struct conn *c = conn_find(e, p->cid);

	if (!c || !p->cid) {
		count(e, MROCE_DROP_NO_CONN);
		return;
	}
	if (c->token != p->token) {
		count(e, MROCE_DROP_TOKEN);
		return;
	}
	c->last_heard = e->now;
	if (p->type == MROCE_ACK || p->type == MROCE_NACK) {
		ack_rx(c, p);
		return;
	}
	if (p->type == MROCE_PROBE_REPLY) {
		if (c->state == CONN_OPEN)
			mtu_reply(c, p);
		return;
	}
	if (!packet_has_psn(p->type) && p->type != MROCE_POLL) {
		count(e, MROCE_DROP_STATE);
		return;
	}
	if (!letter_expected(e, c, p, info))
		return;
	if (p->type == MROCE_POLL) {
		poll_rx(c, port, p, info);
		return;
	}
	if (c->state == CONN_ACCEPT && !handshake_letter(c))
		return;
	letter_rx(c, port, p, info);
}

/* ---- the sweep ---- */

/* PSNs that the tracker has seen and that neither were placed nor given up on. */
static bool find_suspects(const struct mroce_path_rx *rx, __u64 *out)
{
	uint32_t top = TRACK_READ(rx->highest) + 1;
	uint32_t n = psn_before(rx->base, top) ? top - rx->base : 0;
	uint64_t any = 0;

	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++) {
		out[w] = bitmap_range(w, rx->base, n) & TRACK_READ(rx->seen[w]) & ~rx->placed[w] &
			 ~rx->missed[w];
		any |= out[w];
	}
	return any;
}

/* Suspects of the last sweep that are still suspect: they will not come any more. */
static void give_up_suspects(struct rxpath *rp, struct mroce_path_rx *rx, __u64 *now_suspect)
{
	uint32_t n = psn_before(rx->base, rp->suspect_top) ? rp->suspect_top - rx->base : 0;
	uint32_t base = rx->base;
	bool any = false;

	for (uint32_t i = 0; i < n && i < MROCE_WINDOW; i++) {
		uint32_t psn = base + i;

		if (!bitmap_test(rp->suspect, psn) || !bitmap_test(now_suspect, psn))
			continue;
		track_miss(rx, psn);
		count(rp->conn->e, MROCE_COUNT_LOST_INSIDE);
		now_suspect[bitmap_word(psn)] &= ~bitmap_bit(psn);
		any = true;
	}
	if (any)
		receive_ack_due(rp, true);
}

/* A path whose late packets keep up with its gaps is not lossy but out of order. */
static void watch_order(struct rxpath *rp, struct mroce_path_rx *rx)
{
	uint32_t late = rx->late + rx->duplicate;
	uint64_t now = rp->conn->e->now;

	if (late != rp->swept_late && rx->gaps != rp->swept_gaps) {
		TRACK_WRITE(rx->nack_tolerance, TOLERANCE);
		rp->tolerance_until = now + TOLERANCE_LIFE;
	} else if (rx->nack_tolerance && now > rp->tolerance_until) {
		TRACK_WRITE(rx->nack_tolerance, 0);
	}
	rp->swept_late = late;
	rp->swept_gaps = rx->gaps;
}

/* True: there are suspects left to look at again. */
static bool sweep_path(struct rxpath *rp, struct port *port)
{
	struct mroce_path_rx *rx = state_on(rp, port);
	__u64 suspects[MROCE_WINDOW_WORDS];
	uint64_t now = rp->conn->e->now;
	bool any;

	/* The tracker has seen una in packets that never came here. */
	track_una(rx, TRACK_READ(rx->kbase));
	any = find_suspects(rx, suspects);
	watch_order(rp, rx);
	if (rp->suspect_at && any) {
		/* Only if all queues were found empty since: else they may still lie there. */
		if (now - rp->suspect_at < SUSPECT_AGE || port->drained - rp->suspect_drained < 2)
			return true;
		give_up_suspects(rp, rx, suspects);
	}
	rp->suspect_at = any ? now : 0;
	rp->suspect_drained = port->drained;
	rp->suspect_top = TRACK_READ(rx->highest) + 1;
	memcpy(rp->suspect, suspects, sizeof(suspects));
	return any;
}

/* The port that a path comes by: also one whose tracker saw packets of which none came up here. */
static struct port *port_of(const struct rxpath *rp)
{
	const struct engine *e = rp->conn->e;

	for (uint32_t i = 0; !rp->port && i < e->nports; i++) {
		if (TRACK_READ(state_on(rp, e->ports[i])->rx_packets))
			return e->ports[i];
	}
	return rp->port;
}

/*
 * The paths by which letters have come since the last sweep, or that had suspects then; now and then, and once the
 * connection is silent, all of them.
 */
static uint32_t paths_to_sweep(struct conn *c, bool active)
{
	uint32_t paths = c->unswept;

	if (!active || ++c->sweeps % SWEEP_ALL == 0)
		paths = (1u << c->peer_npaths) - 1;
	c->unswept = 0;
	return paths;
}

void receive_sweep(struct conn *c)
{
	bool active = c->e->now - c->rx_active_at < ACTIVE_FOR;

	if (c->state != CONN_OPEN)
		return;
	rxmsg_deferred_flush(c->e); /* what waits for its flush is not lost */
	for (uint32_t paths = paths_to_sweep(c, active); paths; paths &= paths - 1) {
		struct rxpath *rp = &c->rxpaths[__builtin_ctz(paths)];
		struct port *port = port_of(rp);

		if (port && sweep_path(rp, port))
			c->unswept |= (uint16_t)(1u << rp->index);
	}
	if (active || c->unswept)
		timer_set(&c->e->timers, &c->sweep, c->e->now + SWEEP_EVERY);
}
