#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mroce collective: every operation, columns, JSON, files of hosts, and what it says when something is wrong. No figure is judged.
# shellcheck source-path=SCRIPTDIR source=coll_lib.sh
. "$(dirname "$0")/coll_lib.sh"

mroce() {	# rank arguments...
	on "h$(($1 + 1))" timeout -k 5 60 "$build/mroce" --socket "$(sock "h$(($1 + 1))")" "${@:2}"
}

# On all hosts; what rank 0 prints is in $work/out.
together() {	# arguments of mroce
	local r jobs=() good=0
	for ((r = 1; r < ranks; r++)); do
		mroce "$r" "$@" >"$work/out$r" 2>&1 &
		jobs+=($!)
	done
	mroce 0 "$@" >"$work/out" 2>&1 || good=1
	for r in "${jobs[@]}"; do
		wait "$r" || good=1
	done
	cat "$work"/out*
	return $good
}

operation() {	# name options
	together -j collective -n 3 -w 1 "${@:2}" "$1" "${hosts[@]}" || return 1
	python3 - "$work/out" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
for r in d["results"]:
    assert r["wrong"] == 0 and r["missing_bytes"] == 0, r
    assert r["error"] < 1e-2, r
    assert 0 < r["time_min_us"] <= r["time_median_us"] <= r["time_99_us"] <= r["time_max_us"], r
    assert r["algbw_gbyte_per_s"] > 0 or r["size"] == 0, r
assert len(d["hosts"]) == 4
PY
}

from_file() {
	printf '# a list\n%s\n\n  %s  # the second\n%s\n%s\n' "${hosts[@]}" >"$work/list"
	together collective -b 1K -e 4K --hosts "$work/list" all-reduce || return 1
	grep -q '#wrong' "$work/out" && equal "$(grep -vc '^#' "$work/out")" 3 "lines of figures"
}

complains() {	# status words arguments
	local got
	mroce 0 collective "${@:3}" >"$work/out" 2>&1
	got=$?
	cat "$work/out"
	equal "$got" "$1" "exit status" && grep -qF -- "$2" "$work/out"
}

check "fabric and daemons" ranks_up 4
for name in all-reduce reduce-scatter all-gather all-to-all broadcast; do
	check "$name" operation $name -b 0 -e 0
	check "$name, float32" operation $name -b 1000 -e 1000000 -f 10
	check "$name, bfloat16" operation $name -d bfloat16 -o average -b 100001
done
check "all-reduce, int32 maximum" operation all-reduce -d int32 -o max
check "all-reduce, float16, ring" operation all-reduce -d float16 --algorithm ring
check "all-reduce, transformed" operation all-reduce --hadamard -o average -b 2M
check "all-reduce, transformed, float16" operation all-reduce --hadamard -d float16 -o average -b 100001
check "reduce-scatter, transformed, bfloat16" operation reduce-scatter --hadamard -d bfloat16 -b 100001
check "broadcast from another root" operation broadcast -r 3
check "hosts from a file" from_file
check "a misspelt collective" complains 2 "give all-reduce" all-reduse "${hosts[@]}"
check "no size" complains 2 "--maxbytes 1024 is less than --minbytes 4096" -b 4K -e 1K all-reduce "${hosts[@]}"
check "no hosts" complains 2 "needs HOSTs" all-reduce
check "no host of ours" complains 1 "give its --rank" all-reduce 10.1.0.2 10.1.0.3
check "a root that is none" complains 1 "ranks 0 to 3" broadcast -r 4 "${hosts[@]}"
check "an empty file" complains 1 "no hosts are in it" --hosts /dev/null all-reduce
check "nobody else" complains 1 "has not come within 1000 ms" --timeout 1 all-reduce "${hosts[@]}"
finish
