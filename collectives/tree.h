/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The k-nomial tree of the k-nomial algorithms. Ranks are counted from the root: number v is rank
 * (root + v) mod p. With k^i the largest power of k that divides v, the children of v are
 * v + j·k^h, 0 < j < k, 0 ≤ h < i, and the subtree of v is the range [v, v + k^i).
 */
#ifndef VBN_TREE_H
#define VBN_TREE_H

#include <assert.h>

#include "algorithm.h"
#include "peers.h"

struct vbn_tree {
    uint32_t size, root, me; /* me: counted from the root */
    uint64_t radix;
    uint64_t reach; /* the subtree of `me` is [me, me + reach), cut at `size` */
};

static inline struct vbn_tree vbn_tree_at(uint32_t size, uint32_t root, uint32_t rank,
                                          uint64_t radix)
{
    struct vbn_tree tree = {size, root, vbn_behind(rank, root, size), radix < 2 ? 2 : radix, 1};

    while (tree.reach < size && tree.me % (tree.reach * tree.radix) == 0)
        tree.reach *= tree.radix;
    return tree;
}

static inline struct vbn_tree vbn_tree(const struct vbn_call *call)
{
    return vbn_tree_at(call->size, call->root, call->rank, call->param);
}

static inline uint32_t vbn_tree_rank(const struct vbn_tree *tree, uint32_t number)
{
    return vbn_ahead(tree->root, number, tree->size);
}

static inline uint32_t vbn_tree_parent(const struct vbn_tree *tree)
{
    uint64_t level = tree->reach * tree->radix;

    return level ? tree->me - (uint32_t)(tree->me % level) : 0;
}

/* Whether there is a child DISTANCE further on, and its rank. */
static inline bool vbn_tree_has(const struct vbn_tree *tree, uint64_t distance)
{
    return tree->me + distance < tree->size;
}

static inline uint32_t vbn_tree_child(const struct vbn_tree *tree, uint64_t distance)
{
    return vbn_tree_rank(tree, tree->me + (uint32_t)distance);
}

/* How many numbers are in the subtree at NUMBER that reaches REACH. */
static inline uint32_t vbn_tree_span(const struct vbn_tree *tree, uint32_t number, uint64_t reach)
{
    uint64_t rest = tree->size - number;

    return (uint32_t)(reach < rest ? reach : rest);
}

/* The root's LEN bytes at DATA to all, who have them at DATA too; EARLY as in schedule.h. */
void vbn_tree_pass_down(struct vbn_sched *sched, const struct vbn_tree *tree, struct vbn_at data,
                        size_t len, bool early);

/* Signals of all children are awaited. */
void vbn_tree_await(struct vbn_sched *sched, const struct vbn_tree *tree);

/* How many levels there are below the root; how many steps all ranks together are from it. */
static inline unsigned vbn_tree_levels(const struct vbn_call *call)
{
    return vbn_log_ceil(call->size, call->param);
}

static inline double vbn_tree_path_sum(uint32_t size, uint64_t radix)
{
    double sum = 0;

    assert(radix >= 2);
    for (uint64_t reach = 1; reach < size; reach *= radix) {
        uint64_t whole = size / (reach * radix), rest = size % (reach * radix);

        /* those whose digit here is not 0 */
        sum += (double)(whole * reach * (radix - 1) + (rest > reach ? rest - reach : 0));
    }
    return sum;
}

/* How many children the root has: as many messages, one after another, as the longest way has. They
 * are ⌈log_k p⌉ (k-1), as the algorithms' costs say, where p is a power of k, else fewer. */
static inline double vbn_tree_degree(const struct vbn_call *call)
{
    double degree = 0;

    for (uint64_t reach = 1; reach < call->size; reach *= call->param)
        for (uint64_t d = reach; d < reach * call->param && d < call->size; d += reach)
            degree++;
    return degree;
}

#endif
