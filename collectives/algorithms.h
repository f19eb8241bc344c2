/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm, each from the file of its name. */
#ifndef VBN_ALGORITHMS_H
#define VBN_ALGORITHMS_H

#include "algorithm.h"

extern const struct vbn_algorithm vbn_barrier_dissemination;
extern const struct vbn_algorithm vbn_barrier_knomial;
extern const struct vbn_algorithm vbn_barrier_multicast;
extern const struct vbn_algorithm vbn_barrier_recursive_doubling;

extern const struct vbn_algorithm vbn_bcast_chain;
extern const struct vbn_algorithm vbn_bcast_circulant;
extern const struct vbn_algorithm vbn_bcast_knomial;
extern const struct vbn_algorithm vbn_bcast_linear;
extern const struct vbn_algorithm vbn_bcast_multicast;
extern const struct vbn_algorithm vbn_bcast_scatter_allgather;
extern const struct vbn_algorithm vbn_bcast_two_tree;

extern const struct vbn_algorithm vbn_reduce_chain;
extern const struct vbn_algorithm vbn_reduce_knomial;
extern const struct vbn_algorithm vbn_reduce_rabenseifner;
extern const struct vbn_algorithm vbn_reduce_two_tree;

extern const struct vbn_algorithm vbn_allreduce_recursive_doubling;
extern const struct vbn_algorithm vbn_allreduce_circulant;
extern const struct vbn_algorithm vbn_allreduce_knomial;
extern const struct vbn_algorithm vbn_allreduce_multicast;
extern const struct vbn_algorithm vbn_allreduce_rabenseifner;
extern const struct vbn_algorithm vbn_allreduce_ring;
extern const struct vbn_algorithm vbn_allreduce_scatter_multicast;

extern const struct vbn_algorithm vbn_reduce_scatter_ordered;
extern const struct vbn_algorithm vbn_reduce_scatter_circulant;
extern const struct vbn_algorithm vbn_reduce_scatter_pairwise;

extern const struct vbn_algorithm vbn_reduce_scatter_block_ordered;
extern const struct vbn_algorithm vbn_reduce_scatter_block_circulant;
extern const struct vbn_algorithm vbn_reduce_scatter_block_pairwise;

extern const struct vbn_algorithm vbn_allgather_bruck;
extern const struct vbn_algorithm vbn_allgather_knomial;
extern const struct vbn_algorithm vbn_allgather_linear;
extern const struct vbn_algorithm vbn_allgather_multicast;
extern const struct vbn_algorithm vbn_allgather_recursive_doubling;
extern const struct vbn_algorithm vbn_allgather_ring;
extern const struct vbn_algorithm vbn_allgather_neighbor;

extern const struct vbn_algorithm vbn_allgatherv_bruck;
extern const struct vbn_algorithm vbn_allgatherv_linear;
extern const struct vbn_algorithm vbn_allgatherv_multicast;
extern const struct vbn_algorithm vbn_allgatherv_ring;

extern const struct vbn_algorithm vbn_gather_knomial;
extern const struct vbn_algorithm vbn_gather_linear;

extern const struct vbn_algorithm vbn_gatherv_linear;

extern const struct vbn_algorithm vbn_scatter_knomial;
extern const struct vbn_algorithm vbn_scatter_linear;

extern const struct vbn_algorithm vbn_scatterv_linear;

extern const struct vbn_algorithm vbn_alltoall_bruck;
extern const struct vbn_algorithm vbn_alltoall_linear;
extern const struct vbn_algorithm vbn_alltoall_pairwise;

extern const struct vbn_algorithm vbn_alltoallv_linear;
extern const struct vbn_algorithm vbn_alltoallv_pairwise;

extern const struct vbn_algorithm vbn_scan_linear;
extern const struct vbn_algorithm vbn_scan_recursive_doubling;

extern const struct vbn_algorithm vbn_exscan_linear;
extern const struct vbn_algorithm vbn_exscan_recursive_doubling;

#endif
