/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck: who has the blocks of ranks r … r+s-1 gives them to rank r-s and has as many from rank
 * r+s, for s = 1, 2, 4, …; the last round only what is missing. The blocks lie in scratch, the own
 * one first, and are turned at the end.
 *
 * J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
 * communications in multiport message-passing systems, 1997.
 * Cost: ⌈log2 p⌉ α + (p-1) bβ for blocks of b.
 */
#include "algorithms.h"
#include "circulant.h"
#include "gathered.h"
#include "peers.h"

static void put_in_order(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at blocks)
{
    for (uint32_t j = call->in_place ? 1 : 0; j < call->size; j++) {
        uint32_t i = vbn_ahead(call->rank, j, call->size);

        vbn_sched_copy(sched, vbn_gathered(call, i), vbn_at_plus(blocks, vbn_turned_off(call, j)),
                       vbn_recv_len(call, i));
    }
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size;
    struct vbn_at blocks = vbn_sched_tmp(sched, vbn_packed_off(call, p));
    size_t step = 0;

    vbn_sched_copy(sched, blocks, vbn_own_block(call), vbn_recv_len(call, call->rank));
    vbn_sched_end(sched);
    for (uint64_t have = 1; have < p; have *= 2, step++) {
        uint32_t s = (uint32_t)have, more = s < p - s ? s : p - s;
        size_t off = vbn_turned_off(call, s);

        vbn_sched_recv(sched, vbn_ahead(call->rank, s, p), vbn_at_plus(blocks, off),
                       vbn_turned_off(call, s + more) - off, step, true);
        vbn_sched_send_late(sched, vbn_behind(call->rank, s, p), blocks, vbn_turned_off(call, more),
                            step);
        vbn_sched_end(sched);
    }
    put_in_order(sched, call, blocks);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    cost->rounds = cost->messages = vbn_log2_ceil(call->size);
    cost->path_bytes = cost->bytes = (call->size - 1.0) * block;
    cost->copied = call->size * block;
}

const struct vbn_algorithm vbn_allgather_bruck = {VBN_COLL_ALLGATHER, "bruck", 0, 0, build, cost};
const struct vbn_algorithm vbn_allgatherv_bruck = {VBN_COLL_ALLGATHERV, "bruck", 0, 0, build, cost};
