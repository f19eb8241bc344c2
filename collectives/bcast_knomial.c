/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree: who has the data passes it to those 1, 2, … k-1 times the largest power of k
 * ahead, then with the next smaller power. A subtree is a range of ranks, counted from the root.
 *
 * Thakur, Rabenseifner, Gropp 2005, of which this is the binomial tree for k = 2.
 * Cost: ⌈log_k p⌉ (k-1) (α + mβ).
 */
#include "algorithms.h"
#include "tree.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree(call);

    vbn_tree_pass_down(sched, &tree, vbn_at(VBN_AT_RECV, 0), call->count * call->elem, true);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->depth = vbn_tree_levels(call);
    cost->rounds = cost->messages = vbn_tree_degree(call);
    cost->path_bytes = cost->bytes = cost->messages * m;
    cost->all_messages = call->size - 1.0;
    cost->all_bytes = cost->all_messages * m;
}

const struct vbn_algorithm vbn_bcast_knomial = {
    VBN_COLL_BCAST, "knomial", VBN_ALGO_RADIX | VBN_ALGO_AT_ONCE, 2, build, cost};
