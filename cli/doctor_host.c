// SPDX-License-Identifier: BSD-2-Clause
/* doctor_host.c: kernel, rights and limits. */
#include <cap-ng.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "daemon/bpf/pin.h"
#include "report.h"
#include "units.h"

#define KERNEL_MAJOR 6
#define KERNEL_MINOR 1
#define MEMLOCK_WANTED (64ull << 20)

static long sysctl_value(const char *path)
{
	long value = -1;
	FILE *f = fopen(path, "re");

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &value) != 1)
		value = -1;
	fclose(f);
	return value;
}

static void check_kernel(struct report *r)
{
	unsigned int major = 0, minor = 0;
	struct utsname name;

	uname(&name);
	sscanf(name.release, "%u.%u", &major, &minor);
	if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
		report_line(r, VERDICT_OK, "kernel", NULL, "%s", name.release);
	else
		report_line(r, VERDICT_FAIL, "kernel",
			    "boot a kernel 6.1 or newer (Debian 12 has one)",
			    "%s is older than 6.1", name.release);
}

static void check_btf(struct report *r)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		report_line(r, VERDICT_OK, "BTF", NULL, "/sys/kernel/btf/vmlinux");
	else
		report_line(r, VERDICT_WARN, "BTF",
			    "use a kernel with CONFIG_DEBUG_INFO_BTF, as distributions build it",
			    "/sys/kernel/btf/vmlinux: %s; bpftool cannot name what it shows",
			    strerror(errno));
}

static void check_jit(struct report *r)
{
	long jit = sysctl_value("/proc/sys/net/core/bpf_jit_enable");

	if (jit == 0)
		report_line(r, VERDICT_WARN, "BPF JIT", "sysctl -w net.core.bpf_jit_enable=1",
			    "off: BPF programs are interpreted, several times slower");
	else
		report_line(r, VERDICT_OK, "BPF JIT", NULL, "%s", jit < 0 ? "always on" : "on");
}

static void check_af_xdp(struct report *r)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0) {
		close(fd);
		report_line(r, VERDICT_OK, "AF_XDP", NULL, "sockets can be made");
	} else if (errno == EPERM || errno == EACCES) {
		report_line(r, VERDICT_WARN, "AF_XDP", "run mroce doctor with sudo to know",
			    "not allowed to try");
	} else {
		report_line(r, VERDICT_FAIL, "AF_XDP", "use a kernel with CONFIG_XDP_SOCKETS",
			    "no sockets: %s", strerror(errno));
	}
}

static void check_capabilities(struct report *r)
{
	static const struct {
		int number;
		const char *name;
	} needed[] = { { CAP_NET_ADMIN, "CAP_NET_ADMIN" },
		       { CAP_BPF, "CAP_BPF" },
		       { CAP_NET_RAW, "CAP_NET_RAW" } };
	char missing[64] = "";

	capng_get_caps_process();
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (capng_have_capability(CAPNG_EFFECTIVE, needed[i].number))
			continue;
		strcat(missing, " ");
		strcat(missing, needed[i].name);
	}
	if (*missing)
		report_line(r, VERDICT_WARN, "capabilities",
			    "start mroced as root or by its service, or with --port socket, which "
			    "needs none; "
			    "nor do applications",
			    "you lack%s, which mroced needs for AF_XDP", missing);
	else
		report_line(r, VERDICT_OK, "capabilities", NULL, "yours suffice to run mroced");
}

static void check_memlock(struct report *r)
{
	struct rlimit limit;
	char text[UNIT_TEXT];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= MEMLOCK_WANTED ||
	    capng_have_capability(CAPNG_EFFECTIVE, CAP_IPC_LOCK) ||
	    capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_RESOURCE))
		report_line(r, VERDICT_OK, "locked memory", NULL, "enough, or may be raised");
	else
		report_line(r, VERDICT_WARN, "locked memory",
			    "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service",
			    "the limit of %s is too low for AF_XDP rings if mroced were started "
			    "from here",
			    format_bytes(text, limit.rlim_max));
}

static void check_bpffs(struct report *r)
{
	if (pin_bpffs_mounted())
		report_line(r, VERDICT_OK, "bpffs", NULL, "mounted on " PIN_BPFFS);
	else
		report_line(r, VERDICT_WARN, "bpffs", "mount -t bpf bpf " PIN_BPFFS,
			    "not mounted on " PIN_BPFFS
			    "; `ip link ... xdp obj` needs it for its maps, and pin = yes");
}

static void check_in_place(struct report *r)
{
	long scope = sysctl_value("/proc/sys/kernel/yama/ptrace_scope");

	if (scope < 3)
		report_line(r, VERDICT_OK, "memory in place", NULL,
			    "mroced may reach registered memory");
	else
		report_line(r, VERDICT_WARN, "memory in place",
			    "lower kernel.yama.ptrace_scope (needs a reboot), or use mroce_alloc()",
			    "kernel.yama.ptrace_scope is 3: memory registered in place cannot be "
			    "reached");
}

void doctor_host(struct report *r)
{
	check_kernel(r);
	check_btf(r);
	check_jit(r);
	check_af_xdp(r);
	check_capabilities(r);
	check_memlock(r);
	check_bpffs(r);
	check_in_place(r);
}
