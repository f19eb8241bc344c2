# SPDX-License-Identifier: BSD-3-Clause
# What ./demo, ./check and the tools share: progress lines, and long steps run into a log. Sourced
# by bash.
# shellcheck shell=bash

say() {
    printf '%s\n' "==> $*"
}

# heartbeat LABEL LOG: every quarter of a minute, how long it has taken and what LOG says last.
# Runs until it is killed; what it starts keeps none of our file descriptors open.
heartbeat() {
    local last
    SECONDS=0
    while sleep 15 <&- >/dev/null 2>&1; do
        last=$(tail -n 1 "$2" 2>/dev/null | tr '\r\t' '  ' | cut -c 1-80)
        printf '    %s: %d s  %s\n' "$1" "$SECONDS" "$last"
    done
}

# with_heartbeat LABEL LOG COMMAND…: runs COMMAND, which writes LOG, and returns its status.
with_heartbeat() {
    local beat status
    heartbeat "$1" "$2" &
    beat=$!
    "${@:3}"
    status=$?
    kill "$beat" 2>/dev/null
    wait "$beat" 2>/dev/null
    return "$status"
}

into_log() {
    "${@:2}" >"$1" 2>&1 </dev/null
}

# logged LABEL LOG COMMAND…: runs COMMAND with its output in LOG, with a heartbeat; shows the end of
# LOG where it fails. Returns COMMAND's status.
logged() {
    local label=$1 log=$2 status
    shift 2
    with_heartbeat "$label" "$log" into_log "$log" "$@"
    status=$?
    if ((status != 0)); then
        printf '    %s failed (status %d); the end of %s:\n' "$label" "$status" "$log"
        tail -n 25 "$log" | sed 's/^/    | /'
    fi
    return "$status"
}
