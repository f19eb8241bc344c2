/* SPDX-License-Identifier: BSD-3-Clause */
#include "two_tree.h"
#include "peers.h"

/* The first tree, in-order: the lowest bit that is set says how high a number stands. */
static uint32_t parent_of(uint32_t n, uint32_t v)
{
    uint32_t bit = v & -v, up = (v ^ bit) | 2 * bit;

    return up > n ? v ^ bit : up;
}

static uint32_t left_of(uint32_t v)
{
    uint32_t bit = v & -v;

    return bit > 1 ? v - bit / 2 : 0;
}

/* To the right the tree may be cut off: the highest that is there. */
static uint32_t right_of(uint32_t n, uint32_t v)
{
    for (uint32_t d = (v & -v) / 2; d; d /= 2)
        if (v + d <= n)
            return v + d;
    return 0;
}

/* The second tree's number of V, and back. */
static uint32_t to_second(uint32_t n, uint32_t v)
{
    if (n % 2 == 0)
        return n + 1 - v;
    return v == 1 ? n : v - 1;
}

static uint32_t from_second(uint32_t n, uint32_t v)
{
    if (!v)
        return 0;
    if (n % 2 == 0)
        return n + 1 - v;
    return v == n ? 1 : v + 1;
}

struct vbn_two_tree vbn_two_tree(uint32_t n, uint32_t v)
{
    uint32_t w = to_second(n, v);
    struct vbn_two_tree tree = {
        {parent_of(n, v), from_second(n, parent_of(n, w))},
        {{left_of(v), right_of(n, v)},
         {from_second(n, left_of(w)), from_second(n, right_of(n, w))}},
    };

    return tree;
}

uint32_t vbn_two_tree_root(uint32_t n, unsigned t)
{
    uint32_t top = vbn_pow2_floor(n);

    return t ? from_second(n, top) : top;
}

unsigned vbn_two_tree_levels(uint32_t n)
{
    return vbn_log2_ceil((uint64_t)n + 1);
}
