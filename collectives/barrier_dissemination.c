/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dissemination: in round i everybody tells those j·k^i ahead, 0 < j < k, and hears from those as
 * far behind; after ⌈log_k p⌉ rounds everybody has heard of everybody.
 *
 * Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988.
 * Cost: ⌈log_k p⌉ α where a rank can send k-1 messages at once.
 */
#include "algorithms.h"
#include "peers.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint64_t radix = call->param;
    size_t step = 0;

    for (uint64_t reach = 1; reach < call->size; reach *= radix, step++) {
        for (uint64_t d = reach; d < radix * reach && d < call->size; d += reach) {
            vbn_sched_await(sched, vbn_behind(call->rank, (uint32_t)d, call->size), step);
            vbn_sched_signal(sched, vbn_ahead(call->rank, (uint32_t)d, call->size), step);
        }
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    uint64_t radix = call->param;

    cost->rounds = vbn_log_ceil(call->size, radix);
    for (uint64_t reach = 1; reach < call->size; reach *= radix)
        for (uint64_t d = reach; d < radix * reach && d < call->size; d += reach)
            cost->messages++;
}

const struct vbn_algorithm vbn_barrier_dissemination = {
    VBN_COLL_BARRIER, "dissemination", VBN_ALGO_RADIX, 2, build, cost};
