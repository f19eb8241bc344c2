# SPDX-License-Identifier: BSD-3-Clause
# Fabric `vm`: a VM with the distribution's kernel, whose root is the host's
# own (read-only by 9p, writes go to a tmpfs and are lost). Sourced by `run`,
# whose variables it uses.
#
# A private folder, shared with the guest as `job`, carries everything in and
# out: job.sh (what to run and where), guest-init and soft-device.sh inwards;
# stdout, stderr and status outwards. The outputs are files that `tail` follows
# here: nothing is lost when the VM goes away, and the boot's messages, which
# go to the serial port, stay out of them. Of two VMs the first runs the command;
# two private links join them, over sockets in that folder.
# shellcheck shell=bash disable=SC2154,SC2034

vm_prepare() {
    vm_job='' vm_qemus=()
    if [[ $(uname -m) != x86_64 ]]; then
        reason="VMs are made for x86_64 only, this is $(uname -m)"
        return 1
    fi
    missing_packages=()
    need qemu-system-x86_64 qemu-system-x86
    need busybox busybox-static
    need modprobe kmod
    need cpio cpio
    need xz xz-utils
    need rdma iproute2
    nothing_missing && vm_sees "$PWD" && vm_sees "$build_dir" &&
        vm_find_kernel && vm_find_boot_files
}

# vm_sees FOLDER: these file systems of the host's are the VM's own there.
vm_sees() {
    case $(realpath -- "$1")/ in
        /dev/* | /proc/* | /run/* | /sys/*)
            reason="the VM cannot see the host's $1: work in another folder"
            return 1
            ;;
    esac
}

vm_kernel_packages() {
    # shellcheck source=/dev/null
    case $(. /etc/os-release && printf '%s' "$ID") in
        ubuntu) printf 'linux-image-generic linux-modules-extra-generic' ;;
        *) printf 'linux-image-amd64' ;;
    esac
}

# Sets vm_version: the newest kernel that has the device's module.
vm_find_kernel() {
    local image module
    module=$(soft_device_module "$device_type")
    while read -r image; do
        vm_version=${image#/boot/vmlinuz-}
        modprobe --set-version "$vm_version" --show-depends "$module" >/dev/null 2>&1 || continue
        [[ -r $image ]] && return
        reason="$image is not readable: run as root, or chmod a+r $image"
        return 1
    done < <(compgen -G '/boot/vmlinuz-*' | sort -rV)
    reason="no kernel in /boot has the module $module"
    [[ $device_type == siw ]] || reason+=": apt-get install $(vm_kernel_packages)"
    return 1
}

# Sets vm_boot, a folder made once for a kernel and a state of our scripts. It
# is renamed into place whole: runs side by side may be making it too.
vm_find_boot_files() {
    local sum said mine
    case $(modprobe --set-version "$vm_version" --show-depends 9p 2>/dev/null) in
        *.ko.zst*) need zstd zstd ;;
    esac
    nothing_missing || return
    sum=$({
        cat -- "$here/guest-boot" "$here/make-boot-files"
        stat -L -c %s.%Y -- "/boot/vmlinuz-$vm_version"
    } | cksum | cut -d ' ' -f 1)
    vm_boot=$build_dir/rxe-cache/$vm_version-$sum
    [[ -d $vm_boot ]] && return
    mine=$vm_boot.$$
    if ! said=$("$here/make-boot-files" "$vm_version" "$mine" 2>&1); then
        rm -rf -- "$mine"
        reason="cannot make $vm_boot: ${said//$'\n'/; }"
        return 1
    fi
    mv -T -- "$mine" "$vm_boot" 2>/dev/null || rm -rf -- "$mine"
}

# Writes what guest-init sources. `declare -p` quotes any value.
vm_write_job() {
    local folder=$PWD mask
    mask=$(umask)
    rdma_device=${device_type}0 netdev=eth0
    make_environment
    vm_job=$(mktemp -d "${TMPDIR:-/tmp}/verbena-rxe.XXXXXX") || exit 125
    cp -- "$here"/guest-{init,command.sh,shell} "$here/soft-device.sh" "$vm_job/" || exit 125
    touch "$vm_job"/{stdout,stderr} || exit 125
    LC_ALL=C declare -p command environment folder mask out_dir device_type rdma_device netdev mtu nodes \
        >"$vm_job/job.sh" || exit 125
}

# Sets vm_machine (QEMU's options) and vm_kernel_options. A /dev/kvm that opens
# proves nothing, the processor's flags do. Without them QEMU emulates, where
# three features of a processor cost much: deep page tables, string moves (a
# byte at a time; the kernel clears and copies by them), and carry-less
# multiplication (rxe's checksum uses it). The emulated TSC is the host's own,
# so the kernel may trust it; its other clocks take ten times as long to read.
# A machine that can have no second processor gets no memory barriers from QEMU
# before 8.1, though its devices are threads of their own: at times the guest and
# a device each waited for the other's word for ever, and a link was dead. For
# the files, no word is held back (event_idx) that could be missed.
vm_choose_machine() {
    local processors="$cpus,maxcpus=$((cpus > 1 ? cpus : 2))"
    vm_kernel_options='console=ttyS0 loglevel=5 oops=panic panic=-1 mitigations=off nokaslr no_timer_check'
    # An instruction is two nanoseconds, whichever it is.
    if [[ $counted == yes ]]; then
        processors=$cpus # threads that run in turns have no barriers at all
        vm_machine=(-accel 'tcg,thread=single' -icount 'shift=1,sleep=on'
            -cpu 'max,la57=off,erms=off,fsrm=off,pclmulqdq=off')
        vm_kernel_options+=' tsc=reliable clocksource=tsc cryptomgr.notests rcupdate.rcu_expedited=1'
    elif grep -qwE 'vmx|svm' /proc/cpuinfo && [[ -r /dev/kvm && -w /dev/kvm ]]; then
        vm_machine=(-accel kvm -accel 'tcg,thread=multi' -cpu max)
    else
        vm_machine=(-accel 'tcg,thread=multi'
            -cpu 'max,la57=off,erms=off,fsrm=off,pclmulqdq=off')
        vm_kernel_options+=' tsc=reliable clocksource=tsc cryptomgr.notests rcupdate.rcu_expedited=1'
    fi
    vm_machine+=(-smp "$processors")
}

# QEMU's own rule for a comma in a value.
vm_escape() { printf '%s' "${1//,/,,}"; }

# vm_link NAME ADDRESS: adds to vm_links the end at node $node of a link between
# the two. By datagrams: streams would hold frames back, for 40 ms at times.
vm_link() {
    local socket
    socket=$(vm_escape "$vm_job")/link-$1
    vm_links+=(-netdev "dgram,id=$1,local.type=unix,local.path=$socket$node,remote.type=unix,remote.path=$socket$((3 - node))"
        -device "virtio-net-pci,netdev=$1,mac=52:54:00:$2:00:0$node")
}

# vm_start NODE: adds its process to vm_qemus.
vm_start() {
    local node=$1 job out vm_links=()
    job=$(vm_escape "$vm_job") out=$(vm_escape "$out_dir")
    ((nodes == 1)) || { vm_link data 77; vm_link control 78; }
    touch "$vm_job/console$node" || exit 125
    # The kernel ends QEMU should this process be killed outright.
    setpriv --pdeathsig KILL qemu-system-x86_64 \
        -machine q35 "${vm_machine[@]}" -m "$memory" \
        -nodefaults -display none -monitor none -no-reboot \
        -serial "file:$vm_job/console$node" \
        -kernel "$vm_boot/kernel" -initrd "$vm_boot/initramfs" \
        -append "$vm_kernel_options verbena_node=$node" \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,event_idx=off,fsdev=root,mount_tag=root \
        -fsdev "local,id=job,path=$job,security_model=none" \
        -device virtio-9p-pci,event_idx=off,fsdev=job,mount_tag=job \
        -fsdev "local,id=out,path=$out,security_model=none,multidevs=remap" \
        -device virtio-9p-pci,event_idx=off,fsdev=out,mount_tag=out "${vm_links[@]}" \
        </dev/null >"$vm_job/qemu$node" 2>&1 &
    vm_qemus+=($!)
}

vm_run() {
    local status node ended
    vm_write_job
    vm_choose_machine
    for ((node = 1; node <= nodes; node++)); do vm_start "$node"; done
    tail -c +1 -s 0.1 --pid="${vm_qemus[0]}" -f "$vm_job/stderr" >&2 &
    vm_stderr=$!
    timeout --foreground "$timeout_s" \
        tail -c +1 -s 0.1 --pid="${vm_qemus[0]}" -f "$vm_job/stdout" &
    vm_stdout=$!
    { wait -n -p ended "$vm_stdout" "${vm_qemus[@]}"; } 2>/dev/null # bash would report how QEMU ended
    status=$?
    vm_stop
    if ((ended != vm_stdout)); then
        wait "$vm_stdout"
        status=$?
    fi
    case $status in
        0) vm_status ;;
        124) vm_timed_out ;;
        *) return "$status" ;; # nobody reads our stdout any more
    esac
}

# The end of one is the end of all.
vm_stop() {
    kill -KILL "${vm_qemus[@]}" 2>/dev/null
    wait "${vm_qemus[@]}" "$vm_stderr" 2>/dev/null
    vm_qemus=()
}

vm_show_console() {
    local node
    for ((node = 1; node <= nodes; node++)); do
        ((nodes == 1)) || printf '%s\n' "--- node $node:" >&2
        cat -- "$vm_job/qemu$node" >&2
        tail -n 60 -- "$vm_job/console$node" >&2
    done
}

# The command's status, or what the machine said when it ended without one.
vm_status() {
    if [[ -s $vm_job/status ]]; then
        return "$(<"$vm_job/status")"
    fi
    complain 'the VM ended before the command did; its last words:'
    vm_show_console
    return 125
}

vm_timed_out() {
    if [[ ! -e $vm_job/started ]]; then
        complain 'the VM did not come up in time; its last words:'
        vm_show_console
    fi
    timed_out
}

vm_cleanup() {
    if ((${#vm_qemus[@]} > 0)); then
        kill "$vm_stdout" 2>/dev/null
        vm_stop
    fi
    [[ -z $vm_job ]] || rm -rf -- "$vm_job"
}
