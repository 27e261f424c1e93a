// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who may set up connections: signatures by the pre-shared key, and cookies, which show that a peer receives
 * at the address it claims. Keyed BLAKE2b from libsodium does both. Nothing here depends on what peers
 * sent before, so floods cost time and no memory.
 */
#include <arpa/inet.h>
#include <sodium.h>
#include <stddef.h>
#include <syslog.h>
#include "core/internal.h"

/* A cookie is good for at least one life and at most two. */
#define COOKIE_LIFE (10 * SEC)
#define GRUDGE_LIFE (60 * SEC)

_Static_assert(MROCE_MAC_LEN >= crypto_generichash_BYTES_MIN, "a MAC is a hash");
_Static_assert(MROCE_COOKIE_LEN >= crypto_generichash_BYTES_MIN, "a cookie is a hash");

void auth_init(struct engine *e)
{
	rng_bytes(&e->rng, e->auth.cookie_key, sizeof(e->auth.cookie_key));
	rng_bytes(&e->rng, e->auth.hash_key, sizeof(e->auth.hash_key));
}

void auth_fini(struct engine *e)
{
	sodium_memzero(e->cfg.psk, sizeof(e->cfg.psk));
	sodium_memzero(&e->auth, sizeof(e->auth));
	sodium_memzero(&e->rng, sizeof(e->rng));
}

/* ---- signatures ---- */

/*
 * Over type, length, and the body with zeros for the MAC itself. The body has both nonces, as far as they are
 * known, and the address meant, so that no packet can be played back at another time or to another host.
 */
static void mac_of(const struct engine *e, uint8_t type, const uint8_t *body, uint32_t len,
		   uint8_t mac[MROCE_MAC_LEN])
{
	static const uint8_t zeros[MROCE_MAC_LEN];
	const uint32_t at = offsetof(struct mroce_hello, mac), behind = at + MROCE_MAC_LEN;
	const uint8_t head[4] = { type, 0, (uint8_t)(len >> 8), (uint8_t)len };
	crypto_generichash_state st;

	crypto_generichash_init(&st, e->cfg.psk, sizeof(e->cfg.psk), MROCE_MAC_LEN);
	crypto_generichash_update(&st, head, sizeof(head));
	crypto_generichash_update(&st, body, at);
	crypto_generichash_update(&st, zeros, sizeof(zeros));
	crypto_generichash_update(&st, body + behind, len - behind);
	crypto_generichash_final(&st, mac, MROCE_MAC_LEN);
}

void auth_sign(const struct engine *e, uint8_t type, struct mroce_hello *h, uint32_t len)
{
	if (!e->cfg.authenticated)
		return;
	h->features |= htonl(MROCE_F_AUTH);
	mac_of(e, type, (const uint8_t *)h, len, h->mac);
}

static bool is_own_address(const struct engine *e, const uint8_t to[16])
{
	struct ip ip;

	memcpy(ip.a, to, sizeof(ip.a));
	for (uint32_t i = 0; i < e->nports; i++) {
		struct port *port = e->ports[i];

		if (ip_equal(&ip, &port->addr) || (port->ops->owns && port->ops->owns(port, &ip)))
			return true;
	}
	return false;
}

/* The caller has checked that the body is as long as MROCE_HELLO_SHORT. */
int auth_check(const struct engine *e, const struct packet *p)
{
	uint8_t mac[MROCE_MAC_LEN];
	struct mroce_hello h;
	bool is_signed;

	memcpy(&h, p->body, MROCE_HELLO_SHORT);
	is_signed = h.features & htonl(MROCE_F_AUTH);
	if (!e->cfg.authenticated)
		return is_signed ? -MROCE_DROP_AUTH_WRONG : 0;
	if (!is_signed)
		return -MROCE_DROP_AUTH_MISSING;
	mac_of(e, p->type, p->body, p->body_len, mac);
	if (sodium_memcmp(mac, h.mac, sizeof(mac)))
		return -MROCE_DROP_AUTH_WRONG;
	if (p->type == MROCE_HELLO && !is_own_address(e, h.to))
		return -MROCE_DROP_AUTH_TARGET;
	return 0;
}

static const char *explain(const struct engine *e, int reason)
{
	switch (reason) {
	case MROCE_DROP_AUTH_MISSING: return "it has no pre-shared key, we require one";
	case MROCE_DROP_AUTH_TARGET: return "it was signed for the address of another host";
	}
	return e->cfg.authenticated ? "it was not signed with our pre-shared key"
				    : "it requires a pre-shared key and we have none";
}

void auth_refused(struct engine *e, const struct ip *peer, int reason)
{
	uint64_t words[2];
	struct grudge *g;
	char text[IPTEXT_MAX];
	bool same;

	count(e, reason);
	memcpy(words, peer->a, sizeof(words));
	g = &e->auth.grudges[auth_hash(e, words[0] ^ words[1]) % GRUDGES];
	same = ip_equal(&g->peer, peer);
	g->times += same;
	if (g->logged_at && e->now - g->logged_at < GRUDGE_LIFE)
		return; /* also for another peer: forged addresses must not fill the log */
	if (!same)
		*g = (struct grudge){ .peer = *peer, .times = 1 };
	g->logged_at = max_u64(e->now, 1);
	engine_log(e, LOG_WARNING,
		   "set-up with %s turned away, %u time%s since last said: %s; see [security] "
		   "psk_file on "
		   "both hosts",
		   ip_text(peer, text), g->times, g->times == 1 ? "" : "s", explain(e, reason));
	g->times = 0;
}

/* ---- cookies ---- */

static void rotate(struct engine *e)
{
	struct auth *a = &e->auth;

	if (e->now - a->cookie_since < COOKIE_LIFE)
		return;
	if (e->now - a->cookie_since < 2 * COOKIE_LIFE)
		memcpy(a->cookie_key[1], a->cookie_key[0], sizeof(a->cookie_key[1]));
	else
		rng_bytes(&e->rng, a->cookie_key[1], sizeof(a->cookie_key[1]));
	rng_bytes(&e->rng, a->cookie_key[0], sizeof(a->cookie_key[0]));
	a->cookie_since = e->now;
}

static void cookie_by(const uint8_t key[32], const struct ip *peer, const struct mroce_hello *h,
		      uint8_t cookie[MROCE_COOKIE_LEN])
{
	struct {
		struct ip peer;
		uint64_t nonce;
		uint32_t service, cid;
	} bound = { *peer, h->nonce, h->service, h->cid };

	crypto_generichash(cookie, MROCE_COOKIE_LEN, (const uint8_t *)&bound, sizeof(bound), key,
			   32);
}

void auth_cookie(struct engine *e, const struct ip *peer, const struct mroce_hello *h,
		 uint8_t cookie[MROCE_COOKIE_LEN])
{
	rotate(e);
	cookie_by(e->auth.cookie_key[0], peer, h, cookie);
}

bool auth_cookie_ok(struct engine *e, const struct ip *peer, const struct mroce_hello *h)
{
	uint8_t cookie[MROCE_COOKIE_LEN];

	rotate(e);
	for (int i = 0; i < 2; i++) {
		cookie_by(e->auth.cookie_key[i], peer, h, cookie);
		if (sodium_memcmp(cookie, h->cookie, sizeof(cookie)) == 0)
			return true;
	}
	return false;
}

uint32_t auth_hash(const struct engine *e, uint64_t nonce)
{
	uint8_t out[crypto_shorthash_BYTES];
	uint32_t h;

	crypto_shorthash(out, (const uint8_t *)&nonce, sizeof(nonce), e->auth.hash_key);
	memcpy(&h, out, sizeof(h));
	return h;
}
