// SPDX-License-Identifier: BSD-2-Clause
/* What ACKs and NACKs say of a path: placed, seen, lost, how long it took. */
#include <arpa/inet.h>
#include <endian.h>
#include <syslog.h>
#include "core/internal.h"
#include "mroce/track.h"

#define MIN_RTT_LIFE (60 * SEC)
#define TOLERANCE_FIRST 3
#define TOLERANCE_MAX 32
#define TOLERANCE_LIFE (1 * SEC)
/* With a tolerance, a hole is a loss also once a question this much later than it was answered. */
#define REORDER_MIN (100 * USEC)
#define REORDER_MAX (2 * MSEC)
/* CE is remembered for two round trips and this. */
#define CE_MEMORY (200 * USEC)
/* Losses in so many ACKs in a row: the spray passes the path over for some turns, one packet for each path. */
#define LOSING 2
#define STEER_LOSS 4
/* A sample of how long the peer's daemon takes is no longer than this. */
#define DAEMON_TIME_MAX (10 * MSEC)

struct ack {
	uint8_t type;
	uint16_t epoch, late, hint;
	uint32_t base, highest, rx_bytes, ce_bytes, echo_ts;
	__u64 seen[MROCE_WINDOW_WORDS], placed[MROCE_WINDOW_WORDS];
};

/* What one ACK changes, as bitmaps over the path's window. */
struct news {
	__u64 placed[MROCE_WINDOW_WORDS], seen[MROCE_WINDOW_WORDS], lost[MROCE_WINDOW_WORDS];
	uint32_t nplaced, nseen, nlost; /* nseen: newly seen, placed ones included */
};

static void parse(const struct packet *p, struct ack *a)
{
	struct mroce_ack w;

	memcpy(&w, p->body, sizeof(w));
	a->type = p->type;
	a->epoch = p->epoch;
	a->late = ntohs(w.late);
	a->hint = ntohs(w.hint);
	a->base = ntohl(w.base);
	a->highest = ntohl(w.highest);
	a->rx_bytes = ntohl(w.rx_bytes);
	a->ce_bytes = ntohl(w.ce_bytes);
	a->echo_ts = ntohl(w.echo_ts);
	for (int i = 0; i < MROCE_WINDOW_WORDS; i++) {
		a->seen[i] = be64toh(w.seen[i]);
		a->placed[i] = be64toh(w.placed[i]);
	}
}

/* PSNs from `from` to before `to`, 0 if there are none. */
static uint32_t span(uint32_t from, uint32_t to)
{
	return psn_before(from, to) ? to - from : 0;
}

static uint32_t psn_min(uint32_t a, uint32_t b)
{
	return psn_before(a, b) ? a : b;
}

/* ACKs may overtake each other: only the newest tells what is missing. */
static bool is_newest(const struct path *p, const struct ack *a)
{
	return !p->acked_any || (int32_t)(a->rx_bytes - p->acked_rx_bytes) >= 0;
}

static void compare(const struct path *p, const struct ack *a, struct news *n)
{
	uint32_t lo = psn_max(p->una, a->base);
	uint32_t end = psn_min(p->next, a->base + MROCE_WINDOW);
	uint32_t top = psn_min(end, a->highest + 1);
	uint32_t below = span(p->una, psn_min(a->base, p->next));
	bool newest = is_newest(p, a);

	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++) {
		uint64_t placed = bitmap_range(w, lo, span(lo, end)) & a->placed[w];
		uint64_t seen = bitmap_range(w, lo, span(lo, top)) & a->seen[w];
		uint64_t holes = bitmap_range(w, lo, span(lo, top - p->tolerance));

		n->placed[w] = p->slots->out[w] & (placed | bitmap_range(w, p->una, below));
		n->seen[w] = p->slots->out[w] & seen & ~n->placed[w];
		n->lost[w] = newest ? p->slots->out[w] & holes & ~seen & ~n->placed[w] : 0;
		n->nplaced += (uint32_t)__builtin_popcountll(n->placed[w]);
		n->nseen += (uint32_t)__builtin_popcountll((n->placed[w] | n->seen[w]) &
							   ~p->slots->seen[w]);
	}
}

/* Holes inside the tolerance that were sent long before the question that this answers. */
static void compare_times(const struct path *p, const struct ack *a, struct news *n)
{
	uint32_t top = psn_min(psn_min(p->next, a->base + MROCE_WINDOW), a->highest + 1);
	uint32_t psn = psn_max(psn_max(p->una, a->base), top - p->tolerance);
	uint32_t wait = p->reorder_wait >> 10;

	if (!p->tolerance || !a->echo_ts || !is_newest(p, a))
		return;
	for (; psn_before(psn, top); psn++) {
		uint32_t w = bitmap_word(psn);
		uint64_t bit = bitmap_bit(psn);
		uint32_t ts = p->slots->at[psn & (MROCE_WINDOW - 1)].ts;

		if (!(p->slots->out[w] & bit) || ((n->placed[w] | n->seen[w]) & bit))
			continue;
		if ((int32_t)(a->echo_ts - ts - wait) > 0)
			n->lost[w] |= bit;
	}
}

static struct letter *take_letter(struct path *p, uint32_t psn)
{
	struct letter *l = &p->conn->e->letters[p->slots->at[psn & (MROCE_WINDOW - 1)].letter - 1];

	path_clear(p, psn);
	return l;
}

/* The PSN in [una, next) whose bit is bit `b` of word `w`. */
static uint32_t psn_of(const struct path *p, uint32_t w, uint32_t b)
{
	return p->una + ((w * 64 + b - p->una) & (MROCE_WINDOW - 1));
}

static void apply_placed(struct path *p, const struct news *n)
{
	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++) {
		for (uint64_t bits = n->placed[w]; bits; bits &= bits - 1) {
			uint32_t psn = psn_of(p, w, (uint32_t)__builtin_ctzll(bits));

			letter_acked(p->conn, take_letter(p, psn));
		}
	}
}

static void apply_seen(struct path *p, const struct news *n)
{
	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++) {
		uint64_t fresh = n->seen[w] & ~p->slots->seen[w];

		p->slots->seen[w] |= fresh;
		p->in_flight -= (uint16_t)__builtin_popcountll(fresh);
	}
}

static void apply_lost(struct path *p, struct news *n)
{
	uint32_t una = p->una, next = p->next;
	uint64_t any = 0;

	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++)
		any |= n->lost[w];
	if (!any)
		return;
	for (uint32_t psn = una; psn != next; psn++) {
		if (!bitmap_test(n->lost, psn))
			continue;
		n->nlost++;
		p->lost[bitmap_word(psn)] |= bitmap_bit(psn);
		letter_lost(p->conn, take_letter(p, psn), p->index, false);
	}
}

/* ---- reordering ---- */

static void raise_tolerance(struct path *p, uint32_t spurious)
{
	uint64_t wait;

	p->spurious += spurious;
	p->conn->spurious += spurious;
	/* Packets and time: whichever a hole outlives first makes it a loss. */
	wait = p->tolerance ? min_u64(2ull * p->reorder_wait, max_u64(2 * p->srtt, REORDER_MAX))
			    : max_u64(p->min_rtt / 2, REORDER_MIN);
	p->reorder_wait = (uint32_t)min_u64(wait, UINT32_MAX);
	p->tolerance = p->tolerance ? p->tolerance * 2 : TOLERANCE_FIRST;
	if (p->tolerance > TOLERANCE_MAX)
		p->tolerance = TOLERANCE_MAX;
	p->tolerance_until = p->conn->e->now + TOLERANCE_LIFE;
}

/* In order for a while: half of it. */
static void lower_tolerance(struct path *p)
{
	p->tolerance = p->tolerance > TOLERANCE_FIRST ? p->tolerance / 2 : 0;
	p->reorder_wait = (uint32_t)max_u64(p->reorder_wait / 2, REORDER_MIN);
	p->tolerance_until = p->conn->e->now + TOLERANCE_LIFE;
}

/* Repairs that were not needed: what was given up as lost has arrived after all. */
static void find_spurious(struct path *p, const struct ack *a)
{
	uint32_t lo = psn_max(p->next - MROCE_WINDOW, a->base);
	uint32_t top = psn_min(psn_min(p->next, a->base + MROCE_WINDOW), a->highest + 1);
	uint32_t found = 0, open = 0;
	uint16_t late = (uint16_t)(a->late - p->acked_late);

	for (uint32_t w = 0; w < MROCE_WINDOW_WORDS; w++) {
		uint64_t hit = p->lost[w] & bitmap_range(w, lo, span(lo, top)) &
			       (a->seen[w] | a->placed[w]);

		found += (uint32_t)__builtin_popcountll(hit);
		p->lost[w] &= ~hit;
		open += (uint32_t)__builtin_popcountll(p->lost[w]);
	}
	if (is_newest(p, a) && p->acked_any && late && late < 0x8000 && open) {
		found += late < open ? late : open;
		memset(p->lost, 0, sizeof(p->lost));
	}
	if (found)
		raise_tolerance(p, found);
	else if (p->tolerance && p->conn->e->now > p->tolerance_until)
		lower_tolerance(p);
}

/* ---- time ---- */

static uint64_t rtt_sample(struct path *p, const struct ack *a)
{
	uint64_t now = p->conn->e->now, rtt, off;
	uint32_t ticks = packet_clock(now) - a->echo_ts;

	if (a->type != MROCE_ACK || !a->echo_ts || a->epoch != p->epoch || ticks > 10 * SEC / 1024)
		return 0;
	rtt = ((uint64_t)ticks << 10) + 512;
	histogram_add(&p->conn->e->times.rtt, rtt);
	if (!p->min_rtt || rtt <= p->min_rtt || now - p->min_rtt_at > MIN_RTT_LIFE) {
		p->min_rtt = rtt;
		p->min_rtt_at = now;
	}
	if (!p->srtt) {
		p->srtt = rtt;
		p->rttvar = rtt / 2;
		return rtt;
	}
	off = rtt > p->srtt ? rtt - p->srtt : p->srtt - rtt;
	p->rttvar = (3 * p->rttvar + off) / 4;
	p->srtt = (7 * p->srtt + rtt) / 8;
	return rtt;
}

/* The peer's daemon says that the last letter was placed: how long after its kernel could have said that it was seen? */
static void note_daemon_time(const struct path *p, const struct ack *a, const struct news *n)
{
	struct conn *c = p->conn;
	uint32_t last = p->next - 1;
	uint64_t took;

	if (a->type != MROCE_ACK || a->echo_ts || !p->unplaced || !bitmap_test(n->placed, last))
		return;
	took = packet_clock(c->e->now) - p->slots->at[last & (MROCE_WINDOW - 1)].ts;
	took = min_u64(took << 10, DAEMON_TIME_MAX);
	took = took > p->srtt ? took - p->srtt : 0;
	c->daemon_time = (uint32_t)((7ull * c->daemon_time + took) / 8);
}

static void revive(struct path *p)
{
	char peer[IPTEXT_MAX];

	p->dead = false;
	mtu_begin(p);
	note_path(p, NOTE_PATH_BACK, LOG_NOTICE, "conn 0x%08x: path %u to %s through %s is back",
		  p->conn->id, p->index, ip_text(&p->flow.remote, peer), p->port->name);
}

static void heard(struct path *p, const struct ack *a)
{
	p->last_heard = p->conn->e->now;
	p->unanswered = p->ask_again = 0;
	p->rto_count = 0;
	p->grace = p->suspect = false;
	if (p->dead && a->epoch == p->epoch)
		revive(p);
}

static bool had_ce(const struct path *p)
{
	return p->ce_at && p->conn->e->now - p->ce_at <= 2 * p->srtt + CE_MEMORY;
}

/* Is there a path in use that has no CE? */
static bool can_steer(const struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		if (path_usable(p) && p->begun && !had_ce(p))
			return true;
	}
	return false;
}

static void steer(struct path *p, const struct cc_ack *info)
{
	if (info->lost && p->losing < UINT8_MAX)
		p->losing++;
	else if (!info->lost && info->acked)
		p->losing = 0;
	if (p->losing >= LOSING || info->ce_bytes)
		p->reason = p->losing >= LOSING ? PATH_LOSS : PATH_CE;
	if (p->losing >= LOSING)
		p->steer = STEER_LOSS * p->conn->npaths;
	else if (info->ce_bytes && !p->steer)
		p->steer = p->conn->npaths;
	p->conn->steering |= p->steer != 0;
}

static void start_window(struct path *p, const struct cc_ack *info)
{
	const struct cc_ops *cc = p->conn->e->cfg.cc;

	if (!p->begun && cc->start)
		cc->start(&p->cc, pace_start_window(p, info->min_rtt, info->siblings));
}

/* What one path has learnt of the way goes for its siblings that have not been asked yet. */
static void start_all(const struct path *p, const struct cc_ack *info)
{
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		struct path *o = &p->conn->paths[i];

		if (!path_siblings(p, o) || (o != p && (o->srtt || !path_usable(o))))
			continue;
		o->srtt = p->srtt;
		o->rttvar = p->rttvar;
		start_window(o, info);
	}
}

static void control_window(struct path *p, const struct ack *a, const struct news *n,
			   uint32_t in_flight, uint64_t rtt, bool first_rtt)
{
	struct cc_ack info = {
		.now = p->conn->e->now,
		.acked = n->nseen,
		.lost = n->nlost,
		.in_flight = in_flight,
		.rtt = rtt,
		.srtt = p->srtt,
	};

	info.siblings = path_family(p, &info.min_rtt);
	if (is_newest(p, a)) {
		info.rx_bytes = a->rx_bytes - p->acked_rx_bytes;
		info.ce_bytes = a->ce_bytes - p->acked_ce_bytes;
		p->acked_rx_bytes = a->rx_bytes;
		p->acked_ce_bytes = a->ce_bytes;
		p->acked_late = a->late;
		p->acked_any = true;
		p->acked_base = a->base;
		p->ce_bytes += info.ce_bytes;
		pace_hint(p->conn, a->hint, p->srtt);
	}
	if (info.ce_bytes) {
		p->ce_at = info.now;
		info.ce_everywhere = !can_steer(p->conn);
	}
	steer(p, &info);
	if (first_rtt)
		start_all(p, &info);
	p->conn->e->cfg.cc->ack(&p->cc, &info);
	quality_note(p, &info);
}

/* What left by this path at `sent` has come back: siblings that were asked before and have not answered are asked again soon. */
static void overtake(const struct path *p, uint64_t sent)
{
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		struct path *o = &p->conn->paths[i];

		if (o != p && path_siblings(p, o) && path_usable(o))
			path_overtaken(o, sent);
	}
}

static void process(struct path *p, const struct ack *a)
{
	uint32_t in_flight = p->in_flight;
	bool first_rtt = !p->srtt;
	struct news n = { 0 };
	uint64_t rtt;

	if (a->type == MROCE_ACK)
		p->acks++;
	else
		p->nacks++;
	rtt = rtt_sample(p, a);
	if (p->unplaced) {
		compare(p, a, &n);
		compare_times(p, a, &n);
		note_daemon_time(p, a, &n);
		apply_seen(p, &n);
		apply_lost(p, &n);
		apply_placed(p, &n);
	}
	find_spurious(p, a);
	heard(p, a);
	if (rtt)
		overtake(p, p->conn->e->now - rtt);
	if (n.nplaced) {
		path_progress(p);
		p->poll_backoff = 0;
		p->nudges = 0;
	}
	path_advance(p);
	if (!p->unplaced)
		p->first_unpolled = 0; /* there is nothing to ask about */
	if (!p->unplaced && !letter_waiting(p->conn))
		p->answered = p->since_poll;
	control_window(p, a, &n, in_flight, rtt, first_rtt && rtt);
	path_move_if_empty(p);
	path_arm(p);
	if (letter_waiting(p->conn))
		conn_ready(p->conn);
}

void ack_rx(struct conn *c, const struct packet *pk)
{
	struct path *p;
	struct ack a;

	if (c->state != CONN_OPEN && c->state != CONN_CLOSING) {
		count(c->e, MROCE_DROP_STATE);
		return;
	}
	if (pk->path >= c->npaths) {
		count(c->e, MROCE_DROP_PATH);
		return;
	}
	if (pk->body_len < sizeof(struct mroce_ack)) {
		count(c->e, MROCE_DROP_BODY);
		return;
	}
	if (!packet_body_ok(pk)) {
		count(c->e, MROCE_DROP_BODY_CRC);
		return;
	}
	p = &c->paths[pk->path];
	parse(pk, &a);
	if (psn_before(p->next, a.base) || psn_before(p->next - 1, a.highest)) {
		count(c->e, MROCE_DROP_ACK_UNSENT);
		return;
	}
	process(p, &a);
}
