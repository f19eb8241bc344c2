/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter by recursive halving, then allgather by recursive doubling.
 *
 * Rabenseifner 2004 (halving.h). With P = 2^⌊log2 p⌋:
 * Cost: 2 log2 P α + m (2β+γ) (P-1)/P, and 2α + m (2β+γ) more where p is no power of two.
 */
#include "algorithms.h"
#include "halving.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at vector = vbn_at(VBN_AT_RECV, 0);
    struct vbn_halving h = vbn_halving(call, 0, vector);

    vbn_sched_copy(sched, vector, vbn_input(call), call->count * call->elem);
    vbn_sched_end(sched);
    vbn_halving_fold(sched, call, &h);
    vbn_halving_reduce_scatter(sched, call, &h);
    vbn_halving_allgather(sched, call, &h);
    vbn_halving_unfold(sched, call, &h);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_fold fold = vbn_fold(call->size);
    double m = (double)call->count * (double)call->elem, part = 1.0 - 1.0 / fold.pow2;
    unsigned log = vbn_log2_ceil(fold.pow2), extra = fold.extra ? 1 : 0;

    cost->rounds = 2 * log + 2 * extra;
    cost->path_bytes = 2 * m * part + 2 * extra * m;
    cost->messages = 2 * log + extra;
    cost->bytes = 2 * m * part + extra * m;
    cost->reduced = m * part + extra * m;
    cost->all_messages = 2.0 * log * fold.pow2 + 2.0 * fold.extra;
    cost->all_bytes = 2 * (fold.pow2 - 1.0 + fold.extra) * m;
}

const struct vbn_algorithm vbn_allreduce_rabenseifner = {
    VBN_COLL_ALLREDUCE, "rabenseifner", VBN_ALGO_COMMUTATIVE, 0, build, cost};
