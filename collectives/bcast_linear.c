/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root sends to all others. Nobody passes anything on, so whoever has his message is done: for
 * few ranks that share a processor, where the messages of all count and not how many follow one
 * another.
 *
 * Cost: (p-1) (α + mβ).
 */
#include "algorithms.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at data = vbn_at(VBN_AT_RECV, 0);
    size_t len = call->count * call->elem;

    if (call->rank != call->root)
        vbn_sched_recv(sched, call->root, data, len, 0, true);
    for (uint32_t i = 1; i < call->size && call->rank == call->root; i++)
        vbn_sched_send(sched, vbn_ahead(call->root, i, call->size), data, len, 0);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->depth = 1;
    cost->rounds = cost->messages = cost->all_messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->all_bytes = cost->rounds * m;
}

const struct vbn_algorithm vbn_bcast_linear = {VBN_COLL_BCAST, "linear", VBN_ALGO_AT_ONCE, 0,
                                               build,          cost};
