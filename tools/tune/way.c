/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways there are: each algorithm, those with a radix with several, and those with segments also
 * with such as need not be offered. */
#include "tune.h"

#include <stdio.h>

bool tune_has_blocks(enum vbn_coll coll)
{
    return coll == VBN_COLL_REDUCE_SCATTER || coll == VBN_COLL_REDUCE_SCATTER_BLOCK ||
           coll == VBN_COLL_ALLGATHER || coll == VBN_COLL_ALLGATHERV || coll == VBN_COLL_GATHER ||
           coll == VBN_COLL_SCATTER || coll == VBN_COLL_ALLTOALL;
}

uint64_t tune_eager(void)
{
    struct vbn_team_options team;

    vbn_team_options_init(&team, sizeof(team));
    return team.eager_bytes;
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

/* The I-th param of an algorithm whose params are of that KIND; false beyond the last. */
static bool param_at(enum vbn_param_kind kind, uint32_t ranks, size_t bytes, unsigned i,
                     size_t *param)
{
    size_t eager = tune_eager();

    *param = 0;
    if (kind == VBN_PARAM_RADIX) {
        *param = radix_at(ranks, i);
        return *param;
    }
    if (kind == VBN_PARAM_SEGMENT && i == 1) {
        *param = eager;
        return bytes > eager;
    }
    return i == 0;
}

bool tune_way_at(enum vbn_coll coll, uint32_t ranks, size_t bytes, unsigned i, struct tune_way *way)
{
    for (unsigned a = 0; vbn_coll_algorithm(coll, a); a++) {
        enum vbn_param_kind kind = vbn_coll_param_kind(coll, a);
        struct vbn_coll_cost cost;
        size_t param;

        if (vbn_coll_predict(coll, a, ranks, 1, 1, 0, &cost) != VBN_OK)
            continue;
        for (unsigned p = 0; param_at(kind, ranks, bytes, p, &param); p++)
            if (i-- == 0) {
                *way = (struct tune_way){coll, a, param};
                return true;
            }
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
