/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce to one rank by a k-nomial tree, which casts the result.
 *
 * The cast: Hoefler, Siebert, Rehm 2007; Liu, Mamidala, Panda 2004 (bcast_multicast.c).
 * Cost: (⌈log_k p⌉ (k-1) + 1) (α + mβ) + ⌈log_k p⌉ (k-1) mγ; p messages of all.
 */
#include "algorithms.h"

#define STEP_CAST 2 /* after those of reduce_knomial.c */

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_call reduce = vbn_call_half(call, VBN_COLL_REDUCE);
    struct vbn_at result = vbn_at(VBN_AT_RECV, 0);
    size_t len = call->count * call->elem;

    vbn_reduce_knomial.build(sched, &reduce);
    if (call->rank == reduce.root)
        vbn_sched_cast(sched, result, len, STEP_CAST);
    else
        vbn_sched_recv_cast(sched, reduce.root, result, len, STEP_CAST, !call->in_place);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_call reduce = vbn_call_half(call, VBN_COLL_REDUCE);
    double m = (double)call->count * (double)call->elem;

    *cost = vbn_algorithm_cost(&vbn_reduce_knomial, &reduce);
    cost->depth++;
    cost->rounds++;
    cost->path_bytes += m;
    cost->all_messages++;
    cost->all_bytes += m;
}

const struct vbn_algorithm vbn_allreduce_multicast = {
    VBN_COLL_ALLREDUCE,
    "multicast",
    VBN_ALGO_RADIX | VBN_ALGO_TURNS | VBN_ALGO_GROUP,
    2,
    build,
    cost};
