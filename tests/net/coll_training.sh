#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The short form of the training example: it runs reliably, with tolerance and over TCP, and learns; reliable mroce
# leaves the same weights everywhere. No time is judged.
set -u
cd "$(dirname "$0")/../.." || exit 1
[[ $EUID == 0 ]] || { echo "1..0 # SKIP needs root, for network namespaces and BPF"; exit 0; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tests=0 failures=0

check() {	# name command...
	tests=$((tests + 1))
	if "${@:2}" >"$out/check" 2>&1; then
		echo "ok $tests - $1"
	else
		failures=$((failures + 1))
		echo "not ok $tests - $1"
	fi
	sed 's/^/# /' "$out/check"
}

# The digits of python3-sklearn, or, without it, shapes of our own of the same form.
if [[ ! -r /usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz ]]; then
	echo "# python3-sklearn is not installed: made-up shapes instead of digits"
	awk 'BEGIN { srand(7); for (i = 0; i < 1000; i++) { d = i % 10; for (p = 0; p < 64; p++)
		printf "%d,", (p * (d + 3) % 17 + int(rand() * 5)) % 17; print d } }' >"$out/made"
	export DIGITS=$out/made
fi

learns() {	# mode loss: the loss of the last step is below that of the first
	awk '!/^#/ { if (!n++) first = $3; last = $3 } END { print "loss", first, "->", last; exit !(n == 8 && last < first) }' \
		"$out/r/$1-$2-1.txt"
}

same_weights() {
	# A mean of equals may be a rounding off.
	awk '/drift/ { print; exit !($5 < 1e-6) }' "$out/r/reliable-1-1.txt"
}

check "the short form" scripts/training --quick --rate none --out "$out/r"
for loss in 0 1; do
	for mode in reliable tol5 tcp; do
		check "$mode learns, loss $loss" learns $mode $loss
	done
done
check "reliable: weights are the same everywhere" same_weights
refused() {	# words options...
	local status
	scripts/training --quick --rate none --out "$out/refused" "${@:2}" >"$out/said" 2>&1
	status=$?
	cat "$out/said"
	[[ $status == 1 ]] && grep -qF -- "$1" "$out/said" && ! ls "$out"/refused/*.txt 2>/dev/null
}

# A run that came to no third step has no percentiles, and is no reason to end.
table_of_two_steps() {
	mkdir "$out/two" && head -n 2 <(grep -v '^#' "$out/r/tcp-0-1.txt") >"$out/two/tcp-0-1.txt" || return 1
	scripts/training --again --modes tcp --losses 0 --out "$out/two" 2>/dev/null | tee "$out/table"
	[[ ${PIPESTATUS[0]} == 0 ]] && grep -qE '^0 +tcp +2 +0\.[0-9]+ +- +- +- +- ' "$out/table"
}

check "a mode that there is not" refused "no mode tol7" --modes "reliable tol7"
check "a loss that there is not" refused "no loss much" --losses much
check "a table of two steps" table_of_two_steps
echo "1..$tests"
exit $((failures > 0))
