/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks go down two binary trees over the ranks but the root, even ones the first, odd ones the
 * second. No rank passes on in both, so each sends and receives the vector once.
 *
 * P. Sanders, J. Speck, J. L. Träff 2009 (two_tree.h).
 * Cost: (n + 2h) (α + mβ/n) for n blocks and trees of h levels.
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
    return vbn_ahead(call->root, number, call->size);
}

static struct vbn_at block_at(const struct vbn_call *call, uint32_t n, uint32_t i)
{
    return vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i));
}

static void build_root(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        vbn_sched_send_late(sched, rank_of(call, vbn_two_tree_root(call->size - 1, i % 2)),
                            block_at(call, n, i), vbn_block_len(call, n, i), i);
        if (i % 2)
            vbn_sched_end(sched);
    }
    vbn_sched_end(sched);
}

static void pass_on(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n, uint32_t i,
                    const uint32_t *child)
{
    for (int c = 0; c < 2; c++)
        if (child[c])
            vbn_sched_send_late(sched, rank_of(call, child[c]), block_at(call, n, i),
                                vbn_block_len(call, n, i), i);
}

/*
 * Only the blocks that this rank passes on are waited for one by one. Those of the tree in which it
 * is a leaf come when they come: their senders may themselves be waiting for what it passes on.
 */
static void build_inner(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n,
                        const struct vbn_two_tree *tree)
{
    uint32_t inner = tree->child[1][0] ? 1 : 0;

    for (uint32_t i = inner; i < n + 2; i += 2) {
        if (i < n)
            vbn_sched_recv(sched, rank_of(call, tree->parent[inner]), block_at(call, n, i),
                           vbn_block_len(call, n, i), i, true);
        if (i >= 2)
            pass_on(sched, call, n, i - 2, tree->child[inner]);
        if (i < n)
            vbn_sched_end(sched);
    }
    for (uint32_t i = 1 - inner; i < n; i += 2)
        vbn_sched_recv(sched, rank_of(call, tree->parent[1 - inner]), block_at(call, n, i),
                       vbn_block_len(call, n, i), i, true);
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t me = vbn_behind(call->rank, call->root, call->size), n;
    struct vbn_two_tree tree;

    if (call->size == 1)
        return;
    n = blocks_of(call);
    if (!me) {
        build_root(sched, call, n);
        return;
    }
    tree = vbn_two_tree(call->size - 1, me);
    build_inner(sched, call, n, &tree);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;
    uint32_t n = blocks_of(call), of_one_tree = (n + 1) / 2;

    cost->rounds = n + 2.0 * vbn_two_tree_levels(call->size - 1);
    cost->path_bytes = cost->rounds * m / n;
    cost->messages = call->size > 3 ? 2.0 * of_one_tree : n;
    cost->bytes = cost->messages * m / n;
    cost->depth = vbn_two_tree_levels(call->size - 1);
    cost->all_messages = (call->size - 1.0) * n;
    cost->all_bytes = (call->size - 1.0) * m;
}

const struct vbn_algorithm vbn_bcast_two_tree = {VBN_COLL_BCAST, "two_tree", VBN_ALGO_SEGMENT, 0,
                                                 build,          cost};
