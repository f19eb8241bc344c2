# SPDX-License-Identifier: BSD-3-Clause
# Makes and removes a software RDMA device on a netdev, a dummy one where there
# is none of that name. Sourced by bash: by the runner on the host, and by
# guest-init in the VM.
# shellcheck shell=bash

soft_device_module() {
    case $1 in
        rxe) echo rdma_rxe ;;
        siw) echo siw ;;
    esac
}

# soft_device_up TYPE DEVICE NETDEV MTU IPV4/LEN IPV6/LEN: true when the device
# is there. What the tools say goes to stderr.
soft_device_up() {
    local type=$1 device=$2 dev=$3 mtu_bytes=$4 ipv4=$5 ipv6=$6
    modprobe -a "$(soft_device_module "$type")" rdma_ucm dummy || return
    [[ -e /sys/class/net/$dev ]] || ip link add "$dev" type dummy || return
    ip -batch - <<END &&
link set $dev mtu $mtu_bytes
address add $ipv4 dev $dev
address add $ipv6 dev $dev nodad
link set $dev up
END
        rdma link add "$device" type "$type" netdev "$dev"
}

# soft_device_down DEVICE NETDEV: whatever of the two is there goes away. The
# modules stay: another run may be using them.
soft_device_down() {
    [[ -e /sys/class/infiniband/$1 ]] && rdma link delete "$1"
    [[ -e /sys/class/net/$2 ]] && ip link delete "$2"
    return 0
}
