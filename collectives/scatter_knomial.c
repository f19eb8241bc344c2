/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree (tree.h), downwards: a subtree's blocks are a range, counted from the root. The
 * root sends them from where they are, unless they go round the end of the ranks; inner ranks have
 * them in scratch.
 *
 * Thakur, Rabenseifner, Gropp 2005, of which this is the binomial tree for k = 2.
 * Cost: ⌈log_k p⌉ (k-1) α + (p-1) bβ for blocks of b.
 */
#include "algorithms.h"
#include "tree.h"

/* The subtree at CHILD in one piece: where it lies, or a copy of it. */
static struct vbn_at wrapped(struct vbn_sched *sched, const struct vbn_call *call,
                             const struct vbn_tree *tree, uint32_t child, uint32_t span)
{
    size_t len = call->count * call->elem;
    uint32_t rank = vbn_tree_rank(tree, child);
    struct vbn_at blocks;

    if ((uint64_t)rank + span <= call->size)
        return vbn_at(VBN_AT_SEND, rank * len);
    blocks = vbn_sched_tmp(sched, span * len);
    for (uint32_t i = 0; i < span; i++)
        vbn_sched_copy(sched, vbn_at_plus(blocks, i * len),
                       vbn_at(VBN_AT_SEND, vbn_tree_rank(tree, child + i) * len), len);
    vbn_sched_end(sched);
    return blocks;
}

/* To the children, the largest subtrees first. BLOCKS are an inner rank's, its own first. */
static void send_down(struct vbn_sched *sched, const struct vbn_call *call,
                      const struct vbn_tree *tree, struct vbn_at blocks)
{
    size_t len = call->count * call->elem;

    for (uint64_t reach = tree->reach / tree->radix; reach; reach /= tree->radix)
        for (uint64_t d = reach; d < reach * tree->radix && vbn_tree_has(tree, d); d += reach) {
            uint32_t child = tree->me + (uint32_t)d, span = vbn_tree_span(tree, child, reach);
            struct vbn_at from =
                tree->me ? vbn_at_plus(blocks, d * len) : wrapped(sched, call, tree, child, span);

            vbn_sched_send(sched, vbn_tree_rank(tree, child), from, span * len, 0);
        }
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree(call);
    size_t len = call->count * call->elem;
    struct vbn_at mine = vbn_at(VBN_AT_RECV, 0), blocks = mine;
    uint32_t span = vbn_tree_span(&tree, tree.me, tree.reach);

    if (tree.me) {
        if (span > 1)
            blocks = vbn_sched_tmp(sched, span * len);
        vbn_sched_recv(sched, vbn_tree_rank(&tree, vbn_tree_parent(&tree)), blocks, span * len, 0,
                       true);
        vbn_sched_end(sched);
        send_down(sched, call, &tree, blocks);
        vbn_sched_copy(sched, mine, blocks, len);
    } else {
        send_down(sched, call, &tree, blocks);
        if (!call->in_place)
            vbn_sched_copy(sched, mine, vbn_at(VBN_AT_SEND, call->rank * len), len);
    }
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->depth = vbn_tree_levels(call);
    cost->rounds = cost->messages = vbn_tree_degree(call);
    cost->path_bytes = cost->bytes = (call->size - 1.0) * block;
    cost->all_messages = call->size - 1.0;
    cost->all_bytes = vbn_tree_path_sum(call->size, call->param) * block;
}

const struct vbn_algorithm vbn_scatter_knomial = {
    VBN_COLL_SCATTER, "knomial", VBN_ALGO_RADIX, 2, build, cost};
