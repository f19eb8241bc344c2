# SPDX-License-Identifier: BSD-3-Clause
# The folders of a run and the environment of its command. Sourced by `run`,
# whose variables it uses.
# shellcheck shell=bash disable=SC2154,SC2034

# Sets build_dir and out_dir (absolute); out_dir exists afterwards.
prepare_folders() {
    build_dir=${VERBENA_BUILDDIR:-$here/../../build}
    mkdir -p -- "$build_dir" && build_dir=$(cd -- "$build_dir" && pwd -P) || exit 125
    out_dir=${OUT:-$build_dir/rxe-out}
    mkdir -p -- "$out_dir" && out_dir=$(cd -- "$out_dir" && pwd -P) || exit 125
}

# default NAME VALUE: sets it for the command unless the caller has set it.
default() {
    [[ -v $1 ]] || environment+=("$1=$2")
}

# Open MPI on two nodes: a rank on each in turns. The data link is not for its daemons.
nodes_environment() {
    default OMPI_MCA_plm rsh
    default OMPI_MCA_plm_rsh_agent "$here/on-node"
    default OMPI_MCA_oob_tcp_if_include eth1
    default OMPI_MCA_orte_default_dash_host verbena-vm:1,verbena-vm2:1
    default OMPI_MCA_rmaps_base_mapping_policy node
}

# Fills the array `environment`, for `env -i`: the caller's own, exactly as the
# kernel gave it to this process, then ours (of two values the later counts).
make_environment() {
    local all=() entry libs=$build_dir/.libs components=$build_dir/plugin/btl/.libs:$build_dir/plugin/coll/.libs
    environment=()
    mapfile -d '' -t all <"/proc/$$/environ"
    for entry in "${all[@]}"; do
        case $entry in
            # They name descriptors of a make that are not the command's.
            MAKEFLAGS=* | MFLAGS=*) ;;
            # A run within this run finds the device by itself.
            VERBENA_FABRIC=*) ;;
            *) environment+=("$entry") ;;
        esac
    done
    environment+=(
        "OUT=$out_dir"
        "RXE_DEVICE=$rdma_device"
        "RXE_NETDEV=$netdev"
        "RXE_NODES=$nodes"
        "VERBENA_BUILDDIR=$build_dir"
        "LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    )
    default OMPI_MCA_mca_base_component_path "SYS_DEFAULT:$components"
    ((nodes == 1)) || nodes_environment
    # One host, more ranks than processors, perhaps root.
    ((nodes > 1)) || default OMPI_MCA_plm isolated
    default OMPI_MCA_rmaps_base_oversubscribe 1
    default OMPI_MCA_mpi_yield_when_idle 1
    default OMPI_MCA_btl_vader_single_copy_mechanism none
    default OMPI_MCA_hwloc_base_binding_policy none
    default OMPI_ALLOW_RUN_AS_ROOT 1
    default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
}
