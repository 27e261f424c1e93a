// SPDX-License-Identifier: BSD-2-Clause
/*
 * The sending side of one path: envelopes, windows, asking for acknowledgements, life and death. Knows nothing
 * of what is in a letter.
 */
#include <stdio.h>
#include <syslog.h>
#include "core/internal.h"

#define SRTT_INITIAL (200 * USEC)
#define RTO_INITIAL (10 * MSEC)
#define RTO_MAX (1 * SEC)
/* Asked about after so many packets that the peer's daemon has not acknowledged by itself; or so many, for the RTT. */
#define POLL_PACKETS 16
#define POLL_LATEST 64
#define POLL_MIN (50 * USEC)
#define POLL_MAX (200 * USEC)
/* Siblings may lie as far apart in the network's queues. */
#define OVERTAKEN_MIN (25 * USEC)
#define DAEMON_TIME (200 * USEC)
#define DAEMON_BUSY_MAX (2 * MSEC)
/* Losses come in bursts: that one question in a row of lost packets is lost says little about a path. */
#define POLLS_AT_RTO 3
/* Asking about letters that were seen and not yet placed: the peer's daemon is busy. */
#define PTO_MAX (20 * MSEC)
#define PROBE_FIRST (1 * MSEC)
#define PROBE_MAX (1 * SEC)
#define PROBES_PER_ROUTE 3
/*
 * A path that does not answer while others hear the peer gets no new letters after a PTO; its letters move to
 * others at the first RTO; it is dead at the third in a row.
 */
#define MOVE_RTOS 1
#define DEATH_RTOS 3
#define LINEAR_RTOS 3
/* A letter to wake the peer's daemon, if nothing was placed for so long (doubling). */
#define NUDGE_AFTER (4 * MSEC)
#define NUDGE_STEPS 6
/* The peer's kernel answers but its daemon places nothing: after so many silence_ns it is over. */
#define DAEMON_SILENCE 5

void path_init(struct path *p, struct conn *c, uint8_t index)
{
	p->conn = c;
	p->index = index;
	p->timer.kind = TIMER_PATH;
	p->una = p->next = p->una_told = c->e->cfg.first_psn;
	p->flow.queue = index;
	c->e->cfg.cc->init(&p->cc, c->e->now);
}

bool path_usable(const struct path *p)
{
	return !p->dead && p->port->up;
}

bool path_open(const struct path *p)
{
	return path_usable(p) && !p->leaving && p->in_flight < p->cc.cwnd &&
	       p->next - p->una < MROCE_WINDOW;
}

uint32_t path_family(const struct path *p, uint64_t *min_rtt)
{
	uint32_t n = 0;

	*min_rtt = p->min_rtt;
	for (uint32_t i = 0; i < p->conn->npaths; i++) {
		const struct path *o = &p->conn->paths[i];

		if (!path_siblings(p, o))
			continue;
		n += o == p || path_usable(o);
		if (o->min_rtt && o->min_rtt < *min_rtt)
			*min_rtt = o->min_rtt;
	}
	return n;
}

static uint64_t srtt_of(const struct path *p)
{
	return p->srtt ? p->srtt : SRTT_INITIAL;
}

/* An answer to a POLL that has not come by then is late. */
static uint64_t pto_of(const struct path *p)
{
	uint64_t wait = p->srtt ? p->srtt + 2 * p->rttvar : 2 * SRTT_INITIAL;

	return max_u64(wait, p->conn->e->cfg.pto_min_ns);
}

/*
 * An ACK of the peer's daemon that was asked for; the queue that srtt contains may be gone by now. A daemon with
 * thousands of connections to serve takes its time, and to ask its kernel meanwhile would only be more work for both.
 */
static uint64_t daemon_ack_wait(const struct path *p)
{
	const struct conn *c = p->conn;
	uint64_t usual = 2 * p->min_rtt + DAEMON_TIME;
	uint64_t busy = min_u64(p->min_rtt + 2 * c->daemon_time, DAEMON_BUSY_MAX);

	usual = c->pace_kbps ? max_u64(pto_of(p), usual) : min_u64(pto_of(p), usual);
	return max_u64(usual, busy);
}

uint64_t path_rto(const struct path *p)
{
	/* Time for two questions at least. */
	uint64_t base = p->srtt ? max_u64(2 * pto_of(p), p->srtt + 4 * p->rttvar) : RTO_INITIAL;
	uint32_t doublings = p->rto_count < LINEAR_RTOS ? 0 : p->rto_count - LINEAR_RTOS + 1;

	base = max_u64(base, p->conn->e->cfg.rto_min_ns);
	return min_u64(base << (doublings > 12 ? 12 : doublings), RTO_MAX);
}

/* ---- when to look again ---- */

static uint64_t question_due(const struct path *p)
{
	uint64_t wait;

	if (p->first_unpolled) {
		wait = min_u64(max_u64(srtt_of(p) / 4, POLL_MIN), POLL_MAX);
		return p->first_unpolled + (p->urgent ? max_u64(daemon_ack_wait(p), wait) : wait);
	}
	if (!p->unplaced)
		return TIMER_NEVER;
	wait = pto_of(p) << (p->poll_backoff > 10 ? 10 : p->poll_backoff ? p->poll_backoff - 1 : 0);
	return p->last_poll + min_u64(wait, max_u64(PTO_MAX, pto_of(p)));
}

static uint64_t poll_due(const struct path *p)
{
	uint64_t due = question_due(p);

	return p->ask_again ? min_u64(due, p->ask_again) : due;
}

void path_overtaken(struct path *p, uint64_t sent)
{
	uint64_t asked = p->first_unpolled ? p->first_unpolled : p->last_poll;

	if (!p->in_flight || p->ask_again || asked >= sent)
		return;
	p->ask_again = p->conn->e->now + max_u64(srtt_of(p) / 4, OVERTAKEN_MIN);
	path_arm(p);
}

static uint64_t probe_due(const struct path *p)
{
	uint64_t wait = PROBE_FIRST << (p->poll_backoff > 10 ? 10 : p->poll_backoff);

	return p->last_poll + min_u64(wait, PROBE_MAX);
}

static uint64_t path_due(const struct path *p)
{
	uint64_t due;

	if (p->dead)
		return probe_due(p);
	due = p->leaving ? min_u64(p->leave_by, poll_due(p)) : poll_due(p);
	return p->unanswered ? min_u64(due, p->unanswered + path_rto(p)) : due;
}

void path_arm(struct path *p)
{
	timer_by(&p->conn->e->timers, &p->timer, path_due(p));
}

/* ---- sending ---- */

static void seal(struct path *p, void *buf, uint8_t type, uint8_t flags, uint32_t body_len)
{
	struct packet pk = {
		.type = type,
		.flags = flags,
		.path = p->index,
		.epoch = p->epoch,
		.body_len = (uint16_t)body_len,
		.cid = p->conn->peer_id,
		.token = p->conn->peer_token,
		.psn = p->next,
		.una = p->una,
		.ts = packet_clock(p->conn->e->now),
	};

	packet_seal(buf, &pk);
	p->una_told = p->una;
}

static void note_sent(struct path *p, uint32_t len)
{
	struct conn *c = p->conn;

	p->port->ops->tx_end(p->port, len);
	p->tx_packets++;
	p->tx_bytes += len;
	pace_charge(c, len);
	c->last_sent = c->e->now;
	c->e->sent++;
}

static void back_off(struct path *p)
{
	if (p->poll_backoff < UINT16_MAX)
		p->poll_backoff++;
}

static void note_polled(struct path *p)
{
	uint64_t now = p->conn->e->now;

	p->last_poll = p->conn->last_poll = now;
	p->first_unpolled = p->ask_again = 0;
	p->since_poll = p->answered = 0;
	p->urgent = false;
	back_off(p);
	if (!p->unanswered)
		p->unanswered = now;
}

static void fill_poll(struct path *p, uint8_t *buf, uint32_t room)
{
	memset(buf + MROCE_HDR_LEN, 0, room);
	seal(p, buf, MROCE_POLL, 0, room);
	note_sent(p, MROCE_HDR_LEN + room);
	note_polled(p);
}

bool path_poll(struct path *p)
{
	uint8_t *buf;

	if (!p->port->up)
		return false;
	buf = p->port->ops->tx_begin(p->port, &p->flow, MROCE_HDR_LEN + MROCE_POLL_BODY);
	if (!buf)
		return false;
	fill_poll(p, buf, MROCE_POLL_BODY);
	return true;
}

/* Several POLLs in a row; they count as one. */
static bool path_insist(struct path *p)
{
	uint16_t backoff = p->poll_backoff;
	bool sent = false;

	for (int i = 0; i < POLLS_AT_RTO; i++) {
		p->poll_backoff = backoff;
		sent |= path_poll(p);
	}
	return sent;
}

static void put_in_slot(struct path *p, const struct letter *l, uint32_t ts)
{
	struct engine *e = p->conn->e;
	struct envelope *slot = &p->slots->at[p->next & (MROCE_WINDOW - 1)];
	uint32_t w = bitmap_word(p->next);
	uint64_t bit = bitmap_bit(p->next);

	if (p->una == p->next)
		path_progress(p);
	slot->letter = letter_index(e, l) + 1;
	slot->ts = ts;
	p->slots->out[w] |= bit;
	p->slots->seen[w] &= ~bit;
	p->lost[w] &= ~bit;
	p->next++;
	p->begun = true;
	p->port->letter_bytes += letter_len(l);
	p->in_flight++;
	p->unplaced++;
	p->poll_backoff = 0;
}

/* The frame is taken but the letter's bytes cannot be had: the frame becomes a POLL. */
static void send_poll_instead(struct path *p, uint8_t *buf, uint32_t room)
{
	fill_poll(p, buf, room < MROCE_POLL_BODY ? room : MROCE_POLL_BODY);
	path_arm(p);
}

void letter_failed(struct conn *c, struct letter *l, int err)
{
	struct txmsg *m = l->msg;

	if (err == -EOWNERDEAD)
		conn_doom(c, DOOM_APP_DIED);
	letter_free(c->e, l);
	if (m)
		txmsg_abort(m);
}

bool path_open_slots(struct path *p)
{
	if (p->slots)
		return true;
	p->slots = pool_get_dirty(&p->conn->e->slots_pool);
	if (!p->slots)
		return false;
	memset(p->slots->out, 0, sizeof(p->slots->out));
	memset(p->slots->seen, 0, sizeof(p->slots->seen));
	return true;
}

static void note_letter(struct path *p, const struct letter *l, uint8_t flags)
{
	if (l->losses) {
		p->repairs++;
		p->conn->repaired++;
	}
	if (!p->first_unpolled)
		p->first_unpolled = p->conn->e->now;
	p->urgent = flags & MROCE_FLAG_ACK_REQ;
	p->since_poll++;
}

/* The very first packet between two ports is asked about at once: no queue of our own is in that RTT. */
static void ask_in_time(struct path *p)
{
	bool due = p->since_poll - p->answered >= POLL_PACKETS || p->since_poll >= POLL_LATEST;

	if (due || (!p->spoken && !p->srtt))
		p->spoken |= path_poll(p);
}

int path_send(struct path *p, struct letter *l, uint8_t flags)
{
	struct conn *c = p->conn;
	uint32_t len = letter_len(l);
	uint8_t *buf;
	int err;

	if (!path_open_slots(p))
		return -EAGAIN;
	buf = p->port->ops->tx_begin(p->port, &p->flow, MROCE_HDR_LEN + len);
	if (!buf)
		return -EAGAIN;
	err = letter_build(c, l, buf + MROCE_HDR_LEN);
	if (err) {
		send_poll_instead(p, buf, len);
		letter_failed(c, l, err);
		return err;
	}
	seal(p, buf, l->type, flags, len);
	note_sent(p, MROCE_HDR_LEN + len);
	put_in_slot(p, l, packet_clock(c->e->now));
	note_letter(p, l, flags);
	ask_in_time(p);
	path_arm(p);
	return 0;
}

void path_refused(struct path *p, bool port_full)
{
	struct engine *e = p->conn->e;

	if (port_full) {
		e->blocked |= 1u << p->port->index;
	} else if (p->port->ops->reachable(p->port, &p->flow.remote)) {
		p->conn->barred |= 1u << p->index;
		e->barred = true;
	} else {
		path_die(p, PATH_NO_ROUTE);
	}
}

void path_posted(struct path *p, struct letter *l, uint32_t ts, uint32_t len, uint8_t flags)
{
	struct conn *c = p->conn;

	p->tx_packets++;
	p->tx_bytes += len;
	p->una_told = p->una;
	c->last_sent = c->e->now;
	c->e->sent++;
	l->sent_on = p->index;
	put_in_slot(p, l, ts);
	note_letter(p, l, flags);
}

void path_after_post(struct path *p)
{
	if (p->una == p->next)
		path_advance(p); /* it got nothing */
	else if (p->since_poll)
		ask_in_time(p);
	path_arm(p);
}

/* ---- freeing ---- */

/* Nothing waits under this PSN any more. */
void path_clear(struct path *p, uint32_t psn)
{
	uint32_t w = bitmap_word(psn);
	uint64_t bit = bitmap_bit(psn);

	if (!(p->slots->seen[w] & bit))
		p->in_flight--;
	p->slots->out[w] &= ~bit;
	p->slots->seen[w] &= ~bit;
	p->slots->at[psn & (MROCE_WINDOW - 1)].letter = 0;
	p->unplaced--;
}

/* Moves una over PSNs under which nothing waits. */
void path_advance(struct path *p)
{
	if (!p->unplaced)
		p->una = p->next;
	while (p->una != p->next) {
		uint64_t word = p->slots->out[bitmap_word(p->una)] >> (p->una & 63);
		uint32_t step = word ? (uint32_t)__builtin_ctzll(word) : 64 - (p->una & 63);

		if (!step)
			break;
		if (step > p->next - p->una)
			step = p->next - p->una;
		p->una += step;
	}
	if (p->una == p->next && p->slots) {
		pool_put(&p->conn->e->slots_pool, p->slots);
		p->slots = NULL;
	}
}

/* Calls for each PSN with a letter, in order. */
#define for_each_out(p, psn)                                                \
	for (uint32_t psn = (p)->una, end_ = (p)->next; psn != end_; psn++) \
		if ((p)->slots && bitmap_test((p)->slots->out, psn))

static struct letter *letter_at(const struct path *p, uint32_t psn)
{
	return &p->conn->e->letters[p->slots->at[psn & (MROCE_WINDOW - 1)].letter - 1];
}

void path_give_up(struct path *p, bool repair)
{
	struct conn *c = p->conn;

	for_each_out(p, psn)
	{
		struct letter *l = letter_at(p, psn);

		path_clear(p, psn);
		if (repair)
			letter_lost(c, l, p->index, true);
		else
			letter_free(c->e, l);
	}
	path_advance(p);
	p->first_unpolled = 0;
	p->since_poll = p->answered = 0;
}

void path_forget_msg(struct path *p, const struct txmsg *m)
{
	for_each_out(p, psn)
	{
		struct letter *l = letter_at(p, psn);

		if (l->msg != m)
			continue;
		path_clear(p, psn);
		letter_free(p->conn->e, l);
	}
	path_advance(p);
}

void path_free(struct path *p)
{
	timer_clear(&p->conn->e->timers, &p->timer);
	if (p->slots)
		pool_put(&p->conn->e->slots_pool, p->slots);
	p->slots = NULL;
}

/* ---- death ---- */

/* A new life: other route, other epoch, nothing known of it. */
static void start_anew(struct path *p)
{
	p->leaving = false;
	p->epoch++;
	path_new_route(p);
	p->unanswered = 0;
	p->rto_count = 0;
	p->poll_backoff = 0;
	p->grace = p->suspect = false;
	p->srtt = p->rttvar = p->min_rtt = p->ce_at = 0;
	p->tolerance = 0;
	p->steer = p->losing = 0;
	p->spoken = p->begun = false;
	p->conn->e->cfg.cc->init(&p->cc, p->conn->e->now);
	quality_moved(p);
}

void path_leave(struct path *p, enum path_reason why)
{
	p->leaving = true;
	p->reason = (uint8_t)why;
	p->leave_by = p->conn->e->now + 4 * path_rto(p);
	path_move_if_empty(p);
	path_arm(p);
}

static void move(struct path *p)
{
	uint16_t from = p->flow.sport;
	char peer[IPTEXT_MAX];

	path_give_up(p, true);
	start_anew(p);
	mtu_changed(p); /* asked again, if less passed by the old route */
	p->moves++;
	note_path(p, NOTE_PATH_MOVED, LOG_INFO,
		  "conn 0x%08x: path %u to %s through %s moved from source port %u to %u: %s",
		  p->conn->id, p->index, ip_text(&p->flow.remote, peer), p->port->name, from,
		  p->flow.sport, path_reason_text(p->reason));
	p->spoken = path_poll(p);
	path_arm(p);
}

void path_move_if_empty(struct path *p)
{
	if (p->leaving && (p->una == p->next || p->conn->e->now >= p->leave_by))
		move(p);
}

void path_die(struct path *p, enum path_reason why)
{
	struct conn *c = p->conn;
	char peer[IPTEXT_MAX];

	p->reason = (uint8_t)why;
	note_path(p, NOTE_PATH_DEAD, LOG_NOTICE,
		  "conn 0x%08x: path %u to %s through %s left: %s (PSN %u to %u open)", c->id,
		  p->index, ip_text(&p->flow.remote, peer), p->port->name, path_reason_text(why),
		  p->una, p->next);
	p->dead = true;
	p->deaths++;
	path_give_up(p, true);
	start_anew(p);
	p->last_poll = c->e->now;
	timer_set(&c->e->timers, &p->timer, path_due(p));
}

void path_probe_soon(struct path *p)
{
	p->poll_backoff = 0;
	p->last_poll = p->conn->e->now;
	path_arm(p);
}

/* Has another path heard something after `since`? */
static bool sibling_heard(const struct path *p, uint64_t since)
{
	const struct conn *c = p->conn;

	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *other = &c->paths[i];

		if (other != p && !other->dead && other->last_heard > since)
			return true;
	}
	return false;
}

/* One path hears nothing: whether the peer is gone can only be told by asking on all. */
static void ask_on_all(struct conn *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *p = &c->paths[i];

		if (p->unanswered || !path_usable(p))
			continue;
		path_poll(p);
		path_arm(p);
	}
}

/* The same at first: one path of each port. On all, questions alone would fill a congested link. */
static void ask_elsewhere(const struct path *p)
{
	struct conn *c = p->conn;
	uint32_t asked = 0;

	for (uint32_t i = 0; i < c->npaths; i++) {
		struct path *o = &c->paths[i];

		if (o == p || !path_usable(o) || asked & 1u << o->port->index)
			continue;
		asked |= 1u << o->port->index;
		if (o->unanswered)
			continue;
		path_poll(o);
		path_arm(o);
	}
}

/* An RTO: asked, and nothing came back. */
static void path_timeout(struct path *p, uint64_t due)
{
	struct conn *c = p->conn;
	uint64_t late = c->e->now - due;
	bool at_fault, had_letters = p->unplaced;

	/* We were not running ourselves: what came meanwhile may still be unread. */
	if (!p->grace &&
	    (late > path_rto(p) / 2 || c->e->overslept_at + path_rto(p) / 2 > c->e->now)) {
		p->grace = true;
		p->unanswered += late + path_rto(p) / 2;
		path_poll(p);
		return;
	}
	p->rtos++;
	if (p->unplaced && p->rto_count) /* the first may be two lone losses */
		c->e->cfg.cc->timeout(&p->cc, c->e->now);
	/* Others were answered when this one should have been. */
	at_fault = sibling_heard(p, p->unanswered + p->min_rtt / 2);
	if (p->rto_count + 1 >= DEATH_RTOS && at_fault) {
		path_die(p, p->port->ops->reachable(p->port, &p->flow.remote) ? PATH_NO_ANSWER
									      : PATH_NO_ROUTE);
		return;
	}
	if (p->rto_count < UINT16_MAX)
		p->rto_count++;
	p->grace = false;
	if (p->rto_count >= MOVE_RTOS && at_fault && p->unplaced)
		path_give_up(p, true);
	p->unanswered = c->e->now;
	path_insist(p);
	if (p->rto_count > 1)
		ask_on_all(c);
	else if (had_letters) /* a lone lost question is not worth it */
		ask_elsewhere(p);
	conn_check_silence(c);
}

/* ---- time passes ---- */

static void probe(struct path *p)
{
	struct conn *c = p->conn;

	/* The new route may be as bad as the old one. */
	if (p->poll_backoff && p->poll_backoff % PROBES_PER_ROUTE == 0) {
		p->epoch++;
		path_new_route(p);
	}
	if (path_insist(p)) {
		p->unanswered = 0;
	} else {
		p->last_poll = c->e->now;
		back_off(p);
	}
	conn_check_silence(c);
}

/*
 * The peer's daemon has missed so much (its rings overflowed, its una is only in POLLs since) that what is
 * outstanding lies beyond the window that its ACKs can tell about.
 */
static bool out_of_sight(const struct path *p)
{
	return p->acked_any && p->next - p->acked_base > MROCE_WINDOW;
}

static bool daemon_silent(struct path *p)
{
	struct conn *c = p->conn;
	uint64_t limit = DAEMON_SILENCE * c->e->cfg.silence_ns;
	char peer[IPTEXT_MAX];

	if (p->in_flight && !out_of_sight(p))
		return false;
	if (c->e->now - max_u64(p->last_progress, c->last_placed) < limit)
		return false;
	engine_log(c->e, LOG_WARNING,
		   "conn 0x%08x: the kernel of %s answers, but its daemon has placed nothing for "
		   "%llu ms; "
		   "connection ended, check mroced there",
		   c->id, ip_text(&c->peer, peer), (unsigned long long)(limit / MSEC));
	conn_end(c, MROCE_E_PEER_GONE);
	return true;
}

/* Everything was seen and nothing is placed: send something that wakes the peer's daemon. */
static void nudge(struct path *p)
{
	struct conn *c = p->conn;
	struct letter *l;

	if ((p->in_flight && !out_of_sight(p)) || p->next - p->una >= MROCE_WINDOW)
		return;
	if (c->e->now - p->last_progress < NUDGE_AFTER << p->nudges)
		return;
	l = letter_new(c, MROCE_PORT_STATUS);
	if (!l)
		return;
	l->number = p->port->index;
	l->code = p->port->up;
	if (p->nudges < NUDGE_STEPS)
		p->nudges++;
	if (path_send(p, l, MROCE_FLAG_ACK_REQ))
		letter_free(c->e, l);
}

void path_timer(struct path *p)
{
	struct conn *c = p->conn;
	uint64_t now = c->e->now, rto_at;

	if (c->state != CONN_OPEN && c->state != CONN_CLOSING)
		return;
	if (path_due(p) > now) {
		path_arm(p);
		return;
	}
	rto_at = p->unanswered ? p->unanswered + path_rto(p) : TIMER_NEVER;
	if (p->dead) {
		probe(p);
	} else if (rto_at <= now) {
		path_timeout(p, rto_at);
	} else if (p->unplaced && daemon_silent(p)) {
		return;
	} else {
		if (p->unanswered && p->unanswered + pto_of(p) <= now)
			p->suspect = sibling_heard(p, p->unanswered);
		if (!p->first_unpolled) {
			p->ptos++;
			nudge(p);
		}
		path_poll(p);
	}
	if (c->state != CONN_OPEN && c->state != CONN_CLOSING)
		return;
	path_move_if_empty(p);
	/* A port without room: look again a little later. */
	timer_by(&c->e->timers, &p->timer, max_u64(path_due(p), now + POLL_MIN));
}
