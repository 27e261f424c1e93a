#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The configuration as an administrator meets it: errors that tell what to mend, every key in the manual
# and in the shipped file, options above the file, and `mroce show config`.
# shellcheck source-path=SCRIPTDIR source=ops_lib.sh
. "$(dirname "$0")/ops_lib.sh"

conf=$work/mroced.conf
page=docs/man/mroced.conf.5.scd

write_conf() {	# lines
	printf '%s\n' "$@" >"$conf"
}

# Refused with status 2, by --check-config and by a real start alike, and each of the words is said.
refused() {	# words lines...
	local words=$1 word how text status
	shift
	write_conf "$@"
	for how in --check-config --verbose; do
		status=0
		text=$("$build/mroced" $how --config "$conf" --socket "$work/x.sock" 2>&1) || status=$?
		equal "$status" 2 "exit status of $how" || { echo "$text"; return 1; }
		for word in $words; do
			grep -qF -e "${word//_/ }" -e "$word" <<<"$text" || { echo "$word is not in: $text"; return 1; }
		done
	done
	echo "$text"
}

option_refused() {	# words options...
	local words=$1 word text status=0
	shift
	text=$("$build/mroced" --check-config "$@" 2>&1) || status=$?
	equal "$status" 2 "exit status" || return 1
	for word in $words; do
		grep -qF -e "${word//_/ }" <<<"$text" || { echo "$word is not in: $text"; return 1; }
	done
}

accepted() {	# lines
	write_conf "$@"
	has "configuration is fine" "$build/mroced" --check-config --config "$conf"
}

# "section key minimum maximum default", - for what a key has not.
keys() {
	"$build/mroced" --help | sed -nE '
		s/^  \[([a-z]+)\] ([a-z_]+): .*\(([0-9]+) to ([0-9]+), default ([0-9]+)\)$/\1 \2 \3 \4 \5/p; t
		s/^  \[([a-z]+)\] ([a-z_]+): .*\((yes or no, )?default (.*)\)$/\1 \2 - - \4/p; t
		s/^  \[([a-z]+)\] ([a-z_]+): .*/\1 \2 - - -/p'
}

# What the page says of a key, from its line to the next key.
entry() {	# section key
	awk -v head="# [$1]" -v key="*$2*" '/^# / { inside = ($0 == head) } inside && /^\*/ { found = ($1 == key) } inside && found' "$page"
}

every_key_documented() {
	local section key min max initial text bad=0 count=0
	while read -r section key min max initial; do
		count=$((count + 1))
		text=$(entry "$section" "$key")
		[[ -n $text ]] || { echo "$page: nothing about [$section] $key"; bad=1; continue; }
		[[ $min == - ]] || grep -qF "$min .. $max" <<<"$text" || { echo "$key: $min .. $max is not said"; bad=1; }
		[[ $initial == - ]] || grep -q "Default _\?$initial" <(tr -s '\n\t' ' ' <<<"$text") ||
			{ echo "$key: default $initial is not said"; bad=1; }
	done < <(keys)
	((count > 25)) || { echo "only $count keys"; bad=1; }
	return $bad
}

# The other way round: nothing is documented that does not exist.
nothing_else_documented() {
	local section key bad=0
	while read -r section key; do
		keys | grep -q "^$section $key " || { echo "$page tells about [$section] $key, which does not exist"; bad=1; }
	done < <(awk '/^# \[/ { gsub(/[][]/, "", $2); section = $2; next } /^# / { section = "" }
		section && /^\*/ { gsub(/\*/, "", $1); print section, $1 }' "$page")
	return $bad
}

shipped_file_is_complete() {
	local section key min max initial bad=0
	while read -r section key min max initial; do
		awk -v head="[$section]" -v key="#$key" -v initial="$initial" '
			/^\[/ { inside = ($0 == head) }
			inside && $1 == key && $2 == "=" && (initial == "-" || $3 == initial) { found = 1 }
			END { exit !found }' daemon/mroced.conf ||
			{ echo "daemon/mroced.conf: #$key = $initial is not under [$section]"; bad=1; }
	done < <(keys)
	return $bad
}

# Its commented values are the defaults: with all of them in force nothing changes.
shipped_values_are_defaults() {
	local default
	grep -vE '^#[a-z_]+ =$|^#interface = eth1' daemon/mroced.conf | sed -E 's/^#([a-z_]+ =)/\1/; s/^interface = .*/interface = p1/' >"$conf"
	interfaces=()
	daemon_up h1 --config "$conf" || return 1
	default=$(on h1 "$build/mroce" --socket "$(sock h1)" show config dump)
	daemon_stop h1
	interfaces=(p1)
	daemon_up h1 || return 1
	on h1 "$build/mroce" --socket "$(sock h1)" show config dump | cut -f -3 >"$work/without"
	daemon_stop h1
	grep -q "^config	" "$work/without" && diff <(cut -f -3 <<<"$default" | grep ^config) <(grep ^config "$work/without")
}

shows_origins() {
	local text
	write_conf '# a comment' '[ports]' 'interface = p1' 'ring_size = 512' 'udp_port = 5000' '[transport]' 'paths = 4'
	interfaces=()
	daemon_up h1 --config "$conf" --udp-port 5001 --no-hints || return 1
	text=$(on h1 "$build/mroce" --socket "$(sock h1)" show config)
	daemon_stop h1
	echo "$text"
	for line in "ports.interface p1 $conf:3" "ports.ring_size 512 $conf:4" "ports.udp_port 5001 --udp-port" \
		"transport.paths 4 $conf:7" "transport.hints no --no-hints" "transport.cc ecn default"; do
		awk '{ $1 = $1; print }' <<<"$text" | grep -qxF "$line" || { echo "no line: $line"; return 1; }
	done
}

check "a key that does not exist: file, line, key, what there is" \
	refused "$conf:3: udp_prot [ports] udp_port" '[ports]' 'interface = p1' 'udp_prot = 1'
check "a section that does not exist" refused "$conf:2: [prots] transport" '[prots]' 'udp_port = 1'
check "a number out of range" refused "$conf:2: [ports] udp_port '70000' 1_to_65535" '[ports]' 'udp_port = 70000'
check "not a number" refused "$conf:3: [transport] paths 'many' 1_to_16" '' '[transport]' 'paths = many'
check "not a power of two" refused "$conf:2: ring_size '100' power_of_two" '[ports]' 'ring_size = 100'
check "neither yes nor no" refused "$conf:2: nack 'perhaps' yes_or_no" '[ports]' 'nack = perhaps'
check "no such congestion control" refused "$conf:2: cc 'reno' ecn" '[transport]' 'cc = reno'
check "no such kind of port" refused "$conf:2: port 'dpdk' afxdp" '[ports]' 'port = dpdk'
check "not a line of a configuration" refused "$conf:2:" '[ports]' 'interface p1'
check "no interface" refused "interface" '[transport]' 'paths = 4'
check "a file that does not exist" status_is 2 "$build/mroced" --check-config --config "$work/none"
check "a key that others could read" refused "chmod_600 $conf" '[ports]' 'interface = p1' '[security]' \
	'psk = 0123456789abcdef'
check "a bad option names itself and what it takes" option_refused "--paths 1_to_16" -i p1 --paths 99
check "all is well" accepted '[ports]' 'interface = p1 p2@10.2.0.1' 'port = auto' '[quota]' 'memory_mib = 100'
check "every key is in the manual, with range and default" every_key_documented
check "the manual has no other keys" nothing_else_documented
check "every key is in the shipped file" shipped_file_is_complete
fabric_up 1 || exit 1
check "whose values are the defaults" shipped_values_are_defaults
check "show config tells where each value came from" shows_origins
finish
