# SPDX-License-Identifier: BSD-3-Clause
# What the scripts that start MPI jobs share: the options they all have, the
# mpirun command line, and the lines and the tally that they print. Sourced.
# shellcheck shell=bash disable=SC2034

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P) || exit 2
self=${0##*/}
btl=verbena,self
osc=pt2pt # Debian's configuration switches it off; rdma is there where it is named or fits
# Open MPI 5 has no pt2pt.
! mpirun --version 2>/dev/null | grep -q 'Open MPI) 5' || osc=rdma
timeout_s=900
mpirun_args=()
passed=0
failed=0

misused() {
    printf '%s: %s\n    see %s --help\n' "$self" "$1" "$self" >&2
    exit 2
}

# For scripts where there is nothing to do without PROGRAM.
need() {
    type -P "$1" >/dev/null && return
    printf '%s: %s is not installed; install it (Debian package: %s)\n' "$self" "$1" "$2" >&2
    exit 2
}

# common_option NAME VALUE: true if it was one of the options all scripts have.
common_option() {
    case $1 in
        --btl) btl=$2 ;;
        --osc) osc=$2 ;;
        --timeout)
            [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || misused "--timeout '$2': expected seconds, from 1"
            timeout_s=$2
            ;;
        --mpirun-args) read -r -a mpirun_args <<<"$2" ;;
        *) return 1 ;;
    esac
}

# common_options ARGUMENT…: takes them all, in scripts that have no other options; `usage` prints theirs.
common_options() {
    while (($# > 0)); do
        [[ $1 != --help ]] || { usage; exit 0; }
        (($# > 1)) || misused "unknown option '$1', or its value is missing"
        common_option "$1" "$2" || misused "unknown option '$1'"
        shift 2
    done
}

# Sets the array `mpirun` to all but the number of ranks and the program.
make_mpirun() {
    need mpirun openmpi-bin
    mpirun=(mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl "$btl" --mca osc "$osc")
    ((EUID != 0)) || mpirun+=(--allow-run-as-root)
    mpirun+=(${mpirun_args[@]+"${mpirun_args[@]}"})
}

# Sets `build` to the build folder and `suite` to our programs in it.
find_suite() {
    build=${VERBENA_BUILDDIR:-$here/../../build}
    suite=$build/tests/mpi/mpi_suite
    [[ -x $suite ]] || misused "$suite is not built; build it by make check, or set VERBENA_BUILDDIR"
}

# --- a job in the background, of the process `job`, which mpi_suite's `--while
# $work/go_on` makes last until end_job

# alive SECONDS: the job still is, after so long at most.
alive() {
    local until_s=$((SECONDS + $1))
    while kill -0 "$job" 2>/dev/null; do
        ((SECONDS < until_s)) || return 0
        sleep 0.5
    done
    return 1
}

# Sets `status`: 124 where the job did not end in time.
end_job() {
    local late=no
    rm -f "$work/go_on"
    if alive "$timeout_s"; then
        late=yes
        kill "$job"
        alive 10 && kill -KILL "$job"
    fi
    wait "$job"
    status=$?
    [[ $late == no ]] || status=124
    job=''
}

# --- verdicts

# pass NAME NOTE / fail NAME REASON: one line each, counted.
pass() {
    printf 'PASS %s (%s)\n' "$1" "$2"
    passed=$((passed + 1))
}

fail() {
    printf 'FAIL %s %s\n' "$1" "$2"
    failed=$((failed + 1))
}

# indent [COUNT]: the last lines of standard input (all without COUNT), set off.
indent() {
    tail -n "${1:-+1}" | sed 's/^/    | /'
}

# The last line, and the exit status.
tally() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    ((failed == 0 && passed > 0))
}
