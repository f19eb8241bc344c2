/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the blocks of an alltoall are. */
#ifndef VBN_EXCHANGED_H
#define VBN_EXCHANGED_H

#include "circulant.h"

/*
 * Where block I for rank I is: in place, in a copy of all blocks at COPY, one after the other,
 * because what comes takes its place.
 */
static inline struct vbn_at vbn_block_out(const struct vbn_call *call, struct vbn_at copy,
                                          uint32_t i)
{
    if (call->in_place)
        return vbn_at_plus(copy, vbn_packed_off(call, i));
    return vbn_at(VBN_AT_SEND, vbn_send_off(call, i));
}

static inline size_t vbn_block_out_len(const struct vbn_call *call, uint32_t i)
{
    return call->in_place ? vbn_recv_len(call, i) : vbn_send_len(call, i);
}

static inline struct vbn_at vbn_block_in(const struct vbn_call *call, uint32_t i)
{
    return vbn_at(VBN_AT_RECV, vbn_recv_off(call, i));
}

/* Makes that copy, in a round of its own; nothing if not in place. */
static inline struct vbn_at vbn_copy_blocks(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at copy = vbn_at(VBN_AT_TMP, 0);

    if (!call->in_place)
        return copy;
    copy = vbn_sched_tmp(sched, vbn_packed_off(call, call->size));
    for (uint32_t i = 0; i < call->size; i++)
        vbn_sched_copy(sched, vbn_at_plus(copy, vbn_packed_off(call, i)), vbn_block_in(call, i),
                       vbn_recv_len(call, i));
    vbn_sched_end(sched);
    return copy;
}

#endif
