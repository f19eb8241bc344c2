/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedules' theory: J. L. Träff, Optimal broadcast schedules in logarithmic time, arXiv
 * 2407.18004; Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234.
 */
#include "circulant.h"
#include "peers.h"

#include <limits.h>

void vbn_circulant(uint32_t size, struct vbn_circulant *graph)
{
    graph->q = vbn_log2_ceil(size);
    graph->skip[graph->q] = size;
    for (unsigned k = graph->q; k-- > 0;)
        graph->skip[k] = (graph->skip[k + 1] + 1) / 2;
}

/* The last skip on the greedy path from 0 to RANK; q for rank 0. */
static unsigned base_block(const struct vbn_circulant *graph, uint32_t rank)
{
    for (unsigned k = graph->q; k-- > 0;) {
        if (graph->skip[k] == rank)
            return k;
        if (graph->skip[k] < rank)
            rank -= graph->skip[k];
    }
    return graph->q;
}

/* A search for the paths by which blocks come to a rank: each by another neighbour. */
struct search {
    const struct vbn_circulant *graph;
    uint64_t rank, bound; /* p + the rank; the last path taken ends here */
    bool taken[VBN_CIRCULANT_MAX];
    int *block;
};

static int next_free(const struct search *s, int e)
{
    do
        e--;
    while (e >= 0 && s->taken[e]);
    return e;
}

/*
 * From AT, goes on by skips E and smaller as far as neighbour K, and takes the first path that
 * ends in front of it and behind its successor. Returns the first neighbour without a block.
 */
static unsigned search_from(struct search *s, uint64_t at, int e, unsigned k)
{
    const uint32_t *skip = s->graph->skip;

    for (; e >= 0 && k < s->graph->q; e = next_free(s, e)) {
        uint64_t to = at + skip[e];

        if (to > s->rank - skip[k] || to >= s->bound)
            continue;
        if (to <= s->rank - skip[k + 1]) {
            k = search_from(s, to, e, k);
            if (k == s->graph->q)
                return k;
        }
        if (at > s->rank - skip[k + 1])
            return k;
        s->bound = to;
        s->block[k++] = e;
        s->taken[e] = true;
    }
    return k;
}

void vbn_circulant_recv_blocks(const struct vbn_circulant *graph, uint32_t rank,
                               int block[VBN_CIRCULANT_MAX])
{
    uint32_t p = graph->skip[graph->q];
    struct search s = {
        .graph = graph, .rank = (uint64_t)p + rank, .bound = (uint64_t)2 * p, .block = block};
    int base = (int)base_block(graph, rank), q = (int)graph->q;

    s.taken[base] = true;
    search_from(&s, 0, s.taken[q] ? next_free(&s, q) : q, 0);
    for (int k = 0; k < q; k++)
        block[k] = block[k] == q ? base : block[k] - q;
}

void vbn_circulant_send_blocks(const struct vbn_circulant *graph, uint32_t rank,
                               int block[VBN_CIRCULANT_MAX])
{
    uint32_t p = graph->skip[graph->q];
    int theirs[VBN_CIRCULANT_MAX] = {0};

    for (unsigned k = 0; k < graph->q; k++) {
        uint32_t to = vbn_ahead(rank, graph->skip[k], p);

        block[k] = INT_MIN;
        if (!to)
            continue;
        vbn_circulant_recv_blocks(graph, to, theirs);
        block[k] = theirs[k];
    }
}

size_t vbn_packed_off(const struct vbn_call *call, uint32_t i)
{
    if (call->coll == VBN_COLL_ALLREDUCE)
        return vbn_part(call->count, call->size, i) * call->elem;
    if (call->packed)
        return call->packed[i] * call->elem;
    return call->count * i * call->elem;
}

size_t vbn_turned_off(const struct vbn_call *call, uint32_t j)
{
    uint64_t i = (uint64_t)call->rank + j;
    size_t start = vbn_packed_off(call, call->rank);

    if (i <= call->size)
        return vbn_packed_off(call, (uint32_t)i) - start;
    return vbn_packed_off(call, call->size) - start +
           vbn_packed_off(call, (uint32_t)(i - call->size));
}

void vbn_turn(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at turned,
              struct vbn_at ordered)
{
    size_t start = vbn_packed_off(call, call->rank), end = vbn_packed_off(call, call->size);

    vbn_sched_copy(sched, turned, vbn_at_plus(ordered, start), end - start);
    vbn_sched_copy(sched, vbn_at_plus(turned, end - start), ordered, start);
}

void vbn_turn_back(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at ordered,
                   struct vbn_at turned)
{
    size_t start = vbn_packed_off(call, call->rank), end = vbn_packed_off(call, call->size);

    vbn_sched_copy(sched, vbn_at_plus(ordered, start), turned, end - start);
    vbn_sched_copy(sched, ordered, vbn_at_plus(turned, end - start), start);
}

/* Blocks [FROM, TO) of the turned vector, as a length. */
static size_t turned_len(const struct vbn_call *call, uint32_t from, uint32_t to)
{
    return vbn_turned_off(call, to) - vbn_turned_off(call, from);
}

/* What comes in all rounds together, and in the round with most: unequal blocks come in any mix. */
static size_t all_that_comes(const struct vbn_call *call, const struct vbn_circulant *graph,
                             size_t *most)
{
    size_t all = 0;

    *most = 0;
    for (unsigned k = 0; k < graph->q; k++) {
        size_t len = turned_len(call, 0, graph->skip[k + 1] - graph->skip[k]);

        all += len;
        *most = len > *most ? len : *most;
    }
    return all;
}

void vbn_circulant_reduce_scatter(struct vbn_sched *sched, const struct vbn_call *call,
                                  struct vbn_at vector, size_t step)
{
    struct vbn_circulant graph;
    struct vbn_at got;
    size_t all, most;
    bool early;

    vbn_circulant(call->size, &graph);
    all = all_that_comes(call, &graph, &most);
    early = vbn_is_early(all);
    got = vbn_sched_tmp(sched, early ? all : most);
    for (unsigned k = graph.q; k-- > 0; step++) {
        uint32_t skip = graph.skip[k], next = graph.skip[k + 1];
        size_t len = turned_len(call, 0, next - skip);

        vbn_sched_recv(sched, vbn_behind(call->rank, skip, call->size), got, len, step, early);
        vbn_sched_send(sched, vbn_ahead(call->rank, skip, call->size),
                       vbn_at_plus(vector, vbn_turned_off(call, skip)),
                       turned_len(call, skip, next), step);
        vbn_sched_reduce(sched, vector, got, len);
        vbn_sched_end(sched);
        if (early)
            got = vbn_at_plus(got, len);
    }
}

void vbn_circulant_allgather(struct vbn_sched *sched, const struct vbn_call *call,
                             struct vbn_at vector, size_t step)
{
    struct vbn_circulant graph;

    vbn_circulant(call->size, &graph);
    for (unsigned k = 0; k < graph.q; k++, step++) {
        uint32_t skip = graph.skip[k], next = graph.skip[k + 1];

        vbn_sched_recv(sched, vbn_ahead(call->rank, skip, call->size),
                       vbn_at_plus(vector, vbn_turned_off(call, skip)),
                       turned_len(call, skip, next), step, false);
        vbn_sched_send(sched, vbn_behind(call->rank, skip, call->size), vector,
                       turned_len(call, 0, next - skip), step);
        vbn_sched_end(sched);
    }
}
