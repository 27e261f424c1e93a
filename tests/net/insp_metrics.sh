#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Metrics: scraped over TCP and a Unix socket, read with Prometheus' own parser, compared with what mroce show says,
# and asked for by clients that behave badly.
# shellcheck source-path=SCRIPTDIR source=sys_lib.sh
. "$(dirname "$0")/sys_lib.sh"

url=http://127.0.0.1:9797

ask() {	# host [options of curl]
	on "$1" curl -sS --noproxy '*' --max-time 10 "${@:2}"
}

scrape() {	# file
	ask h1 -f $url/metrics >"$work/$1"
}

values() {	# scrape metric...
	printf '%s\n' "${@:2}" | /usr/bin/python3 tests/net/insp_metrics.py "$work/$1"
}

value() {	# scrape metric
	values "$1" "$2"
}

status_is() {	# status [options of curl]
	equal "$(ask h1 -o /dev/null -w '%{http_code}' "${@:2}")" "$1" "status"
}

off_by_default() {
	daemon_up h2 || return 1
	! ss_listens h2 && ! ask h2 $url/metrics 2>/dev/null
}

ss_listens() {
	on "$1" cat /proc/net/tcp /proc/net/tcp6 | grep -q " 0A "
}

content_type() {
	ask h1 -D - -o /dev/null $url/metrics | grep -qi '^content-type: text/plain; version=0.0.4'
}

traffic() {
	F set --loss 1 --seed 3 >/dev/null 2>&1
	swap --seed 5 --streams 6 --messages 60 --random 100000
}

# When all is quiet, both say the same.
same_as_show() {
	local got
	mapfile -t got < <(values second mroce_repairs_total 'mroce_port_sent_packets_total{port=p1}' mroce_stalls_total \
		'mroce_packets_total{outcome=TX_ACK,where=kernel}' 'mroce_packets_dropped_total{reason=DUPLICATE,where=kernel}' \
		'mroce_packets_total{outcome=RX_PASS_CTL,where=kernel}' mroce_connections)
	equal "${got[*]}" "${got[0]} $(port_sum h1 tx_packets) 0 $(kernel TX_ACK) $(kernel DUPLICATE) $(kernel RX_PASS_CTL) 0" "values"
}

kernel() {
	show h1 "sum(c['kernel'] for c in s['counters'] if c['name'] == '$1')"
}

histograms_filled() {
	local got
	mapfile -t got < <(values second mroce_rtt_seconds_count mroce_completion_seconds_count mroce_repair_delay_seconds_count mroce_repairs_total)
	echo "rtt ${got[0]} completion ${got[1]} repair ${got[2]} repairs ${got[3]}"
	((got[0] > 10 && got[1] >= 100 && got[2] > 0 && got[2] <= got[3]))
}

settled() {
	equal "$(show h1 "len(s['connections'])")$(show h2 "len(s['connections'])")" 00 connections
}

# Whoever asks at once again gets the same: the worker is not made to work.
bounded() {
	local try
	for ((try = 0; try < 20; try++)); do
		ask h1 $url/metrics $url/metrics $url/metrics | grep ^mroce_uptime >"$work/uptimes"
		(($(sort -u "$work/uptimes" | wc -l) < $(wc -l <"$work/uptimes"))) && return 0
	done
	cat "$work/uptimes"
	return 1
}

# Clients that connect and say nothing, or half of something, hold nobody up.
deaf_clients() {
	on h1 python3 - <<-'END' || return 1
	import socket
	held = []
	for i in range(40):
	    s = socket.socket()
	    s.connect(("127.0.0.1", 9797))
	    try:
	        s.sendall(b"GET /metrics HTT" if i % 2 else b"\x00\xff" * 3000)
	    except OSError:
	        pass
	    held.append(s)
	END
	swap --seed 9 --streams 2 --messages 20 && wait_until status_is 200 $url/metrics
}

many_at_once() {
	local i pids=()
	for ((i = 0; i < 8; i++)); do
		ask h1 -f --no-progress-meter --parallel --parallel-max 8 -o /dev/null "$url/metrics?[1-25]" &
		pids+=($!)
	done
	swap --seed 11 --streams 2 --messages 20 || return 1
	for i in "${pids[@]}"; do
		wait "$i" || return 1
	done
}

on_unix_socket() {
	daemon_stop h1 && daemon_up h1 --metrics "$work/metrics.sock" || return 1
	equal "$(stat -c %a "$work/metrics.sock")" 660 mode || return 1
	ask h1 -f --unix-socket "$work/metrics.sock" http://localhost/metrics >"$work/third" && value third mroce_connections
}

after_kill() {
	end9 h1
	[[ -S $work/metrics.sock ]] || return 1
	daemon_up h1 --metrics "$work/metrics.sock" && ask h1 -f --unix-socket "$work/metrics.sock" http://localhost/metrics >/dev/null
}

# The worker stands still: the asker is told, and all is well afterwards.
stopped_worker() {
	local status
	kill -STOP "${pid[h1]}"
	ask h1 --max-time 1 --unix-socket "$work/metrics.sock" http://localhost/metrics >/dev/null 2>&1
	status=$?
	kill -CONT "${pid[h1]}"
	[[ $status != 0 ]] && wait_until ask h1 -f --unix-socket "$work/metrics.sock" http://localhost/metrics
}

gone_after_stop() {
	daemon_stop h1 && [[ ! -e $work/metrics.sock ]]
}

will_not_start() {	# words options
	local text
	text=$(on h1 timeout 10 "$build/mroced" -i p1 --socket "$work/x.sock" "${@:2}" 2>&1) && return 1
	echo "$text"
	grep -qF -- "$1" <<<"$text"
}

# Another has the port; what was begun is taken back.
port_taken() {
	on h1 python3 -c "
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', 9797)); s.listen()
print('ready', flush=True); time.sleep(60)" >"$work/taken" &
	pid[taken]=$!
	wait_until said taken ready
	will_not_start "metrics on 127.0.0.1:9797: Address already in use" --metrics 127.0.0.1:9797
	local rc=$?
	end9 taken
	return $rc
}

for tool in curl:curl /usr/bin/python3:python3-prometheus-client; do
	command -v "${tool%%:*}" >/dev/null && /usr/bin/python3 -c "import prometheus_client" 2>/dev/null && continue
	echo "1..0 # SKIP ${tool##*:} is not installed (scripts/deps)"
	exit 0
done

fabric_up 1 || { ok 1 "fabric"; finish; }
on h1 ip link set lo up
on h2 ip link set lo up
check "not served unless asked for" off_by_default
check "served" daemon_up h1 --metrics 127.0.0.1:9797
check "first scrape" scrape first
check "as documented, by Prometheus' parser" values first
check "content type" content_type
check "traffic with loss" traffic
check "connections have ended" wait_until settled
sleep 0.3
check "second scrape" scrape second
check "nothing has shrunk" sh -c "/usr/bin/python3 tests/net/insp_metrics.py '$work/second' '$work/first' </dev/null"
check "the same as mroce show" same_as_show
check "histograms have what they should" histograms_filled
check "unknown page: 404" status_is 404 $url/other
check "POST: 405" status_is 405 -d x=y $url/metrics
check "a large POST: 405" status_is 405 -H Expect: --data-binary @"$build/mroced" $url/metrics
check "HEAD" status_is 200 -I $url/metrics
check "asked at once again: the same answer" bounded
check "clients that say nothing or nonsense" deaf_clients
check "many scrapes at once, with traffic" many_at_once
check "on a Unix socket" on_unix_socket
check "after kill -9 the socket is replaced" after_kill
check "a worker that stands still" stopped_worker
check "the socket is gone after a stop" gone_after_stop
check "a bad address is explained" will_not_start "--metrics: 'localhost:80' is not ADDRESS:PORT" --metrics localhost:80
check "so is a bad port" will_not_start "is not ADDRESS:PORT" --metrics 127.0.0.1:70000
check "and one that is taken" port_taken
check "h1 is bare" bare h1
finish
