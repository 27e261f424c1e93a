# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Rooms of scripts/bench: two hosts, one connection: speed, loss, latency, CPU.

# All kinds of TCP once; the best with and without offload then take turns with us. Sets best.
scout_tcp()
{
	local measurement=$1 case=$2 control flows offload
	shift 2
	for control in $(controls); do
		for flows in 1 8; do
			for offload in "$@"; do
				goodput_tcp "$measurement.scout" "$case" "TCP $control x$flows${offload:+ $offload}"
			done
		done
	done
	mapfile -t best < <(tests/fabric/benchtable best "$OUT/samples.tsv" "$measurement.scout")
}

where_time_goes()
{
	command -v perf >/dev/null || { say "  (perf is not installed: no profile)"; return 0; }
	[ "$json" = no ] || return 0
	local recorder
	perf record -q -a -g -F 1999 -o "$work/perf.data" -- sleep "$seconds" >/dev/null 2>&1 &
	recorder=$!
	run_ours o -D "$((seconds + 1))" -m "$SIZE"
	wait $recorder || { say "  (perf record does not work here: no profile)"; return 0; }
	say "  where the time of mroced (both) and mroce goes, percent:"
	perf report -i "$work/perf.data" --stdio --no-children -g none --comms mroced,mroce --percentage relative \
		--sort comm,dso,sym --percent-limit 1.2 2>/dev/null | grep -v -e '^#' -e '^$' | head -n 24 || true
}

# What AF_XDP can carry here when nobody does anything with the packets.
goodput_raw()
{
	local how name="raw AF_XDP, drop"
	for how in drop copy; do
		[ $how = drop ] || name="raw AF_XDP, one copy"
		sample "$1" "$2" "$name" Gbit/s "$("$BUILD/tests/fabric/rawxsk" $how "mr-${PREFIX}r-h1:p1" \
			"mr-${PREFIX}r-h2:p1" $CHUNK $((seconds * 1000)))"
	done
}

cost_raw() { echo $((2 + reps * 2 * (seconds + 1))); }
measure_raw()
{
	build_plain r 2 1 --direct
	local i
	for ((i = 0; i < reps; i++)); do
		turn "raw, turn $((i + 1)) of $reps"
		goodput_raw raw "zero loss"
	done
	table raw
}

cost_clean() { echo $((10 + 9 * (seconds + 1) + reps * 5 * (seconds + 1) + seconds + 5)); }
measure_clean()
{
	build_ours o 2 1 --direct
	build_plain t 2 1 --direct
	build_plain T 2 1 --direct --offload on
	build_plain r 2 1 --direct
	turn "clean, every kind of TCP once"
	scout_tcp clean "zero loss" "" offload
	local i peer
	for ((i = 0; i < reps; i++)); do
		turn "clean, turn $((i + 1)) of $reps"
		goodput_ours clean "zero loss" o
		for peer in "${best[@]}"; do
			goodput_tcp clean "zero loss" "$peer"
		done
		goodput_raw clean "zero loss"
	done
	say "  one try of each kind of TCP:"
	table clean.scout
	table clean
	where_time_goes
}

loss_name()
{
	if [ "$1" = 0 ]; then
		echo "zero loss"
	else
		echo "$1 % loss"
	fi
}

cost_loss() { echo $((3 + reps * 15 * (seconds + 1))); }
measure_loss()
{
	build_ours o 2 1
	build_plain t 2 1
	local i loss control flows
	for ((i = 0; i < reps; i++)); do
		for loss in 0 1 10; do
			turn "loss, $loss %, turn $((i + 1)) of $reps"
			fabric o set --loss $loss >/dev/null
			fabric t set --loss $loss >/dev/null
			goodput_ours loss "$(loss_name $loss)" o
			for control in $(controls); do
				for flows in 1 8; do
					goodput_tcp loss "$(loss_name $loss)" "TCP $control x$flows"
				done
			done
		done
	done
	table loss
}

# CASE FABRIC...: its rules.
apply_case()
{
	local case=$1 name rules
	shift
	case $case in
	"zero loss") rules=(--loss 0) ;;
	*bursts*) rules=(--loss "${case%% *}" --burst-mean 8) ;;
	*ACKs*) rules=(--loss "${case%% *}" --only-type "ack,nack") ;;
	*) rules=(--loss "${case%% *}") ;;
	esac
	for name in "$@"; do
		fabric "$name" set --clear --only-type all "${rules[@]}" >/dev/null
	done
}

kept_cases()
{
	cases=("zero loss" "0.1 % loss" "1 % loss" "5 % loss" "10 % loss" "1 % loss in bursts of 8"
		"5 % loss in bursts of 8")
	[ $quick = no ] || cases=("zero loss" "1 % loss" "10 % loss" "1 % loss in bursts of 8")
}

cost_kept()
{
	local cases rates
	kept_cases
	read -r -a rates <<<"$KEPT_RATES"
	echo $((${#rates[@]} * (8 + reps * ${#cases[@]} * 3 * (seconds + 1))))
}
measure_kept()
{
	local rate cases
	kept_cases
	for rate in $KEPT_RATES; do
		say "  $KEPT_PLANES planes of $rate, queues of 300 kB:"
		kept_at "$rate"
		remove_fabrics
	done
}

kept_at()
{
	local rate=$1 i control case daemon_options
	daemon_options=(--link-mbps "$(mbps_of "$rate")")
	build_ours o 2 $KEPT_PLANES --rate "$rate" --limit 300k
	build_plain t 2 $KEPT_PLANES --rate "$rate" --limit 300k
	for ((i = 0; i < reps; i++)); do
		turn "kept, planes of $rate, turn $((i + 1)) of $reps"
		for case in "${cases[@]}"; do
			apply_case "$case" o t
			goodput_ours "kept.$rate" "$case" o
			for control in $(controls); do
				goodput_tcp "kept.$rate" "$case" "TCP $control x1" $KEPT_PLANES
			done
		done
	done
	table "kept.$rate"
}

ack_cases()
{
	cases=("zero loss" "1 % of ACKs and NACKs lost" "5 % of ACKs and NACKs lost" "10 % of ACKs and NACKs lost")
	[ $quick = no ] || cases=("zero loss" "10 % of ACKs and NACKs lost")
}

cost_acks()
{
	local cases rates
	ack_cases
	read -r -a rates <<<"$KEPT_RATES"
	echo $((${#rates[@]} * (5 + reps * ${#cases[@]} * (seconds + 1))))
}
# Without TCP: its ACKs cannot be told from its data.
measure_acks()
{
	local rate i case cases daemon_options
	ack_cases
	for rate in $KEPT_RATES; do
		say "  $KEPT_PLANES planes of $rate:"
		daemon_options=(--link-mbps "$(mbps_of "$rate")")
		build_ours o 2 $KEPT_PLANES --rate "$rate" --limit 300k
		for ((i = 0; i < reps; i++)); do
			turn "acks, planes of $rate, turn $((i + 1)) of $reps"
			for case in "${cases[@]}"; do
				apply_case "$case" o
				goodput_ours "acks.$rate" "$case" o
			done
		done
		table "acks.$rate"
		remove_fabrics
	done
}

# HOW: wait or spin
pingpong()
{
	local server result
	spawn t h2 /dev/null "$BUILD/tests/fabric/pingpong" serve 5300 "$1"
	server=$spawned
	helpers=("$server")
	result=$(in_host t h1 timeout 60 "$BUILD/tests/fabric/pingpong" 10.1.0.2 5300 "$1" 64 5000)
	wait $server
	helpers=()
	sample latency median "TCP_NODELAY, $1" us "${result% *}"
	sample latency "99 %" "TCP_NODELAY, $1" us "${result#* }"
}

cost_latency() { echo $((3 + reps * 4)); }
measure_latency()
{
	build_ours o 2 1 --direct
	build_plain t 2 1 --direct
	local i
	for ((i = 0; i < reps; i++)); do
		turn "latency, turn $((i + 1)) of $reps"
		run_ours o -l -m 64 -n 5000
		sample latency median mroce us "$(perf_field t_typical_us)"
		sample latency "99 %" mroce us "$(perf_field t_99_us)"
		pingpong wait
		pingpong spin
	done
	table latency
}

# Time that PID has run, ns, all threads.
ran()
{
	awk '{ sum += $1 } END { printf "%d", sum }' /proc/"$1"/task/*/schedstat
}

cost_idle() { echo $((4 + reps * idle_seconds)); }
measure_idle()
{
	build_ours o 2 $KEPT_PLANES
	run_ours o -n 100 -m "$SIZE"
	local i before after
	for ((i = 0; i < reps; i++)); do
		turn "idle, turn $((i + 1)) of $reps"
		before=$(ran "${daemons[0]}")
		sleep $idle_seconds
		after=$(ran "${daemons[0]}")
		sample idle "no traffic, $KEPT_PLANES planes" mroce "% of core" \
			"$(awk -v ns=$((after - before)) -v s=$idle_seconds 'BEGIN { print ns / s / 1e7 }')"
	done
	table idle
}

# Ticks that all CPUs were busy.
busy_ticks()
{
	awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
}

# CANDIDATE TICKS BYTES
cpu_sample()
{
	sample cpu "zero loss, one veth pair" "$1" "s/GiB" \
		"$(awk -v t="$2" -v hz="$(getconf CLK_TCK)" -v b="$3" 'BEGIN { print t / hz / (b / 2 ^ 30) }')"
}

# FABRIC CANDIDATE
cpu_ours()
{
	local before after
	before=$(busy_ticks)
	run_ours "$1" -D "$seconds" -m "$SIZE"
	after=$(busy_ticks)
	cpu_sample "$2" $((after - before)) "$(perf_field bytes)"
}

# FABRIC CONTROL
cpu_tcp()
{
	local before after gbit
	before=$(busy_ticks)
	gbit=$(tcp_goodput "$1" 1 "$2" 1)
	after=$(busy_ticks)
	cpu_sample "TCP $2 x1$([ "$1" = t ] || echo " offload")" $((after - before)) \
		"$(awk -v g="$gbit" -v s="$seconds" 'BEGIN { print g * 1e9 / 8 * s }')"
}

cost_cpu() { echo $((8 + reps * 7 * (seconds + 1))); }
measure_cpu()
{
	local i control daemon_options=()
	build_ours o 2 1 --direct
	daemon_options=(--port socket)
	build_ours h 2 1 --direct
	daemon_options=(--port socket --no-handover)
	build_ours u 2 1 --direct
	build_plain t 2 1 --direct
	build_plain T 2 1 --direct --offload on
	for ((i = 0; i < reps; i++)); do
		turn "cpu, turn $((i + 1)) of $reps"
		cpu_ours o mroce
		cpu_ours h "mroce, UDP sockets"
		cpu_ours u "mroce, UDP sockets, no handover"
		for control in $(controls); do
			cpu_tcp t "$control"
			cpu_tcp T "$control"
		done
	done
	table cpu
}

cost_planes() { echo $((30 + reps * 4 * (seconds + 1))); }
measure_planes()
{
	local rate=${KEPT_RATES%% *} i planes goodput single daemon_options
	daemon_options=(--link-mbps "$(mbps_of "$rate")")
	for planes in 1 2 4 8; do
		build_ours "o$planes" 2 $planes --rate "$rate" --limit 300k
	done
	for ((i = 0; i < reps; i++)); do
		turn "planes, turn $((i + 1)) of $reps"
		for planes in 1 2 4 8; do
			run_ours "o$planes" -D "$seconds" -m "$SIZE"
			goodput=$(perf_field bw_average_gbit_per_s)
			sample planes "$planes planes" mroce Gbit/s "$goodput"
			[ $planes -ne 1 ] || single=$goodput
			sample planes "$planes planes" "mroce, of planes x one plane" share \
				"$(awk -v a="$goodput" -v n=$planes -v s="$single" 'BEGIN { print a / n / s }')"
		done
	done
	say "  planes of $rate:"
	table planes
}

cost_spurious() { echo $((5 + reps * 2 * (seconds + 1))); }
# On paths in order each repair of what was not lost is a mistake; so is any repair where nothing is lost.
measure_spurious()
{
	local i loss case repairs spurious daemon_options
	daemon_options=(--link-mbps "$(mbps_of "${KEPT_RATES%% *}")")
	build_ours o 2 $KEPT_PLANES --rate "${KEPT_RATES%% *}" --limit 300k
	for ((i = 0; i < reps; i++)); do
		turn "spurious, turn $((i + 1)) of $reps"
		for loss in 0 1; do
			case=$(loss_name $loss)
			fabric o set --loss $loss >/dev/null
			run_ours o -D "$seconds" -m "$SIZE"
			repairs=$(perf_field repairs)
			spurious=$(perf_field spurious_repairs)
			sample spurious "$case" "mroce, repairs" packets "$repairs"
			sample spurious "$case" "mroce, spurious" packets "$spurious"
			sample spurious "$case" "mroce, spurious of repairs" share \
				"$(awk -v s="$spurious" -v r="$repairs" 'BEGIN { print r ? s / r : 0 }')"
		done
	done
	table spurious
}
