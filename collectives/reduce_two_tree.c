/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks go up two binary trees over the ranks but the root, even ones the first, odd ones the
 * second. No rank takes any in both, so each sends the vector once and receives it once.
 *
 * A rank first sends the blocks of the tree in which it is a leaf: nothing has to come for those.
 * As every receive has memory of its own and is posted at the start, no two ranks wait for each
 * other, although each may be above the other in one of the trees.
 *
 * P. Sanders, J. Speck, J. L. Träff 2009 (two_tree.h).
 * Cost: (n + 2h) (α + m (β+γ) / n) for n blocks and trees of h levels.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"
#include "two_tree.h"

static uint32_t blocks_of(const struct vbn_call *call)
{
    uint32_t n = vbn_blocks(call, 2.0 * vbn_two_tree_levels(call->size - 1));

    return n > 1 && n % 2 && n < call->count ? n + 1 : n;
}

static uint32_t rank_of(const struct vbn_call *call, uint32_t number)
{
    return vbn_ahead(call->root, number, call->size); /* 0: the root */
}

static struct vbn_at own_at(const struct vbn_call *call, uint32_t n, uint32_t i)
{
    return vbn_at_plus(vbn_input(call), vbn_block_off(call, n, i));
}

/* Scratch for the blocks of one tree, and where block I is in it. */
static struct vbn_at half_tmp(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n)
{
    return vbn_sched_tmp(sched, (n + 1) / 2 * vbn_block_len(call, n, 0));
}

static struct vbn_at half_at(struct vbn_at half, const struct vbn_call *call, uint32_t n,
                             uint32_t i)
{
    return vbn_at_plus(half, i / 2 * vbn_block_len(call, n, 0));
}

/* The roots of both trees send their blocks to the place of the result, or if the root's own are
 * there to scratch. */
static void build_root(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n)
{
    struct vbn_at half[2] = {{VBN_AT_TMP, 0}, {VBN_AT_TMP, 0}}, result, got;

    for (unsigned t = 0; t < 2 && call->in_place; t++)
        half[t] = half_tmp(sched, call, n);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = vbn_block_len(call, n, i);

        result = vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i));
        got = call->in_place ? half_at(half[i % 2], call, n, i) : result;
        vbn_sched_recv(sched, rank_of(call, vbn_two_tree_root(call->size - 1, i % 2)), got, len, i,
                       true);
        vbn_sched_reduce(sched, result, call->in_place ? got : own_at(call, n, i), len);
        vbn_sched_end(sched);
    }
}

/* Block I of each child, and the own one, to where that of the first child comes to. */
static struct vbn_at take_block(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n,
                                uint32_t i, const uint32_t *child, const struct vbn_at *half)
{
    struct vbn_at value = half_at(half[0], call, n, i), got;
    size_t len = vbn_block_len(call, n, i);
    bool any = false;

    for (int c = 0; c < 2; c++) {
        if (!child[c])
            continue;
        got = any ? half_at(half[1], call, n, i) : value;
        vbn_sched_recv(sched, rank_of(call, child[c]), got, len, i, true);
        vbn_sched_reduce(sched, value, any ? got : own_at(call, n, i), len);
        any = true;
    }
    return value;
}

static void build_inner(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n,
                        const struct vbn_two_tree *tree)
{
    unsigned inner = tree->child[1][0] || tree->child[1][1];
    const uint32_t *child = tree->child[inner];
    bool leaf = !child[0] && !child[1]; /* in both trees */
    struct vbn_at half[2] = {{VBN_AT_TMP, 0}, {VBN_AT_TMP, 0}}, value;

    for (int c = 0; c < 2 && !leaf; c++)
        half[c] = half_tmp(sched, call, n);
    for (uint32_t i = leaf ? 0 : 1 - inner; i < n; i += leaf ? 1 : 2)
        vbn_sched_send(sched, rank_of(call, tree->parent[i % 2]), own_at(call, n, i),
                       vbn_block_len(call, n, i), i);
    vbn_sched_end(sched);
    for (uint32_t i = inner; i < n && !leaf; i += 2) {
        value = take_block(sched, call, n, i, child, half);
        vbn_sched_end(sched);
        vbn_sched_send(sched, rank_of(call, tree->parent[inner]), value, vbn_block_len(call, n, i),
                       i);
    }
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t me = vbn_behind(call->rank, call->root, call->size);
    struct vbn_two_tree tree;

    if (call->size == 1) {
        vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0), vbn_input(call), call->count * call->elem);
        vbn_sched_end(sched);
        return;
    }
    if (!me) {
        build_root(sched, call, blocks_of(call));
        return;
    }
    tree = vbn_two_tree(call->size - 1, me);
    build_inner(sched, call, blocks_of(call), &tree);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;
    uint32_t n = blocks_of(call), of_one_tree = (n + 1) / 2;

    cost->depth = vbn_two_tree_levels(call->size - 1);
    cost->rounds = n + 2.0 * cost->depth;
    cost->path_bytes = cost->rounds * m / n;
    cost->messages = n;
    cost->bytes = m;
    cost->reduced = call->size > 3 ? 2.0 * of_one_tree * m / n : m;
    cost->all_messages = (call->size - 1.0) * n;
    cost->all_bytes = (call->size - 1.0) * m;
}

const struct vbn_algorithm vbn_reduce_two_tree = {
    VBN_COLL_REDUCE, "two_tree", VBN_ALGO_SEGMENT | VBN_ALGO_COMMUTATIVE, 0, build, cost};
