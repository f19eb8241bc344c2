/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter by recursive halving, then the parts go to the root down a binomial tree.
 *
 * Rabenseifner 2004 (halving.h). With P = 2^⌊log2 p⌋:
 * Cost: 2 log2 P α + m (2β+γ) (P-1)/P, and α + m (β+γ) more where p is no power of two.
 */
#include "algorithms.h"
#include "halving.h"

#define STEP_GATHER 80 /* after the tags of halving.c */

/* Survivor N has parts [N, N + mask) and either gives them, or has as many more. */
static void gather(struct vbn_sched *sched, const struct vbn_call *call,
                   const struct vbn_halving *h)
{
    size_t step = STEP_GATHER;

    for (uint32_t mask = 1; h->survives && mask < h->fold.pow2; mask *= 2, step++) {
        uint32_t peer = vbn_halving_rank(call, h, h->n ^ mask);

        if (h->n & mask) {
            vbn_sched_send(sched, peer, vbn_at_plus(h->vector, vbn_halving_off(call, h, h->n)),
                           vbn_halving_len(call, h, h->n, mask), step);
            vbn_sched_end(sched);
            return;
        }
        vbn_sched_recv(sched, peer, vbn_at_plus(h->vector, vbn_halving_off(call, h, h->n + mask)),
                       vbn_halving_len(call, h, h->n + mask, mask), step, false);
        vbn_sched_end(sched);
    }
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    size_t len = call->count * call->elem;
    bool root = call->rank == call->root;
    struct vbn_at vector = root ? vbn_at(VBN_AT_RECV, 0) : vbn_sched_tmp(sched, len);
    struct vbn_halving h = vbn_halving(call, call->root, vector);

    vbn_sched_copy(sched, vector, vbn_input(call), len);
    vbn_sched_end(sched);
    vbn_halving_fold(sched, call, &h);
    vbn_halving_reduce_scatter(sched, call, &h);
    gather(sched, call, &h);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    struct vbn_fold fold = vbn_fold(call->size);
    double m = (double)call->count * (double)call->elem, part = 1.0 - 1.0 / fold.pow2;
    unsigned log = vbn_log2_ceil(fold.pow2), extra = fold.extra ? 1 : 0;

    cost->rounds = 2 * log + extra;
    cost->path_bytes = 2 * m * part + extra * m;
    cost->messages = log + 1;
    cost->bytes = m * part + m / 2;
    cost->reduced = m * part + extra * m;
    cost->all_messages = (log + 1.0) * fold.pow2 - 1 + fold.extra;
    cost->all_bytes = (fold.pow2 - 1.0 + fold.extra + log / 2.0) * m;
}

const struct vbn_algorithm vbn_reduce_rabenseifner = {
    VBN_COLL_REDUCE, "rabenseifner", VBN_ALGO_COMMUTATIVE, 0, build, cost};
