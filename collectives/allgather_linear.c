/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everybody sends its block to everybody, all at once.
 *
 * Cost: (p-1) (α + bβ) for blocks of b.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;

    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_behind(rank, i, p);

        vbn_sched_recv(sched, from, vbn_gathered(call, from), vbn_recv_len(call, from), 0, true);
    }
    for (uint32_t i = 1; i < p; i++)
        vbn_sched_send(sched, vbn_ahead(rank, i, p), vbn_own_block(call), vbn_recv_len(call, rank),
                       0);
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->depth = 1;
    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->messages * block;
}

const struct vbn_algorithm vbn_allgather_linear = {VBN_COLL_ALLGATHER, "linear", 0, 0, build, cost};
const struct vbn_algorithm vbn_allgatherv_linear = {
    VBN_COLL_ALLGATHERV, "linear", 0, 0, build, cost};
