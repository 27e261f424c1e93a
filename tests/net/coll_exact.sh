#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Every collective, every type, odd sizes, on 2, 4 and 8 hosts, compared with the exact result; with loss, too. What has to
# fail does, everywhere.
# shellcheck source-path=SCRIPTDIR source=coll_lib.sh
. "$(dirname "$0")/coll_lib.sh"

disagreement_is_seen() {
	ranks_start disagree && ranks_end 3 60
}

check "fabric and daemons, 2 hosts" ranks_up 2
check "2 ranks" run_ranks check
check "ranks that do not agree" disagreement_is_seen
check "they go" ranks_down
check "fabric and daemons, 4 hosts" ranks_up 4
check "4 ranks" run_ranks check
check "a rank that comes late" run_ranks late
check "ranks that do not agree, 4 of them" disagreement_is_seen
F set --loss 5 >/dev/null 2>&1
check "4 ranks, 5 % loss" run_ranks check
check "no connection is left" wait_until no_connection_is_left
check "they go, too" ranks_down
check "fabric and daemons, 8 hosts" ranks_up 8
check "8 ranks" run_ranks check
F set --loss 5 >/dev/null 2>&1
check "8 ranks, 5 % loss" run_ranks check
check "no connection is left of 8" wait_until no_connection_is_left
finish
