# SPDX-License-Identifier: BSD-3-Clause
# Fabric `rxe`: a software RDMA device made on the host for this run. Sourced
# by `run`, whose variables it uses.
# shellcheck shell=bash disable=SC2154,SC2034

# Names and addresses carry a number of this process: runs go side by side.
rxe_prepare() {
    local said net=$(($$ % 250 + 1))
    rxe_made=no
    missing_packages=()
    need modprobe kmod
    need ip iproute2
    need rdma iproute2
    nothing_missing || return
    if ((EUID != 0)); then
        reason='only root may load modules and make devices'
        return 1
    fi
    rdma_device=${device_type}_vbn$$ netdev=vbn$$
    rxe_made=yes
    if ! said=$(soft_device_up "$device_type" "$rdma_device" "$netdev" "$mtu" \
        "10.77.$net.1/24" "fd00:77:0:$net::1/64" 2>&1); then
        reason="no $device_type device can be made on this kernel: ${said//$'\n'/; }"
        return 1
    fi
}

rxe_run() { run_here; }

rxe_cleanup() {
    stop_here
    [[ $rxe_made == yes ]] && soft_device_down "$rdma_device" "$netdev"
}
