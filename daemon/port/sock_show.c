// SPDX-License-Identifier: BSD-2-Clause
/* A socket port as `mroce show` prints it. */
#include "sock.h"

struct sums {
	uint32_t doors, outs;
	uint64_t moved, shared;
};

static struct sums sum_up(const struct sock *s)
{
	struct sums sum = { 0 };

	for (uint32_t i = 0; i < SOCK_ADDRS; i++) {
		const struct sock_addr_in *a = &s->addrs[i];

		sum.doors += a->ndoors;
		if (!a->pool.outs)
			continue;
		sum.outs += a->pool.n;
		sum.moved += a->pool.moved;
		sum.shared += a->pool.shared;
	}
	return sum;
}

static json_t *show_neighbours(const struct sock *s)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < s->dests.n; i++) {
		struct mirror_neigh *n = mirror_neigh(s->mif, &s->dests.at[i]->remote);
		char ip[IPTEXT_MAX], mac[18];

		if (!n)
			continue;
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", n->mac[0], n->mac[1],
			 n->mac[2], n->mac[3], n->mac[4], n->mac[5]);
		json_array_append_new(array,
				      json_pack("{s:s, s:s, s:s}", "addr", ip_text(&n->ip, ip),
						"mac", mac, "state", mirror_neigh_state(n->state)));
	}
	return array;
}

json_t *sock_show(const struct port *port)
{
	const struct sock *s = port->priv;
	struct sums sum = sum_up(s);
	char addr[IPTEXT_MAX];
	json_t *o = json_pack("{s:i, s:s, s:s, s:i, s:b, s:i, s:s}", "port", port->index, "name",
			      port->name, "addr", ip_text(&port->addr, addr), "mtu", port->mtu,
			      "up", port->up, "speed_mbps", (int)port->speed, "mode", "socket");
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "rx_packets", s->rx_packets },
		{ "tx_packets", s->tx.packets + s->ctl_packets },
		{ "rx_dropped", s->rx_dropped },
		{ "rx_strange", s->rx_strange },
		{ "receive_sockets", sum.doors },
		{ "send_sockets", sum.outs },
		{ "sport_moved", sum.moved },
		{ "sport_shared", sum.shared },
		{ "tx_full", s->tx.full },
		{ "tx_lost", s->tx.lost },
		{ "tx_errors", s->tx.errors },
		{ "letters", s->post.office.sent },
		{ "letters_returned", s->post.office.returned },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(o, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	json_object_set_new(o, "paths_by", json_string(sock_post_picker(s)));
	json_object_set_new(o, "paths_reason", json_string(s->post.why));
	pin_show(&s->post.pins, o);
	json_object_set_new(o, "neighbours", show_neighbours(s));
	return o;
}
