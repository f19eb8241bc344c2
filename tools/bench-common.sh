# SPDX-License-Identifier: BSD-3-Clause
# What the benchmarks share. Sourced by bash; uses its `device`.
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

# Of lines of several of verbena-perf's CSVs on standard input: a CSV like theirs of the medians, in
# the order in which they came first.
perf_medians() {
    awk -F, '
        function median(key, column,   i, j, t, v, m) {
            m = n[key, column]
            for (i = 1; i <= m; i++) v[i] = value[key, column, i]
            for (i = 2; i <= m; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
            return m ? v[int((m + 1) / 2)] : ""
        }
        { key = $1 "," $2 "," $3; if (!(key in seen)) { seen[key] = 1; order[++keys] = key }
          for (c = 4; c <= 7; c++) if ($c != "") value[key, c, ++n[key, c]] = $c + 0 }
        END {
            print "transport,test,bytes,us,us_p99,mb_s,msgs_s"
            for (k = 1; k <= keys; k++) {
                printf "%s", order[k]
                for (c = 4; c <= 7; c++) printf ",%s", median(order[k], c)
                print ""
            }
        }'
}
