#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Planes go, come back, turn into black holes and change their addresses under load. Nothing may be lost; the time until
# goodput is back is printed and not judged.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"
planes=4

# Runs a command in the middle of the load, and looks each half millisecond at what h2 receives: milliseconds until
# 5 ms in a row bring as much as 0.95 of SHARE of what it was before; 0 if they always do.
watch()	# share command...
{
	nsenter --net="/run/netns/mr-$fabric-h2" python3 - "$@" <<'PY'
import subprocess, sys, time
def received():
	total = 0
	for line in open("/proc/net/dev"):
		name, _, rest = line.partition(":")
		if name.strip().startswith("p"):
			total += int(rest.split()[0])
	return total
def sample(seconds):
	end, out = time.monotonic() + seconds, []
	while time.monotonic() < end:
		out.append((time.monotonic(), received()))
		time.sleep(0.0005)
	return out
def rate(a, b):
	return (b[1] - a[1]) / (b[0] - a[0])
before = sample(0.5)
usual = rate(before[0], before[-1])
process = subprocess.Popen(sys.argv[2:])
start = time.monotonic()
after = sample(1.5)
if process.wait():
	sys.exit(1)
wanted = 0.95 * float(sys.argv[1]) * usual
lowest, back, i = usual, 0, 0
for j, now in enumerate(after):
	while now[0] - after[i + 1][0] >= 0.005:
		i += 1
	if now[0] - after[i][0] < 0.005:
		continue
	r = rate(after[i], now)
	lowest = min(lowest, r)
	if r < wanted and back == 0:
		back = None
	elif r >= wanted and back is None:
		back = after[i][0] - start
print("before %.0f Mbit/s, lowest 5 ms %.0f, back after %s"
      % (usual * 8e-6, lowest * 8e-6, "%.1f ms" % (back * 1e3) if back is not None else "more than 1.5 s"))
sys.exit(usual < 1e6)
PY
}

paths_up()	# number
{
	[ "$(on h1 -j show path | json 'sum(p["state"] == "up" for p in d["paths"])')" = "$1" ]
}

server()
{
	perf_server_up
}

load()	# seconds
{
	on h1 -j perf --check -D "$1" -m 64K -t 64 10.1.0.2 >"$work/result" 2>&1 &
	load=$!
	wait_until paths_up 8
}

all_right()
{
	wait "$load" || { cat "$work/result"; return 1; }
	[ "$(json 'sum(r["check_errors"] for r in d["results"])' <"$work/result")" = 0 ]
}

# The output is worth reading when all is well, too.
measured()	# name command...
{
	check "$@"
	sed 's/^/# /' "$work/out"
}

plane()	# share plane changes...
{
	local share=$1 plane=$2
	shift 2
	watch "$share" scripts/fabric --name "$fabric" set --plane "$plane" "$@"
}

# As an administrator would: the old address goes first.
new_address()	# share plane last-byte
{
	watch "$1" sh -c "ip -n mr-$fabric-h2 address flush dev p$2 scope global &&
		ip -n mr-$fabric-h2 address add 10.$2.0.$3/24 dev p$2"
}

paths_to()	# address
{
	[ "$(on h1 -j show path | json "sum(p['remote'] == '$1' and p['state'] == 'up' for p in d['paths'])")" = 2 ]
}

# A route that goes, and is there again.
no_route()	# share plane
{
	watch "$1" ip -n "mr-$fabric-h1" route del "10.$2.0.0/24" dev "p$2"
}

route_again()	# share plane
{
	watch "$1" ip -n "mr-$fabric-h1" route add "10.$2.0.0/24" dev "p$2" src "10.$2.0.1"
}

reason_is()	# paths words
{
	[ "$(on h1 -j show path | json "sum(p['state'] == 'dead' and p['reason'] == '$2' for p in d['paths'])")" = "$1" ]
}

# Each plane of h2 gets its part of what h1 sends.
shares()	# planes
{
	on h1 -j show path >"$work/before"
	sleep 1
	on h1 -j show path >"$work/after"
	python3 - "$work/before" "$work/after" "$1" <<'PY'
import json, sys
def bytes_to(name):
	sums = {}
	for p in json.load(open(name))["paths"]:
		sums[p["remote"]] = sums.get(p["remote"], 0) + p["tx_bytes"]
	return sums
before, after = bytes_to(sys.argv[1]), bytes_to(sys.argv[2])
got = [after[n] - before[n] for n in after]
part = [100 * g / sum(got) for g in got]
print("parts of a hundred:", " ".join("%.1f" % p for p in part))
even = 100 / int(sys.argv[3])
sys.exit(len(part) != int(sys.argv[3]) or min(part) < 0.7 * even or max(part) > 1.3 * even)
PY
}

# h2 has a plane less than h1.
fewer_planes()
{
	kill "${daemon_pid[h2]}"
	wait "${daemon_pid[h2]}"
	planes=$1 start_daemon h2
}

set_up 4 --mtu 3498 --rate 200mbit --limit 300k
check "a server answers" server
load 30
measured "its planes are used equally" shares 4
measured "a plane loses its carrier" plane 0.75 2 --down
check "its paths are left" wait_until paths_up 6
measured "it is back" plane 1 2 --up
check "its paths are back" wait_until paths_up 8
measured "a plane becomes a black hole" plane 0.75 3 --blackhole
check "its paths are left" wait_until paths_up 6
measured "it is back" plane 1 3 --no-blackhole
check "its paths are back" wait_until paths_up 8
measured "a route is withdrawn" no_route 0.75 1
check "its paths say so" wait_until reason_is 2 "no route"
measured "the route is back" route_again 1 1
check "its paths are back" wait_until paths_up 8
measured "the peer's interface gets another address" new_address 1 4 77
check "its paths lead there" wait_until paths_to 10.4.0.77
check "all paths are up" wait_until paths_up 8
check "all bytes are right" all_right

check "a daemon with three planes" fewer_planes 3
check "a server answers" server
load 3
measured "the three planes are used equally" shares 3
check "all bytes are right" all_right
finish
