// SPDX-License-Identifier: BSD-2-Clause
/*
 * Loads both objects as the daemon does (the TC object on the maps of the XDP object), in a network
 * namespace that ends with this process, with a real AF_XDP socket, which the map needs.
 */
#include "bpf_test.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xdp/xsk.h>

#define FRAMES 64
#define UMEM_SIZE (FRAMES * XSK_UMEM__DEFAULT_FRAME_SIZE)

static struct xsk_ring_prod fill, tx;
static struct xsk_ring_cons comp, rx;

static void *map_memory(struct bpf_map *map, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (p == MAP_FAILED)
		tap_note("map %s cannot be mapped: %s", bpf_map__name(map), strerror(errno));
	return p == MAP_FAILED ? NULL : p;
}

static int namespace_up(struct bed *bed)
{
	if (unshare(CLONE_NEWNET)) {
		tap_note("no new network namespace: %s", strerror(errno));
		return -errno;
	}
	if (system("ip link add mrbpf0 address 02:00:00:00:00:01 type veth "
		   "peer name mrbpf1 address 02:00:00:00:00:02 && "
		   "ip addr add 10.77.0.1/24 dev mrbpf0 && ip -6 addr add fd00::1/64 dev mrbpf0 "
		   "nodad && "
		   "ip link set lo up && ip link set mrbpf0 mtu 9100 up && ip link set mrbpf1 mtu "
		   "9100 up"))
		return -EIO;
	bed->ifindex = (int)if_nametoindex("mrbpf0");
	return bed->ifindex ? 0 : -ENODEV;
}

static int socket_up(struct bed *bed)
{
	struct xsk_socket_config config = {
		.rx_size = FRAMES,
		.tx_size = FRAMES,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_COPY,
	};
	int err;

	bed->umem_area = mmap(NULL, UMEM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	if (bed->umem_area == MAP_FAILED)
		return -ENOMEM;
	err = xsk_umem__create(&bed->umem, bed->umem_area, UMEM_SIZE, &fill, &comp, NULL);
	if (!err)
		err = xsk_socket__create(&bed->xsk, "mrbpf0", 0, bed->umem, &rx, &tx, &config);
	if (!err)
		err = xsk_socket__update_xskmap(bed->xsk, bpf_map__fd(bed->xdp->maps.mroce_xsks));
	if (err)
		tap_note("AF_XDP socket on mrbpf0 queue 0: %s", strerror(-err));
	return err;
}

static int share_maps(struct bed *bed)
{
	const struct bpf_map *map;

	bpf_object__for_each_map(map, bed->xdp->obj) {
		struct bpf_map *twin = bpf_object__find_map_by_name(bed->tc->obj,
								    bpf_map__name(map));

		if (!twin || bpf_map__is_internal(map))
			continue;
		if (bpf_map__reuse_fd(twin, bpf_map__fd(map)))
			return -EINVAL;
	}
	return 0;
}

static int programs_up(struct bed *bed)
{
	int err;

	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	bed->xdp = mroce_xdp__open_and_load();
	if (!bed->xdp) {
		tap_note("mroce_xdp does not load: %s", strerror(errno));
		return -errno;
	}
	bed->tc = mroce_tc__open();
	if (!bed->tc)
		return -errno;
	err = share_maps(bed);
	if (!err)
		err = mroce_tc__load(bed->tc);
	if (err)
		tap_note("mroce_tc does not load: %s", strerror(-err));
	return err;
}

static int memory_up(struct bed *bed)
{
	bed->config = map_memory(bed->xdp->maps.mroce_config, (size_t)getpagesize());
	bed->conns = map_memory(bed->xdp->maps.mroce_conns, MROCE_MAX_CONNS * sizeof(*bed->conns));
	bed->paths = map_memory(bed->xdp->maps.mroce_paths,
				MROCE_MAX_CONNS * MROCE_MAX_PATHS * sizeof(*bed->paths));
	return bed->config && bed->conns && bed->paths ? 0 : -ENOMEM;
}

int bed_up(struct bed *bed)
{
	int err = namespace_up(bed);

	bed->cpus = libbpf_num_possible_cpus();
	if (!err)
		err = programs_up(bed);
	if (!err)
		err = memory_up(bed);
	if (!err)
		err = socket_up(bed);
	return err;
}

void bed_down(struct bed *bed)
{
	if (bed->xsk)
		xsk_socket__delete(bed->xsk);
	if (bed->umem)
		xsk_umem__delete(bed->umem);
	mroce_tc__destroy(bed->tc);
	mroce_xdp__destroy(bed->xdp);
}

struct mroce_path_rx *bed_path(struct bed *bed, uint32_t path)
{
	return &bed->paths[TEST_SLOT * MROCE_MAX_PATHS + path];
}

static int counters_fd(struct bed *bed)
{
	return bpf_map__fd(bed->xdp->maps.mroce_counters);
}

void bed_reset(struct bed *bed)
{
	uint64_t zero[bed->cpus];

	memset(zero, 0, sizeof(zero));
	for (uint32_t i = 0; i < MROCE_COUNTERS; i++)
		bpf_map_update_elem(counters_fd(bed), &i, zero, 0);
	*bed->config = (struct mroce_bpf_config){ .schema = MROCE_MAP_SCHEMA,
						  .udp_port = MROCE_UDP_PORT,
						  .nack = 1 };
	frame_host(false, &bed->config->local[0]);
	frame_host(true, &bed->config->local[MROCE_MAX_PORTS - 1]);
	for (uint32_t p = 0; p < MROCE_MAX_PATHS; p++)
		track_reset(bed_path(bed, p), FIRST_PSN);
	bed->conns[TEST_SLOT] = (struct mroce_conn_entry){
		TEST_CID, TEST_TOKEN, TEST_PEER_CID, TEST_PEER_TOKEN, TEST_HINT, TEST_PATHS, { 0 }
	};
}

uint64_t bed_counter(struct bed *bed, uint32_t counter)
{
	uint64_t values[bed->cpus], sum = 0;

	if (bpf_map_lookup_elem(counters_fd(bed), &counter, values))
		return UINT64_MAX;
	for (int i = 0; i < bed->cpus; i++)
		sum += values[i];
	return sum;
}

uint32_t bed_counted(struct bed *bed)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < MROCE_COUNTERS; i++) {
		uint64_t n = i == MROCE_COUNT_RX_CE ? 0 : bed_counter(bed, i);

		if (n > 1 || (n && found))
			return MROCE_COUNTERS;
		if (n)
			found = i;
	}
	return found;
}

void run_xdp(struct bed *bed, struct frame *in, struct run *run, int repeat)
{
	struct xdp_md ctx_in = { .data_end = in->len, .ingress_ifindex = (uint32_t)bed->ifindex };
	struct xdp_md ctx_out = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->b, .data_size_in = in->len,
		    .data_out = run->out.b, .data_size_out = FRAME_MAX, .ctx_in = &ctx_in,
		    .ctx_size_in = sizeof(ctx_in), .ctx_out = &ctx_out,
		    .ctx_size_out = sizeof(ctx_out), .repeat = repeat);

	run->err = bpf_prog_test_run_opts(bpf_program__fd(bed->xdp->progs.mroce_xdp), &opts);
	run->verdict = opts.retval;
	run->out.len = opts.data_size_out;
	run->meta = ctx_out.data;
	run->ns = opts.duration;
}

void run_egress(struct bed *bed, struct frame *in, uint32_t mark, uint32_t ingress, struct run *run)
{
	struct __sk_buff ctx_in = { .mark = mark,
				    .ingress_ifindex = ingress,
				    .ifindex = (uint32_t)bed->ifindex };
	struct __sk_buff ctx_out = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->b, .data_size_in = in->len,
		    .data_out = run->out.b, .data_size_out = FRAME_MAX, .ctx_in = &ctx_in,
		    .ctx_size_in = sizeof(ctx_in), .ctx_out = &ctx_out,
		    .ctx_size_out = sizeof(ctx_out));

	run->err = bpf_prog_test_run_opts(bpf_program__fd(bed->tc->progs.mroce_tc_egress), &opts);
	run->verdict = opts.retval;
	run->out.len = opts.data_size_out;
	run->mark = ctx_out.mark;
	run->meta = 0;
}
