// SPDX-License-Identifier: BSD-2-Clause
/*
 * The stall reporter: a message that makes no progress is named in the log, with where it is stuck, again and
 * again at doubling intervals. Nothing hangs in silence.
 */
#include <stdio.h>
#include <syslog.h>
#include "core/internal.h"
#include "mroce/track.h"

void conn_watch(struct conn *c)
{
	if (!c->stall.place)
		timer_set(&c->e->timers, &c->stall, c->e->now + c->e->cfg.stall_ns / 2);
}

struct where {
	const struct path *path;
	uint32_t psn, chunk;
};

/* The lowest chunk of the message that is in an envelope. */
static bool find_envelope(const struct conn *c, const struct txmsg *m, struct where *out)
{
	bool found = false;

	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path *p = &c->paths[i];

		for (uint32_t psn = p->una; psn != p->next; psn++) {
			const struct letter *l;

			if (!bitmap_test(p->slots->out, psn))
				continue;
			l = &c->e->letters[p->slots->at[psn & (MROCE_WINDOW - 1)].letter - 1];
			if (l->msg != m || (found && l->chunk >= out->chunk))
				continue;
			*out = (struct where){ .path = p, .psn = psn, .chunk = l->chunk };
			found = true;
		}
	}
	return found;
}

static const char *why_not_started(const struct stream *s)
{
	if (!psn_before(s->rseq_next, s->credit))
		return "not begun: the peer has posted no receive for it";
	return "not begun: waits for the messages before it";
}

static unsigned long long ms(uint64_t ns)
{
	return (unsigned long long)(ns / MSEC);
}

static void report_tx(struct conn *c, const struct stream *s, const struct txmsg *m)
{
	struct where at;
	char peer[IPTEXT_MAX], text[200];

	ip_text(&c->peer, peer);
	if (!m->started) {
		snprintf(text, sizeof(text), "%s", why_not_started(s));
	} else if (find_envelope(c, m, &at)) {
		snprintf(text, sizeof(text),
			 "chunk %u on path %u PSN %u (%s), last answer %llu ms ago", at.chunk,
			 at.path->index, at.psn,
			 bitmap_test(at.path->slots->seen, at.psn) ? "seen, not placed" : "not seen",
			 ms(c->e->now - at.path->last_heard));
	} else if (m->opcode == MROCE_WR_READ && !m->response) {
		snprintf(text, sizeof(text), "the response has not come, %llu bytes are here",
			 (unsigned long long)(m->reply ? m->reply->got : 0));
	} else {
		snprintf(text, sizeof(text), "chunk %u waits for a path with room", m->next_chunk);
	}
	note_stall(c, s->id, m->started ? m->msg : s->tx_next,
		   "conn 0x%08x to %s stream %u: message %u (%llu bytes) stalled for %llu ms: %s; "
		   "peer last heard %llu ms ago",
		   c->id, peer, s->id, m->started ? m->msg : s->tx_next, (unsigned long long)m->len,
		   ms(c->e->now - m->progress_at), text, ms(c->e->now - c->last_heard));
}

static void report_rx(struct conn *c, const struct stream *s, const struct rxmsg *m)
{
	char peer[IPTEXT_MAX];

	note_stall(c, s->id, m->msg,
		   "conn 0x%08x from %s stream %u: message %u stalled for %llu ms: %llu of %llu "
		   "bytes are here, lowest missing chunk %u; peer last heard %llu ms ago",
		   c->id, ip_text(&c->peer, peer), s->id, m->msg, ms(c->e->now - m->progress_at),
		   (unsigned long long)m->got, (unsigned long long)m->msg_len, m->chunks.base,
		   ms(c->e->now - c->last_heard));
}

/* Is it time to complain (again)? */
static bool is_stalled(struct conn *c, uint64_t progress_at, uint64_t *complain_at)
{
	uint64_t now = c->e->now, age = now - progress_at;

	if (age < c->e->cfg.stall_ns) {
		*complain_at = 0;
		return false;
	}
	if (*complain_at > now)
		return false;
	*complain_at = now + age;
	c->e->stalls++;
	return true;
}

/* True: something is under way on the stream. */
static bool look_at(struct conn *c, struct stream *s)
{
	struct txmsg *m = TAILQ_FIRST(&s->tx);
	struct txmsg *response = TAILQ_FIRST(&s->responses);
	struct rxmsg *in = rxmsg_find(s, s->rx_next, false);

	stream_offer_credit(s);
	if (m && is_stalled(c, m->progress_at, &m->complain_at))
		report_tx(c, s, m);
	if (response && is_stalled(c, response->progress_at, &response->complain_at))
		report_tx(c, s, response);
	if (in && is_stalled(c, in->progress_at, &in->complain_at))
		report_rx(c, s, in);
	return m || response || in || s->recv_posted != s->credit_told;
}

void conn_stall_timer(struct conn *c)
{
	struct stream *s;
	bool busy = false;

	if (c->state != CONN_OPEN)
		return;
	for (s = TAILQ_FIRST(&c->streams); s; s = TAILQ_NEXT(s, all))
		busy |= look_at(c, s);
	if (busy)
		conn_watch(c);
}
