// SPDX-License-Identifier: BSD-2-Clause
/* `mroce detach`: takes everything of ours off an interface, whoever left or holds it. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>
#include "daemon/bpf/adopt.h"
#include "daemon/bpf/load.h"
#include "daemon/bpf/pin.h"
#include "daemon/bpf/share.h"
#include "daemon/bpf/tc.h"
#include "portset.h"

static int detach_link(uint32_t link_id)
{
	int fd = bpf_link_get_fd_by_id(link_id);
	int err;

	if (fd < 0)
		return -errno;
	err = bpf_link_detach(fd) ? -errno : 0;
	close(fd);
	return err;
}

static int detach_netlink(uint32_t ifindex, const struct adopt_found *found)
{
	return bpf_xdp_detach((int)ifindex,
			      found->generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE, NULL);
}

static int detach_found(uint32_t ifindex, const struct adopt_found *found)
{
	int err;

	if (found->link_id)
		return detach_link(found->link_id);
	if (!found->shared)
		return detach_netlink(ifindex, found);
	err = share_detach(ifindex);
	return err < 0 ? err : 0;
}

/* 1 removed, 0 nothing of ours, or -errno. */
static int detach_xdp(const char *interface, uint32_t ifindex, log_fn log)
{
	struct adopt_found found;
	int err = adopt_find(ifindex, &found);

	if (err)
		return err;
	if (found.prog_id && !found.ours) {
		log(LOG_INFO, "%s: XDP program %s (id %u) is not ours and stays", interface,
		    found.name[0] ? found.name : "of unknown name", found.prog_id);
		return 0;
	}
	if (!found.prog_id)
		return 0;
	err = detach_found(ifindex, &found);
	if (err)
		log(LOG_ERR, "%s: XDP program %s (id %u) cannot be detached: %s", interface,
		    found.name, found.prog_id, strerror(-err));
	else
		log(LOG_INFO, "%s: XDP program %s (id %u): detached", interface, found.name,
		    found.prog_id);
	return err ? err : 1;
}

int portset_detach(const char *interface, log_fn log)
{
	uint32_t ifindex = if_nametoindex(interface);
	int removed, filters, err;

	if (!ifindex) {
		log(LOG_ERR, "%s: no such interface (`ip link` lists them)", interface);
		return -ENODEV;
	}
	err = load_prepare(true, log);
	if (err)
		return err;
	removed = detach_xdp(interface, ifindex, log);
	share_clean(ifindex);
	if (removed < 0)
		return removed;
	removed += tc_remove_links(ifindex, log);
	filters = tc_remove(ifindex, false, log);
	/* Whoever left filters of ours made the qdisc for them; it goes if nobody else uses it. */
	if (filters)
		filters += tc_remove(ifindex, true, log);
	return removed + filters + pin_remove(interface, log) + pin_sweep(log);
}
