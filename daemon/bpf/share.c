// SPDX-License-Identifier: BSD-2-Clause
#include "share.h"

#include <cap-ng.h>
#include <errno.h>
#include <string.h>
#include <xdp/libxdp.h>
#include "load.h"

/* Later than the default: firewalls and filters come first, at their lower numbers. */
#define RUN_PRIORITY 60

static int silent(enum libxdp_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static struct xdp_multiprog *dispatcher_of(uint32_t ifindex)
{
	struct xdp_multiprog *mp;

	libxdp_set_print(silent);
	mp = xdp_multiprog__get_from_ifindex((int)ifindex);
	if (libxdp_get_error(mp))
		return NULL;
	if (!xdp_multiprog__is_legacy(mp))
		return mp;
	xdp_multiprog__close(mp);
	return NULL;
}

static struct xdp_program *ours_in(const struct xdp_multiprog *mp)
{
	struct xdp_program *p = NULL;

	while ((p = xdp_multiprog__next_prog(p, mp))) {
		const char *name = xdp_program__name(p);

		if (name && strcmp(name, BPF_XDP_PROGRAM) == 0)
			return p;
	}
	return NULL;
}

uint32_t share_find(uint32_t ifindex)
{
	struct xdp_multiprog *mp = dispatcher_of(ifindex);
	struct xdp_program *p = mp ? ours_in(mp) : NULL;
	uint32_t id = p ? xdp_program__id(p) : 0;

	if (mp)
		xdp_multiprog__close(mp);
	return id;
}

int share_possible(const char *interface, log_fn log)
{
	if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_ADMIN)) {
		log(LOG_ERR,
		    "%s: sharing with other XDP programs needs CAP_SYS_ADMIN: run as root, or see "
		    "`man mroced` for what to add to the service; or share = no",
		    interface);
		return -EPERM;
	}
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) != 1) {
		log(LOG_ERR,
		    "%s: this kernel has no BPF programs of type ext, which libxdp's dispatcher "
		    "needs: share = no",
		    interface);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

static bool all_take_frags(uint32_t ifindex)
{
	struct xdp_multiprog *mp = dispatcher_of(ifindex);
	bool take = !mp || xdp_multiprog__xdp_frags_support(mp);

	if (mp)
		xdp_multiprog__close(mp);
	return take;
}

int share_attach(struct bpf_object *object, uint32_t ifindex, bool generic)
{
	struct xdp_program_opts opts = { .sz = sizeof(opts),
					 .obj = object,
					 .prog_name = BPF_XDP_PROGRAM };
	struct xdp_program *p = xdp_program__create(&opts);
	int err = (int)libxdp_get_error(p);

	if (err)
		return err;
	libxdp_set_print(silent);
	xdp_program__set_run_prio(p, RUN_PRIORITY);
	xdp_program__set_chain_call_enabled(p, XDP_PASS, true);
	/* Packets that do not fit one buffer are none of ours, so programs without support are no harm. */
	if (!all_take_frags(ifindex))
		xdp_program__set_xdp_frags_support(p, false);
	err = xdp_program__attach(p, (int)ifindex, generic ? XDP_MODE_SKB : XDP_MODE_NATIVE, 0);
	/* Where libxdp finds no way to make a dispatcher it attaches the program alone, for longer than we live. */
	if (!err && !share_find(ifindex)) {
		xdp_program__detach(p, (int)ifindex, generic ? XDP_MODE_SKB : XDP_MODE_NATIVE, 0);
		err = -EPROTONOSUPPORT;
	}
	xdp_program__close(p);
	return err;
}

int share_detach(uint32_t ifindex)
{
	struct xdp_multiprog *mp = dispatcher_of(ifindex);
	struct xdp_program *p = mp ? ours_in(mp) : NULL;
	int err = 0;

	if (p)
		err = xdp_program__detach(p, (int)ifindex, xdp_multiprog__attach_mode(mp), 0);
	if (mp)
		xdp_multiprog__close(mp);
	return !p ? 0 : err ? err : 1;
}

void share_clean(uint32_t ifindex)
{
	libxdp_set_print(silent);
	libxdp_clean_references((int)ifindex);
}
