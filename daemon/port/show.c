// SPDX-License-Identifier: BSD-2-Clause
/* A port as `mroce show` prints it. */
#include <stdio.h>
#include "afxdp.h"

/* Sums over the queues of a port. */
struct sums {
	struct xsk_frames frames;
	uint64_t rx_packets, tx_packets, rx_dropped, ring_full, fill_empty;
	uint64_t wrong; /* moves of frames that were refused; see umem.h */
};

static void add_queue(struct sums *s, const struct xsk *x)
{
	struct xdp_statistics stats;
	struct xsk_frames f;

	xsk_frames(x, &f);
	s->frames.total += f.total;
	s->frames.free += f.free;
	s->frames.fill += f.fill;
	s->frames.rx += f.rx;
	s->frames.tx += f.tx;
	s->frames.completion += f.completion;
	s->frames.held += f.held;
	s->rx_packets += x->rx_packets;
	s->tx_packets += x->tx_packets;
	s->wrong += x->um.wrong;
	if (xsk_stats(x, &stats))
		return;
	s->rx_dropped += stats.rx_dropped;
	s->ring_full += stats.rx_ring_full;
	s->fill_empty += stats.rx_fill_ring_empty_descs;
}

static json_t *show_neighbour(const struct mirror_neigh *n)
{
	char ip[IPTEXT_MAX], mac[18];

	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", n->mac[0], n->mac[1], n->mac[2],
		 n->mac[3], n->mac[4], n->mac[5]);
	return json_pack("{s:s, s:s, s:s}", "addr", ip_text(&n->ip, ip), "mac", mac, "state",
			 mirror_neigh_state(n->state));
}

/* Those that routes lead over: an interface may see thousands of others. */
static json_t *show_neighbours(const struct afxdp *a)
{
	json_t *array = json_array();

	for (struct mirror_neigh *n = a->mif->neighs; n; n = n->hh.next) {
		bool used = false;

		for (uint32_t i = 0; i < a->routes.n && !used; i++)
			used = a->routes.at[i]->reachable &&
			       ip_equal(&a->routes.at[i]->next_hop, &n->ip);
		if (used)
			json_array_append_new(array, show_neighbour(n));
	}
	return array;
}

static json_t *show_frames(const struct xsk_frames *f)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "total", f->total, "free", f->free,
			 "fill", f->fill, "rx", f->rx, "tx", f->tx, "completion", f->completion,
			 "held", f->held);
}

json_t *afxdp_show(const struct afxdp *a)
{
	char addr[IPTEXT_MAX];
	struct sums s = { 0 };
	json_t *o;

	for (uint32_t i = 0; i < a->queues; i++)
		add_queue(&s, &a->xsks[i]);
	o = json_pack("{s:i, s:s, s:s, s:i, s:b, s:i}", "port", a->port.index, "name", a->port.name,
		      "addr", ip_text(&a->port.addr, addr), "mtu", a->port.mtu, "up", a->port.up,
		      "speed_mbps", (int)a->port.speed);
	json_object_set_new(o, "mode", json_string(a->attach.generic ? "generic" : "native"));
	json_object_set_new(o, "zero_copy", json_boolean(a->queues && a->xsks[0].zero_copy));
	json_object_set_new(o, "attach",
			    json_string(a->attach.adopted     ? "adopted"
					: a->attach.shared_on ? "shared"
							      : "link"));
	json_object_set_new(o, "nack",
			    json_string(!a->tc_open	? "off"
					: a->tc.netlink ? "tc"
							: "tcx"));
	json_object_set_new(o, "prog_id", json_integer(a->attach.prog_id));
	pin_show(&a->pins, o);
	json_object_set_new(o, "queues", json_integer(a->queues));
	json_object_set_new(o, "rx_packets", json_integer(s.rx_packets + a->door.rx_packets));
	json_object_set_new(o, "tx_packets", json_integer(s.tx_packets + a->door.tx_packets));
	json_object_set_new(o, "rx_dropped", json_integer(s.rx_dropped));
	json_object_set_new(o, "rx_ring_full", json_integer(s.ring_full));
	json_object_set_new(o, "fill_ring_empty", json_integer(s.fill_empty));
	json_object_set_new(o, "socket_rx", json_integer(a->door.rx_packets));
	json_object_set_new(o, "socket_dropped", json_integer(a->door.dropped));
	json_object_set_new(o, "rx_strange", json_integer(a->rx_strange));
	json_object_set_new(o, "frames_wrong", json_integer(s.wrong));
	json_object_set_new(o, "frames", show_frames(&s.frames));
	json_object_set_new(o, "neighbours", show_neighbours(a));
	return o;
}
