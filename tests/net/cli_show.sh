#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce show, doctor and detach against running, stopped and killed daemons.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

json_keys()
{
	local text
	text=$(on h1 show -j all) || return 1
	[ "$(json 'sorted(d)' <<<"$text")" = \
		"['config', 'connections', 'counters', 'daemon', 'errors', 'paths', 'ports', 'streams']" ] ||
		{ echo "$text"; return 1; }
}

connection_seen()
{
	local text id
	perf_server_up || return 1
	spawn h1 perf -D 50 10.1.0.2
	wait_until sh -c "'$MROCE' --socket '$work/h1.sock' -j show conn | grep -q 0x" || return 1
	id=$(on h1 -j show conn | json 'd["connections"][0]["id"]')
	text=$(on h1 show path "$id") || return 1
	echo "$text"
	# A head line and a line for each of eight paths.
	[ "$(wc -l <<<"$text")" = 9 ] && says "peer 10.1.0.2" on h1
}

doctor_line()	# status words arguments
{
	local status=$1 words=$2 text
	shift 2
	text=$(on h1 doctor "$@" 2>&1)
	echo "$text"
	grep "^$status" <<<"$text" | grep -qF -- "$words"
}

stale_socket()
{
	kill -9 "${daemon_pid[h1]}"
	wait "${daemon_pid[h1]}" 2>/dev/null
	ends_with 1 on h1 doctor && doctor_line FAIL "a socket left by one that ended"
}

detached()
{
	says "things removed" on h2 detach p1 || return 1
	doctor_line_on_h2=$(on h2 doctor)
	echo "$doctor_line_on_h2"
	grep -q "^FAIL.*its XDP program is gone" <<<"$doctor_line_on_h2"
}

no_program()
{
	! nsenter --net="/run/netns/mr-$fabric-h1" ip link show p1 | grep -w "prog/xdp"
}

# Every option a program has, it explains in its page.
documented()	# page program arguments
{
	local page=docs/man/$1 option status=0
	shift
	while read -r option; do
		grep -qF -- "*$option*" "$page" || { echo "$page does not name $option"; status=1; }
	done < <("$@" --help | sed -nE 's/^  (-.,|  ) +(--[a-z0-9-]+).*/\2/p')
	return $status
}

all_documented()
{
	local command status=0
	for command in show monitor top trace send recv perf ping collective doctor detach; do
		documented "mroce-$command.1.scd" "$MROCE" $command || status=1
	done
	documented mroce.1.scd "$MROCE" && documented mroced.8.scd "$MROCED" && return $status
}

# Every command line in README.md, docs and man pages gives the commands options that they have.
examples_exist()
{
	python3 - "$MROCE" "$MROCED" README.md docs/*.md docs/man/*.scd <<-'END'
	import re, subprocess, sys
	mroce, mroced, *files = sys.argv[1:]
	def told(*command):
	    text = subprocess.run([*command, "--help"], capture_output=True, text=True).stdout
	    return set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z0-9-]*", text))
	names = re.findall(r"^  ([a-z]+) ", subprocess.run([mroce, "--help"], capture_output=True, text=True).stdout, re.M)
	options = {name: told(mroce, name) | told(mroce) for name in names}
	options |= {"": told(mroce) | options["show"], "mroced": told(mroced)}
	seen = bad = 0
	for file in files:
	    for line in open(file):
	        for run in re.findall(r"(?<![\w/.@*-])(?<!-u )(?:(?:build|/usr/sbin)/)?(mroced?)((?: +[^\s`|;&*()<>]+)+)", line.split(" # ")[0]):
	            words = run[1].split()
	            name = run[0] if run[0] == "mroced" else next((w for w in words if w in names), "")
	            for word in words:
	                if not re.fullmatch(r"--?[A-Za-z][a-z0-9-]*", word):
	                    continue
	                seen += 1
	                if word not in options[name]:
	                    print(f"{file}: {run[0]}{run[1]}: no option {word}")
	                    bad += 1
	print(f"{seen} options in command lines")
	sys.exit(bad > 0 or seen < 40)
	END
}

completes()	# expected word...
{
	local expected=$1
	shift
	# shellcheck source=/dev/null
	. cli/mroce.bash-completion
	COMP_WORDS=("$MROCE" "$@")
	# shellcheck disable=SC2034
	COMP_CWORD=$#
	_mroce
	echo "${COMPREPLY[*]}"
	[ "${COMPREPLY[*]}" = "$expected" ]
}

set_up 1
check "summary" says "mroced" on h1
check "a port" says "10.1.0.1" on h1 show port
check "empty lists are said" says "no connections" on h1 show conn
check "JSON has every part" json_keys
check "dump: a line a counter" sh -c "[ \$('$MROCE' --socket '$work/h1.sock' show counters dump | grep -c '^counters	') -gt 20 ]"
check "a connection with its paths" connection_seen
check "unknown subject is misuse" ends_with 2 on h1 show nonsense
check "unknown command is misuse" ends_with 2 on h1 nonsense
check "every command explains itself" sh -c "for c in show monitor top trace send recv perf ping collective doctor detach; do '$MROCE' \$c --help | grep -q ^Usage: || exit 1; done"
check "every script explains itself" sh -c "for s in bench bench-tolerance demo deps fabric sim-figures training; do scripts/\$s --help | grep -q ^Usage: || exit 1; done"
check "every option is in its man page" all_documented
check "options of command lines in the documentation exist" examples_exist
check "completion of commands" completes "show send" s
check "completion of options" completes "--tx-depth --timeout" perf --t
check "completion behind --socket" completes "port path" --socket /x show p
check "no daemon: said, with what to start" says "systemctl start mroced" "$MROCE" --socket "$work/none" show
check "doctor is content with the port" doctor_line OK "XDP mode native"
check "doctor knows an interface that is not there" doctor_line FAIL "no such interface" nope
check "doctor sees a stale socket" stale_socket
check "kill -9 left no program" wait_until no_program
check "doctor sees what detach did" detached
check "detach of what has nothing" says "0 things removed" on h1 detach p1
check "detach of an unknown interface fails" ends_with 1 on h1 detach nope
finish
