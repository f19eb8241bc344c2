/* SPDX-License-Identifier: BSD-3-Clause */
#include "halving.h"

/* Tags: 0 the fold, then one a round from each of these, and the last for the unfold. */
#define STEP_HALVE  1
#define STEP_GATHER 40

struct vbn_halving vbn_halving(const struct vbn_call *call, uint32_t root, struct vbn_at vector)
{
    struct vbn_halving h = {
        .fold = vbn_fold(call->size), .root = root, .vector = vector, .survives = true};

    h.me = vbn_behind(call->rank, root, call->size);
    h.n = vbn_fold_number(h.fold, h.me);
    if (vbn_fold_paired(h.fold, h.me) && h.me % 2)
        h.survives = false;
    return h;
}

size_t vbn_halving_off(const struct vbn_call *call, const struct vbn_halving *h, uint32_t first)
{
    return vbn_part(call->count, h->fold.pow2, first) * call->elem;
}

size_t vbn_halving_len(const struct vbn_call *call, const struct vbn_halving *h, uint32_t first,
                       uint32_t count)
{
    return vbn_halving_off(call, h, first + count) - vbn_halving_off(call, h, first);
}

static uint32_t rank_of(const struct vbn_call *call, const struct vbn_halving *h, uint32_t number)
{
    return vbn_ahead(h->root, number, call->size);
}

uint32_t vbn_halving_rank(const struct vbn_call *call, const struct vbn_halving *h, uint32_t n)
{
    return rank_of(call, h, vbn_fold_first(h->fold, n));
}

void vbn_halving_fold(struct vbn_sched *sched, const struct vbn_call *call,
                      const struct vbn_halving *h)
{
    size_t len = call->count * call->elem;
    struct vbn_at got;

    if (!vbn_fold_paired(h->fold, h->me))
        return;
    if (!h->survives) {
        vbn_sched_send(sched, rank_of(call, h, h->me - 1), h->vector, len, 0);
    } else {
        got = vbn_sched_tmp(sched, len);
        vbn_sched_recv(sched, rank_of(call, h, h->me + 1), got, len, 0, true);
        vbn_sched_reduce(sched, h->vector, got, len);
    }
    vbn_sched_end(sched);
}

void vbn_halving_unfold(struct vbn_sched *sched, const struct vbn_call *call,
                        const struct vbn_halving *h)
{
    size_t len = call->count * call->elem;

    if (!vbn_fold_paired(h->fold, h->me))
        return;
    if (h->survives)
        vbn_sched_send(sched, rank_of(call, h, h->me + 1), h->vector, len, VBN_STEP_LAST);
    else
        vbn_sched_recv(sched, rank_of(call, h, h->me - 1), h->vector, len, VBN_STEP_LAST, false);
    vbn_sched_end(sched);
}

/* What comes in all rounds together: more than the vector where it is short of elements. */
static size_t all_that_comes(const struct vbn_call *call, const struct vbn_halving *h)
{
    size_t all = 0;

    for (uint32_t mask = h->fold.pow2 / 2; mask; mask /= 2)
        all += vbn_halving_len(call, h, h->n & ~(mask - 1), mask);
    return all;
}

/* Of the range of parts that is still whole here, the half with the own part is kept. */
void vbn_halving_reduce_scatter(struct vbn_sched *sched, const struct vbn_call *call,
                                const struct vbn_halving *h)
{
    size_t step = STEP_HALVE;
    struct vbn_at got;

    if (!h->survives)
        return;
    got = vbn_sched_tmp(sched, all_that_comes(call, h));
    for (uint32_t mask = h->fold.pow2 / 2; mask; mask /= 2, step++) {
        uint32_t keep = h->n & ~(mask - 1), give = keep ^ mask;
        size_t len = vbn_halving_len(call, h, keep, mask);
        uint32_t peer = vbn_halving_rank(call, h, h->n ^ mask);

        vbn_sched_recv(sched, peer, got, len, step, true);
        vbn_sched_send(sched, peer, vbn_at_plus(h->vector, vbn_halving_off(call, h, give)),
                       vbn_halving_len(call, h, give, mask), step);
        vbn_sched_reduce(sched, vbn_at_plus(h->vector, vbn_halving_off(call, h, keep)), got, len);
        vbn_sched_end(sched);
        got = vbn_at_plus(got, len);
    }
}

void vbn_halving_allgather(struct vbn_sched *sched, const struct vbn_call *call,
                           const struct vbn_halving *h)
{
    size_t step = STEP_GATHER;

    if (!h->survives)
        return;
    for (uint32_t mask = 1; mask < h->fold.pow2; mask *= 2, step++) {
        uint32_t have = h->n & ~(mask - 1), want = have ^ mask;
        uint32_t peer = vbn_halving_rank(call, h, h->n ^ mask);

        vbn_sched_recv(sched, peer, vbn_at_plus(h->vector, vbn_halving_off(call, h, want)),
                       vbn_halving_len(call, h, want, mask), step, false);
        vbn_sched_send(sched, peer, vbn_at_plus(h->vector, vbn_halving_off(call, h, have)),
                       vbn_halving_len(call, h, have, mask), step);
        vbn_sched_end(sched);
    }
}
