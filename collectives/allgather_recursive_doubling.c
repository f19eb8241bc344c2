/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: in round i the survivors of the fold (peers.h) whose numbers differ in bit i
 * exchange all they have, which is a range of blocks.
 *
 * Thakur, Rabenseifner, Gropp 2005. With P = 2^⌊log2 p⌋:
 * Cost: log2 P α + (p-1) bβ for blocks of b; where p is no power of two 2α + p bβ more.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

/* The blocks of survivors FIRST … FIRST + COUNT - 1. */
static uint32_t range_len(struct vbn_fold fold, uint32_t first, uint32_t count)
{
    return vbn_fold_first(fold, first + count) - vbn_fold_first(fold, first);
}

static void stand_aside(struct vbn_sched *sched, const struct vbn_call *call)
{
    size_t len = vbn_recv_len(call, 0);

    vbn_sched_send(sched, call->rank - 1, vbn_own_block(call), len, 0);
    vbn_sched_end(sched);
    vbn_sched_recv(sched, call->rank - 1, vbn_gathered(call, 0), len * call->size, VBN_STEP_LAST,
                   false);
    vbn_sched_end(sched);
}

static void exchange(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_fold fold,
                     uint32_t mask, size_t step)
{
    uint32_t n = vbn_fold_number(fold, call->rank);
    uint32_t have = n & ~(mask - 1), want = have ^ mask;
    uint32_t peer = vbn_fold_first(fold, n ^ mask);
    size_t len = vbn_recv_len(call, 0);

    vbn_sched_recv(sched, peer, vbn_gathered(call, vbn_fold_first(fold, want)),
                   len * range_len(fold, want, mask), step, true);
    vbn_sched_send_late(sched, peer, vbn_gathered(call, vbn_fold_first(fold, have)),
                        len * range_len(fold, have, mask), step);
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_fold fold = vbn_fold(call->size);
    bool paired = vbn_fold_paired(fold, call->rank);
    size_t step = 1, len = vbn_recv_len(call, 0);

    if (paired && call->rank % 2) {
        stand_aside(sched, call);
        return;
    }
    if (paired)
        vbn_sched_recv(sched, call->rank + 1, vbn_gathered(call, call->rank + 1), len, 0, true);
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
    for (uint32_t mask = 1; mask < fold.pow2; mask *= 2, step++)
        exchange(sched, call, fold, mask, step);
    if (paired)
        vbn_sched_send(sched, call->rank + 1, vbn_gathered(call, 0), len * call->size,
                       VBN_STEP_LAST);
    vbn_sched_end(sched);
}

/*
 * The busiest is the first of a pair, where there is one, whose range has most blocks at each step;
 * of the slowest path, each step's longest message.
 */
static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_fold fold = vbn_fold(call->size);
    double block = (double)call->count * (double)call->elem;
    unsigned log = vbn_log2_ceil(fold.pow2), extra = fold.extra ? 1 : 0;

    for (uint32_t mask = 1; mask < fold.pow2; mask *= 2)
        cost->bytes += range_len(fold, 0, mask) * block;
    cost->bytes += extra * call->size * block;
    cost->rounds = log + 2 * extra;
    cost->messages = log + extra;
    cost->path_bytes = cost->bytes + extra * block;
    cost->all_messages = log * (double)fold.pow2 + 2.0 * fold.extra;
    cost->all_bytes = (call->size * (fold.pow2 - 1.0) + fold.extra * (call->size + 1.0)) * block;
}

const struct vbn_algorithm vbn_allgather_recursive_doubling = {
    VBN_COLL_ALLGATHER, "recursive_doubling", 0, 0, build, cost};
