/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairwise exchange: in round i each rank sends the block of the rank i ahead, and puts what comes
 * from the rank i behind to its own. Little memory.
 *
 * Thakur, Rabenseifner, Gropp 2005.
 * Cost: (p-1) α + m (β+γ) (p-1)/p for equal blocks, m of them all.
 */
#include "algorithms.h"
#include "circulant.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;
    size_t len = vbn_packed_len(call, rank);
    struct vbn_at input = vbn_input(call), result = vbn_at(VBN_AT_RECV, 0);
    struct vbn_at got = vbn_sched_tmp(sched, len);
    struct vbn_at acc = call->in_place ? vbn_sched_tmp(sched, len) : result;

    vbn_sched_copy(sched, acc, vbn_at_plus(input, vbn_packed_off(call, rank)), len);
    vbn_sched_end(sched);
    for (uint32_t i = 1; i < p; i++) {
        uint32_t to = vbn_ahead(rank, i, p);

        vbn_sched_recv(sched, vbn_behind(rank, i, p), got, len, i, false);
        vbn_sched_send(sched, to, vbn_at_plus(input, vbn_packed_off(call, to)),
                       vbn_packed_len(call, to), i);
        vbn_sched_reduce(sched, acc, got, len);
        vbn_sched_end(sched);
    }
    vbn_sched_copy(sched, result, acc, len);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = cost->messages = call->size - 1.0;
    cost->path_bytes = cost->bytes = cost->reduced = block * (call->size - 1.0);
}

const struct vbn_algorithm vbn_reduce_scatter_pairwise = {
    VBN_COLL_REDUCE_SCATTER, "pairwise", VBN_ALGO_COMMUTATIVE, 0, build, cost};
const struct vbn_algorithm vbn_reduce_scatter_block_pairwise = {
    VBN_COLL_REDUCE_SCATTER_BLOCK, "pairwise", VBN_ALGO_COMMUTATIVE, 0, build, cost};
