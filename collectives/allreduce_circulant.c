/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter, then allgather, on a circulant graph: as many rounds and bytes as there must be,
 * for any number of ranks.
 *
 * J. L. Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234.
 * Cost: 2 ⌈log2 p⌉ α + m (2β+γ) (p-1)/p.
 */
#include "algorithms.h"
#include "circulant.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at vector = vbn_sched_tmp(sched, call->count * call->elem);

    vbn_turn(sched, call, vector, vbn_input(call));
    vbn_sched_end(sched);
    vbn_circulant_reduce_scatter(sched, call, vector, 0);
    vbn_circulant_allgather(sched, call, vector, VBN_CIRCULANT_MAX);
    vbn_turn_back(sched, call, vbn_at(VBN_AT_RECV, 0), vector);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double p = call->size, m = (double)call->count * (double)call->elem * (p - 1) / p;

    cost->rounds = cost->messages = 2 * vbn_log2_ceil(call->size);
    cost->path_bytes = cost->bytes = 2 * m;
    cost->reduced = m;
    cost->copied = 2 * m;
}

const struct vbn_algorithm vbn_allreduce_circulant = {
    VBN_COLL_ALLREDUCE, "circulant", VBN_ALGO_COMMUTATIVE, 0, build, cost};
