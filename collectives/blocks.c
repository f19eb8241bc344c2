/* SPDX-License-Identifier: BSD-3-Clause */
#include "blocks.h"
#include "peers.h"

/* √X to the next whole number above, without libm: X is small, this runs once a call. */
static uint32_t root_of(double x)
{
    uint32_t low = 0, high = VBN_BLOCKS_MAX;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if ((double)mid * mid < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

uint32_t vbn_blocks(const struct vbn_call *call, double delay)
{
    double m = (double)call->count * (double)call->elem, n;

    if (call->param)
        n = (m + (double)call->param - 1) / (double)call->param;
    else
        n = root_of(delay * m * call->beta_ns / call->alpha_ns);
    if (n > VBN_BLOCKS_MAX)
        n = VBN_BLOCKS_MAX;
    if (n > (double)call->count)
        n = (double)call->count;
    return n < 1 ? 1 : (uint32_t)n;
}

size_t vbn_block_off(const struct vbn_call *call, uint32_t n, uint32_t i)
{
    return vbn_part(call->count, n, i) * call->elem;
}

size_t vbn_block_len(const struct vbn_call *call, uint32_t n, uint32_t i)
{
    return vbn_block_off(call, n, i + 1) - vbn_block_off(call, n, i);
}
