/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree (tree.h), upwards and back, with another root each call: each tells its parent
 * when all below it have come, and hears from it when all have. More rounds than dissemination has,
 * and far fewer messages: for ranks that share processors.
 *
 * Cost: 2 ⌈log_k p⌉ (k-1) α; 2 (p-1) messages of all.
 */
#include "algorithms.h"
#include "tree.h"

/* The farthest children first. */
static void signal_below(struct vbn_sched *sched, const struct vbn_tree *tree)
{
    for (uint64_t reach = tree->reach / tree->radix; reach; reach /= tree->radix)
        for (unsigned j = 1; j < tree->radix; j++)
            if (vbn_tree_has(tree, j * reach))
                vbn_sched_signal(sched, vbn_tree_child(tree, j * reach), 0);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree(call);
    uint32_t parent = vbn_tree_rank(&tree, vbn_tree_parent(&tree));

    vbn_tree_await(sched, &tree);
    vbn_sched_end(sched);
    if (tree.me) {
        vbn_sched_signal(sched, parent, 0);
        vbn_sched_await(sched, parent, 0);
        vbn_sched_end(sched);
    }
    signal_below(sched, &tree);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    cost->depth = 2 * vbn_tree_levels(call);
    cost->messages = vbn_tree_degree(call);
    cost->rounds = 2 * cost->messages;
    cost->all_messages = 2 * (call->size - 1.0);
}

const struct vbn_algorithm vbn_barrier_knomial = {
    VBN_COLL_BARRIER, "knomial", VBN_ALGO_RADIX | VBN_ALGO_TURNS, 2, build, cost};
