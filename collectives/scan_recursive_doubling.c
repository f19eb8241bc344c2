/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling: with the sum of the last d ranks, give it to the rank d ahead and put what
 * comes from the rank d behind before it; then with 2d.
 *
 * W. D. Hillis, G. L. Steele: Data parallel algorithms, 1986.
 * Cost: ⌈log2 p⌉ (α + m (β+γ)); exscan: α + mβ + ⌈log2 (p-1)⌉ (α + m (β+γ)).
 */
#include "algorithms.h"
#include "peers.h"
#include "scan.h"

/* The value to begin with: the own one, or (exscan) that of the rank before. */
static void begin(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at value = vbn_at(VBN_AT_RECV, 0), own = vbn_input(call);
    size_t len = call->count * call->elem;

    if (call->coll == VBN_COLL_EXSCAN) {
        if (call->in_place && call->rank + 1 < call->size) {
            own = vbn_sched_tmp(sched, len);
            vbn_sched_copy(sched, own, value, len);
            vbn_sched_end(sched);
        }
        if (call->rank)
            vbn_sched_recv(sched, call->rank - 1, value, len, VBN_STEP_LAST, !call->in_place);
        if (call->rank + 1 < call->size)
            vbn_sched_send(sched, call->rank + 1, own, len, VBN_STEP_LAST);
    } else {
        vbn_sched_copy(sched, value, own, len);
    }
    vbn_sched_end(sched);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at value = vbn_at(VBN_AT_RECV, 0), got = vbn_at(VBN_AT_TMP, 0);
    size_t len = call->count * call->elem, step = 0;
    uint32_t first = vbn_scan_first(call);
    bool early = vbn_is_early(len);

    begin(sched, call);
    if (call->rank < first)
        return;
    if (!early)
        got = vbn_sched_tmp(sched, len);
    for (uint32_t d = 1; d < call->size - first; d *= 2, step++) {
        if (call->rank >= first + d) {
            if (early)
                got = vbn_sched_tmp(sched, len);
            vbn_sched_recv(sched, call->rank - d, got, len, step, early);
            vbn_sched_reduce(sched, value, got, len);
        }
        if (call->rank + d < call->size)
            vbn_sched_send(sched, call->rank + d, value, len, step);
        vbn_sched_end(sched);
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;
    uint32_t first = vbn_scan_first(call), n = call->size - first;
    unsigned log = vbn_log2_ceil(n);

    cost->rounds = log + first;
    cost->path_bytes = cost->rounds * m;
    cost->messages = cost->rounds;
    cost->bytes = cost->messages * m;
    cost->reduced = log * m;
    cost->all_messages = (double)n * log - ((1u << log) - 1.0) + first * n;
    cost->all_bytes = cost->all_messages * m;
}

const struct vbn_algorithm vbn_scan_recursive_doubling = {
    VBN_COLL_SCAN, "recursive_doubling", 0, 0, build, cost};
const struct vbn_algorithm vbn_exscan_recursive_doubling = {
    VBN_COLL_EXSCAN, "recursive_doubling", 0, 0, build, cost};
