/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chain towards the root, block by block: each rank puts its own before what came. The chain goes
 * down the ranks to rank 0, so that the operands' order is kept; where the operation commutes it is
 * turned to end at the root, otherwise rank 0 sends the result there.
 *
 * Cost: (n + p-2) (α + m (β+γ) / n) for n blocks.
 */
#include "algorithms.h"
#include "blocks.h"
#include "peers.h"

static uint32_t blocks_of(const struct vbn_call *call)
{
    return call->size > 2 ? vbn_blocks(call, call->size - 2.0) : 1;
}

struct chain {
    uint32_t n, me; /* blocks; counted from the chain's end */
    struct vbn_at result, got[2];
};

static struct chain chain(struct vbn_sched *sched, const struct vbn_call *call, uint32_t top)
{
    struct chain c = {.n = blocks_of(call), .me = vbn_behind(call->rank, top, call->size)};
    size_t longest = vbn_block_len(call, c.n, 0);

    c.got[0] = vbn_sched_tmp(sched, longest);
    c.got[1] = vbn_sched_tmp(sched, longest);
    c.result = vbn_at(VBN_AT_RECV, 0);
    if (!c.me && call->rank != call->root)
        c.result = vbn_sched_tmp(sched, call->count * call->elem);
    return c;
}

/* Block I comes into one of two places in turn, while the one before is on its way. */
static void take_block(struct vbn_sched *sched, const struct vbn_call *call, const struct chain *c,
                       uint32_t i)
{
    struct vbn_at own = vbn_at_plus(vbn_input(call), vbn_block_off(call, c->n, i));
    struct vbn_at value = own;
    size_t len = vbn_block_len(call, c->n, i);

    if (c->me + 1 < call->size) {
        value = c->got[i % 2];
        vbn_sched_recv(sched, vbn_ahead(call->rank, 1, call->size), value, len, i, false);
        vbn_sched_reduce(sched, value, own, len);
    }
    if (!c->me)
        vbn_sched_copy(sched, vbn_at_plus(c->result, vbn_block_off(call, c->n, i)), value, len);
}

static void pass_block(struct vbn_sched *sched, const struct vbn_call *call, const struct chain *c,
                       uint32_t i)
{
    struct vbn_at value = c->got[i % 2];

    if (!c->me)
        return;
    if (c->me + 1 == call->size)
        value = vbn_at_plus(vbn_input(call), vbn_block_off(call, c->n, i));
    vbn_sched_send(sched, vbn_behind(call->rank, 1, call->size), value,
                   vbn_block_len(call, c->n, i), i);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t top = vbn_top(call);
    size_t len = call->count * call->elem;
    struct chain c = chain(sched, call, top);

    for (uint32_t i = 0; i <= c.n; i++) {
        if (i)
            pass_block(sched, call, &c, i - 1);
        if (i < c.n)
            take_block(sched, call, &c, i);
        vbn_sched_end(sched);
    }
    if (call->rank == top && top != call->root)
        vbn_sched_send(sched, call->root, c.result, len, VBN_STEP_LAST);
    if (call->rank == call->root && top != call->root)
        vbn_sched_recv(sched, top, c.result, len, VBN_STEP_LAST, false);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem, n = blocks_of(call);

    cost->rounds = n + call->size - 2;
    cost->path_bytes = cost->rounds * m / n;
    cost->messages = n;
    cost->bytes = cost->reduced = m;
    cost->depth = call->size - 1.0;
    cost->all_messages = cost->depth * n;
    cost->all_bytes = cost->depth * m;
}

const struct vbn_algorithm vbn_reduce_chain = {VBN_COLL_REDUCE, "chain", VBN_ALGO_SEGMENT, 0,
                                               build,           cost};
