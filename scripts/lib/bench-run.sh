# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Rooms of scripts/bench: fabrics, daemons and candidates; samples and tables.

# ---- building and removing ----

net_of()
{
	echo "--net=/run/netns/mr-$PREFIX$1-$2"
}

# FABRIC HOST COMMAND...: nsenter, since `ip netns exec` hides bpffs.
in_host()
{
	local name=$1 host=$2
	shift 2
	nsenter "$(net_of "$name" "$host")" "$@"
}

# FABRIC HOST OUTPUT COMMAND...: in the background; sets spawned to the id of the command itself.
spawn()
{
	local name=$1 host=$2 output=$3
	shift 3
	nsenter "$(net_of "$name" "$host")" "$@" >"$output" 2>&1 &
	spawned=$!
}

socket_of()
{
	echo "$work/$1-$2.sock"
}

fabric()
{
	local name=$1
	shift
	scripts/fabric --name "$PREFIX$name" "$@"
}

end_processes()
{
	local pid
	for pid in "$@"; do
		kill "$pid" 2>/dev/null || true
	done
	for pid in "$@"; do
		wait "$pid" 2>/dev/null || true
	done
}

remove_fabrics()
{
	end_processes ${helpers[@]+"${helpers[@]}"} ${daemons[@]+"${daemons[@]}"}
	helpers=()
	daemons=()
	local name
	for name in ${fabrics[@]+"${fabrics[@]}"}; do
		fabric "$name" down >/dev/null 2>&1 ||
			echo "bench: could not remove a fabric; try: scripts/fabric --name $PREFIX$name down" >&2
	done
	fabrics=()
}

clean_up()
{
	local status=$?
	trap - EXIT INT TERM
	remove_fabrics
	[ -z "$work" ] || rm -rf "$work"
	exit "$status"
}

# NAME HOSTS PLANES OPTIONS...: for TCP.
build_plain()
{
	local name=$1 hosts=$2 planes=$3
	shift 3
	fabrics+=("$name")
	fabric "$name" up --hosts "$hosts" --planes "$planes" --mtu $MTU --seed 1 "$@" >/dev/null
}

# NAME HOST PLANES: with the options of daemon_options; await_daemon is to follow.
start_daemon()
{
	local name=$1 host=$2 planes=$3 interfaces=() plane
	for ((plane = 1; plane <= planes; plane++)); do
		interfaces+=(-i "p$plane")
	done
	spawn "$name" "$host" "$work/$1-$2.log" "$BUILD/mroced" --socket "$(socket_of "$name" "$host")" \
		"${interfaces[@]}" ${daemon_options[@]+"${daemon_options[@]}"}
	daemons+=("$spawned")
}

# NAME HOST PID
await_daemon()
{
	local name=$1 host=$2 pid=$3 log=$work/$1-$2.log deadline=$((SECONDS + 20))
	until "$BUILD/mroce" --socket "$(socket_of "$name" "$host")" show port >/dev/null 2>&1; do
		kill -0 "$pid" 2>/dev/null || { cat "$log" >&2; die "mroced on $host ended, see above"; }
		[ $SECONDS -lt $deadline ] || { cat "$log" >&2; die "mroced on $host does not answer"; }
		sleep 0.05
	done
}

# NAME HOSTS PLANES OPTIONS...: with a daemon on each host.
build_ours()
{
	local name=$1 hosts=$2 planes=$3 host first=${#daemons[@]}
	build_plain "$@"
	for ((host = 1; host <= hosts; host++)); do
		start_daemon "$name" "h$host" "$planes"
	done
	for ((host = 1; host <= hosts; host++)); do
		await_daemon "$name" "h$host" "${daemons[first + host - 1]}"
	done
}

# RATE, as in 250mbit or 1gbit: in Mbit/s. Veth does not know it, and what a daemon is told it gives hints by.
mbps_of()
{
	case $1 in
	*gbit) echo $((${1%gbit} * 1000)) ;;
	*) echo "${1%mbit}" ;;
	esac
}

# ---- samples ----

# MEASUREMENT CASE CANDIDATE UNIT VALUE
sample()
{
	printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$OUT/samples.tsv"
}

table()
{
	[ "$json" = yes ] || tests/fabric/benchtable text "$OUT/samples.tsv" "$1"
}

# FIELD from the first result of `mroce perf -j` in FILE.
perf_field()
{
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["results"][0][sys.argv[2]])' "$work/perf.json" "$1"
}

# FABRIC OPTIONS...: leaves its result in $work/perf.json.
run_ours()
{
	local name=$1 server
	shift
	: >"$work/server.log"
	spawn "$name" h2 "$work/server.log" "$BUILD/mroce" --socket "$(socket_of "$name" h2)" perf -s --once
	server=$spawned
	helpers=("$server")
	local deadline=$((SECONDS + 10))
	until [ -s "$work/server.log" ]; do
		[ $SECONDS -lt $deadline ] || die "mroce perf -s does not start"
		sleep 0.02
	done
	if ! in_host "$name" h1 timeout 120 "$BUILD/mroce" --socket "$(socket_of "$name" h1)" -j perf "$@" 10.1.0.2 \
		>"$work/perf.json" 2>"$work/client.log"
	then
		cat "$work/client.log" "$work/server.log" "$work/$name-h1.log" "$work/$name-h2.log" >&2
		die "mroce perf $* failed, see above"
	fi
	wait $server || true
	helpers=()
}

# MEASUREMENT CASE FABRIC: goodput of large writes.
goodput_ours()
{
	run_ours "$3" -D "$seconds" -m "$SIZE"
	sample "$1" "$2" mroce Gbit/s "$(perf_field bw_average_gbit_per_s)"
}

await_tcp_server()
{
	local deadline=$((SECONDS + 5))
	until [ -n "$(in_host "$1" h2 ss -Hltn "sport = :$2")" ]; do
		[ $SECONDS -lt $deadline ] || die "no TCP server on port $2"
		sleep 0.02
	done
}

# FABRIC PLANES CONTROL FLOWS: prints Gbit/s received, summed over planes with FLOWS each. 0: nothing arrived in time.
tcp_goodput()
{
	local name=$1 planes=$2 control=$3 flows=$4 plane clients=() servers=()
	for ((plane = 1; plane <= planes; plane++)); do
		spawn "$name" h2 /dev/null iperf3 -s -1 -p $((5200 + plane))
		servers+=("$spawned")
	done
	helpers=("${servers[@]}")
	for ((plane = 1; plane <= planes; plane++)); do
		await_tcp_server "$name" $((5200 + plane))
	done
	for ((plane = 1; plane <= planes; plane++)); do
		spawn "$name" h1 "$work/tcp-$plane.json" timeout $((seconds + 8)) iperf3 -J -c "10.$plane.0.2" \
			-p $((5200 + plane)) -C "$control" -P "$flows" -t "$seconds"
		clients+=("$spawned")
	done
	helpers+=("${clients[@]}")
	wait "${clients[@]}" || true
	end_processes "${servers[@]}"
	helpers=()
	python3 - "$work" "$planes" <<-'END'
		import json, sys
		total = 0.0
		for plane in range(1, int(sys.argv[2]) + 1):
		    try:
		        with open(f"{sys.argv[1]}/tcp-{plane}.json", encoding="utf-8") as text:
		            total += json.load(text)["end"]["sum_received"]["bits_per_second"]
		    except (KeyError, ValueError):
		        pass  # its control connection did not survive the loss
		print(total / 1e9)
	END
}

has_control()
{
	sysctl -n net.ipv4.tcp_available_congestion_control | grep -qw "$1"
}

# MEASUREMENT CASE CANDIDATE: the candidate's name says all, as in "TCP cubic x8 offload".
goodput_tcp()
{
	local words name=t
	read -r -a words <<<"$3"
	[ "${words[3]:-}" != offload ] || name=T
	sample "$1" "$2" "$3" Gbit/s "$(tcp_goodput $name "${4:-1}" "${words[1]}" "${words[2]#x}")"
}

controls()
{
	local control
	for control in cubic bbr; do
		! has_control $control || echo $control
	done
}

# FABRIC ARGUMENTS...: both ends of many flows in one process; its result is $work/flows.json and $work/flows.tsv.
run_flows()
{
	local name=$1
	shift
	if ! timeout 180 "$BUILD/tests/fabric/flows" -f "$PREFIX$name" -S "$work/$name-" -o "$work/flows.tsv" "$@" \
		>"$work/flows.json" 2>"$work/flows.log"
	then
		cat "$work/flows.log" "$work/$name"-*.log >&2 2>/dev/null || true
		die "flows $* failed, see above"
	fi
}

# WHAT ARGUMENTS...: of the last run_flows.
flowstat()
{
	local what=$1
	shift
	case $what in
	last | jain) tests/fabric/flowstat "$what" "$work/flows.json" ;;
	*) tests/fabric/flowstat "$what" "$work/flows.json" "$work/flows.tsv" "$@" ;;
	esac
}

# ---- time ----

# SECONDS_OF_PLAN: where we are, on stderr. Called before each turn.
turn()
{
	echo "  [$((SECONDS / 60)) of about $(((planned + 59) / 60)) min] $*" >&2
}
