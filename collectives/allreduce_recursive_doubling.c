/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: in round i the survivors of the fold (peers.h) whose numbers differ in bit i
 * exchange what they have. Each has a range of ranks, so the operands' order is kept.
 *
 * Thakur, Rabenseifner, Gropp 2005. With P = 2^⌊log2 p⌋:
 * Cost: log2 P (α + m (β+γ)), and 2α + m (2β+γ) more where p is no power of two.
 */
#include "algorithms.h"
#include "combine.h"
#include "peers.h"

/* Small vectors come to memory of their own, so that they can come at any time. */
static struct vbn_at room_for(struct vbn_sched *sched, const struct vbn_acc *acc, size_t len)
{
    return vbn_is_early(len) ? vbn_sched_tmp(sched, len) : acc->spare;
}

static void fold_in(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_acc *acc)
{
    size_t len = call->count * call->elem;
    struct vbn_at got = room_for(sched, acc, len);

    vbn_sched_recv(sched, call->rank + 1, got, len, 0, vbn_is_early(len));
    vbn_combine_higher_alone(sched, call, acc, got, len);
    vbn_sched_end(sched);
}

static void exchange(struct vbn_sched *sched, const struct vbn_call *call, uint32_t peer,
                     size_t step, struct vbn_acc *acc)
{
    size_t len = call->count * call->elem;
    struct vbn_at got = room_for(sched, acc, len);

    vbn_sched_recv(sched, peer, got, len, step, vbn_is_early(len));
    vbn_sched_send(sched, peer, acc->value, len, step);
    if (peer < call->rank)
        vbn_combine_lower(sched, acc, got, len);
    else
        vbn_combine_higher(sched, acc, got, len);
    vbn_sched_end(sched);
}

/* The second of a pair has no part in it: its vector goes from where it is. */
static void stand_aside(struct vbn_sched *sched, const struct vbn_call *call)
{
    size_t len = call->count * call->elem;

    vbn_sched_send(sched, call->rank - 1, vbn_input(call), len, 0);
    vbn_sched_end(sched);
    vbn_sched_recv(sched, call->rank - 1, vbn_at(VBN_AT_RECV, 0), len, VBN_STEP_LAST,
                   !call->in_place);
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_fold fold = vbn_fold(call->size);
    uint32_t n = vbn_fold_number(fold, call->rank);
    size_t len = call->count * call->elem, step = 1;
    bool paired = vbn_fold_paired(fold, call->rank);
    struct vbn_acc acc = {vbn_at(VBN_AT_RECV, 0), vbn_at(VBN_AT_TMP, 0)};

    if (paired && call->rank % 2) {
        stand_aside(sched, call);
        return;
    }
    if (!vbn_is_early(len))
        acc.spare = vbn_sched_tmp(sched, len);
    vbn_sched_copy(sched, acc.value, vbn_input(call), len);
    vbn_sched_end(sched);
    if (paired)
        fold_in(sched, call, &acc);
    for (uint32_t mask = 1; mask < fold.pow2; mask *= 2, step++)
        exchange(sched, call, vbn_fold_first(fold, n ^ mask), step, &acc);
    if (paired)
        vbn_sched_send(sched, call->rank + 1, acc.value, len, VBN_STEP_LAST);
    vbn_sched_end(sched);
    vbn_sched_copy(sched, vbn_at(VBN_AT_RECV, 0), acc.value, len);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_fold fold = vbn_fold(call->size);
    double m = (double)call->count * (double)call->elem;
    unsigned log = vbn_log2_ceil(fold.pow2), extra = fold.extra ? 1 : 0;

    cost->rounds = log + 2 * extra;
    cost->path_bytes = cost->rounds * m;
    cost->messages = log + extra;
    cost->bytes = cost->reduced = cost->messages * m;
    cost->copied = m; /* where the result comes to lie beside its place */
    cost->all_messages = log * (double)fold.pow2 + 2.0 * fold.extra;
    cost->all_bytes = cost->all_messages * m;
}

const struct vbn_algorithm vbn_allreduce_recursive_doubling = {
    VBN_COLL_ALLREDUCE, "recursive_doubling", 0, 0, build, cost};
