/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree (tree.h), upwards, with another root each call: each tells its parent when all
 * below it have come. The root then casts that all have.
 *
 * The cast: Hoefler, Siebert, Rehm 2007; Liu, Mamidala, Panda 2004 (bcast_multicast.c).
 * Cost: (⌈log_k p⌉ (k-1) + 1) α; p messages of all.
 */
#include "algorithms.h"
#include "tree.h"

#define STEP_CAST 1 /* after the tree's */

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree(call);

    vbn_tree_await(sched, &tree);
    vbn_sched_end(sched);
    if (tree.me) {
        vbn_sched_signal(sched, vbn_tree_rank(&tree, vbn_tree_parent(&tree)), 0);
        vbn_sched_await_cast(sched, call->root, STEP_CAST);
    } else {
        vbn_sched_cast_signal(sched, STEP_CAST);
    }
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    unsigned levels = vbn_tree_levels(call);

    cost->depth = levels + 1;
    cost->rounds = levels * (double)(call->param - 1) + 1;
    cost->messages = 1;
    cost->all_messages = call->size;
}

const struct vbn_algorithm vbn_barrier_multicast = {
    VBN_COLL_BARRIER,
    "multicast",
    VBN_ALGO_RADIX | VBN_ALGO_TURNS | VBN_ALGO_GROUP,
    2,
    build,
    cost};
