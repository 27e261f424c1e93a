#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Rates, queues and marks; leaf-spine; links that go away; answers that a host sends by XDP_TX.
# shellcheck source-path=SCRIPTDIR source=fabric_lib.sh
. "$(dirname "$0")/fabric_lib.sh"
echo_program=${BUILD:-build}/tests/fabric/echo.bpf.o

# A train much faster than the link: 64 KiB burst and the queue get through, and the rest at the rate.
holds_rate() {
	train h2 10.1.0.2 4000 -s 1458 || return
	between "$lost" 1000 3900 "dropped by the queue" &&
		equal "$(counter 1 h2 to queue_drops)" "$lost" "dropped, as counted"
}

# The queue's first 50k are not marked, all that find more are. The 64 KiB burst does not wait.
marks_above_threshold() {
	F set --ce-threshold 50k && train h2 10.1.0.2 4000 -s 1458 || return
	between $((unique - ce)) 70 95 "unmarked: (65536 + 51200) / 1500" && between "$ce" 80 4000 marked
}

tcp_mbits() {	# seconds
	F exec h2 iperf3 -s -1 >/dev/null &
	wait_until listens_tcp h2 5201
	F exec h1 iperf3 -c 10.1.0.2 -t "$1" -J >"$work/iperf"
	wait
	python3 -c '
import json, sys
print(int(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] / 1e6))' "$work/iperf"
}

# On a crowded machine TCP may fall short; it must never exceed the rate.
tcp_below_rate() {
	local got
	got=$(tcp_mbits 2)
	echo "TCP: $got Mbit/s"
	between "$got" 500 1005 "Mbit/s"
}

rate_changes() {
	F set --rate 50mbit --limit 1m && train h2 10.1.0.2 500 -s 1458 || return
	between "$lost" 0 0 lost && between "$kbit" 30000 60000 kbit/s
}

uplinks_used() {	# leaf: uplinks that carried more than a tenth of 8000 packets
	local s n=0
	for s in 1 2 3 4; do
		(($(counter 1 "l$1s$s" to packets) > 800)) && n=$((n + 1))
	done
	echo $n
}

spreads_flows() {
	train h4 10.1.0.4 8000 -f 200 || return
	equal "$unique" 8000 unique && equal "$late" 0 late && equal "$(uplinks_used 1)" 4 "uplinks in use"
}

# Packets for everybody come from another CPU, as those of hosts do that look for routers.
order_is_kept() {
	local i noise status=0
	F exec h2 ping -6 -q -i 0.002 -w 30 ff02::1%p1 >/dev/null 2>&1 &
	noise=$!
	for ((i = 0; i < 5 && status == 0; i++)); do
		train h4 10.1.0.4 8000 && equal "$unique" 8000 unique && equal "$late" 0 late || status=1
	done
	kill "$noise" && wait "$noise"
	return $status
}

stays_in_leaf() {
	local before
	before=$(counter 1 l1s1 to packets)
	train h2 10.1.0.2 2000 -f 100 || return
	equal "$unique" 2000 unique && between "$(counter 1 l1s1 to packets)" "$before" $((before + 20)) up
}

one_spine_dead() {
	F set --spine 2 --blackhole && train h4 10.1.0.4 8000 -f 200 || return
	between "$lost" 1200 2800 lost
	F set --spine 2 --no-blackhole
}

salt_moves_flows() {
	local before
	F set --spine 2 --blackhole && train h4 10.1.0.4 2000 -f 64 && before=$lost.$bursts &&
		F set --ecmp-salt 7 && train h4 10.1.0.4 2000 -f 64 || return
	F set --spine 2 --no-blackhole
	[[ $lost.$bursts != "$before" ]]
}

takes() {	# microseconds at least
	train h2 10.1.0.2 1000 -g 100 || return
	equal "$unique" 1000 unique && equal "$late" 0 late && between "$min_way_us" "$1" 1000000 us &&
		{ [[ $1 != 0 ]] || between "$min_way_us" 0 300 us; }
}

delays_and_reorders() {
	F set --reorder 10,2 --dup 10 && train h2 10.1.0.2 1000 -g 100 || return
	equal "$unique" 1000 unique && between "$late" 70 130 late && between "$duplicates" 70 130 dup &&
		between "$min_way_us" 500 1000000 us
}

has_carrier() {
	[[ $(F exec "$1" ip -o link show "$2" up) == *LOWER_UP* ]]
}

no_carrier() {
	! has_carrier "$@"
}

link_goes_and_comes() {
	F set --plane 2 --host 4 --down && wait_until no_carrier h4 p2 && has_carrier h3 p2 &&
		has_carrier h4 p1 && F set --plane 2 --host 4 --up && wait_until has_carrier h4 p2 &&
		train h4 10.2.0.4 500 && equal "$unique" 500 unique
}

plane_goes_silent() {
	F set --plane 2 --blackhole && has_carrier h4 p2 && train h4 10.1.0.4 500 &&
		equal "$unique" 500 "unique in plane 1" || return
	F exec h1 timeout 10 "$probe" send 10.2.0.4 50 -g 100
	between "$(counter 2 h1 from blackholed)" 50 60 "swallowed in plane 2" && F set --plane 2 --no-blackhole
}

# Runs the train to host 2, whose XDP program sends it back, past the rules of port h1.
echoes() {	# lost-low lost-high
	train_back 10.1.0.2 4000 -f 50 && between "$lost" "$1" "$2" lost
}

train_back() {
	F exec h1 "$probe" recv "$2" >"$work/account" &
	wait_until listens h1 4797
	probe_send 10.1.0.1 "$@"
	wait
	. "$work/account"
}

queues_used() {
	F exec h2 ethtool -S p1 | awk '/rx_queue_[0-9]+_xdp_tx:/ && $2 > 100 { n++ } END { print n + 0 }'
}

check "up: 1 Gbit/s" F up --rate 1gbit
check "TCP keeps to it" tcp_below_rate
check "a change of rate and queue" rate_changes
check "down" F down

check "up: 100 Mbit/s, queue of 200k" F up --rate 100mbit --limit 200k
check "an overfull queue drops, and counts" holds_rate
check "CE marks above a threshold" marks_above_threshold
check "a threshold without a rate is refused" fails eval "F set --rate none && F set --ce-threshold 10k"
check "down" F down

check "up: 4 hosts, 2 planes of 2 leaves x 4 spines" F up --hosts 4 --planes 2 --leaf-spine 2x4
check "flows spread over the spines, and stay in order" spreads_flows
check "a flow stays in order while others send" order_is_kept
check "neighbours at one leaf need no spine" stays_in_leaf
check "a dead spine loses its share" one_spine_dead
check "another salt moves flows to other spines" salt_moves_flows
check "a host's link goes, seen by the host, and comes back" link_goes_and_comes
check "a plane that goes silent" plane_goes_silent
check "a delay without memory for it is refused" fails F set --delay 1ms
check "down" F down

check "up: with delay" F up --delay 3ms
check "packets take so long, and stay in order" takes 3000
check "a change of delay" eval "F set --delay 500us && takes 500"
check "reordering and duplication on the way" delays_and_reorders
check "no delay any more" eval "F set --clear --delay none && takes 0"
check "down" F down

check "up: 4 queues, mtu 9000" F up --queues 4 --mtu 9000
check "host 2 answers by XDP_TX" F exec h2 ip link set dev p1 xdpdrv obj "$echo_program" sec xdp.frags
check "the answers cross the switch" echoes 0 0
check "flows are spread over the receive queues" eval 'equal "$(queues_used)" 4 queues'
F set --host 1 --loss 10
check "the answers are lost at the set rate" echoes 320 480
finish
