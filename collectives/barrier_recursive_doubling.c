/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: in round i the ranks whose numbers differ in bit i tell each other. Where p
 * is no power of two, some ranks go in pairs (peers.h): the second tells the first before, and is
 * told after.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005.
 * Cost: ⌊log2 p⌋ α, and 2α more where p is no power of two.
 */
#include "algorithms.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_fold fold = vbn_fold(call->size);
    uint32_t rank = call->rank, n = vbn_fold_number(fold, rank);
    size_t step = 1;

    if (vbn_fold_paired(fold, rank) && rank % 2) {
        vbn_sched_signal(sched, rank - 1, 0);
        vbn_sched_await(sched, rank - 1, VBN_STEP_LAST);
        vbn_sched_end(sched);
        return;
    }
    if (vbn_fold_paired(fold, rank)) {
        vbn_sched_await(sched, rank + 1, 0);
        vbn_sched_end(sched);
    }
    for (uint32_t mask = 1; mask < fold.pow2; mask *= 2, step++) {
        vbn_sched_await(sched, vbn_fold_first(fold, n ^ mask), step);
        vbn_sched_signal(sched, vbn_fold_first(fold, n ^ mask), step);
        vbn_sched_end(sched);
    }
    if (vbn_fold_paired(fold, rank))
        vbn_sched_signal(sched, rank + 1, VBN_STEP_LAST);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_fold fold = vbn_fold(call->size);
    unsigned log = vbn_log2_ceil(fold.pow2);

    cost->rounds = log + (fold.extra ? 2 : 0);
    cost->messages = log + (fold.extra ? 1 : 0);
    cost->all_messages = log * (double)fold.pow2 + 2.0 * fold.extra;
}

const struct vbn_algorithm vbn_barrier_recursive_doubling = {
    VBN_COLL_BARRIER, "recursive_doubling", 0, 0, build, cost};
