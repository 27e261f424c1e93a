// SPDX-License-Identifier: BSD-2-Clause
#include "tc.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "load.h"

/* Since Linux 6.6; Debian 12's headers are older. */
#define ATTACH_TCX_INGRESS ((enum bpf_attach_type)46)
#define ATTACH_TCX_EGRESS ((enum bpf_attach_type)47)

/* Ours, and recognised by it: "mR" and the service's default port. */
#define FILTER_HANDLE 0x6d52
#define FILTER_PRIORITY 4797
#define PROGRAM_PREFIX "mroce_tc_"

static const struct {
	const char *name;
	enum bpf_attach_type tcx;
	enum bpf_tc_attach_point point;
	uint32_t parent;
} sides[2] = {
	{ "ingress", ATTACH_TCX_INGRESS, BPF_TC_INGRESS, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS) },
	{ "egress", ATTACH_TCX_EGRESS, BPF_TC_EGRESS, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS) },
};

/* ---- links ---- */

static void close_links(struct tc *tc)
{
	for (int i = 0; i < 2; i++) {
		if (tc->links[i] >= 0)
			close(tc->links[i]);
		tc->links[i] = -1;
	}
}

static int attach_links(struct tc *tc)
{
	for (int i = 0; i < 2; i++) {
		int prog = tc->programs[i] ? load_program_fd(tc->object, tc->programs[i]) : -1;

		if (!tc->programs[i])
			continue;
		tc->links[i] = bpf_link_create(prog, (int)tc->ifindex, sides[i].tcx, NULL);
		if (tc->links[i] < 0) {
			int err = -errno;

			close_links(tc);
			return err;
		}
	}
	return 0;
}

/* ---- filters ---- */

static int attach_filter(const struct tc *tc, int side)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)tc->ifindex,
		    .attach_point = sides[side].point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
		    .flags = BPF_TC_F_REPLACE,
		    .prog_fd = load_program_fd(tc->object, tc->programs[side]));

	return bpf_tc_attach(&hook, &opts);
}

static bool is_ours(uint32_t prog_id)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(prog_id);
	bool ours;

	if (fd < 0)
		return errno == EPERM; /* handle and priority are ours; the name may not be read */
	ours = bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
	       strncmp(info.name, PROGRAM_PREFIX, strlen(PROGRAM_PREFIX)) == 0;
	close(fd);
	return ours;
}

static bool has_our_filter(uint32_t ifindex)
{
	for (int side = 0; side < 2; side++) {
		LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
			    .attach_point = sides[side].point);
		LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);

		if (!bpf_tc_query(&hook, &opts) && is_ours(opts.prog_id))
			return true;
	}
	return false;
}

static int attach_filters(struct tc *tc, struct guardian *g, log_fn log)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)tc->ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int err = bpf_tc_hook_create(&hook);

	if (err && err != -EEXIST)
		return err;
	/* With filters that a killed daemon left, the qdisc is its, too. */
	tc->clsact_is_ours = !err || has_our_filter(tc->ifindex);
	tc->netlink = true;
	err = guardian_watch_tc(g, tc->ifindex, tc->clsact_is_ours, log);
	for (int i = 0; i < 2 && !err; i++)
		err = tc->programs[i] ? attach_filter(tc, i) : 0;
	if (err)
		tc_remove(tc->ifindex, tc->clsact_is_ours, log);
	return err;
}

static int remove_filter(uint32_t ifindex, int side, log_fn log)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = sides[side].point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	uint32_t prog_id;
	int err;

	if (bpf_tc_query(&hook, &opts) || !is_ours(opts.prog_id))
		return 0;
	prog_id = opts.prog_id;
	opts.prog_id = opts.prog_fd = opts.flags = 0;
	err = bpf_tc_detach(&hook, &opts);
	log(err ? LOG_ERR : LOG_INFO, "TC %s filter (program id %u): %s", sides[side].name, prog_id,
	    err ? strerror(-err) : "removed");
	return err ? 0 : 1;
}

static int count_filter(const struct nlmsghdr *nlh, void *data)
{
	if (nlh->nlmsg_type == RTM_NEWTFILTER)
		(*(int *)data)++;
	return MNL_CB_OK;
}

/* How many messages about filters at that parent; -1: unknown. */
static int count_filters(struct mnl_socket *nl, uint32_t ifindex, uint32_t parent)
{
	char buf[8192];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *tcm;
	int count = 0, more = MNL_CB_OK;

	nlh->nlmsg_type = RTM_GETTFILTER;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = parent;
	tcm = mnl_nlmsg_put_extra_header(nlh, sizeof(*tcm));
	tcm->tcm_ifindex = (int)ifindex;
	tcm->tcm_parent = parent;
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -1;
	while (more > MNL_CB_STOP) {
		ssize_t n = mnl_socket_recvfrom(nl, buf, sizeof(buf));

		if (n < 0)
			return -1;
		more = mnl_cb_run(buf, n, parent, mnl_socket_get_portid(nl), count_filter, &count);
	}
	return more < 0 ? -1 : count;
}

static bool clsact_unused(uint32_t ifindex)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	bool unused;

	if (!nl)
		return false;
	unused = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) == 0 &&
		 count_filters(nl, ifindex, sides[0].parent) == 0 &&
		 count_filters(nl, ifindex, sides[1].parent) == 0;
	mnl_socket_close(nl);
	return unused;
}

static int remove_clsact(uint32_t ifindex, log_fn log)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (!clsact_unused(ifindex) || bpf_tc_hook_destroy(&hook))
		return 0;
	log(LOG_INFO, "clsact qdisc: removed, nothing else uses it");
	return 1;
}

int tc_remove(uint32_t ifindex, bool clsact_is_ours, log_fn log)
{
	int removed = remove_filter(ifindex, 0, log) + remove_filter(ifindex, 1, log);

	if (clsact_is_ours)
		removed += remove_clsact(ifindex, log);
	return removed;
}

/* ---- links that somebody else holds ---- */

static uint32_t link_of_program(uint32_t prog_id)
{
	uint32_t id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		struct bpf_link_info info = { 0 };
		uint32_t len = sizeof(info);
		int fd = bpf_link_get_fd_by_id(id);
		bool found;

		if (fd < 0)
			continue;
		found = bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && info.prog_id == prog_id;
		close(fd);
		if (found)
			return id;
	}
	return 0;
}

static int detach_program(uint32_t prog_id, const char *what, log_fn log)
{
	uint32_t id = link_of_program(prog_id);
	int fd = id ? bpf_link_get_fd_by_id(id) : -1;
	int err;

	if (fd < 0)
		return 0;
	err = bpf_link_detach(fd) ? -errno : 0;
	close(fd);
	log(err ? LOG_ERR : LOG_INFO, "TCX link %u of %s (program id %u): %s", id, what, prog_id,
	    err ? strerror(-err) : "detached");
	return err ? 0 : 1;
}

int tc_remove_links(uint32_t ifindex, log_fn log)
{
	uint32_t ids[64], flags, n;
	int removed = 0;

	for (int side = 0; side < 2; side++) {
		n = sizeof(ids) / sizeof(ids[0]);
		if (bpf_prog_query((int)ifindex, sides[side].tcx, 0, &flags, ids, &n))
			continue;
		for (uint32_t i = 0; i < n; i++) {
			if (is_ours(ids[i]))
				removed += detach_program(ids[i], sides[side].name, log);
		}
	}
	return removed;
}

/* ---- both ---- */

static bool links_wanted(void)
{
	const char *method = getenv(TC_METHOD_ENV);

	return !method || strcmp(method, "netlink");
}

static int attach_best(struct tc *tc, const char *interface, struct guardian *g, log_fn log)
{
	int err = links_wanted() ? attach_links(tc) : -EOPNOTSUPP;

	if (err)
		err = attach_filters(tc, g, log);
	if (!err)
		return 0;
	log(LOG_ERR, "%s: TC programs cannot be attached: %s%s", interface, strerror(-err),
	    err == -EPERM ? " (needs CAP_NET_ADMIN)" : "");
	tc->netlink = false;
	tc_close(tc);
	return err;
}

static void clear(struct tc *tc)
{
	memset(tc, 0, sizeof(*tc));
	tc->links[0] = tc->links[1] = -1;
}

int tc_open(struct tc *tc, const char *object_dir, const char *interface, uint32_t ifindex,
	    struct tables *t, struct guardian *g, log_fn log)
{
	int err;

	clear(tc);
	tc->ifindex = ifindex;
	tc->programs[0] = BPF_TC_INGRESS_PROGRAM;
	tc->programs[1] = BPF_TC_EGRESS_PROGRAM;
	err = load_tc(object_dir, t, interface, &tc->object, log);
	return err ? err : attach_best(tc, interface, g, log);
}

int tc_open_post(struct tc *tc, struct bpf_object *object, const char *interface, uint32_t ifindex,
		 struct guardian *g, log_fn log)
{
	clear(tc);
	tc->ifindex = ifindex;
	tc->programs[1] = BPF_POST_PROGRAM;
	tc->object = object;
	tc->borrowed = true;
	return attach_best(tc, interface, g, log);
}

void tc_close(struct tc *tc)
{
	if (!tc->object)
		return;
	close_links(tc);
	if (tc->netlink)
		tc_remove(tc->ifindex, tc->clsact_is_ours, log_nothing);
	if (!tc->borrowed)
		bpf_object__close(tc->object);
	clear(tc);
}
