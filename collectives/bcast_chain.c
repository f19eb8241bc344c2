/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chain: each rank receives the vector from the one before and passes it on to the next, block by
 * block.
 *
 * Cost: (n + p-2) (α + mβ/n) for n blocks.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"

static uint32_t blocks_of(const struct vbn_call *call)
{
    return call->size > 2 ? vbn_blocks(call, call->size - 2.0) : 1;
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t n = blocks_of(call), p = call->size, me = vbn_behind(call->rank, call->root, p);

    for (uint32_t i = 0; i <= n; i++) {
        if (me && i < n)
            vbn_sched_recv(sched, vbn_behind(call->rank, 1, p),
                           vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i)),
                           vbn_block_len(call, n, i), i, true);
        if (me + 1 < p && i)
            vbn_sched_send_late(sched, vbn_ahead(call->rank, 1, p),
                                vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i - 1)),
                                vbn_block_len(call, n, i - 1), i - 1);
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem, n = blocks_of(call);

    cost->rounds = n + call->size - 2;
    cost->path_bytes = cost->rounds * m / n;
    cost->messages = n;
    cost->bytes = m;
    cost->depth = call->size - 1.0;
    cost->all_messages = cost->depth * n;
    cost->all_bytes = cost->depth * m;
}

const struct vbn_algorithm vbn_bcast_chain = {VBN_COLL_BCAST, "chain", VBN_ALGO_SEGMENT, 0,
                                              build,          cost};
