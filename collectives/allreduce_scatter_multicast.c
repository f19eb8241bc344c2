/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter on a circulant graph (circulant.h), then each rank casts its block of the result.
 *
 * The cast: Hoefler, Siebert, Rehm 2007; Liu, Mamidala, Panda 2004 (bcast_multicast.c).
 * Cost: (⌈log2 p⌉ + p-1) α + m (2β+γ) (p-1)/p; p (⌈log2 p⌉ + 1) messages of all, of p m bytes.
 */
#include "algorithms.h"
#include "circulant.h"
#include "peers.h"

#define STEP_CAST VBN_CIRCULANT_MAX /* after those of the reduce-scatter */

static struct vbn_at block_at(const struct vbn_call *call, uint32_t i)
{
    return vbn_at(VBN_AT_RECV, vbn_packed_off(call, i));
}

/* The own block is the first of VECTOR, which is turned. */
static void gather(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at vector)
{
    uint32_t p = call->size, rank = call->rank;

    for (uint32_t i = 1; i < p; i++) {
        uint32_t from = vbn_behind(rank, i, p);

        vbn_sched_recv_cast(sched, from, block_at(call, from), vbn_packed_len(call, from),
                            STEP_CAST, !call->in_place);
    }
    vbn_sched_cast(sched, vector, vbn_packed_len(call, rank), STEP_CAST);
    vbn_sched_copy(sched, block_at(call, rank), vector, vbn_packed_len(call, rank));
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at vector = vbn_sched_tmp(sched, call->count * call->elem);

    vbn_turn(sched, call, vector, vbn_input(call));
    vbn_sched_end(sched);
    vbn_circulant_reduce_scatter(sched, call, vector, 0);
    gather(sched, call, vector);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double p = call->size, m = (double)call->count * (double)call->elem, others = m * (p - 1) / p;
    unsigned log = vbn_log2_ceil(call->size);

    cost->depth = cost->messages = log + 1;
    cost->rounds = log + p - 1;
    cost->path_bytes = 2 * others;
    cost->bytes = m;
    cost->reduced = others;
    cost->copied = m / p;
}

const struct vbn_algorithm vbn_allreduce_scatter_multicast = {
    VBN_COLL_ALLREDUCE, "scatter_multicast", VBN_ALGO_COMMUTATIVE | VBN_ALGO_GROUP, 0, build, cost};
