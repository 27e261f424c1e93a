# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Parts of a document that a command writes: between the lines <!-- NAME --> and <!-- /NAME -->.

# Puts standard input there. Nothing is changed if the lines are not there.
put_between()	# file name
{
	local file=$1 name=$2 text
	grep -qx "<!-- $name -->" "$file" && grep -qx "<!-- /$name -->" "$file" ||
		{ echo "$file has no lines <!-- $name --> and <!-- /$name -->" >&2; return 1; }
	text=$(cat; echo .)
	NAME=$name TEXT=${text%.} awk '
		$0 == "<!-- /" ENVIRON["NAME"] " -->" { away = 0 }
		!away
		$0 == "<!-- " ENVIRON["NAME"] " -->" { printf "%s", ENVIRON["TEXT"]; away = 1 }' "$file" >"$file.new" &&
		cat "$file.new" >"$file"
	rm -f "$file.new"
}
