/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everybody casts its block, all at once.
 *
 * The cast: Hoefler, Siebert, Rehm 2007; Liu, Mamidala, Panda 2004 (bcast_multicast.c).
 * Cost: (p-1) (α + bβ) for blocks of b, of which each is sent once.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;

    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_behind(rank, i, p);

        vbn_sched_recv_cast(sched, from, vbn_gathered(call, from), vbn_recv_len(call, from), 0,
                            true);
    }
    vbn_sched_cast(sched, vbn_own_block(call), vbn_recv_len(call, rank), 0);
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->depth = cost->messages = 1;
    cost->rounds = call->size - 1.0;
    cost->path_bytes = cost->rounds * block;
    cost->bytes = block;
}

const struct vbn_algorithm vbn_allgather_multicast = {
    VBN_COLL_ALLGATHER, "multicast", VBN_ALGO_GROUP, 0, build, cost};
const struct vbn_algorithm vbn_allgatherv_multicast = {
    VBN_COLL_ALLGATHERV, "multicast", VBN_ALGO_GROUP, 0, build, cost};
