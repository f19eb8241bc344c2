/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents that tell their sender, length and place. */
#include "perf.h"

#include <stdio.h>
#include <string.h>

#define POISON 0xa5
#define BEYOND 64u /* bytes behind the message that must stay as they were */

static unsigned char byte_at(uint32_t rank, size_t len, size_t at)
{
    uint64_t mixed = (at + 1) * 0x9e3779b97f4a7c15u + len * 0xc2b2ae3d27d4eb4fu + rank;

    mixed ^= mixed >> 29;
    return (unsigned char)((mixed * 0xbf58476d1ce4e5b9u) >> 56);
}

void perf_fill(struct perf_pair *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        p->out[i] = (char)byte_at(p->job->rank, len, i);
}

void perf_poison(struct perf_pair *p, size_t len)
{
    memset(p->in, POISON, len + BEYOND);
}

int perf_check(struct perf_pair *p, size_t len)
{
    for (size_t i = 0; i < len + BEYOND; i++) {
        unsigned char want = i < len ? byte_at(p->partner, len, i) : POISON;
        unsigned char have = (unsigned char)p->in[i];

        if (have == want)
            continue;
        snprintf(p->err.text, sizeof(p->err.text),
                 "%zu bytes from rank %u: the byte at offset %zu%s is 0x%02x, not 0x%02x", len,
                 p->partner, i, i < len ? "" : ", behind the message,", have, want);
        return VBN_ERR_PROTOCOL;
    }
    return VBN_OK;
}
