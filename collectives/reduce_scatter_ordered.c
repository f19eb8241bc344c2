/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank sends everybody's block, all at once, and reduces what came for itself in rank order:
 * for operations that do not commute. It needs memory for p blocks.
 *
 * Cost: (p-1) α + m (β+γ) (p-1)/p for equal blocks, m of them all.
 */
#include "algorithms.h"
#include "circulant.h"
#include "peers.h"

static void send_all(struct vbn_sched *sched, const struct vbn_call *call)
{
    for (uint32_t i = 1; i < call->size; i++) {
        uint32_t to = vbn_ahead(call->rank, i, call->size);

        vbn_sched_send(sched, to, vbn_at_plus(vbn_input(call), vbn_packed_off(call, to)),
                       vbn_packed_len(call, to), 0);
    }
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;
    size_t off = vbn_packed_off(call, rank), len = vbn_packed_len(call, rank);
    struct vbn_at blocks = vbn_sched_tmp(sched, len * p);

    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_behind(rank, i, p);

        vbn_sched_recv(sched, from, vbn_at_plus(blocks, len * from), len, 0, true);
    }
    send_all(sched, call);
    vbn_sched_copy(sched, vbn_at_plus(blocks, len * rank), vbn_at_plus(vbn_input(call), off), len);
    for (uint32_t i = p - 1; i-- > 0;)
        vbn_sched_reduce(sched, vbn_at_plus(blocks, len * (p - 1)), vbn_at_plus(blocks, len * i),
                         len);
    vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0), vbn_at_plus(blocks, len * (p - 1)), len);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->depth = 1;
    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->reduced = block * (call->size - 1.0);
    cost->copied = block * call->size;
}

const struct vbn_algorithm vbn_reduce_scatter_ordered = {
    VBN_COLL_REDUCE_SCATTER, "ordered", 0, 0, build, cost};
const struct vbn_algorithm vbn_reduce_scatter_block_ordered = {
    VBN_COLL_REDUCE_SCATTER_BLOCK, "ordered", 0, 0, build, cost};
