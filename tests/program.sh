# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# For scripts that test a program, by itself or launched by mpirun over a transport that needs no
# device, and print TAP. They set `program`, and `arguments` for every launch; `output` and `status`
# are what the last run left.
export VERBENA_PARAM_FILE='' VERBENA_MCA_transport=ucx VERBENA_MCA_transport_ucx_tls=shm,self \
    VERBENA_MCA_transport_ucx_peer_errors=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
LSAN_OPTIONS=suppressions=$(cd "$(dirname "${BASH_SOURCE[0]}")/loader" && pwd)/lsan.supp:print_suppressions=0
export LSAN_OPTIONS
export UCX_MEM_EVENTS=n # its hooks and the thread sanitizer do not go together
mpirun=${MPIRUN:-mpirun}
arguments=()
number=0 failed=0 output='' status=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# verdict STATUS NAME: STATUS 0 is a pass; what was printed follows where it is not.
verdict() {
    number=$((number + 1))
    if (($1 == 0)); then
        echo "ok $number - $2"
        return
    fi
    echo "not ok $number - $2"
    sed 's/^/# /' <<<"$output"
    failed=1
}

# The end of the script.
plan() {
    echo "1..$number"
    exit "$failed"
}

# launch RANKS ARGUMENT…
launch() {
    local ranks=$1
    shift
    output=$(timeout 120 "$mpirun" -n "$ranks" --oversubscribe "$program" "${arguments[@]}" "$@" 2>&1)
    status=$?
}

# alone ARGUMENT…: without mpirun.
alone() {
    output=$(timeout 60 "$program" "$@" 2>&1)
    status=$?
}

# prints COUNT PATTERN: that many lines of the output match.
prints() {
    [[ $(grep -cE -- "$2" <<<"$output") == "$1" ]]
}

# all_sizes TEST SIZE…: the output has one line of TEST for each, in order, and no more.
all_sizes() {
    [[ $(awk -v test="$1" '$1 == test { print $2 }' <<<"$output" | xargs) == "${*:2}" ]]
}

# wrong TEXT ARGUMENT…: is refused with TEXT, by itself and without waiting for anybody.
wrong() {
    local text=$1
    shift
    alone "$@"
    ((status != 0)) && prints 1 "$text"
    verdict $? "refused: $*"
}
