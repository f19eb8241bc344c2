/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree (tree.h), upwards: a subtree's blocks are a range, counted from the root. Inner
 * ranks gather it in scratch; the root has each subtree come to its place, unless that goes round
 * the end of the ranks.
 *
 * Thakur, Rabenseifner, Gropp 2005, of which this is the binomial tree for k = 2.
 * Cost: ⌈log_k p⌉ (k-1) α + (p-1) bβ for blocks of b.
 */
#include "algorithms.h"
#include "gathered.h"
#include "tree.h"

/* Blocks FIRST … FIRST + COUNT - 1, counted from the root, from scratch to the result. */
static void unwrap(struct vbn_sched *sched, const struct vbn_call *call,
                   const struct vbn_tree *tree, struct vbn_at blocks, uint32_t first,
                   uint32_t count)
{
    size_t len = call->count * call->elem;

    for (uint32_t i = 0; i < count; i++)
        vbn_sched_copy(sched, vbn_gathered(call, vbn_tree_rank(tree, first + i)),
                       vbn_at_plus(blocks, i * len), len);
}

static void take_at_root(struct vbn_sched *sched, const struct vbn_call *call,
                         const struct vbn_tree *tree, uint32_t child, uint32_t span)
{
    uint32_t rank = vbn_tree_rank(tree, child);
    size_t len = span * call->count * call->elem;
    struct vbn_at blocks;

    if ((uint64_t)rank + span <= call->size) {
        vbn_sched_recv(sched, rank, vbn_gathered(call, rank), len, 0, true);
        return;
    }
    blocks = vbn_sched_tmp(sched, len);
    vbn_sched_recv(sched, rank, blocks, len, 0, true);
    unwrap(sched, call, tree, blocks, child, span);
}

static void build_inner(struct vbn_sched *sched, const struct vbn_call *call,
                        const struct vbn_tree *tree)
{
    size_t len = call->count * call->elem;
    uint32_t parent = vbn_tree_rank(tree, vbn_tree_parent(tree));
    uint32_t span = vbn_tree_span(tree, tree->me, tree->reach);
    struct vbn_at blocks = span > 1 ? vbn_sched_tmp(sched, span * len) : vbn_own_block(call);

    for (uint64_t reach = 1; reach < tree->reach; reach *= tree->radix)
        for (uint64_t d = reach; d < reach * tree->radix && vbn_tree_has(tree, d); d += reach)
            vbn_sched_recv(sched, vbn_tree_child(tree, d), vbn_at_plus(blocks, d * len),
                           vbn_tree_span(tree, tree->me + (uint32_t)d, reach) * len, 0, true);
    if (span > 1)
        vbn_sched_copy(sched, blocks, vbn_own_block(call), len);
    vbn_sched_end(sched);
    vbn_sched_send(sched, parent, blocks, span * len, 0);
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree(call);

    if (tree.me) {
        build_inner(sched, call, &tree);
        return;
    }
    for (uint64_t reach = 1; reach < tree.reach; reach *= tree.radix)
        for (uint64_t d = reach; d < reach * tree.radix && vbn_tree_has(&tree, d); d += reach)
            take_at_root(sched, call, &tree, (uint32_t)d, vbn_tree_span(&tree, (uint32_t)d, reach));
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
}

/* The longest subtree's blocks are what one rank sends. */
static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;
    struct vbn_tree tree = vbn_tree_at(call->size, 0, 0, call->param);

    for (uint64_t reach = 1; reach < call->size; reach *= call->param)
        for (uint64_t d = reach; d < reach * call->param && d < call->size; d += reach)
            if (vbn_tree_span(&tree, (uint32_t)d, reach) * block > cost->bytes)
                cost->bytes = vbn_tree_span(&tree, (uint32_t)d, reach) * block;
    cost->depth = vbn_tree_levels(call);
    cost->rounds = vbn_tree_degree(call);
    cost->path_bytes = (call->size - 1.0) * block;
    cost->messages = 1;
    cost->all_messages = call->size - 1.0;
    cost->all_bytes = vbn_tree_path_sum(call->size, call->param) * block;
}

const struct vbn_algorithm vbn_gather_knomial = {VBN_COLL_GATHER, "knomial", VBN_ALGO_RADIX, 2,
                                                 build,           cost};
