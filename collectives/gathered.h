/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the blocks of a gathering are: at their places in the result, the own one put there. */
#ifndef VBN_GATHERED_H
#define VBN_GATHERED_H

#include "algorithm.h"

static inline struct vbn_at vbn_gathered(const struct vbn_call *call, uint32_t i)
{
    return vbn_at(VBN_AT_RECV, vbn_recv_off(call, i));
}

/* Where the own block is before anything was done. */
static inline struct vbn_at vbn_own_block(const struct vbn_call *call)
{
    return call->in_place ? vbn_gathered(call, call->rank) : vbn_at(VBN_AT_SEND, 0);
}

/* Copies the own block to its place, in this round. */
static inline void vbn_place_own(struct vbn_sched *sched, const struct vbn_call *call)
{
    if (!call->in_place)
        vbn_sched_copy(sched, vbn_gathered(call, call->rank), vbn_own_block(call),
                       vbn_recv_len(call, call->rank));
}

#endif
