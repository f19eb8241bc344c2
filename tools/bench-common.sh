# SPDX-License-Identifier: BSD-3-Clause
# What the benchmarks beside perftest share. Sourced by bash; uses its `device`.
# shellcheck shell=bash disable=SC2154

# perftest NAME SIZE ITERATIONS COLUMN OPTION…: the figure in that column of its last line.
perftest() {
    local size=$2 column=$4 server
    local command=("$1" -d "$device" -x "${BENCH_GID_INDEX:-1}" -F -s "$size" -n "$3" "${@:5}")
    "${command[@]}" >/dev/null 2>&1 &
    server=$!
    sleep 1
    "${command[@]}" localhost 2>/dev/null |
        awk -v size="$size" -v column="$column" '$1 == size { value = $column } END { print value }'
    wait "$server"
}

# Of the numbers on standard input, a line each; of an even count the lower.
median_of() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
