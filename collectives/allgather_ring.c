/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: each rank passes on to the next what came from the one before.
 *
 * Thakur, Rabenseifner, Gropp 2005.
 * Cost: (p-1) (α + bβ) for blocks of b.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;

    vbn_place_own(sched, call);
    vbn_sched_end(sched);
    for (uint32_t i = 0; i + 1 < p; i++) {
        uint32_t out = vbn_behind(rank, i, p), in = vbn_behind(rank, i + 1, p);
        size_t len = vbn_recv_len(call, in);

        vbn_sched_recv(sched, vbn_behind(rank, 1, p), vbn_gathered(call, in), len, i,
                       vbn_is_early(len) && p <= VBN_STEP_TAGS);
        vbn_sched_send_late(sched, vbn_ahead(rank, 1, p), vbn_gathered(call, out),
                            vbn_recv_len(call, out), i);
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->messages * block;
}

const struct vbn_algorithm vbn_allgather_ring = {VBN_COLL_ALLGATHER, "ring", 0, 0, build, cost};
const struct vbn_algorithm vbn_allgatherv_ring = {VBN_COLL_ALLGATHERV, "ring", 0, 0, build, cost};
