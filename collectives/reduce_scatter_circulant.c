/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on a circulant graph: as few rounds and bytes as there can be, for any number of
 * ranks and any blocks.
 *
 * J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234.
 * Cost: ⌈log2 p⌉ α + m (β+γ) (p-1)/p for equal blocks, m of them all.
 */
#include "algorithms.h"
#include "circulant.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at vector = vbn_sched_tmp(sched, vbn_packed_off(call, call->size));

    vbn_turn(sched, call, vector, vbn_input(call));
    vbn_sched_end(sched);
    vbn_circulant_reduce_scatter(sched, call, vector, 0);
    vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0), vector, vbn_turned_off(call, 1));
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = cost->messages = vbn_log2_ceil(call->size);
    cost->path_bytes = cost->bytes = cost->reduced = block * (call->size - 1.0);
    cost->copied = call->size * block;
}

const struct vbn_algorithm vbn_reduce_scatter_circulant = {
    VBN_COLL_REDUCE_SCATTER, "circulant", VBN_ALGO_COMMUTATIVE, 0, build, cost};
const struct vbn_algorithm vbn_reduce_scatter_block_circulant = {
    VBN_COLL_REDUCE_SCATTER_BLOCK, "circulant", VBN_ALGO_COMMUTATIVE, 0, build, cost};
