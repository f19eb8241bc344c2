/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root sends everybody its block, all at once.
 *
 * Cost: (p-1) (α + bβ) for blocks of b.
 */
#include "algorithms.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size;

    if (call->rank != call->root) {
        vbn_sched_recv(sched, call->root, vbn_at(VBN_AT_RECV, 0), call->count * call->elem, 0,
                       true);
        vbn_sched_end(sched);
        return;
    }
    for (uint32_t i = 1; i < p; i++) {
        uint32_t to = vbn_ahead(call->rank, i, p);

        vbn_sched_send(sched, to, vbn_at(VBN_AT_SEND, vbn_send_off(call, to)),
                       vbn_send_len(call, to), 0);
    }
    if (!call->in_place)
        vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0),
                       vbn_at(VBN_AT_SEND, vbn_send_off(call, call->rank)),
                       vbn_send_len(call, call->rank));
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->rounds * block;
    cost->depth = 1;
    cost->all_messages = cost->rounds;
    cost->all_bytes = cost->path_bytes;
}

const struct vbn_algorithm vbn_scatter_linear = {VBN_COLL_SCATTER, "linear", 0, 0, build, cost};
const struct vbn_algorithm vbn_scatterv_linear = {VBN_COLL_SCATTERV, "linear", 0, 0, build, cost};
