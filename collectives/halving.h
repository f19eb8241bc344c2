/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rabenseifner's parts: the fold to a power of two, reduce-scatter by recursive halving, allgather
 * by recursive doubling. The vector lies at one place, in as many parts as there are survivors;
 * survivor n ends with part n. For operations that commute.
 *
 * R. Rabenseifner: Optimization of collective reduction operations, 2004; Thakur, Rabenseifner,
 * Gropp 2005.
 */
#ifndef VBN_HALVING_H
#define VBN_HALVING_H

#include "algorithm.h"
#include "peers.h"

struct vbn_halving {
    struct vbn_fold fold;
    uint32_t me, root, n; /* counted from the root; the survivor's number */
    bool survives;
    struct vbn_at vector;
};

/* ROOT is number 0, which always survives. */
struct vbn_halving vbn_halving(const struct vbn_call *call, uint32_t root, struct vbn_at vector);

/* Where parts from FIRST start; how long COUNT of them are. Bytes. */
size_t vbn_halving_off(const struct vbn_call *call, const struct vbn_halving *h, uint32_t first);
size_t vbn_halving_len(const struct vbn_call *call, const struct vbn_halving *h, uint32_t first,
                       uint32_t count);

/* The rank of survivor N. */
uint32_t vbn_halving_rank(const struct vbn_call *call, const struct vbn_halving *h, uint32_t n);

/* Each pair's second rank gives its vector to the first; and has the result back. */
void vbn_halving_fold(struct vbn_sched *sched, const struct vbn_call *call,
                      const struct vbn_halving *h);
void vbn_halving_unfold(struct vbn_sched *sched, const struct vbn_call *call,
                        const struct vbn_halving *h);

void vbn_halving_reduce_scatter(struct vbn_sched *sched, const struct vbn_call *call,
                                const struct vbn_halving *h);
void vbn_halving_allgather(struct vbn_sched *sched, const struct vbn_call *call,
                           const struct vbn_halving *h);

#endif
