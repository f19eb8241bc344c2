/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour exchange: the ranks of a pair exchange their blocks; then every rank exchanges two
 * blocks, the last it had, with the neighbour on one side and on the other in turn. For an even
 * number of ranks.
 *
 * J. Chen, L. Zhang, Y. Zhang, W. Yuan: Performance evaluation of allgather algorithms on
 * terascale Linux cluster with fast Ethernet, 2005.
 * Cost: p/2 α + (p-1) bβ for blocks of b.
 */
#include "algorithms.h"
#include "gathered.h"
#include "peers.h"

/* The pair of blocks, by its even one, that comes in round I ≥ 1: outwards on both sides in turn.
 */
static uint32_t pair_in(uint32_t rank, uint32_t i, uint32_t p)
{
    uint32_t own = rank & ~1u, far = (i + 1) / 2 * 2;
    bool down = (rank % 2 == 0) == (i % 2 == 1);

    return down ? vbn_behind(own, far, p) : vbn_ahead(own, far, p);
}

static uint32_t peer_in(uint32_t rank, uint32_t i, uint32_t p)
{
    return (rank % 2 == 0) == (i % 2 == 0) ? vbn_ahead(rank, 1, p) : vbn_behind(rank, 1, p);
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank, out = rank & ~1u;
    size_t len = vbn_recv_len(call, 0);

    if (p > 1) {
        vbn_sched_recv(sched, rank ^ 1, vbn_gathered(call, rank ^ 1), len, 0, true);
        vbn_sched_send_late(sched, rank ^ 1, vbn_own_block(call), len, 0);
    }
    vbn_place_own(sched, call);
    vbn_sched_end(sched);
    for (uint32_t i = 1; i < p / 2; i++) {
        uint32_t in = pair_in(rank, i, p), peer = peer_in(rank, i, p);

        vbn_sched_recv(sched, peer, vbn_gathered(call, in), 2 * len, i,
                       vbn_is_early(2 * len) && p <= VBN_STEP_TAGS);
        vbn_sched_send_late(sched, peer, vbn_gathered(call, out), 2 * len, i);
        vbn_sched_end(sched);
        out = in;
    }
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;
    uint32_t rounds = call->size / 2;

    cost->rounds = cost->messages = rounds;
    cost->path_bytes = cost->bytes = (call->size - 1.0) * block;
}

const struct vbn_algorithm vbn_allgather_neighbor = {
    VBN_COLL_ALLGATHER, "neighbor", VBN_ALGO_EVEN, 0, build, cost};
