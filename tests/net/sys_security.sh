#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Daemons with the same pre-shared key, with different ones, and with none; where the key must not be seen.
# shellcheck source-path=SCRIPTDIR source=lib_daemon.sh
. "$(dirname "$0")/lib_daemon.sh"

mroce=$build/mroce
secret=a.very.secret.key.that.nobody.knows

on() {	# a|b arguments
	in_ns "$1" timeout 20 "$mroce" --socket "$work/$1.sock" "${@:2}"
}

pings() {
	app server in_ns b "$mroce" --socket "$work/b.sock" ping --server
	wait_until on a ping -c 3 10.77.0.2
	local rc=$?
	app_kill server
	return $rc
}

# The error is clear, and comes soon enough.
refused() {
	local text rc=0
	app server in_ns b "$mroce" --socket "$work/b.sock" ping --server
	text=$(on a ping -c 1 10.77.0.2 2>&1) && rc=1
	echo "$text"
	app_kill server
	grep -q "pre-shared key" <<<"$text" && return $rc
}

counted() {	# a|b reason
	on "$1" -j show counters | python3 -c "
import json, sys
rows = json.load(sys.stdin)['counters']
sys.exit(not any(r['name'] == '$2' and r['engine'] > 0 for r in rows))"
}

logged_once() {	# a|b
	equal "$(grep -c 'turned away' "$work/mroced.$1")" 1 "lines about it"
}

nowhere() {
	! grep -rqF "$secret" "$work/mroced.a" "$work/mroced.b" && ! on a show config | grep -qF "$secret" &&
		! on a -j show all | grep -qF "$secret" &&
		! tr '\0' ' ' <"/proc/${daemon[a]}/cmdline" | grep -qF "$secret"
}

stop_both() {
	mroced_stop a && mroced_stop b
}

will_not_start() {	# words arguments
	local text rc=0 words=$1
	shift
	text=$(in_ns a timeout 10 "$mroced" -i v0 --socket "$work/x.sock" "$@" 2>&1) && rc=1
	echo "$text"
	grep -qF -- "$words" <<<"$text" && ! grep -qF "$secret" <<<"$text" && return $rc
}

umask 077
echo "$secret" >"$work/key"
echo "another.$secret" >"$work/other"
printf '[security]\npsk = %s\n' "$secret" >"$work/conf"
cp "$work/key" "$work/open" && chmod 644 "$work/open"
cp "$work/conf" "$work/openconf" && chmod 644 "$work/openconf"
echo short >"$work/short"

net_up
check "a key others can read is refused" will_not_start "chmod 600" --psk-file "$work/open"
check "so is a configuration with a key" will_not_start "chmod 600" --config "$work/openconf"
check "so is a short key" will_not_start "16 to 1024 characters" --psk-file "$work/short"
check "a key that is not there" will_not_start "No such file" --psk-file "$work/nokey"
check "two keys" will_not_start "both psk and psk_file" --psk-file "$work/key" --config "$work/conf"
mroced_up a --psk-file "$work/key"
mroced_up b --config "$work/conf"
check "the same key, from a file and from the configuration" pings
check "the key is seen nowhere" nowhere
check "stop" stop_both
mroced_up a --psk-file "$work/key"
mroced_up b --psk-file "$work/other"
check "different keys" refused
check "counted" counted b AUTH_WRONG
check "logged once" logged_once b
check "stop" stop_both
mroced_up a
mroced_up b --psk-file "$work/key"
check "the initiator has none" refused
check "counted" counted b AUTH_MISSING
check "stop" stop_both
mroced_up a --psk-file "$work/key"
mroced_up b
check "the responder has none" refused
check "logged once" logged_once b
check "stop" stop_both
printf '[security]\ncookies_above = 0\n' >"$work/cookies"
mroced_up a
mroced_up b --config "$work/cookies"
check "cookies always" pings
check "counted" counted b TX_COOKIE
check "stop" stop_both
finish
