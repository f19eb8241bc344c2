/* SPDX-License-Identifier: BSD-3-Clause */
#include "tree.h"

void vbn_tree_pass_down(struct vbn_sched *sched, const struct vbn_tree *tree, struct vbn_at data,
                        size_t len, bool early)
{
    if (tree->me) {
        vbn_sched_recv(sched, vbn_tree_rank(tree, vbn_tree_parent(tree)), data, len, 0, early);
        vbn_sched_end(sched);
    }
    for (uint64_t reach = tree->reach / tree->radix; reach; reach /= tree->radix)
        for (unsigned j = 1; j < tree->radix; j++)
            if (vbn_tree_has(tree, j * reach))
                vbn_sched_send(sched, vbn_tree_child(tree, j * reach), data, len, 0);
    vbn_sched_end(sched);
}

void vbn_tree_await(struct vbn_sched *sched, const struct vbn_tree *tree)
{
    for (uint64_t reach = 1; reach < tree->reach; reach *= tree->radix)
        for (unsigned j = 1; j < tree->radix; j++)
            if (vbn_tree_has(tree, j * reach))
                vbn_sched_await(sched, vbn_tree_child(tree, j * reach), 0);
}
