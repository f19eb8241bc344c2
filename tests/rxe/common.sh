# SPDX-License-Identifier: BSD-3-Clause
# Small things every part of the runner uses. Sourced by `run`, whose
# variables it uses.
# shellcheck shell=bash disable=SC2154,SC2034

# complain WHAT DETAIL…: one message on stderr, details indented below.
complain() {
    printf 'tests/rxe/run: %s\n' "$1" >&2
    shift
    (($# == 0)) || printf '    %s\n' "$@" >&2
}

# need PROGRAM PACKAGE: collects what is missing in `missing_packages`.
need() {
    type -P "$1" >/dev/null && return
    [[ " ${missing_packages[*]} " == *" $2 "* ]] || missing_packages+=("$2")
}

# True when nothing was missing; else `reason` says what to install.
nothing_missing() {
    ((${#missing_packages[@]} == 0)) && return
    reason="missing packages: apt-get install ${missing_packages[*]}"
    return 1
}

timed_out() {
    complain "stopped: no end after $timeout_s s (--timeout)" "command: ${command[*]}"
    return 124
}

# Runs the command on this host, in the environment of environment.sh. It has
# a process group of its own, which the timeout ends whole.
run_here() {
    local status
    make_environment
    ulimit -l unlimited 2>/dev/null
    timeout -k 5 "$timeout_s" \
        env -i "${environment[@]}" nice -n 0 -- "${command[@]}" </dev/null &
    here_pid=$!
    { wait "$here_pid"; } 2>/dev/null # bash would report a kill
    status=$?
    here_pid=
    if ((status == 124 || status == 137)) && ((SECONDS >= timeout_s)); then
        timed_out
        return
    fi
    return "$status"
}

stop_here() {
    [[ -z ${here_pid:-} ]] && return
    kill -TERM "$here_pid" 2>/dev/null
    wait "$here_pid" 2>/dev/null
}
