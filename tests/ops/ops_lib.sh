# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For the tests of operation: on top of sys_lib.sh, what was installed somewhere is used instead of what
# was built. Nothing is installed into the host's own folders and no unit is started there.
fabric=${fabric:-ops$$}
# shellcheck source-path=SCRIPTDIR source=../net/sys_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../net/sys_lib.sh"

# Another make's flags, as in `make check`, are not for ours.
unset MAKEFLAGS MFLAGS MAKELEVEL MROCE_SOCKET

has() {	# pattern command...: what the command prints has it
	local pattern=$1 text
	shift
	text=$("$@" 2>&1)
	grep -q -e "$pattern" <<<"$text" || { echo "not there: $pattern, but:"; echo "$text"; return 1; }
}

status_is() {	# status command...
	local want=$1 got=0
	shift
	"$@" || got=$?
	equal "$got" "$want" "exit status"
}

# sys_lib.sh and fabric then use these programs.
use_installed() {	# bin-folder sbin-folder
	local tests
	tests=$(realpath "$build/tests")
	rm -rf "$work/installed"
	mkdir -p "$work/installed"
	ln -s "$1/mroce" "$2/mroced" "$tests" "$work/installed/"
	build=$work/installed
}

pings() {
	on h1 "$build/mroce" --socket "$(sock h1)" ping -c 3 10.1.0.2
}

# Everything below a folder, one a line, as for a comparison before and after.
files_of() {	# folder
	(cd "$1" && find . ! -type d | sort)
}
