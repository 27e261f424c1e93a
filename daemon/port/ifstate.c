// SPDX-License-Identifier: BSD-2-Clause
#include "ifstate.h"

#include <errno.h>
#include "portset.h"

bool ifstate_address(const struct mirror_if *mif, const struct ip *wanted, const struct ip *current,
		     struct ip *out)
{
	const struct ip *choice = wanted ? wanted : current;
	const struct mirror_addr *first;

	if (wanted || mirror_has_address(mif, current)) {
		*out = *choice;
		return mirror_has_address(mif, choice);
	}
	first = mirror_first_address(mif);
	if (first)
		*out = first->ip;
	return first != NULL;
}

static int check_address(const struct mirror_if *mif, const struct ip *wanted, log_fn log)
{
	static const struct ip none;
	char text[IPTEXT_MAX];
	struct ip addr;

	if (ifstate_address(mif, wanted, &none, &addr))
		return 0;
	if (wanted)
		log(LOG_ERR, "%s: address %s is not (yet) on this interface", mif->name,
		    ip_text(wanted, text));
	else
		log(LOG_ERR, "%s: no global address: `ip address add ADDRESS/LENGTH dev %s`",
		    mif->name, mif->name);
	return -EADDRNOTAVAIL;
}

int ifstate_check(const struct mirror_if *mif, const struct ip *wanted, log_fn log)
{
	if (!mif->exists) {
		log(LOG_ERR, "%s: no such interface (`ip link` lists them)", mif->name);
		return -ENODEV;
	}
	if (!mirror_link_enabled(mif)) {
		log(LOG_ERR, "%s: the link is down: `ip link set %s up`", mif->name, mif->name);
		return -ENETDOWN;
	}
	/* A dead plane must not keep the service from starting. */
	if (!mirror_link_up(mif))
		log(LOG_WARNING,
		    "%s: no carrier, starting without it; it joins when the link comes up",
		    mif->name);
	if (mif->mtu < PORT_MTU_MIN) {
		log(LOG_ERR, "%s: MTU %u is below %u: `ip link set %s mtu 1500`", mif->name,
		    mif->mtu, PORT_MTU_MIN, mif->name);
		return -EMSGSIZE;
	}
	return check_address(mif, wanted, log);
}

void ifstate_tell(const struct mirror_if *mif, const struct port *port, bool was_up, log_fn log)
{
	char text[IPTEXT_MAX];

	log(was_up == port->up ? LOG_INFO : LOG_NOTICE, "%s: %s, address %s, MTU %u%s", port->name,
	    port->up ? "up" : "down", ip_text(&port->addr, text), port->mtu,
	    mif->exists ? "" : "; the interface is gone");
}

uint32_t ifstate_speed(const char *name, uint32_t configured, const struct ethtool_facts *facts,
		       bool mark, log_fn log)
{
	uint32_t speed = configured ? configured : facts->speed;

	if (mark && !speed)
		log(LOG_WARNING, "%s: does not mark congestion, since the rate of its link is not known: set link_mbps",
		    name);
	return speed;
}
