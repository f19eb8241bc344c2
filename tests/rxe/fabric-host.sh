# SPDX-License-Identifier: BSD-3-Clause
# Fabric `host`: an RDMA device that the host already has. Sourced by `run`,
# whose variables it uses.
# shellcheck shell=bash disable=SC2154,SC2034

# netdev_of DEVICE: its netdev; soft devices and RoCE tell it by `rdma link`,
# InfiniBand by the netdevs of its PCI function.
netdev_of() {
    local found
    found=$(rdma link show "$1/1" 2>/dev/null | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
    if [[ -z $found ]]; then
        found=$(compgen -G "/sys/class/infiniband/$1/device/net/*" | head -n 1)
    fi
    printf '%s' "${found##*/}"
}

has_address() {
    [[ -n $1 && -n $(ip -o addr show dev "$1" scope global 2>/dev/null) ]]
}

host_prepare() {
    local state
    if [[ $device_given == yes ]]; then
        reason="passed over, --device $device_type asks for a software device"
        return 1
    fi
    for state in /sys/class/infiniband/*/ports/*/state; do
        grep -q ACTIVE "$state" 2>/dev/null || continue
        rdma_device=${state#/sys/class/infiniband/}
        rdma_device=${rdma_device%%/*}
        netdev=$(netdev_of "$rdma_device")
        has_address "$netdev" && return
    done
    reason='no active RDMA device with a netdev that has an address'
    return 1
}

host_run() { run_here; }

host_cleanup() { stop_here; }
