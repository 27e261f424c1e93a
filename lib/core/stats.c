// SPDX-License-Identifier: BSD-2-Clause
/* Looking inside: for `mroce show`, tests and the simulator. Changes nothing. */
#include "core/internal.h"
#include "mroce/track.h"

void engine_stats(const struct engine *e, struct engine_stats *out)
{
	*out = (struct engine_stats){
		.conns = e->nconns,
		.half_open = e->half_open,
		.regions = e->nregions,
		.letters_used = e->letters_used,
		.letters_total = e->letters_total,
		.completions = e->completions,
		.stalls = e->stalls,
		.tolerance = e->tol_stats,
	};
	memcpy(out->reasons, e->reasons, sizeof(out->reasons));
	memcpy(out->notes, e->notes, sizeof(out->notes));
}

static void add_totals(struct engine_totals *t, const struct conn *c)
{
	t->tx_bytes += c->tx_bytes;
	t->rx_bytes += c->rx_bytes;
	t->tx_msgs += c->tx_msgs;
	t->rx_msgs += c->rx_msgs;
	t->repairs += c->repaired;
	t->spurious += c->spurious;
	t->dup_letters += c->dup_letters;
}

void totals_keep(const struct conn *c)
{
	add_totals(&c->e->gone, c);
}

void engine_totals(const struct engine *e, struct engine_totals *out)
{
	*out = e->gone;
	for (const struct conn *c = NULL; (c = engine_conn_next(e, (struct conn *)c));)
		add_totals(out, c);
}

const struct engine_times *engine_times(const struct engine *e)
{
	return &e->times;
}

struct conn *engine_conn_next(const struct engine *e, struct conn *prev)
{
	for (uint32_t slot = prev ? prev->slot + 1 : 0; slot < e->cfg.max_conns; slot++) {
		if (e->conns[slot])
			return e->conns[slot];
	}
	return NULL;
}

static uint32_t conn_memory(const struct conn *c)
{
	const struct engine *e = c->e;
	uint32_t bytes = sizeof(*c) + sizeof(struct conn *) + sizeof(struct mroce_conn_entry);

	bytes += c->peer_nports * (uint32_t)sizeof(*c->peer_ports);
	bytes += c->peer_npaths * (uint32_t)(sizeof(*c->rxpaths) + sizeof(struct mroce_path_rx));
	bytes += c->npaths * (uint32_t)(sizeof(*c->paths) + sizeof(struct timer_slot));
	bytes += c->nstreams * (uint32_t)e->stream_pool.size;
	for (uint32_t i = 0; i < c->npaths; i++)
		bytes += c->paths[i].unplaced * (uint32_t)sizeof(struct letter) +
			 (c->paths[i].slots ? (uint32_t)e->slots_pool.size : 0);
	return bytes + c->queued * (uint32_t)e->txmsg_pool.size;
}

void engine_conn_stats(const struct conn *c, uint64_t now, struct conn_stats *out)
{
	*out = (struct conn_stats){
		.id = c->id,
		.peer_id = c->peer_id,
		.service = c->service,
		.npaths = c->npaths,
		.streams = c->nstreams,
		.state = c->state,
		.tx_bytes = c->tx_bytes,
		.rx_bytes = c->rx_bytes,
		.tx_msgs = c->tx_msgs,
		.rx_msgs = c->rx_msgs,
		.repairs = c->repaired,
		.spurious = c->spurious,
		.dup_letters = c->dup_letters,
		.queued_requests = c->queued,
		.tolerance = c->tol_stats,
		.chunk = c->chunk,
		.memory = c->paths ? conn_memory(c) : 0,
		.last_heard_ns = now > c->last_heard ? now - c->last_heard : 0,
	};
}

static void fill_rx(const struct conn *c, uint32_t index, struct path_stats *out)
{
	const struct mroce_path_rx *rx;

	if (index >= c->peer_npaths || !c->rxpaths[index].port)
		return;
	rx = &c->rxpaths[index].port->paths[c->slot * MROCE_MAX_PATHS + index];
	out->rx_packets = TRACK_READ(rx->rx_packets);
	out->rx_late = TRACK_READ(rx->late);
	out->rx_duplicate = TRACK_READ(rx->duplicate);
	out->rx_gaps = TRACK_READ(rx->gaps);
	out->rx_ahead = TRACK_READ(rx->ahead);
	for (int w = 0; w < MROCE_WINDOW_WORDS; w++)
		out->rx_missed += (uint32_t)__builtin_popcountll(rx->missed[w]);
}

int engine_path_stats(const struct conn *c, uint32_t index, struct path_stats *out)
{
	const struct path *p;

	if (!c->paths || index >= c->npaths)
		return -ENOENT;
	p = &c->paths[index];
	*out = (struct path_stats){
		.remote = p->flow.remote,
		.port = p->port->index,
		.state = p->dead      ? PATH_DEAD
			 : p->leaving ? PATH_LEAVING
				      : PATH_UP,
		.reason = p->reason,
		.steered = p->steer != 0,
		.moves = p->moves,
		.sport = p->flow.sport,
		.epoch = p->epoch,
		.next = p->next,
		.una = p->una,
		.in_flight = p->in_flight,
		.cwnd = p->cc.cwnd,
		.srtt_ns = p->srtt,
		.rttvar_ns = p->rttvar,
		.min_rtt_ns = p->min_rtt,
		.tx_packets = p->tx_packets,
		.tx_bytes = p->tx_bytes,
		.repairs = p->repairs,
		.spurious = p->spurious,
		.rtos = p->rtos,
		.ptos = p->ptos,
		.acks = p->acks,
		.nacks = p->nacks,
		.ce_bytes = p->ce_bytes,
		.deaths = p->deaths,
		.payload = p->limit,
		.mtu = p->limit + mtu_headers(p),
		.reorder_tolerance = p->tolerance,
	};
	fill_rx(c, index, out);
	return 0;
}

int engine_stream_stats(const struct conn *c, const struct stream **at, struct stream_stats *out)
{
	const struct stream *s = *at ? TAILQ_NEXT(*at, all) : TAILQ_FIRST(&c->streams);
	const struct txmsg *oldest;

	if (!s)
		return -ENOENT;
	*at = s;
	oldest = TAILQ_FIRST(&s->tx);
	*out = (struct stream_stats){
		.stream = s->id,
		.tx_queued = s->queued,
		.tx_next_msg = s->tx_next,
		.tx_done_msg = oldest && oldest->started ? oldest->msg : s->tx_next,
		.rx_next_msg = s->rx_next,
		.recv_posted = s->recv_posted,
		.recv_taken = s->recv_taken,
		.credit = s->credit,
		.tx_bytes = s->tx_bytes,
		.rx_bytes = s->rx_bytes,
	};
	return 0;
}
