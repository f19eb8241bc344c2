/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree, upwards. Subtrees are ranges of ranks, so the operands' order can be kept: an
 * operation that does not commute is reduced to rank 0, which sends the result to the root.
 *
 * Thakur, Rabenseifner, Gropp 2005, of which this is the binomial tree for k = 2.
 * Cost: ⌈log_k p⌉ (k-1) (α + m (β+γ)).
 */
#include "algorithms.h"
#include "combine.h"
#include "peers.h"
#include "tree.h"

/*
 * The children REACH, 2·REACH, … further on: one a round. Small ones have memory of their own, so
 * that they can come at any time; large ones come to the place that is free.
 */
static void take_level(struct vbn_sched *sched, const struct vbn_call *call,
                       const struct vbn_tree *tree, uint64_t reach, struct vbn_acc *acc)
{
    size_t len = call->count * call->elem;
    bool early = vbn_is_early(len);

    for (unsigned j = 1; j < tree->radix && vbn_tree_has(tree, j * reach); j++) {
        struct vbn_at got = early ? vbn_sched_tmp(sched, len) : acc->spare;

        vbn_sched_recv(sched, vbn_tree_child(tree, j * reach), got, len, 0, early);
        vbn_combine_higher_alone(sched, call, acc, got, len);
        vbn_sched_end(sched);
    }
}

/* Where the own value may be changed: the root has its result's place, others need scratch. */
static struct vbn_acc own_value(struct vbn_sched *sched, const struct vbn_call *call, bool root)
{
    size_t len = call->count * call->elem;
    struct vbn_acc acc;

    acc.value = root ? vbn_at(VBN_AT_RECV, 0) : vbn_sched_tmp(sched, len);
    acc.spare = vbn_sched_tmp(sched, len);
    vbn_sched_copy(sched, acc.value, vbn_input(call), len);
    vbn_sched_end(sched);
    return acc;
}

/* The top of the tree is not the root: it sends the result on. */
static void hand_over(struct vbn_sched *sched, const struct vbn_call *call, uint32_t top,
                      struct vbn_at value)
{
    size_t len = call->count * call->elem;

    if (call->rank == top && top != call->root)
        vbn_sched_send(sched, call->root, value, len, 1);
    if (call->rank == call->root && top != call->root)
        vbn_sched_recv(sched, top, vbn_at(VBN_AT_RECV, 0), len, 1, false);
    if (call->rank == call->root && top == call->root)
        vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0), value, len);
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t top = vbn_top(call);
    struct vbn_tree tree = vbn_tree_at(call->size, top, call->rank, call->param);
    size_t len = call->count * call->elem;
    bool leaf = tree.reach == 1 || !vbn_tree_has(&tree, 1);
    struct vbn_acc acc = {vbn_input(call), vbn_input(call)};

    if (!leaf || call->size == 1)
        acc = own_value(sched, call, call->rank == call->root);
    for (uint64_t reach = 1; reach < tree.reach; reach *= tree.radix)
        take_level(sched, call, &tree, reach, &acc);
    if (tree.me)
        vbn_sched_send(sched, vbn_tree_rank(&tree, vbn_tree_parent(&tree)), acc.value, len, 0);
    vbn_sched_end(sched);
    hand_over(sched, call, top, acc.value);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->depth = vbn_tree_levels(call);
    cost->rounds = vbn_tree_degree(call);
    cost->path_bytes = cost->rounds * m;
    cost->messages = 1;
    cost->bytes = m;
    cost->all_messages = call->size - 1.0;
    cost->all_bytes = cost->all_messages * m;
    cost->reduced = cost->rounds * m;
}

const struct vbn_algorithm vbn_reduce_knomial = {VBN_COLL_REDUCE, "knomial", VBN_ALGO_RADIX, 2,
                                                 build,           cost};
