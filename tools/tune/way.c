/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways there are: each algorithm, and those with a radix with several. */
#include "tune.h"

#include <stdio.h>

bool tune_has_blocks(enum vbn_coll coll)
{
    return coll == VBN_COLL_REDUCE_SCATTER || coll == VBN_COLL_REDUCE_SCATTER_BLOCK ||
           coll == VBN_COLL_ALLGATHER || coll == VBN_COLL_ALLGATHERV || coll == VBN_COLL_GATHER ||
           coll == VBN_COLL_SCATTER || coll == VBN_COLL_ALLTOALL;
}

/* Rules know no size of an alltoallv: ranks know different ones. */
bool tune_can(enum vbn_coll coll)
{
    return coll != VBN_COLL_ALLTOALLV && vbn_coll_algorithm(coll, 1);
}

/* 2 always, 4, 8 and 16 where they are below RANKS, and RANKS itself, up to 16. */
static size_t radix_at(uint32_t ranks, unsigned i)
{
    size_t radix = 2;

    for (; i && radix < ranks && radix < 16; i--)
        radix = radix * 2 < ranks ? radix * 2 : ranks < 16 ? ranks : 16;
    return i ? 0 : radix;
}

bool tune_way_at(enum vbn_coll coll, uint32_t ranks, unsigned i, struct tune_way *way)
{
    for (unsigned a = 0; vbn_coll_algorithm(coll, a); a++) {
        struct vbn_coll_cost cost;
        unsigned radixes = 1;

        if (vbn_coll_predict(coll, a, ranks, 1, 1, 0, &cost) != VBN_OK)
            continue;
        if (vbn_coll_param_kind(coll, a) == VBN_PARAM_RADIX)
            while (radix_at(ranks, radixes))
                radixes++;
        if (i < radixes) {
            *way = (struct tune_way){coll, a, radixes > 1 ? radix_at(ranks, i) : 0};
            return true;
        }
        i -= radixes;
    }
    return false;
}

void tune_way_name(const struct tune_way *way, char *name, size_t len)
{
    const char *algorithm = vbn_coll_algorithm(way->coll, way->algorithm);

    if (way->param)
        snprintf(name, len, "%s/%zu", algorithm, way->param);
    else
        snprintf(name, len, "%s", algorithm);
}
