/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everybody sends its block to the root, all at once.
 *
 * Cost: (p-1) (α + bβ) for blocks of b, at the root.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size;

    if (call->rank != call->root) {
        vbn_sched_send(sched, call->root, vbn_at(VBN_AT_SEND, 0), call->count * call->elem, 0);
        vbn_sched_end(sched);
        return;
    }
    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_ahead(call->rank, i, p);

        vbn_sched_recv(sched, from, vbn_gathered(call, from), vbn_recv_len(call, from), 0, true);
    }
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = call->size - 1.0;
    cost->path_bytes = cost->rounds * block;
    cost->depth = cost->messages = 1;
    cost->bytes = block;
    cost->all_messages = cost->rounds;
    cost->all_bytes = cost->path_bytes;
}

const struct vbn_algorithm vbn_gather_linear = {VBN_COLL_GATHER, "linear", 0, 0, build, cost};
const struct vbn_algorithm vbn_gatherv_linear = {VBN_COLL_GATHERV, "linear", 0, 0, build, cost};
