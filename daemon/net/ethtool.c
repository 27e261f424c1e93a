// SPDX-License-Identifier: BSD-2-Clause
#include "ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool ask(int fd, const char *interface, void *command)
{
	struct ifreq ifr = { 0 };

	strncpy(ifr.ifr_name, interface, sizeof(ifr.ifr_name) - 1);
	ifr.ifr_data = command;
	return ioctl(fd, SIOCETHTOOL, &ifr) == 0;
}

static void read_channels(int fd, const char *interface, struct ethtool_facts *out)
{
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };

	if (!ask(fd, interface, &channels))
		return;
	out->rx_queues = channels.combined_count + channels.rx_count;
	out->tx_queues = channels.combined_count + channels.tx_count;
}

static void read_ring(int fd, const char *interface, struct ethtool_facts *out)
{
	struct ethtool_ringparam ring = { .cmd = ETHTOOL_GRINGPARAM };

	if (ask(fd, interface, &ring))
		out->rx_ring = ring.rx_pending;
}

/* These name a speed that nothing holds them to. */
static bool speed_is_made_up(int fd, const char *interface)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };

	if (!ask(fd, interface, &info))
		return false;
	return !strcmp(info.driver, "veth") || !strcmp(info.driver, "tun");
}

static void read_speed(int fd, const char *interface, struct ethtool_facts *out)
{
	struct ethtool_cmd cmd = { .cmd = ETHTOOL_GSET };
	uint32_t speed;

	if (!ask(fd, interface, &cmd) || speed_is_made_up(fd, interface))
		return;
	speed = ethtool_cmd_speed(&cmd);
	out->speed = speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static void read_offloads(int fd, const char *interface, struct ethtool_facts *out)
{
	struct ethtool_value flags = { .cmd = ETHTOOL_GFLAGS };

	out->lro = ask(fd, interface, &flags) && flags.data & ETH_FLAG_LRO;
}

static void read_hash(int fd, const char *interface, struct ethtool_facts *out)
{
	struct ethtool_rxnfc nfc = { .cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW };
	const uint64_t ports = RXH_L4_B_0_1 | RXH_L4_B_2_3;

	out->hash_known = ask(fd, interface, &nfc);
	out->hash_ports = out->hash_known && (nfc.data & ports) == ports;
}

void ethtool_read(const char *interface, struct ethtool_facts *out)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	read_channels(fd, interface, out);
	read_ring(fd, interface, out);
	read_speed(fd, interface, out);
	read_offloads(fd, interface, out);
	read_hash(fd, interface, out);
	close(fd);
}
