// SPDX-License-Identifier: GPL-2.0
/* The least a receiver can do with a packet: count and drop it, or hand it to an AF_XDP socket. See rawxsk.c. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PROTO_RAW 0x88b5 /* for local experiments */

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} raw_packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} raw_socket SEC(".maps");

static __always_inline int is_raw(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	return (void *)(eth + 1) <= end && eth->h_proto == bpf_htons(PROTO_RAW);
}

SEC("xdp")
int raw_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *packets;

	if (!is_raw(ctx))
		return XDP_PASS;
	packets = bpf_map_lookup_elem(&raw_packets, &zero);
	if (packets)
		++*packets;
	return XDP_DROP;
}

SEC("xdp")
int raw_take(struct xdp_md *ctx)
{
	return is_raw(ctx) ? bpf_redirect_map(&raw_socket, 0, XDP_PASS) : XDP_PASS;
}
