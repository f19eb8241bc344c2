/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector in p parts: scattered down a binomial tree, then gathered by all along a ring.
 *
 * Barnett, Gupta, Payne, Shuler, van de Geijn, Watts 1994; Thakur, Rabenseifner, Gropp 2005.
 * Cost: (⌈log2 p⌉ + p-1) α + 2 m β (p-1)/p.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"
#include "tree.h"

/* Where parts [FIRST, FIRST + COUNT) start, and their length. */
static size_t parts_off(const struct vbn_call *call, uint32_t first)
{
    return vbn_block_off(call, call->size, first);
}

static size_t parts_len(const struct vbn_call *call, uint32_t first, uint32_t count)
{
    return parts_off(call, first + count) - parts_off(call, first);
}

static void scatter(struct vbn_sched *sched, const struct vbn_call *call,
                    const struct vbn_tree *tree)
{
    uint32_t me = tree->me;

    if (me) {
        vbn_sched_recv(sched, vbn_tree_rank(tree, vbn_tree_parent(tree)),
                       vbn_at(VBN_AT_RECV, parts_off(call, me)),
                       parts_len(call, me, vbn_tree_span(tree, me, tree->reach)), 0, true);
        vbn_sched_end(sched);
    }
    for (uint64_t reach = tree->reach / 2; reach; reach /= 2) {
        uint32_t child = me + (uint32_t)reach;

        if (vbn_tree_has(tree, reach))
            vbn_sched_send(sched, vbn_tree_rank(tree, child),
                           vbn_at(VBN_AT_RECV, parts_off(call, child)),
                           parts_len(call, child, vbn_tree_span(tree, child, reach)), 0);
    }
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_tree tree = vbn_tree_at(call->size, call->root, call->rank, 2);
    uint32_t p = call->size, me = tree.me;

    scatter(sched, call, &tree);
    for (uint32_t i = 0; i + 1 < p; i++) {
        uint32_t out = vbn_behind(me, i, p), in = vbn_behind(me, i + 1, p);

        vbn_sched_recv(sched, vbn_behind(call->rank, 1, p),
                       vbn_at(VBN_AT_RECV, parts_off(call, in)), parts_len(call, in, 1), i + 1,
                       false);
        vbn_sched_send_late(sched, vbn_ahead(call->rank, 1, p),
                            vbn_at(VBN_AT_RECV, parts_off(call, out)), parts_len(call, out, 1),
                            i + 1);
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem, p = call->size;

    cost->rounds = cost->messages = vbn_log2_ceil(call->size) + p - 1;
    cost->path_bytes = cost->bytes = 2 * m * (p - 1) / p;
    cost->all_messages = (p + 1) * (p - 1);
    cost->all_bytes = (p - 1 + vbn_tree_path_sum(call->size, 2) / p) * m;
}

const struct vbn_algorithm vbn_bcast_scatter_allgather = {
    VBN_COLL_BCAST, "scatter_allgather", 0, 0, build, cost};
