/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank sends everybody's block, all at once, beginning with the next rank's so that not all
 * begin with the same.
 *
 * Cost: (p-1) (α + bβ) for blocks of b.
 */
#include "algorithms.h"
#include "exchanged.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;
    struct vbn_at copy = vbn_copy_blocks(sched, call);

    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_behind(rank, i, p);

        vbn_sched_recv(sched, from, vbn_block_in(call, from), vbn_recv_len(call, from), 0,
                       !call->in_place);
    }
    for (uint32_t i = 1; i < p; i++) {
        uint32_t to = vbn_ahead(rank, i, p);

        vbn_sched_send(sched, to, vbn_block_out(call, copy, to), vbn_block_out_len(call, to), 0);
    }
    if (!call->in_place)
        vbn_sched_copy(sched, vbn_block_in(call, rank), vbn_block_out(call, copy, rank),
                       vbn_recv_len(call, rank));
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->depth = 1;
    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->rounds * block;
}

const struct vbn_algorithm vbn_alltoall_linear = {VBN_COLL_ALLTOALL, "linear", 0, 0, build, cost};
const struct vbn_algorithm vbn_alltoallv_linear = {VBN_COLL_ALLTOALLV, "linear", 0, 0, build, cost};
