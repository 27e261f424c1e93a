# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Rooms of scripts/bench: what many flows do to each other, and what a failing plane does to one. All by
# tests/fabric/flows.c, which has both ends of all flows in one process and counts what has arrived.

readonly SHARE_RATE=${MROCE_BENCH_SHARE_RATE:-250mbit}
readonly SHARE_LIMIT=300k
readonly TBF_BURST=65536 # of scripts/fabric: so much passes a port at once
readonly MARK_BYTES=40000 # where switches begin to mark

hints() { daemon_options=(--link-mbps "$(mbps_of "$SHARE_RATE")" "$@"); }

# MEASUREMENT NAME: keeps the samples of the last run for the plots.
keep_run()
{
	cp "$work/flows.json" "$OUT/$1.$2.json"
	cp "$work/flows.tsv" "$OUT/$1.$2.tsv"
}

# ---- a plane fails ----

# MEASUREMENT CASE CANDIDATE FABRIC CHANGE FLOWS...: CHANGE happens to plane 2 after a second.
fail_plane()
{
	local measurement=$1 case=$2 candidate=$3 name=$4 change=$5 ms lost still deadline=$((SECONDS + 10))
	shift 5
	run_flows "$name" -t 2200 -b 500 -m 8192 -d 256 -s 4 -w "mr-$PREFIX$name-s2:h1" \
		-r "1000:$BUILD/tests/fabric/fabricctl set $change -- mr-$PREFIX$name-s2" "$@"
	read -r ms lost still <<<"$(flowstat failure 0.75)"
	sample "$measurement" "$case: back to 0.95 x 3/4" "$candidate" ms "$ms"
	sample "$measurement" "$case: goodput lost" "$candidate" ms "$lost"
	sample "$measurement" "$case: messages wait for the plane" "$candidate" "of 4" "$still"
	keep_run "$measurement" "${case%% *}.${candidate%% *}"
	fabric "$name" set --plane 2 --up --no-blackhole >/dev/null
	until in_host "$name" h1 ping -c 1 -W 1 -q 10.2.0.2 >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || die "plane 2 does not come back"
		sleep 0.1
	done
	sleep 1 # until its paths are back
}

cost_plane()
{
	local rates
	read -r -a rates <<<"$KEPT_RATES"
	echo $((${#rates[@]} * (8 + reps * 4 * 5)))
}
# TCP: a connection on each plane, which is the best it can do; what was on the dead one waits until the plane is back.
measure_plane()
{
	local rate i case change plane daemon_options tcp=()
	for ((plane = 1; plane <= KEPT_PLANES; plane++)); do
		tcp+=("cubic:h1:h2,plane=$plane")
	done
	for rate in $KEPT_RATES; do
		daemon_options=(--link-mbps "$(mbps_of "$rate")")
		build_ours o 2 $KEPT_PLANES --rate "$rate" --limit $SHARE_LIMIT
		build_plain t 2 $KEPT_PLANES --rate "$rate" --limit $SHARE_LIMIT
		for ((i = 0; i < reps; i++)); do
			turn "plane, planes of $rate, turn $((i + 1)) of $reps"
			for case in "link down" silent; do
				change=--down
				[ "$case" != silent ] || change=--blackhole
				fail_plane "plane.$rate" "$case" mroce o $change mroce:h1:h2
				fail_plane "plane.$rate" "$case" "TCP cubic, one on each plane" t $change "${tcp[@]}"
			done
		done
		say "  one of $KEPT_PLANES planes of $rate fails:"
		table "plane.$rate"
		remove_fabrics
	done
}

# ---- incast ----

# SENDERS CANDIDATE FABRIC KIND PAYLOAD FRAME: of a packet, as a port counts it.
incast_once()
{
	local senders=$1 candidate=$2 name=$3 kind=$4 payload=$5 frame=$6 flows=() host us settled mbps
	mbps=$(mbps_of "$SHARE_RATE")
	for ((host = 2; host <= senders + 1; host++)); do
		flows+=("$kind:h$host:h1,bytes=1048576")
	done
	run_flows "$name" -t 30000 -m 16384 -d 64 -w "mr-$PREFIX$name-s1:h1" "${flows[@]}"
	us=$(flowstat last)
	sample incast "$senders:1, last / ideal" "$candidate" ratio "$(awk -v us="$us" -v n="$senders" -v p="$payload" \
		-v f="$frame" -v mbps="$mbps" -v burst=$TBF_BURST \
		'BEGIN { print us / ((n * 1048576 * f / p - burst) * 8 / mbps) }')"
	sample incast "$senders:1, Jain's index" "$candidate" index "$(flowstat jain)"
	# From when all were heard, which took each a round trip: this machine starts its senders one after the other.
	settled=$(awk -v us="$(flowstat heard)" -v mbps="$mbps" 'BEGIN { print us / 1e3 + 300000 * 8 / mbps / 1e3 }')
	sample incast "$senders:1, drops in the first 2 RTTs" "$candidate" packets "$(flowstat drops 0 "$settled")"
	sample incast "$senders:1, drops after 2 RTTs" "$candidate" packets "$(flowstat drops "$settled" 60000)"
	keep_run incast "$senders.${candidate// /-}"
}

incast_sizes()
{
	sizes=(8 32)
	[ $quick = no ] || sizes=(8)
}

cost_incast() { echo $((12 + reps * 6 + ($([ $quick = no ] && echo 1 || echo 0) * (40 + reps * 10)))); }
measure_incast()
{
	local senders i control sizes daemon_options
	hints
	incast_sizes
	for senders in "${sizes[@]}"; do
		build_ours o $((senders + 1)) 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
		build_plain t $((senders + 1)) 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
		for ((i = 0; i < reps; i++)); do
			turn "incast $senders:1, turn $((i + 1)) of $reps"
			incast_once "$senders" mroce o mroce $CHUNK $((CHUNK + 122))
			for control in $(controls); do
				incast_once "$senders" "TCP $control" t "$control" $((MTU - 52)) $((MTU + 14))
			done
		done
		remove_fabrics
	done
	say "  1 MiB from each, port of $SHARE_RATE, queue of 300 kB:"
	table incast
}

# ---- beside an incast ----

# CANDIDATE FABRIC KIND
victim_once()
{
	local before during flows=("$3:h11:h2") host
	for ((host = 3; host <= 10; host++)); do
		flows+=("$3:h$host:h1,start=1000")
	done
	run_flows "$2" -t 2000 -w "mr-$PREFIX$2-s1:h1" "${flows[@]}"
	before=$(flowstat rate 0 300 1000)
	during=$(flowstat rate 0 1050 2000)
	sample victim "alone" "$1" Gbit/s "$before"
	sample victim "rate kept beside an incast" "$1" share \
		"$(awk -v a="$during" -v b="$before" 'BEGIN { print b ? a / b : 0 }')"
	sample victim "all of the incast" "$1" Gbit/s "$(flowstat rate 1-8 1050 2000)"
}

cost_victim() { echo $((18 + reps * 3 * 4)); }
measure_victim()
{
	local i control daemon_options
	hints
	build_ours o 11 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	build_plain t 11 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	for ((i = 0; i < reps; i++)); do
		turn "victim, turn $((i + 1)) of $reps"
		victim_once mroce o mroce
		for control in $(controls); do
			victim_once "TCP $control" t "$control"
		done
	done
	table victim
}

# ---- fair shares ----

# CASE CANDIDATE FABRIC FLOWS...: eight flows.
fair_once()
{
	local case=$1 candidate=$2 name=$3 end=$((1000 + seconds * 1000))
	shift 3
	run_flows "$name" -t $end -w "mr-$PREFIX$name-s1:h1" "$@"
	sample fair "$case" "$candidate" "Jain" "$(flowstat fair 0-7 1000 $end)"
	sample fair "$case: all together" "${candidate/mroce/all of mroce}" Gbit/s "$(flowstat rate 0-7 1000 $end)"
}

# CANDIDATE FABRIC KIND CASE_SUFFIX
fair_both()
{
	local flows=() host
	for ((host = 2; host <= 9; host++)); do
		flows+=("$3:h$host:h1")
	done
	fair_once "8 hosts to one$4" "$1" "$2" "${flows[@]}"
	fair_once "8 connections of 2 hosts$4" "$1" "$2" "$3:h2:h1,n=8"
}

cost_fair() { echo $((26 + reps * 8 * (seconds + 2))); }
measure_fair()
{
	local i control daemon_options
	hints
	build_ours o 9 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	hints --no-hints
	build_ours n 9 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT --ce-threshold $MARK_BYTES
	build_plain t 9 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	for ((i = 0; i < reps; i++)); do
		turn "fair, turn $((i + 1)) of $reps"
		fair_both mroce o mroce ""
		fair_both mroce n mroce ", no hints, switch marks"
		for control in $(controls); do
			fair_both "TCP $control" t "$control" ""
		done
	done
	table fair
}

# ---- beside TCP ----

# CASE FABRIC CONTROL
coexist_once()
{
	local ours theirs end=$((1000 + seconds * 1000))
	run_flows "$2" -t $end -w "mr-$PREFIX$2-s1:h1" mroce:h2:h1 "$3:h3:h1"
	ours=$(flowstat rate 0 1000 $end)
	theirs=$(flowstat rate 1 1000 $end)
	sample coexist "$1" "mroce beside $3" Gbit/s "$ours"
	sample coexist "$1" "$3" Gbit/s "$theirs"
	sample coexist "$1" "TCP $3, share of its fair share" ratio \
		"$(awk -v a="$ours" -v b="$theirs" 'BEGIN { print b / ((a + b) / 2) }')"
}

set_ecn()
{
	local host
	for host in h1 h2 h3; do
		in_host "$1" $host sysctl -q -w net.ipv4.tcp_ecn="$2"
	done
}

cost_coexist() { echo $((12 + reps * 8 * (seconds + 2))); }
measure_coexist()
{
	local i control daemon_options
	hints
	build_ours u 3 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	build_ours s 3 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT --ce-threshold $MARK_BYTES
	hints --mark
	build_ours v 3 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	for ((i = 0; i < reps; i++)); do
		turn "coexist, turn $((i + 1)) of $reps"
		for control in $(controls); do
			coexist_once "no marks" u "$control"
			set_ecn s 0
			coexist_once "switch marks, TCP without ECN" s "$control"
			set_ecn s 1
			coexist_once "switch marks, TCP with ECN" s "$control"
			coexist_once "mroce marks itself" v "$control"
		done
	done
	table coexist
}

# ---- marking ----

# CASE CANDIDATE FABRIC KIND: four senders.
mark_once()
{
	local mean most end=$((1000 + seconds * 1000)) flows=() host
	for host in h2 h3 h4 h5; do
		flows+=("$4:$host:h1")
	done
	run_flows "$3" -t $end -w "mr-$PREFIX$3-s1:h1" "${flows[@]}"
	read -r mean most <<<"$(flowstat queue 1000 $end)"
	sample mark "$1: goodput" "$2" Gbit/s "$(flowstat rate 0-3 1000 $end)"
	sample mark "$1: queue, mean" "$2" kB "$(awk -v b="$mean" 'BEGIN { print b / 1e3 }')"
	sample mark "$1: queue, longest" "$2" kB "$(awk -v b="$most" 'BEGIN { print b / 1e3 }')"
	sample mark "$1: drops" "$2" packets "$(flowstat drops 1000 $end)"
}

cost_mark() { echo $((22 + reps * 6 * (seconds + 2))); }
measure_mark()
{
	local i control daemon_options
	hints --no-hints
	build_ours a 5 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	hints --no-hints --mark
	build_ours b 5 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	hints
	build_ours c 5 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	hints --mark
	build_ours d 5 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	build_plain t 5 1 --rate "$SHARE_RATE" --limit $SHARE_LIMIT
	for ((i = 0; i < reps; i++)); do
		turn "mark, turn $((i + 1)) of $reps"
		mark_once "no hints, no marks" mroce a mroce
		mark_once "no hints, own marks" mroce b mroce
		mark_once "hints, no marks" mroce c mroce
		mark_once "hints and own marks" mroce d mroce
		for control in $(controls); do
			mark_once "no marks" "TCP $control" t "$control"
		done
	done
	table mark
}

# ---- thousands of connections ----

cost_conns() { echo $((5 + reps * (30 + 10 * seconds))); }
# One pair of daemons for each turn: what is measured begins with setting up all connections.
measure_conns()
{
	local i size
	[ -x "$BUILD/tests/net/scale" ] || die "$BUILD/tests/net/scale is missing: run make net-tests first"
	for ((i = 0; i < reps; i++)); do
		for size in 16384 262144; do
			turn "conns, writes of $((size / 1024)) KiB, turn $((i + 1)) of $reps"
			build_ours o 2 1 --direct
			conns_once $size
			remove_fabrics
		done
	done
	table conns
}

conns_once()	# bytes of a write
{
	# One write of 256 KiB on each of all is 1 GiB: long enough for several. Before it is over, all paths are known.
	local size=$1 ms=$((4 * seconds * 1000)) scale=$BUILD/tests/net/scale place line deadline=$((SECONDS + 240))
	: >"$work/scale-server"
	: >"$work/scale-load"
	spawn o h2 "$work/scale-server" "$scale" serve "$(socket_of o h2)" $CONNECTIONS "$size"
	helpers=("$spawned")
	until place=$(sed -n 's/^memory //p' "$work/scale-server" | grep .); do
		[ $SECONDS -lt $deadline ] || die "scale serve does not start"
		sleep 0.05
	done
	rm -f "$work/hold"
	mkfifo "$work/hold"
	exec 7<>"$work/hold" # it ends when it reads the end of this
	# shellcheck disable=SC2086
	nsenter "$(net_of o h1)" "$scale" load "$(socket_of o h1)" 10.1.0.2 $CONNECTIONS "$ms" $place "$size" \
		<"$work/hold" >"$work/scale-load" 2>&1 &
	helpers+=("$!")
	until line=$(grep '^connections=' "$work/scale-load"); do
		if ! kill -0 "${helpers[-1]}" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
			cat "$work/scale-load" "$work/scale-server" >&2
			die "$CONNECTIONS connections do not work, see above"
		fi
		sleep 0.1
	done
	conns_samples "$line" "$((size / 1024)) KiB"
	exec 7>&-
	end_processes "${helpers[@]}"
	helpers=()
}

conns_samples()	# line size
{
	local pair one="" all="" key value
	for pair in $1; do
		key=${pair%%=*} value=${pair#*=}
		case $key in
		one_mbps) one=$value ;;
		all_mbps) all=$value ;;
		jain) sample conns "$2 each: Jain's index" mroce index "$value" ;;
		setup_ms) sample conns "set-up, each" mroce ms "$(awk -v m="$value" -v n=$CONNECTIONS 'BEGIN { print m / n }')" ;;
		esac
	done
	sample conns "$2 each: one connection" mroce Mbit/s "$one"
	sample conns "$2 each: $CONNECTIONS connections" mroce Mbit/s "$all"
	sample conns "$2 each: all / one" mroce ratio "$(awk -v a="$all" -v o="$one" 'BEGIN { print o ? a / o : 0 }')"
	sample conns "memory of one" mroce KiB "$("$BUILD/mroce" --socket "$(socket_of o h1)" -j show conn | python3 -c '
import json, sys
c = json.load(sys.stdin)["connections"]
print(sum(x["memory_bytes"] for x in c) / len(c) / 1024)')"
}
