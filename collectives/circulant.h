/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Circulant graphs: rank r is a neighbour of r ± skip[k], where skip[q] = p, skip[k] is half of
 * skip[k+1] rounded up, and skip[0] = 1. J. L. Träff's papers are built on them.
 */
#ifndef VBN_CIRCULANT_H
#define VBN_CIRCULANT_H

#include "algorithm.h"

#define VBN_CIRCULANT_MAX 33 /* q + 1 for any number of ranks */

struct vbn_circulant {
    unsigned q; /* ⌈log2 p⌉ */
    uint32_t skip[VBN_CIRCULANT_MAX];
};

void vbn_circulant(uint32_t size, struct vbn_circulant *graph);

/*
 * Which block rank R (root: 0) receives in each of q rounds, counted from the phase's first: its
 * own block of this phase is ≥ 0, the others, of the phase before, are negative.
 */
void vbn_circulant_recv_blocks(const struct vbn_circulant *graph, uint32_t rank,
                               int block[VBN_CIRCULANT_MAX]);

/* The same for what it sends; what would go to rank 0 is INT_MIN. */
void vbn_circulant_send_blocks(const struct vbn_circulant *graph, uint32_t rank,
                               int block[VBN_CIRCULANT_MAX]);

/*
 * Reduce-scatter and allgather over a vector turned so that the own block comes first: block j of
 * VECTOR belongs to rank (rank + j) mod p. Blocks are vbn_turned_off()'s. Reduce-scatter leaves the
 * own block reduced, allgather takes it from there. STEP is the first tag's; q are used.
 */
void vbn_circulant_reduce_scatter(struct vbn_sched *sched, const struct vbn_call *call,
                                  struct vbn_at vector, size_t step);
void vbn_circulant_allgather(struct vbn_sched *sched, const struct vbn_call *call,
                             struct vbn_at vector, size_t step);

/* Where block I is when blocks lie one after the other in rank order; I = p is the end. */
size_t vbn_packed_off(const struct vbn_call *call, uint32_t i);

static inline size_t vbn_packed_len(const struct vbn_call *call, uint32_t i)
{
    return vbn_packed_off(call, i + 1) - vbn_packed_off(call, i);
}

/* Where block J is in the turned vector; J = p is the end. */
size_t vbn_turned_off(const struct vbn_call *call, uint32_t j);

/* Copies between the vector in rank order and the turned one. */
void vbn_turn(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at turned,
              struct vbn_at ordered);
void vbn_turn_back(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at ordered,
                   struct vbn_at turned);

#endif
