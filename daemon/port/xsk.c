// SPDX-License-Identifier: BSD-2-Clause
#include "xsk.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUSY_TRIES 100	   /* of 10 ms: another daemon may just be ending */
#define BUSY_TRIES_AGAIN 5 /* a queue stays busy up to 33 ms after its old socket closed */
#define BUSY_WAIT_NS 10000000
#define KICK_TRIES 128 /* of at most 32 frames each, in one flush: never endless */
#define REAP_BATCH 256
/*
 * Frames are received into in turn, so that a packet's memory was last used as many packets ago as there are frames
 * with the kernel. As long as we keep up, few are enough, and they stay in the cache.
 */
#define FILL_FEW 512
#define FILL_CHECK 65536 /* packets */
/* What copy mode lets lie unfinished, bytes of kernel memory: some two hundred frames. */
#define SEND_BUFFER (1 << 20)

static uint32_t power_above(uint32_t n)
{
	uint32_t power = 64;

	while (power < n)
		power <<= 1;
	return power;
}

/* What the fill ring holds: enough for a full receive ring and a full ring of the driver's. */
static uint32_t fill_frames(const struct xsk_params *p)
{
	return p->ring_size + p->hw_ring;
}

static int umem_explain(const struct xsk *x, const struct xsk_params *p, int err, log_fn log)
{
	struct rlimit limit;

	if ((err == -ENOBUFS || err == -EPERM || err == -ENOMEM) &&
	    getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		log(LOG_ERR,
		    "%s queue %u: %zu bytes of packet memory cannot be locked, the limit of locked "
		    "memory is %llu: raise it (LimitMEMLOCK=infinity, ulimit -l unlimited) or "
		    "choose a smaller ring_size than %u",
		    p->interface, p->queue, umem_bytes(&x->um), (unsigned long long)limit.rlim_cur,
		    p->ring_size);
		return err;
	}
	log(LOG_ERR, "%s queue %u: packet memory of %zu bytes was refused: %s%s", p->interface,
	    p->queue, umem_bytes(&x->um), strerror(-err),
	    err == -EPERM ? "; capability CAP_NET_RAW is needed" : "");
	return err;
}

static int bind_explain(const struct xsk_params *p, int err, log_fn log)
{
	const char *advice = "";

	switch (err) {
	case -EBUSY:
		advice = "; another AF_XDP program uses this queue: stop it (`ss -x --xdp` shows "
			 "it)";
		break;
	case -EOPNOTSUPP:
	case -EAFNOSUPPORT: advice = "; the kernel needs CONFIG_XDP_SOCKETS"; break;
	case -ENETDOWN: advice = "; bring the interface up first (ip link set ... up)"; break;
	case -EPERM: advice = "; capability CAP_NET_RAW is needed"; break;
	}
	log(LOG_ERR, "%s queue %u: no AF_XDP socket: %s%s", p->interface, p->queue, strerror(-err),
	    advice);
	return err;
}

static void kernel_side_close(struct xsk *x)
{
	if (x->socket)
		xsk_socket__delete(x->socket);
	if (x->kernel_umem)
		xsk_umem__delete(x->kernel_umem);
	x->socket = NULL;
	x->kernel_umem = NULL;
}

/* A socket that failed to bind is of no further use, so every try makes its umem anew. */
static int try_bind(struct xsk *x, const struct xsk_params *p, uint16_t bind_flags,
		    bool *umem_failed)
{
	struct xsk_umem_config umem_config = {
		.fill_size = power_above(fill_frames(p)),
		.comp_size = power_above(x->um.frames),
		.frame_size = UMEM_FRAME_SIZE,
	};
	struct xsk_socket_config config = {
		.rx_size = p->ring_size,
		.tx_size = p->ring_size,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = bind_flags | XDP_USE_NEED_WAKEUP,
	};
	int err = xsk_umem__create(&x->kernel_umem, x->um.area, umem_bytes(&x->um), &x->fill,
				   &x->comp, &umem_config);

	*umem_failed = err != 0;
	if (err)
		return err;
	err = xsk_socket__create(&x->socket, p->interface, p->queue, x->kernel_umem, &x->rx,
				 x->transmit ? &x->tx : NULL, &config);
	if (err) {
		x->socket = NULL;
		kernel_side_close(x);
	}
	return err;
}

static int bind_patiently(struct xsk *x, const struct xsk_params *p, uint16_t bind_flags,
			  bool *umem_failed)
{
	struct timespec wait = { .tv_nsec = BUSY_WAIT_NS };
	int err = -EBUSY;

	for (int i = 0; i < (p->again ? BUSY_TRIES_AGAIN : BUSY_TRIES) && err == -EBUSY; i++) {
		if (i)
			nanosleep(&wait, NULL);
		err = try_bind(x, p, bind_flags, umem_failed);
	}
	return err;
}

static int bind_best(struct xsk *x, const struct xsk_params *p, log_fn log)
{
	bool umem_failed = false;
	int err = -EOPNOTSUPP;

	if (!p->generic) {
		err = bind_patiently(x, p, XDP_ZEROCOPY, &umem_failed);
		x->zero_copy = !err;
	}
	if (err && !umem_failed && err != -EBUSY)
		err = bind_patiently(x, p, XDP_COPY, &umem_failed);
	if (!err)
		return 0;
	return umem_failed ? umem_explain(x, p, err, log) : bind_explain(p, err, log);
}

static void refill(struct xsk *x)
{
	/* Without need_wakeup from the driver this is a memory read. */
	if (xsk_ring_prod__needs_wakeup(&x->fill))
		recvfrom(x->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

/*
 * Lends free frames to the kernel until it has fill_want. The ring takes fill_max, but copy mode publishes what it has
 * received a moment before what it has taken out of this ring: then some wait for the next batch.
 */
static void top_up(struct xsk *x)
{
	uint32_t has = x->um.owned[UMEM_FILL];
	uint32_t n = x->fill_want > has ? x->fill_want - has : 0;
	uint32_t room, at;

	if (n > x->um.nfree)
		n = x->um.nfree;
	room = n ? xsk_prod_nb_free(&x->fill, n) : 0;
	if (n > room)
		n = room;
	if (!n || xsk_ring_prod__reserve(&x->fill, n, &at) != n)
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&x->fill, at + i) = umem_take(&x->um, UMEM_FILL);
	xsk_ring_prod__submit(&x->fill, n);
	refill(x);
}

/* All frames at once when the backlog gets long; fewer after it has been short for a while. */
static void adapt_fill(struct xsk *x, uint32_t backlog)
{
	if (backlog > x->backlog)
		x->backlog = backlog;
	if (x->backlog >= x->fill_want / 2 && x->fill_want < x->fill_max) {
		x->fill_want = x->fill_max;
		top_up(x);
	}
	if (x->rx_packets - x->fill_checked < FILL_CHECK)
		return;
	if (x->backlog < x->fill_min / 4)
		x->fill_want = x->fill_min;
	x->backlog = 0;
	x->fill_checked = x->rx_packets;
}

int xsk_open(struct xsk *x, const struct xsk_params *p, log_fn log)
{
	uint32_t fill = fill_frames(p);
	int size = SEND_BUFFER;
	int err;

	memset(x, 0, sizeof(*x));
	x->queue = p->queue;
	x->transmit = p->transmit;
	err = umem_init(&x->um, fill + (p->transmit ? p->ring_size : 0));
	if (err) {
		log(LOG_ERR, "%s queue %u: no memory for %u frames", p->interface, p->queue,
		    fill + p->ring_size);
		return err;
	}
	err = bind_best(x, p, log);
	if (err) {
		umem_free(&x->um);
		return err;
	}
	x->fd = xsk_socket__fd(x->socket);
	setsockopt(x->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	x->fill_max = x->fill_want = fill;
	x->fill_min = p->hw_ring + FILL_FEW < fill ? p->hw_ring + FILL_FEW : fill;
	top_up(x);
	return 0;
}

void xsk_close(struct xsk *x)
{
	kernel_side_close(x);
	umem_free(&x->um);
}

uint32_t xsk_rx(struct xsk *x, struct xdp_desc *out, uint32_t max)
{
	uint32_t at, n, good = 0;

	n = xsk_ring_cons__peek(&x->rx, max, &at);
	if (!n)
		return 0;
	adapt_fill(x, xsk_cons_nb_avail(&x->rx, UINT32_MAX) + n);
	for (uint32_t i = 0; i < n; i++) {
		out[good] = *xsk_ring_cons__rx_desc(&x->rx, at + i);
		good += umem_move(&x->um, out[good].addr, UMEM_FILL, UMEM_HELD);
	}
	xsk_ring_cons__release(&x->rx, n);
	x->rx_packets += good;
	return good;
}

void xsk_rx_done(struct xsk *x, const struct xdp_desc *descs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		umem_give(&x->um, descs[i].addr, UMEM_HELD);
	top_up(x);
}

static void reap(struct xsk *x)
{
	uint32_t at, n;

	if (!x->um.owned[UMEM_TX])
		return;
	n = xsk_ring_cons__peek(&x->comp, REAP_BATCH, &at);
	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++)
		umem_give(&x->um, *xsk_ring_cons__comp_addr(&x->comp, at + i), UMEM_TX);
	xsk_ring_cons__release(&x->comp, n);
}

static void submit(struct xsk *x)
{
	if (!x->unsubmitted)
		return;
	xsk_ring_prod__submit(&x->tx, x->unsubmitted);
	x->tx_packets += x->unsubmitted;
	x->unsubmitted = 0;
}

/* Submitted frames that the kernel has not taken out of the tx ring. */
static uint32_t waiting(const struct xsk *x)
{
	return *x->tx.producer - __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE);
}

/*
 * Copy mode sends some frames per call and says EAGAIN both when it has done its share and when it
 * can do no more: go on while the ring gets shorter.
 */
static bool kick(struct xsk *x)
{
	uint32_t before, now = waiting(x);

	for (int i = 0; i < KICK_TRIES && now; i++) {
		if (!xsk_ring_prod__needs_wakeup(&x->tx))
			break;
		x->kicks++;
		before = now;
		if (sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno == ENETDOWN)
			return false; /* nothing to hurry for */
		now = waiting(x);
		if (now == before)
			break;
		reap(x);
	}
	return now != 0;
}

/* Sending takes no frame that receiving may want: it has as many as its ring holds. */
static bool tx_room(struct xsk *x)
{
	return x->um.owned[UMEM_TX] < x->tx.size && xsk_prod_nb_free(&x->tx, 1);
}

int64_t xsk_tx_take(struct xsk *x)
{
	if (tx_room(x))
		return umem_take(&x->um, UMEM_HELD);
	reap(x);
	if (!tx_room(x))
		xsk_tx_flush(x);
	if (!tx_room(x))
		return -1;
	return umem_take(&x->um, UMEM_HELD);
}

void xsk_tx_put(struct xsk *x, uint64_t addr, uint32_t len)
{
	struct xdp_desc *desc;
	uint32_t at;

	if (!umem_move(&x->um, addr, UMEM_HELD, UMEM_TX))
		return;
	if (!xsk_ring_prod__reserve(&x->tx, 1, &at)) { /* xsk_tx_take() saw room */
		umem_give(&x->um, addr, UMEM_TX);
		x->um.wrong++;
		return;
	}
	desc = xsk_ring_prod__tx_desc(&x->tx, at);
	desc->addr = addr;
	desc->len = len;
	desc->options = 0;
	x->unsubmitted++;
}

bool xsk_tx_flush(struct xsk *x)
{
	bool left;

	if (!x->um.owned[UMEM_TX])
		return false;
	submit(x);
	left = kick(x);
	reap(x);
	return left;
}

void xsk_frames(const struct xsk *x, struct xsk_frames *out)
{
	const struct umem *um = &x->um;

	*out = (struct xsk_frames){
		.total = um->frames,
		.free = um->nfree,
		.held = um->owned[UMEM_HELD],
		.rx = __atomic_load_n(x->rx.producer, __ATOMIC_ACQUIRE) - *x->rx.consumer,
		.completion = __atomic_load_n(x->comp.producer, __ATOMIC_ACQUIRE) - *x->comp.consumer,
	};
	out->fill = um->owned[UMEM_FILL] - out->rx;
	out->tx = um->owned[UMEM_TX] - out->completion;
}

bool xsk_check(const struct xsk *x, log_fn log)
{
	uint32_t in_ring = *x->fill.producer - __atomic_load_n(x->fill.consumer, __ATOMIC_ACQUIRE);
	struct xsk_frames f;

	xsk_frames(x, &f);
	if (umem_consistent(&x->um) && f.rx <= x->um.owned[UMEM_FILL] &&
	    f.completion <= x->um.owned[UMEM_TX] && in_ring <= x->fill.size &&
	    f.total == f.free + f.fill + f.rx + f.tx + f.completion + f.held)
		return true;
	log(LOG_CRIT,
	    "queue %u: packet memory does not add up: %u frames, free %u, fill %u (ring %u), rx "
	    "%u, "
	    "tx %u, completion %u, held %u, %llu wrong moves",
	    x->queue, f.total, f.free, f.fill, in_ring, f.rx, f.tx, f.completion, f.held,
	    (unsigned long long)x->um.wrong);
	return false;
}

int xsk_stats(const struct xsk *x, struct xdp_statistics *out)
{
	socklen_t len = sizeof(*out);

	memset(out, 0, sizeof(*out));
	return getsockopt(x->fd, SOL_XDP, XDP_STATISTICS, out, &len) ? -errno : 0;
}
