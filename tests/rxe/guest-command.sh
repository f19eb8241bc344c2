# SPDX-License-Identifier: BSD-3-Clause
# How a command runs in a VM: with the folder, environment and limits that the
# runner was given, which come by job.sh. Sourced on the host's files there.
# shellcheck shell=bash disable=SC2154

# shellcheck source=/dev/null
. /run/job/job.sh

# become COMMAND…: this process, a subshell's, goes on as COMMAND.
become() {
    umask "$mask"
    ulimit -l unlimited
    ulimit -Hn 1048576
    # nice comes between so that `env` does not take a command with a `=` in
    # its name for a variable.
    exec env -i -C "$folder" "${environment[@]}" nice -n 0 -- "$@"
}
