// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "adopt.h"
#include "load.h"
#include "share.h"

/* A killed daemon's link is gone a moment after the process. */
#define GONE_TRIES 100
#define GONE_WAIT_NS 10000000

static int refuse_foreign(const struct attach_params *p, const struct adopt_found *f, log_fn log)
{
	const char *name = f->name[0] ? f->name : "of unknown name";

	if (f->ours && f->link_id)
		log(LOG_ERR,
		    "%s: another mroced holds the interface (program id %u, link id %u): stop it, "
		    "or "
		    "`mroce detach %s`",
		    p->interface, f->prog_id, f->link_id, p->interface);
	else if (f->ours && !p->adopt)
		log(LOG_ERR,
		    "%s: program mroce_xdp (id %u) is attached and adopting is switched off: "
		    "`ip link set dev %s xdp off` removes it",
		    p->interface, f->prog_id, p->interface);
	else if (f->shared)
		log(LOG_ERR,
		    "%s: libxdp's dispatcher (id %u) is attached with another program: share = yes "
		    "(--share) puts mroced's beside it; `xdp-loader status %s` names it",
		    p->interface, f->prog_id, p->interface);
	else if (p->share)
		log(LOG_ERR,
		    "%s: XDP program %s (id %u) is attached without libxdp's dispatcher, so "
		    "nothing "
		    "can be put beside it: attach it by `xdp-loader load`, or "
		    "`ip link set dev %s xdp off`",
		    p->interface, name, f->prog_id, p->interface);
	else
		log(LOG_ERR,
		    "%s: another XDP program is attached: %s (id %u): stop the program that owns "
		    "it, or "
		    "`ip link set dev %s xdp off` (`bpftool prog show id %u` tells more)",
		    p->interface, name, f->prog_id, p->interface, f->prog_id);
	return -EBUSY;
}

/* Without CAP_SYS_ADMIN a program has no name to us: it may be a killed daemon's. */
static bool may_go_soon(const struct adopt_found *f)
{
	return f->prog_id && !f->shared && ((f->ours && f->link_id) || !f->name[0]);
}

static int find_settled(const struct attach_params *p, struct adopt_found *found, log_fn log)
{
	struct timespec wait = { .tv_nsec = GONE_WAIT_NS };
	int err = 0;

	for (int i = 0; i < (p->again ? 1 : GONE_TRIES); i++) {
		err = adopt_find(p->ifindex, found);
		if (err || !may_go_soon(found))
			break;
		nanosleep(&wait, NULL);
	}
	if (err)
		log(LOG_ERR, "%s: cannot ask for its XDP program: %s", p->interface, strerror(-err));
	return err;
}

static int adopt(struct attach *a, const struct attach_params *p, const struct adopt_found *found,
		 log_fn log)
{
	int err;

	if (found->generic && !p->allow_generic) {
		log(LOG_ERR,
		    "%s: program mroce_xdp (id %u) is attached in generic mode, which is slow: use "
		    "`ip link set dev %s xdpdrv ...`, or allow generic mode",
		    p->interface, found->prog_id, p->interface);
		return -EOPNOTSUPP;
	}
	err = adopt_maps(found, p->interface, &a->own, &a->xsks, log);
	if (err)
		return err;
	a->tables = &a->own;
	a->adopted = true;
	a->generic = found->generic;
	a->prog_id = found->prog_id;
	tables_silence(a->tables);
	memset(a->tables->paths, 0, sizeof(*a->tables->paths) * MROCE_MAX_CONNS * MROCE_MAX_PATHS);
	log(LOG_INFO, "%s: adopted program mroce_xdp (id %u) as attached%s", p->interface,
	    a->prog_id, found->shared ? " behind libxdp's dispatcher" : "");
	return 0;
}

static int link_in_mode(const struct attach_params *p, int prog_fd, uint32_t mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = mode);
	int fd = bpf_link_create(prog_fd, (int)p->ifindex, BPF_XDP, &opts);

	return fd < 0 ? -errno : fd;
}

static int link_best(struct attach *a, const struct attach_params *p, int prog_fd, log_fn log)
{
	int fd = link_in_mode(p, prog_fd, XDP_FLAGS_DRV_MODE);

	if (fd >= 0)
		return fd;
	if (fd == -EBUSY || fd == -EPERM || fd == -ENOMEM)
		return fd;
	if (!p->allow_generic) {
		log(LOG_ERR,
		    "%s: the driver takes no native XDP program as it is set up now: %s. Smaller "
		    "MTU, LRO "
		    "off or fewer channels may help (`dmesg` may tell); generic mode works "
		    "everywhere but "
		    "is slow and has to be allowed",
		    p->interface, strerror(-fd));
		return fd;
	}
	log(LOG_WARNING,
	    "%s: NATIVE XDP REFUSED (%s): generic mode is used, expect a fraction of the speed",
	    p->interface, strerror(-fd));
	a->generic = true;
	return link_in_mode(p, prog_fd, XDP_FLAGS_SKB_MODE);
}

static uint32_t program_id(int fd)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

static int attach_own(struct attach *a, const struct attach_params *p, struct tables *shared,
		      log_fn log)
{
	int err = load_xdp(p->object_dir, shared, p->interface, &a->object, log);
	int prog_fd, xsks;

	if (err)
		return err;
	a->tables = shared;
	prog_fd = load_program_fd(a->object, BPF_XDP_PROGRAM);
	xsks = bpf_object__find_map_fd_by_name(a->object, MROCE_MAP_XSKS);
	if (prog_fd < 0 || xsks < 0) {
		log(LOG_ERR, "%s: the BPF object lacks program %s or map %s", p->interface,
		    BPF_XDP_PROGRAM, MROCE_MAP_XSKS);
		return -ENOENT;
	}
	a->xsks = fcntl(xsks, F_DUPFD_CLOEXEC, 0);
	a->prog_id = program_id(prog_fd);
	a->link = link_best(a, p, prog_fd, log);
	if (a->link >= 0)
		return 0;
	log(LOG_ERR, "%s: XDP program cannot be attached: %s", p->interface, strerror(-a->link));
	return a->link;
}

static int load_shared(struct attach *a, const struct attach_params *p, struct tables *shared,
		       log_fn log)
{
	int err = load_xdp_shared(p->object_dir, shared, p->interface, p->ifindex, false,
				  &a->object, log);

	if (!err || err == -EBUSY || err == -EPERM || err == -ENOMEM || !p->allow_generic)
		return err;
	log(LOG_WARNING,
	    "%s: NATIVE XDP REFUSED (%s): generic mode is used, expect a fraction of the speed",
	    p->interface, strerror(-err));
	a->generic = true;
	return load_xdp_shared(p->object_dir, shared, p->interface, p->ifindex, true, &a->object,
			       log);
}

static int attach_shared(struct attach *a, const struct attach_params *p, struct tables *shared,
			 log_fn log)
{
	int err = share_possible(p->interface, log);
	int xsks;

	if (err)
		return err;
	err = load_shared(a, p, shared, log);
	if (err) {
		log(LOG_ERR,
		    "%s: libxdp cannot attach the XDP program beside others: %s; "
		    "`xdp-loader status %s` tells what is there%s",
		    p->interface, strerror(-err), p->interface,
		    p->allow_generic ? "" : "; generic mode was not tried, since it is not allowed");
		load_tell(log);
		return err;
	}
	a->shared_on = p->ifindex;
	a->tables = shared;
	xsks = bpf_object__find_map_fd_by_name(a->object, MROCE_MAP_XSKS);
	a->xsks = xsks < 0 ? xsks : fcntl(xsks, F_DUPFD_CLOEXEC, 0);
	a->prog_id = share_find(p->ifindex);
	log(LOG_INFO,
	    "%s: XDP program mroce_xdp (id %u) shares the interface by libxdp's dispatcher",
	    p->interface, a->prog_id);
	return a->xsks < 0 ? -ENOENT : 0;
}

int attach_open(struct attach *a, const struct attach_params *p, struct tables *shared, log_fn log)
{
	struct adopt_found found;
	int err;

	memset(a, 0, sizeof(*a));
	a->link = a->xsks = -1;
	tables_init(&a->own);
	err = find_settled(p, &found, log);
	if (err)
		return err;
	if (found.ours && !found.link_id && p->adopt)
		err = adopt(a, p, &found, log);
	else if (p->share && !found.ours && (!found.prog_id || found.shared))
		err = attach_shared(a, p, shared, log);
	else if (!found.prog_id)
		err = attach_own(a, p, shared, log);
	else
		err = refuse_foreign(p, &found, log);
	if (err)
		attach_close(a);
	return err;
}

void attach_close(struct attach *a)
{
	if (a->adopted)
		tables_silence(&a->own);
	if (a->link >= 0)
		close(a->link);
	if (a->shared_on)
		share_detach(a->shared_on);
	if (a->xsks >= 0)
		close(a->xsks);
	if (a->object)
		bpf_object__close(a->object);
	tables_close(&a->own);
	memset(a, 0, sizeof(*a));
	tables_init(&a->own);
	a->link = a->xsks = -1;
}
