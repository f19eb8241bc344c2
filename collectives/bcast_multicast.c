/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root casts the whole vector: one message, however many ranks there are.
 *
 * T. Hoefler, C. Siebert, W. Rehm: A practically constant-time MPI broadcast algorithm for
 * large-scale InfiniBand clusters with multicast, IPDPS 2007 workshops; J. Liu, A. R. Mamidala,
 * D. K. Panda: Fast and scalable MPI-level broadcast using InfiniBand's hardware multicast support,
 * IPDPS 2004. Here what multicast loses is the transport's business.
 * Cost: α + mβ.
 */
#include "algorithms.h"

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_at data = vbn_at(VBN_AT_RECV, 0);
    size_t len = call->count * call->elem;

    if (call->rank == call->root)
        vbn_sched_cast(sched, data, len, 0);
    else
        vbn_sched_recv_cast(sched, call->root, data, len, 0, true);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem;

    cost->depth = cost->rounds = cost->messages = cost->all_messages = 1;
    cost->path_bytes = cost->bytes = cost->all_bytes = m;
}

const struct vbn_algorithm vbn_bcast_multicast = {
    VBN_COLL_BCAST, "multicast", VBN_ALGO_AT_ONCE | VBN_ALGO_GROUP, 0, build, cost};
