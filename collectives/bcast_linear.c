/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root sends to all others. Nobody passes anything on, so whoever has his message is done: for
 * few ranks that share a processor, where the messages of all count and not how many follow one
 * another.
 *
 * Cost: (p-1) (nα + mβ) for n blocks: one, or as many as segments that are asked for make.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"

#define NO_DELAY 0 /* nobody passes blocks on: the model's number of them is one */

/* The N blocks. */
static void send_blocks(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n,
                        uint32_t to)
{
    for (uint32_t i = 0; i < n; i++)
        vbn_sched_send(sched, to, vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i)),
                       vbn_block_len(call, n, i), i);
}

static void recv_blocks(struct vbn_sched *sched, const struct vbn_call *call, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        vbn_sched_recv(sched, call->root, vbn_at(VBN_AT_RECV, vbn_block_off(call, n, i)),
                       vbn_block_len(call, n, i), i, true);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t n = vbn_blocks(call, NO_DELAY);

    if (call->rank != call->root)
        recv_blocks(sched, call, n);
    for (uint32_t i = 1; i < call->size && call->rank == call->root; i++)
        send_blocks(sched, call, n, vbn_ahead(call->root, i, call->size));
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem, others = call->size - 1.0;

    cost->depth = 1;
    cost->rounds = cost->messages = cost->all_messages = others * vbn_blocks(call, NO_DELAY);
    cost->path_bytes = cost->bytes = cost->all_bytes = others * m;
}

const struct vbn_algorithm vbn_bcast_linear = {
    VBN_COLL_BCAST, "linear", VBN_ALGO_AT_ONCE | VBN_ALGO_SEGMENT, 0, build, cost};
