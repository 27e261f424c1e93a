# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Rooms of scripts/bench: plots, and what goes into the documentation.

plots_made=()

# NAME: gnuplot commands from standard input make $OUT/NAME.svg.
draw()
{
	{
		echo 'set terminal svg size 720,420 background "white"'
		echo "set output '$OUT/$1.svg'"
		echo 'set grid; set key outside bottom horizontal; set yrange [0:*]'
		cat
	} | gnuplot
	plots_made+=("$1.svg")
	say "  plot: $OUT/$1.svg"
}

# MEASUREMENT TITLE
plot_loss()
{
	local points=$OUT/$1.dat
	tests/fabric/benchtable plot "$OUT/samples.tsv" "$1" >"$points"
	[ "$(wc -l <"$points")" -gt 1 ] || { rm -f "$points"; return 0; }
	draw "$1" <<-END
		set title "$2"
		set xlabel "random loss, %"
		set ylabel "goodput, Gbit/s"
		plot "$points" using 1:2 with linespoints lw 2 title "mroce", "" using 1:3 with linespoints lw 2 title "best TCP"
	END
}

# MEASUREMENT RUN WIDTH [FLOWS]: of a run that keep_run has kept; prints the file.
curve()
{
	local file=$OUT/$1.$2.curve
	tests/fabric/flowstat curve "$OUT/$1.$2.json" "$OUT/$1.$2.tsv" "${@:3}" >"$file"
	echo "$file"
}

# RATE CASE
plot_failure()
{
	local run=plane.$1 case=$2 ours tcp
	[ -e "$OUT/$run.$case.mroce.tsv" ] || return 0
	ours=$(curve "$run" "$case.mroce" 4)
	tcp=$(curve "$run" "$case.TCP" 4)
	draw "$run.$case" <<-END
		set title "One of $KEPT_PLANES planes of $1 fails at 0 ($([ "$case" = silent ] && echo "in silence" || echo "link down"))"
		set xlabel "ms"
		set ylabel "goodput, Gbit/s"
		set xrange [-100:200]
		plot "$ours" using 1:2 with lines lw 2 title "mroce", "$tcp" using 1:2 with lines lw 2 title "TCP cubic, one on each plane"
	END
}

# RUN TITLE: the rate of each sender.
plot_incast()
{
	local file flows
	[ -e "$OUT/incast.$1.tsv" ] || return 0
	flows=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["flows"]))' "$OUT/incast.$1.json")
	file=$(curve incast "$1" 20 "0-$((flows - 1))")
	draw "incast.$1" <<-END
		set title "$2: what each of $flows has brought through, $SHARE_RATE"
		set xlabel "ms"
		set ylabel "goodput, Gbit/s"
		unset key
		plot for [i=2:$((flows + 1))] "$file" using 1:i with lines notitle
	END
}

plots()
{
	local rate case
	command -v gnuplot >/dev/null || { say "gnuplot is not installed: no plots"; return 0; }
	plot_loss loss "One plane of unlimited speed, MTU $MTU"
	for rate in $KEPT_RATES; do
		plot_loss "kept.$rate" "$KEPT_PLANES planes of $rate, MTU $MTU"
		for case in link silent; do
			plot_failure "$rate" $case
		done
	done
	for case in 8 32; do
		plot_incast "$case.mroce" "mroce, incast $case:1"
		plot_incast "$case.TCP-cubic" "TCP cubic, incast $case:1"
	done
}

write_docs()
{
	local plot
	mkdir -p docs/plots
	{
		echo "# Measured figures"
		echo
		echo "Written by \`$COMMAND\` on $about."
		echo "Medians of $reps runs of $seconds s that took turns with TCP's; other machines give other figures, the ratios"
		echo "are what to look at. What is measured and how: \`scripts/bench --help\`; the targets: \`tests/fabric/targets\`."
		echo "The same promises in the simulator, free of what this machine's CPUs can do: [simulated.md](simulated.md)."
		echo
		tests/fabric/benchtable markdown "$OUT/samples.tsv"
		[ ${#plots_made[@]} -eq 0 ] || printf '\n## Plots\n'
		for plot in ${plots_made[@]+"${plots_made[@]}"}; do
			printf '\n![%s](plots/%s)\n' "${plot%.svg}" "$plot"
			cp "$OUT/$plot" docs/plots/
		done
	} >docs/measured.md
	say "written: docs/measured.md, docs/plots/"
}
