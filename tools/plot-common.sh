# SPDX-License-Identifier: BSD-3-Clause
# What the plot scripts share. Sourced by bash.
# shellcheck shell=bash

self=${0##*/}

# read_arguments CSV [OUTPUT]: sets `csv`, and `output`, which gets .svg and .png appended.
read_arguments() {
    csv=${1:-} output=${2:-${csv%.csv}}
    if (($# < 1 || $# > 2)) || [[ $csv == -* ]]; then
        echo "usage: tools/$self FILE.csv [OUTPUT]    writes OUTPUT.svg and OUTPUT.png (default: FILE)" >&2
        exit 2
    fi
    [[ -r $csv ]] || { echo "$self: $csv: cannot be read" >&2; exit 1; }
}

# need_head LINE: the file begins with that line, and has more.
need_head() {
    [[ $(head -n 1 "$csv") == "$1" && $(wc -l <"$csv") -gt 1 ]] || {
        echo "$self: $csv: expected a first line '$1', and figures" >&2
        exit 1
    }
}

need_gnuplot() {
    command -v gnuplot >/dev/null && return
    echo "$self: gnuplot is missing (Debian package: gnuplot-nox)" >&2
    exit 1
}

# Colours that are told apart in print and by those who see fewer of them; a mark for each as well.
# shellcheck disable=SC2034 # for the scripts
plot_styles='
set style line 1 lc rgb "#0072b2" lw 2 pt 7 ps 0.6
set style line 2 lc rgb "#d55e00" lw 2 pt 5 ps 0.6
set style line 3 lc rgb "#009e73" lw 2 pt 9 ps 0.7
set style line 4 lc rgb "#cc79a7" lw 2 pt 13 ps 0.7
set style line 5 lc rgb "#7f7f7f" lw 2 pt 11 ps 0.7
set grid xtics ytics back lt 1 lw 1 lc rgb "#cccccc"
set border 3
set tics nomirror
set tics font ",10"
set logscale xy
set format y "%.10g"
set xlabel "bytes" offset 0,0.5
set datafile separator ","
'

# size_tics FIRST: gnuplot's tics for sizes in bytes. A log axis has no 0: it stands at 0.5. FIRST is 0
# or 1.
size_tics() {
    local size label tics=''
    (($1 > 0)) || tics='"0" 0.5'
    for size in 1 8 64 512 4096 32768 262144 2097152 16777216 134217728; do
        label=$size
        ((size < 1024)) || label=$((size / 1024))k
        ((size < 1048576)) || label=$((size / 1048576))M
        tics+=${tics:+, }"\"$label\" $size"
    done
    printf 'set xtics (%s)\nset xrange [%s:8<*]\n' "$tics" "$(($1 ? 8 : 4))e-1"
}

# draw WIDTH HEIGHT: the gnuplot commands of standard input, as both files.
draw() {
    local commands
    commands=$(cat)
    {
        echo "set terminal svg size $1,$2 font 'Helvetica,12' background rgb 'white'"
        echo "set output '$output.svg'"
        printf '%s\n' "$commands"
        echo 'unset output; reset'
        echo "set terminal pngcairo size $1,$2 font 'Helvetica,11' background rgb 'white'"
        echo "set output '$output.png'"
        printf '%s\n' "$commands"
    } | gnuplot 2> >(grep -v 'difficulty making room' >&2) || { echo "$self: gnuplot failed" >&2; exit 1; }
    echo "$output.svg $output.png"
}
