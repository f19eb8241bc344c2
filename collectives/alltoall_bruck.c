/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bruck: block j, counted from the own rank, travels j ranks ahead in steps of the powers of two
 * that make up j; each round takes all blocks with that bit along.
 *
 * J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby 1997.
 * Cost: ⌈log2 p⌉ α + ⌈log2 p⌉ (p/2) bβ for blocks of b.
 */
#include "algorithms.h"
#include "exchanged.h"
#include "peers.h"

/* How many of the numbers below P have the bit MASK. */
static uint32_t with_bit(uint32_t p, uint32_t mask)
{
    uint32_t rest = p % (2 * mask);

    return p / (2 * mask) * mask + (rest > mask ? rest - mask : 0);
}

/* Copies the blocks with the bit MASK together, or back to where they belong. */
static void pack(struct vbn_sched *sched, const struct vbn_call *call, struct vbn_at blocks,
                 struct vbn_at packed, uint32_t mask, bool back)
{
    size_t len = call->count * call->elem;

    for (uint32_t j = mask; j < call->size; j++) {
        struct vbn_at block = vbn_at_plus(blocks, j * len);

        if (!(j & mask))
            continue;
        vbn_sched_copy(sched, back ? block : packed, back ? packed : block, len);
        packed = vbn_at_plus(packed, len);
    }
}

static void build(struct vbn_sched *sched, const struct vbn_call *call)
{
    uint32_t p = call->size, rank = call->rank;
    size_t len = call->count * call->elem, step = 0;
    struct vbn_at from = vbn_at(call->in_place ? VBN_AT_RECV : VBN_AT_SEND, 0);
    struct vbn_at blocks = vbn_sched_tmp(sched, p * len);
    struct vbn_at out = vbn_sched_tmp(sched, p * len), in = vbn_sched_tmp(sched, p * len);

    for (uint32_t j = 0; j < p; j++)
        vbn_sched_copy(sched, vbn_at_plus(blocks, j * len),
                       vbn_at_plus(from, vbn_ahead(rank, j, p) * len), len);
    for (uint32_t mask = 1; mask < p; mask *= 2, step++) {
        pack(sched, call, blocks, out, mask, false);
        vbn_sched_end(sched);
        vbn_sched_recv(sched, vbn_behind(rank, mask, p), in, with_bit(p, mask) * len, step, false);
        vbn_sched_send(sched, vbn_ahead(rank, mask, p), out, with_bit(p, mask) * len, step);
        pack(sched, call, blocks, in, mask, true);
    }
    vbn_sched_end(sched);
    for (uint32_t j = 0; j < p; j++)
        vbn_sched_copy(sched, vbn_block_in(call, vbn_behind(rank, j, p)),
                       vbn_at_plus(blocks, j * len), len);
    vbn_sched_end(sched);
}

static void cost(const struct vbn_call *call, struct vbn_coll_cost *cost)
{
    double block = (double)call->count * (double)call->elem;

    for (uint32_t mask = 1; mask < call->size; mask *= 2) {
        cost->messages++;
        cost->bytes += with_bit(call->size, mask) * block;
    }
    cost->rounds = cost->messages;
    cost->path_bytes = cost->bytes;
    cost->copied = 2 * (call->size * block + cost->bytes);
}

const struct vbn_algorithm vbn_alltoall_bruck = {VBN_COLL_ALLTOALL, "bruck", 0, 0, build, cost};
