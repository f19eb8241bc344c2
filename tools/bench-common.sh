# SPDX-License-Identifier: BSD-3-Clause
# What the benchmarks share. Sourced by bash; uses its `device`.
# shellcheck shell=bash disable=SC2154

# perftest NAME SIZE ITERATIONS COLUMN OPTION…: the figure in that column of its last line, or nothing. By
# events (-e) it waits for ever now and then: so it has a minute, and three tries.
perftest() {
    local size=$2 column=$4 server value='' try
    local command=(timeout 60 "$1" -d "$device" -x "${BENCH_GID_INDEX:-1}" -F -s "$size" -n "$3" "${@:5}")
    for try in 1 2 3; do
        ((try == 1)) || echo "bench: $1" "${@:5}" "gave no figure within a minute: once more" >&2
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

# What UCX needs to run on soft-RoCE, in the array `ucx`.
ucx_options() {
    ucx=(-x "UCX_NET_DEVICES=$device:1" -x "UCX_TLS=rc_v,self" -x UCX_IB_GID_INDEX=0)
}

# mpi_path NAME [RANKS [BTL]]: sets `path`, mpirun's options for Open MPI over BTL (verbena,self; names verbena and
# tuned), UCX, libfabric (ofi) or TCP, for so many ranks (2), with what the others need to run on soft-RoCE.
mpi_path() {
    local ucx
    case $1 in
        verbena | tuned) path=(--mca pml ob1 --mca btl "${3:-verbena,self}") ;;
        ucx) ucx_options && path=(--mca pml ucx "${ucx[@]}") ;;
        ofi) path=(--mca pml cm --mca mtl ofi -x "FI_UNIVERSE_SIZE=${2:-2}"
            --mca mtl_ofi_provider_include "verbs;ofi_rxm") ;;
        tcp) path=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include lo) ;;
    esac
}

# Of the numbers on standard input, a line each; of an even count the lower.
median_of() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# perf_tests TESTS: moves what `options` say of --test to the array `tests`, a word each; TESTS, with commas
# between, if they say nothing.
perf_tests() {
    local list=$1 i
    for ((i = 0; i + 1 < ${#options[@]}; i++)); do
        [[ ${options[i]} == --test ]] || continue
        list=${options[i + 1]}
        options=("${options[@]:0:i}" "${options[@]:i + 2}")
        break
    done
    [[ $list != all ]] || list=latency,bandwidth,rate,put,get,incast,overlap,idle
    IFS=, read -ra tests <<<"$list"
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
          for (c = 4; c <= 8; c++) if ($c != "") value[key, c, ++n[key, c]] = $c + 0 }
        END {
            print "transport,test,bytes,us,us_p99,mb_s,msgs_s,percent"
            for (k = 1; k <= keys; k++) {
                printf "%s", order[k]
                for (c = 4; c <= 8; c++) printf ",%s", median(order[k], c)
                print ""
            }
        }'
}

# perf_table TEST COLUMN UNIT LESS PATH RIVALS OTHERS: of perf_medians' CSV on standard input one test as a
# Markdown table over the sizes, a column for PATH, each of RIVALS and of OTHERS. The last column is PATH by
# the best of RIVALS: below 1 it says that PATH is better. LESS is 1 where less is better.
perf_table() {
    awk -F, -v test="$1" -v column="$2" -v unit="$3" -v less="$4" -v ours="$5" -v rivals="$6" -v others="$7" '
        $2 == test && $column != "" { value[$1, $3] = $column; if (!($3 in seen)) { seen[$3] = 1; size[++sizes] = $3 } }
        function cell(v) { return v == "" ? "–" : sprintf(v < 100 ? "%.2f" : "%.0f", v) }
        function better(a, b) { return a == "" ? b : b == "" ? a : less == (a + 0 < b + 0) ? a : b }
        function ratio(a, b) { return a > 0 && b > 0 ? sprintf("%.2f", less ? a / b : b / a) : "–" }
        END {
            if (!sizes) exit
            count = split(ours " " rivals " " others, path, " ")
            rival_count = split(rivals, rival, " ")
            printf "\n| %s: bytes |", test
            for (p = 1; p <= count; p++) printf " %s %s |", path[p], unit
            against = rival_count > 1 ? "best" : rivals
            printf " %s |\n|---:|", less ? ours " / " against : against " / " ours
            for (p = 1; p <= count + 1; p++) printf "---:|"
            print ""
            for (i = 1; i <= sizes; i++) {
                best = ""
                for (p = 1; p <= rival_count; p++) best = better(best, value[rival[p], size[i]])
                printf "| %d |", size[i]
                for (p = 1; p <= count; p++) printf " %s |", cell(value[path[p], size[i]])
                printf " %s |\n", ratio(value[ours, size[i]], best)
            }
        }'
}

# perf_tables FILE PATH RIVALS [OTHERS]: all that verbena-perf measures, where the file has it.
perf_tables() {
    local line test column unit less
    for line in 'latency 4 µs 1' 'bandwidth 6 MB/s 0' 'rate 7 /s 0' 'put 4 µs 1' 'put 6 MB/s 0' 'get 4 µs 1' \
        'get 6 MB/s 0' 'incast 6 MB/s 0' 'overlap 8 % 0' 'idle 4 µs 1' 'idle 8 % 1'; do
        read -r test column unit less <<<"$line"
        perf_table "$test" "$column" "$unit" "$less" "$2" "$3" "${4:-}" <"$1"
    done
}

# Open MPI's own choice where each of N ranks has a processor: bound to it, and never offering it to
# others. What soft-RoCE's environment says is for ranks that share.
processor_each() {
    (($(nproc) >= $1)) || return 0
    export OMPI_MCA_mpi_yield_when_idle=0 OMPI_MCA_hwloc_base_binding_policy=core # of 4.1
    export PRTE_MCA_hwloc_default_binding_policy=core                             # of 5.0
}
