/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather to one rank, another one each call, by a k-nomial tree, and bcast of all blocks by the
 * same. More rounds and bytes than others have, and far fewer messages: for small blocks of ranks
 * that share processors.
 *
 * Cost: 2 ⌈log_k p⌉ (k-1) α + (p-1 + ⌈log_k p⌉ (k-1) p) bβ for blocks of b; 2 (p-1) messages of
 * all.
 */
#include "algorithms.h"
#include "tree.h"

static struct vbn_call gather_of(const struct vbn_call *call)
{
    struct vbn_call gather = *call;

    gather.coll = VBN_COLL_GATHER;
    return gather;
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_call gather = gather_of(call);
    struct vbn_tree tree = vbn_tree(&gather);

    vbn_gather_knomial.build(sched, &gather);
    vbn_tree_pass_down(sched, &tree, vbn_at(VBN_AT_RECV, 0), call->size * call->count * call->elem,
                       !call->in_place);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_call gather = gather_of(call), bcast = gather;
    struct vbn_coll_cost up = vbn_algorithm_cost(&vbn_gather_knomial, &gather), down;

    bcast.coll = VBN_COLL_BCAST;
    bcast.count = call->size * call->count;
    down = vbn_algorithm_cost(&vbn_bcast_knomial, &bcast);
    *cost = (struct vbn_coll_cost){
        .depth = up.depth + down.depth,
        .rounds = up.rounds + down.rounds,
        .path_bytes = up.path_bytes + down.path_bytes,
        .messages = down.messages, /* the root's */
        .bytes = down.bytes,
        .all_messages = up.all_messages + down.all_messages,
        .all_bytes = up.all_bytes + down.all_bytes,
    };
}

const struct vbn_algorithm vbn_allgather_knomial = {
    VBN_COLL_ALLGATHER, "knomial", VBN_ALGO_RADIX | VBN_ALGO_TURNS, 2, build, cost};
