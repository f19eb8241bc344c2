/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A k-nomial tree: who has the data passes it to those 1, 2, … k-1 times the largest power of k
 * ahead, then with the next smaller power. A subtree is a range of ranks, counted from the root.
 *
 * Thakur, Rabenseifner, Gropp 2005, of which this is the binomial tree for k = 2.
 * Cost: ⌈log_k p⌉ (k-1) (α + mβ).
 */
#include "algorithms.h"
#include "peers.h"
#include "tree.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at data = vbn_at(VBN_AT_RECV, 0);
    size_t len = call->count * call->elem;
    struct vbn_tree tree = vbn_tree(call);

    if (tree.me) {
        vbn_sched_recv(sched, vbn_tree_rank(&tree, vbn_tree_parent(&tree)), data, len, 0, true);
        vbn_sched_end(sched);
    }
    for (uint64_t reach = tree.reach / tree.radix; reach; reach /= tree.radix)
        for (unsigned j = 1; j < tree.radix; j++)
            if (vbn_tree_has(&tree, j * reach))
                vbn_sched_send(sched, vbn_tree_child(&tree, j * reach), data, len, 0);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->rounds = vbn_log_ceil(call->size, call->param) * (double)(call->param - 1);
    cost->path_bytes = cost->rounds * m;
    cost->messages = vbn_tree_degree(call);
    cost->bytes = cost->messages * m;
}

const struct vbn_algorithm vbn_bcast_knomial = {VBN_COLL_BCAST, "knomial", VBN_ALGO_RADIX, 2,
                                                build,          cost};
