#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Tolerant collectives: the account is exact, means have no bias, what was there is right, reliable ones beside them stay
# so; with loss and bursts something is missing.
# shellcheck source-path=SCRIPTDIR source=coll_lib.sh
. "$(dirname "$0")/coll_lib.sh"

missing_in_all() {
	sed -n 's/^rank [0-9]*: missing \([0-9]*\) bytes$/\1/p' "$work"/r[0-9]* | awk '{ sum += $1 } END { print sum + 0 }'
}

loses_some() {
	run_ranks tolerant || return 1
	(($(missing_in_all) > 0)) || { echo "nothing was missing"; return 1; }
}

check "fabric and daemons" ranks_up 4
check "the fabric loses nothing" run_ranks tolerant
F set --loss 1 >/dev/null 2>&1
check "1 % loss" loses_some
F set --clear --loss 2 --burst-mean 8 >/dev/null 2>&1
check "2 % loss in bursts" loses_some
check "they go" ranks_down
check "fabric and daemons, 8 hosts" ranks_up 8
F set --loss 2 --reorder 1 --dup 1 >/dev/null 2>&1
check "8 ranks, 2 % loss, reordering, duplicates" loses_some
check "no connection is left" wait_until no_connection_is_left
finish
