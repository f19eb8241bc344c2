/* SPDX-License-Identifier: BSD-3-Clause */
/* Reducing what came in with what one has, in an order that the operation allows. */
#ifndef VBN_COMBINE_H
#define VBN_COMBINE_H

#include "algorithm.h"

/* A value and a free place of its length; combining may exchange the two. */
struct vbn_acc {
    struct vbn_at value, spare;
};

/* value = GOT ∘ value: what came is of lower ranks. */
static inline void vbn_combine_lower(struct vbn_sched *sched, struct vbn_acc *acc,
                                     struct vbn_at got, size_t len)
{
    vbn_sched_reduce(sched, acc->value, got, len);
}

/* value = value ∘ GOT: what came is of higher ranks. The result is where GOT was. */
static inline void vbn_combine_higher(struct vbn_sched *sched, struct vbn_acc *acc,
                                      struct vbn_at got, size_t len)
{
    vbn_sched_reduce(sched, got, acc->value, len);
    acc->spare = acc->value;
    acc->value = got;
}

/* The same where no other rank works out this value: what commutes need not keep the order, and
 * stays where it is. Two that work it out must find the same bits, and what commutes need not
 * commute to the bit: the least of a NaN and 1 is the one that is asked about. */
static inline void vbn_combine_higher_alone(struct vbn_sched *sched, const struct vbn_call *call,
                                            struct vbn_acc *acc, struct vbn_at got, size_t len)
{
    if (call->commutative)
        vbn_combine_lower(sched, acc, got, len);
    else
        vbn_combine_higher(sched, acc, got, len);
}

#endif
