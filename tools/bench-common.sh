# SPDX-License-Identifier: BSD-3-Clause
# What the benchmarks beside perftest share. Sourced by bash; uses its `device`.
# shellcheck shell=bash disable=SC2154

# perftest NAME SIZE ITERATIONS COLUMN OPTION…: the figure in that column of its last line. By events
# (-e) it waits for ever now and then: so it has a minute, and three tries.
perftest() {
    local size=$2 column=$4 server value='' try
    local command=(timeout 60 "$1" -d "$device" -x "${BENCH_GID_INDEX:-1}" -F -s "$size" -n "$3" "${@:5}")
    for try in 1 2 3; do
        ((try == 1)) || echo "bench: $1 ${*:5} did not end within a minute: once more" >&2
        "${command[@]}" >/dev/null 2>&1 &
        server=$!
        sleep 1
        value=$("${command[@]}" localhost 2>/dev/null |
            awk -v size="$size" -v column="$column" '$1 == size { value = $column } END { print value }')
        kill "$server" 2>/dev/null
        wait "$server"
        [[ -z $value ]] || break
    done
    echo "$value"
}

# Of the numbers on standard input, a line each; of an even count the lower.
median_of() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
