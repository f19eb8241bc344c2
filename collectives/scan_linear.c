/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank after the other puts the sum of those before to its own and passes it on.
 *
 * Cost: (p-1) (α + m (β+γ)).
 */
#include "algorithms.h"
#include "peers.h"

static void build_scan(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at value = vbn_at(VBN_AT_RECV, 0);
    size_t len = call->count * call->elem;
    struct vbn_at before = vbn_sched_tmp(sched, len);

    if (call->rank)
        vbn_sched_recv(sched, call->rank - 1, before, len, 0, true);
    vbn_sched_copy(sched, value, vbn_input(call), len);
    if (call->rank)
        vbn_sched_reduce(sched, value, before, len);
    vbn_sched_end(sched);
    if (call->rank + 1 < call->size)
        vbn_sched_send(sched, call->rank + 1, value, len, 0);
    vbn_sched_end(sched);
}

/* The sum goes on with the own value put to it; the result is the sum as it came. */
static void build_exscan(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at result = vbn_at(VBN_AT_RECV, 0), own = vbn_input(call);
    size_t len = call->count * call->elem;
    bool last = call->rank + 1 == call->size;
    struct vbn_at sum = vbn_sched_tmp(sched, len);

    if (call->rank && !last) {
        vbn_sched_copy(sched, sum, own, len);
        vbn_sched_end(sched);
    }
    if (call->rank)
        vbn_sched_recv(sched, call->rank - 1, result, len, 0, !call->in_place);
    if (call->rank && !last)
        vbn_sched_reduce(sched, sum, result, len);
    vbn_sched_end(sched);
    if (!last)
        vbn_sched_send(sched, call->rank + 1, call->rank ? sum : own, len, 0);
    vbn_sched_end(sched);
}

static void cost_scan(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->rounds = call->size - 1.0;
    cost->path_bytes = cost->rounds * m;
    cost->messages = 1;
    cost->bytes = cost->reduced = m;
    cost->all_messages = cost->rounds;
    cost->all_bytes = cost->path_bytes;
}

static void cost_exscan(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    cost_scan(call, cost);
    if (call->size < 3)
        cost->reduced = 0;
}

const struct vbn_algorithm vbn_scan_linear = {VBN_COLL_SCAN, "linear", 0, 0, build_scan, cost_scan};
const struct vbn_algorithm vbn_exscan_linear = {VBN_COLL_EXSCAN, "linear",   0, 0,
                                                build_exscan,    cost_exscan};
