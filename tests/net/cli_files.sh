#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce send and recv: real trees arrive whole, with and without loss; what must not be written is not;
# whoever dies is noticed, and nothing half done stays.
# shellcheck source-path=SCRIPTDIR source=cli_lib.sh
. "$(dirname "$0")/cli_lib.sh"

src=$work/src
dst=$work/dst

make_tree()
{
	local i
	mkdir -p "$src"/{deep/er/est,empty,many,"spa ce"}
	head -c 30000000 /dev/urandom >"$src/big"
	: >"$src/zero"
	printf x >"$src/one"
	# around the block of 1 MiB
	for i in 1048570 1048571 1048572 1048576 1048577; do
		head -c $i /dev/urandom >"$src/deep/$i"
	done
	for ((i = 0; i < 2000; i++)); do
		echo "file $i" >"$src/many/$i"
	done
	echo y >"$src/spa ce/ñ"$'\n'"x"
	ln -s ../one "$src/deep/link"
	ln -s nowhere "$src/dangling"
	chmod 0751 "$src/deep"
	chmod 0600 "$src/one"
	touch -d '2001-02-03 04:05:06.789' "$src/deep/er" "$src/zero"
}

# Names, kinds, modes, targets; times of all but links; contents.
facts()
{
	(cd "$1" && find . -mindepth 1 ! -type l -printf '%P %y %m %T@\n' -o -printf '%P %y %l\n' | sort &&
		find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

receive()
{
	rm -rf "$dst"
	mkdir "$dst"
	# The file must be new before the receiver runs: `listening` reads it.
	: >"$work/recv"
	spawn h2 recv -d "$dst" "$@" 2>"$work/recv" >"$work/recv.out"
	receiver=$!
	wait_until listening h2 receiving recv
}

whole_tree()	# address options
{
	local address=$1
	shift
	receive --once || return 1
	on h1 send -q "$@" "$src/" "$address" || return 1
	wait "$receiver" || { cat "$work/recv"; return 1; }
	diff <(facts "$src") <(facts "$dst") | head -20
	[ "${PIPESTATUS[0]}" = 0 ]
}

no_leftovers()
{
	local left
	left=$(find "$dst" -name '.mroce-*' -o -name huge)
	[ -z "$left" ] || { echo "left: $left"; return 1; }
}

named_folder()
{
	receive || return 1
	on h1 send -q "$src/many" "$src/one" 10.1.0.2 &&
		diff -r "$src/many" "$dst/many" && cmp "$src/one" "$dst/one"
}

overwrites()
{
	echo different >"$dst/one"
	on h1 send -q "$src/one" 10.1.0.2 && cmp "$src/one" "$dst/one"
}

evil_links()
{
	ln -s /etc "$src/evil"
	ends_with 1 on h1 send -q "$src" 10.1.0.2
	local status=$?
	rm "$src/evil"
	[ ! -e "$dst/src/evil" ] && cmp "$src/big" "$dst/src/big" && return $status
}

door()
{
	mkdir -p "$work/outside" && rm -rf "$dst/deep" && ln -s "$work/outside" "$dst/deep"
	ends_with 1 on h1 send -q "$src/deep" 10.1.0.2 || return 1
	[ -z "$(ls -A "$work/outside")" ] && rm "$dst/deep"
}

at_once()
{
	local a b
	spawn h1 send -q "$src/big" 10.1.0.2
	a=$!
	spawn h1 send -q "$src/many" 10.1.0.2
	b=$!
	wait $a && wait $b && cmp "$src/big" "$dst/big" && diff -r "$src/many" "$dst/many"
}

summary_json()
{
	local text
	text=$(on h1 -j send "$src/one" "$src/zero" 10.1.0.2) || return 1
	echo "$text"
	[ "$(json 'd["files"], d["bytes"], d["result"], d["failed"]' <<<"$text")" = "(2, 1, 'ok', 0)" ]
}

# Of this very sender: connections that were cut off before may still be on their way out.
transfer_runs()
{
	[ "$(on h1 -j show conn | json "any(c['owner_pid'] == $sender and c['tx_bytes'] > 1e7 for c in d['connections'])")" = True ]
}

# A client of another protocol is dropped, told why, and harms nobody.
strangers()
{
	ends_with 1 on h1 perf -n 1 --service 7001 10.1.0.2 || return 1
	wait_until grep -q "not the file protocol" "$work/recv" || { cat "$work/recv"; return 1; }
	on h1 send -q "$src/one" 10.1.0.2 && cmp "$src/one" "$dst/one" || return 1
	spawn h2 perf -s 2>"$work/perf"
	wait_until grep -q answering "$work/perf" || return 1
	ends_with 1 on h1 send --service 7002 "$src/one" 10.1.0.2 &&
		wait_until grep -q "does not speak" "$work/perf" && on h1 perf -n 1 10.1.0.2
}

start_huge()
{
	truncate -s 5G "$work/huge"
	spawn h1 send -q "$work/huge" 10.1.0.2 2>"$work/send"
	sender=$!
	wait_until transfer_runs || { cat "$work/send" "$work/recv"; return 1; }
}

interrupted()
{
	start_huge || return 1
	kill -INT "$sender"
	ends_with 1 wait "$sender" && wait_until no_leftovers && grep -q interrupted "$work/send"
}

sender_killed()
{
	start_huge || return 1
	kill -9 "$sender"
	wait "$sender" 2>/dev/null
	wait_until no_leftovers && grep -q "broke off" "$work/recv"
}

receiver_killed()
{
	start_huge || return 1
	kill -9 "$receiver"
	wait "$receiver" 2>/dev/null
	ends_with 1 wait "$sender" && cat "$work/send" && grep -q "broke off" "$work/send"
}

receiver_interrupted()
{
	receive && start_huge || return 1
	kill -INT "$receiver"
	ends_with 1 wait "$receiver" && no_leftovers && ends_with 1 wait "$sender"
}

daemon_killed()
{
	receive --once && start_huge || return 1
	kill -9 "${daemon_pid[h2]}"
	ends_with 1 wait "$receiver" && ends_with 1 wait "$sender" || return 1
	grep -q "local mroced is gone" "$work/recv" && no_leftovers && start_daemon h2
}

set_up 2 --mtu 3498
make_tree
check "a tree arrives whole" whole_tree 10.1.0.2
check "over IPv6, with SHA-256, on one stream" whole_tree fd00:1::2 --sha256 --streams 1
F set --loss 5 --reorder 1 --dup 1 --corrupt 1 >/dev/null
check "at 5 % loss with reordering, duplicates and corruption" whole_tree 10.1.0.2
F set --loss 0 --reorder 0 --dup 0 --corrupt 0 >/dev/null
check "a folder keeps its name, beside a file" named_folder
check "what is there is replaced" overwrites
check "a link to an absolute path is refused, the rest arrives" evil_links
check "a link in the destination is not followed" door
check "two senders at once" at_once
check "summary as JSON" summary_json
check "nobody listens: said, with what to start" \
	says "mroce recv --service 4711" on h1 send --service 4711 "$src/one" 10.1.0.2
check "no such file is an error" ends_with 1 on h1 send "$work/none" 10.1.0.2
check "no host is misuse" ends_with 2 on h1 send "$src/one"
check "strangers to the protocol are dropped" strangers
check "SIGINT to the sender: nothing half done stays" interrupted
check "kill -9 of the sender: neither" sender_killed
check "kill -9 of the receiver ends the sender" receiver_killed
check "SIGINT to the receiver ends both" receiver_interrupted
check "kill -9 of the receiver's daemon ends both" daemon_killed
check "and afterwards all works again" whole_tree 10.1.0.2
finish
