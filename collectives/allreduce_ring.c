/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: each of p parts goes round once to be reduced, and once more to be known.
 *
 * P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations,
 * 2009. Cost: 2 (p-1) α + m (2β+γ) (p-1)/p.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;
    struct vbn_at vector = vbn_at(VBN_AT_RECV, 0);
    struct vbn_at got = vbn_sched_tmp(sched, vbn_block_len(call, p, 0));

    vbn_sched_copy(sched, vector, vbn_input(call), call->count * call->elem);
    vbn_sched_end(sched);
    for (uint32_t i = 0; i < 2 * (p - 1); i++) {
        bool reducing = i < p - 1;
        uint32_t out = vbn_behind(rank, i % p, p), in = vbn_behind(rank, (i + 1) % p, p);
        struct vbn_at place = vbn_at_plus(vector, vbn_block_off(call, p, in));

        vbn_sched_recv(sched, vbn_behind(rank, 1, p), reducing ? got : place,
                       vbn_block_len(call, p, in), i, false);
        vbn_sched_send(sched, vbn_ahead(rank, 1, p),
                       vbn_at_plus(vector, vbn_block_off(call, p, out)),
                       vbn_block_len(call, p, out), i);
        if (reducing)
            vbn_sched_reduce(sched, place, got, vbn_block_len(call, p, in));
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double p = call->size, m = (double)call->count * (double)call->elem * (p - 1) / p;

    cost->rounds = cost->messages = 2 * (p - 1);
    cost->path_bytes = cost->bytes = 2 * m;
    cost->reduced = m;
}

const struct vbn_algorithm vbn_allreduce_ring = {
    VBN_COLL_ALLREDUCE, "ring", VBN_ALGO_COMMUTATIVE, 0, build, cost};
