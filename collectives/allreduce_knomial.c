/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce to one rank by a k-nomial tree, and bcast of the result by the same. More rounds than
 * recursive doubling has, and far fewer messages: for ranks that share processors.
 *
 * Cost: 2 ⌈log_k p⌉ (k-1) (α + mβ) + ⌈log_k p⌉ (k-1) mγ; 2 (p-1) messages of all.
 */
#include "algorithms.h"
#include "tree.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_call reduce = vbn_call_half(call, VBN_COLL_REDUCE);
    struct vbn_tree tree = vbn_tree(&reduce);

    vbn_reduce_knomial.build(sched, &reduce);
    vbn_tree_pass_down(sched, &tree, vbn_at(VBN_AT_RECV, 0), call->count * call->elem,
                       !call->in_place);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_call reduce = vbn_call_half(call, VBN_COLL_REDUCE);
    struct vbn_call bcast = vbn_call_half(call, VBN_COLL_BCAST);
    struct vbn_coll_cost up = vbn_algorithm_cost(&vbn_reduce_knomial, &reduce);
    struct vbn_coll_cost down = vbn_algorithm_cost(&vbn_bcast_knomial, &bcast);

    *cost = (struct vbn_coll_cost){
        .depth = up.depth + down.depth,
        .rounds = up.rounds + down.rounds,
        .path_bytes = up.path_bytes + down.path_bytes,
        .messages = down.messages, /* the root's */
        .bytes = down.bytes,
        .reduced = up.reduced,
        .all_messages = up.all_messages + down.all_messages,
        .all_bytes = up.all_bytes + down.all_bytes,
    };
}

const struct vbn_algorithm vbn_allreduce_knomial = {
    VBN_COLL_ALLREDUCE, "knomial", VBN_ALGO_RADIX | VBN_ALGO_TURNS, 2, build, cost};
