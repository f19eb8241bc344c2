/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vector in n blocks over a circulant graph: in every round each rank sends one block to one
 * neighbour and receives another from another, which is the fewest rounds that can be.
 *
 * J. L. Träff: Optimal broadcast schedules in logarithmic time, arXiv 2407.18004.
 * Cost: (n-1 + ⌈log2 p⌉) (α + mβ/n).
 */
#include "algorithms.h"
#include "blocks.h"
#include "circulant.h"
#include "peers.h"

#include <limits.h>

static uint32_t blocks_of(const struct vbn_call *call)
{
    unsigned q = vbn_log2_ceil(call->size);

    return q > 1 ? vbn_blocks(call, q - 1) : 1;
}

/* The first SHIFT rounds of the first phase are left out, so that the last round ends a phase. */
static void shift_blocks(int *block, int q, int shift)
{
    for (int k = 0; k < q; k++)
        if (block[k] != INT_MIN)
            block[k] += (k < shift ? q : 0) - shift;
}

struct pass {
    const struct vbn_circulant *graph;
    uint32_t n, me;
    int in[VBN_CIRCULANT_MAX], out[VBN_CIRCULANT_MAX];
};

static void round_of(struct vbn_sched *sched, const struct vbn_call *call, struct pass *pass,
                     unsigned k, size_t step)
{
    uint32_t skip = pass->graph->skip[k], n = pass->n, block;

    if (pass->me && pass->in[k] >= 0) {
        block = (uint32_t)pass->in[k] < n ? (uint32_t)pass->in[k] : n - 1;
        vbn_sched_recv(sched, vbn_behind(call->rank, skip, call->size),
                       vbn_at(VBN_AT_RECV, vbn_block_off(call, n, block)),
                       vbn_block_len(call, n, block), step, true);
    }
    if (pass->out[k] >= 0) {
        block = (uint32_t)pass->out[k] < n ? (uint32_t)pass->out[k] : n - 1;
        vbn_sched_send_late(sched, vbn_ahead(call->rank, skip, call->size),
                            vbn_at(VBN_AT_RECV, vbn_block_off(call, n, block)),
                            vbn_block_len(call, n, block), step);
    }
    vbn_sched_end(sched);
    pass->in[k] += (int)pass->graph->q;
    if (pass->out[k] != INT_MIN)
        pass->out[k] += (int)pass->graph->q;
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    struct vbn_circulant graph;
    struct pass pass = {.graph = &graph, .n = blocks_of(call)};
    unsigned q, shift;

    if (call->size == 1)
        return;
    vbn_circulant(call->size, &graph);
    q = graph.q;
    shift = (q - (pass.n - 1) % q) % q;
    pass.me = vbn_behind(call->rank, call->root, call->size);
    vbn_circulant_recv_blocks(&graph, pass.me, pass.in);
    vbn_circulant_send_blocks(&graph, pass.me, pass.out);
    shift_blocks(pass.in, (int)q, (int)shift);
    shift_blocks(pass.out, (int)q, (int)shift);
    for (unsigned i = shift; i < pass.n - 1 + q + shift; i++)
        round_of(sched, call, &pass, i % q, i);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double m = (double)call->count * (double)call->elem, n = blocks_of(call);

    cost->rounds = cost->messages = n - 1 + vbn_log2_ceil(call->size);
    cost->path_bytes = cost->bytes = cost->rounds * m / n;
    cost->all_messages = (call->size - 1.0) * n;
    cost->all_bytes = (call->size - 1.0) * m;
}

const struct vbn_algorithm vbn_bcast_circulant = {VBN_COLL_BCAST, "circulant", VBN_ALGO_SEGMENT, 0,
                                                  build,          cost};
