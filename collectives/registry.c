/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all algorithms, and their theory in numbers. */
#include "algorithms.h"
#include "peers.h"
#include "team.h"

#include <string.h>

/* Of each operation the first can do any call; and of two that the model holds for equal, the first
 * is taken. */
const struct vbn_algorithm *const vbn_algorithms[] = {
    &vbn_barrier_recursive_doubling,
    &vbn_barrier_dissemination,
    &vbn_barrier_knomial,
    &vbn_barrier_multicast,
    &vbn_bcast_knomial,
    &vbn_bcast_chain,
    &vbn_bcast_circulant,
    &vbn_bcast_linear,
    &vbn_bcast_multicast,
    &vbn_bcast_scatter_allgather,
    &vbn_bcast_two_tree,
    &vbn_reduce_chain,
    &vbn_reduce_knomial,
    &vbn_reduce_rabenseifner,
    &vbn_reduce_two_tree,
    &vbn_allreduce_recursive_doubling,
    &vbn_allreduce_circulant,
    &vbn_allreduce_knomial,
    &vbn_allreduce_multicast,
    &vbn_allreduce_rabenseifner,
    &vbn_allreduce_ring,
    &vbn_allreduce_scatter_multicast,
    &vbn_reduce_scatter_ordered,
    &vbn_reduce_scatter_circulant,
    &vbn_reduce_scatter_pairwise,
    &vbn_reduce_scatter_block_ordered,
    &vbn_reduce_scatter_block_circulant,
    &vbn_reduce_scatter_block_pairwise,
    &vbn_allgather_bruck,
    &vbn_allgather_knomial,
    &vbn_allgather_multicast,
    &vbn_allgather_linear,
    &vbn_allgather_recursive_doubling,
    &vbn_allgather_ring,
    &vbn_allgather_neighbor,
    &vbn_allgatherv_bruck,
    &vbn_allgatherv_multicast,
    &vbn_allgatherv_linear,
    &vbn_allgatherv_ring,
    &vbn_gather_knomial,
    &vbn_gather_linear,
    &vbn_gatherv_linear,
    &vbn_scatter_knomial,
    &vbn_scatter_linear,
    &vbn_scatterv_linear,
    &vbn_alltoall_bruck,
    &vbn_alltoall_linear,
    &vbn_alltoall_pairwise,
    &vbn_alltoallv_linear,
    &vbn_alltoallv_pairwise,
    &vbn_scan_linear,
    &vbn_scan_recursive_doubling,
    &vbn_exscan_linear,
    &vbn_exscan_recursive_doubling,
    NULL,
};

const char *vbn_coll_name(enum vbn_coll coll)
{
    static const char *const names[] = {
        [VBN_COLL_BARRIER] = "barrier",
        [VBN_COLL_BCAST] = "bcast",
        [VBN_COLL_REDUCE] = "reduce",
        [VBN_COLL_ALLREDUCE] = "allreduce",
        [VBN_COLL_REDUCE_SCATTER] = "reduce_scatter",
        [VBN_COLL_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
        [VBN_COLL_ALLGATHER] = "allgather",
        [VBN_COLL_ALLGATHERV] = "allgatherv",
        [VBN_COLL_GATHER] = "gather",
        [VBN_COLL_GATHERV] = "gatherv",
        [VBN_COLL_SCATTER] = "scatter",
        [VBN_COLL_SCATTERV] = "scatterv",
        [VBN_COLL_ALLTOALL] = "alltoall",
        [VBN_COLL_ALLTOALLV] = "alltoallv",
        [VBN_COLL_SCAN] = "scan",
        [VBN_COLL_EXSCAN] = "exscan",
    };

    return (unsigned)coll < VBN_COLL_COUNT ? names[coll] : NULL;
}

int vbn_coll_find(const char *name, enum vbn_coll *coll)
{
    for (int i = 0; i < VBN_COLL_COUNT; i++)
        if (strcmp(vbn_coll_name((enum vbn_coll)i), name) == 0) {
            *coll = (enum vbn_coll)i;
            return VBN_OK;
        }
    return VBN_ERR_INVALID;
}

const struct vbn_algorithm *vbn_algorithm_at(enum vbn_coll coll, unsigned i)
{
    for (const struct vbn_algorithm *const *a = vbn_algorithms; *a; a++)
        if ((*a)->coll == coll && i-- == 0)
            return *a;
    return NULL;
}

const char *vbn_coll_algorithm(enum vbn_coll coll, unsigned i)
{
    const struct vbn_algorithm *algorithm = vbn_algorithm_at(coll, i);

    return algorithm ? algorithm->name : NULL;
}

enum vbn_param_kind vbn_coll_param_kind(enum vbn_coll coll, unsigned i)
{
    const struct vbn_algorithm *algorithm = vbn_algorithm_at(coll, i);

    if (!algorithm || !(algorithm->limits & (VBN_ALGO_RADIX | VBN_ALGO_SEGMENT)))
        return VBN_PARAM_NONE;
    return algorithm->limits & VBN_ALGO_RADIX ? VBN_PARAM_RADIX : VBN_PARAM_SEGMENT;
}

bool vbn_algorithm_fits(const struct vbn_algorithm *algorithm, const struct vbn_call *call)
{
    if ((algorithm->limits & VBN_ALGO_COMMUTATIVE) && !call->commutative)
        return false;
    if ((algorithm->limits & VBN_ALGO_GROUP) && !call->group)
        return false;
    return !(algorithm->limits & VBN_ALGO_EVEN) || call->size % 2 == 0;
}

size_t vbn_algorithm_param(const struct vbn_algorithm *algorithm, uint32_t size, size_t param)
{
    size_t value = param ? param : algorithm->param;

    if (!(algorithm->limits & VBN_ALGO_RADIX))
        return value;
    if (value > size)
        value = size; /* the same tree, and no number grows too large */
    return value < 2 ? 2 : value;
}

/* Whether no rank ends before all have begun, so that none goes on to the next call meanwhile. */
static bool all_wait(enum vbn_coll coll)
{
    return !vbn_call_has_root(coll) && coll != VBN_COLL_SCAN && coll != VBN_COLL_EXSCAN;
}

/* What is a rank's on average, where another one is the busiest in each call. */
static void count_turns(const struct vbn_algorithm *algorithm, const struct vbn_call *call,
                        struct vbn_coll_cost *cost)
{
    bool at_once = !call->root_stays && algorithm->limits & VBN_ALGO_AT_ONCE;
    bool turns = !call->root_stays && algorithm->limits & VBN_ALGO_TURNS;
    double longest = cost->path_bytes > cost->bytes ? cost->path_bytes : cost->bytes;

    cost->root_stays = call->root_stays;
    cost->all_wait = all_wait(call->coll);
    cost->turns = turns;
    cost->turn_messages = at_once || turns ? cost->all_messages / call->size : cost->messages;
    cost->turn_bytes = at_once ? cost->all_bytes / call->size : longest;
}

struct vbn_coll_cost vbn_algorithm_cost(const struct vbn_algorithm *algorithm,
                                        const struct vbn_call *call)
{
    struct vbn_coll_cost cost = {0};

    if (call->size < 2)
        return cost;
    algorithm->cost(call, &cost);
    if (cost.depth == 0)
        cost.depth = cost.rounds;
    if (cost.all_messages == 0)
        cost.all_messages = call->size * cost.messages;
    if (cost.all_bytes == 0)
        cost.all_bytes = call->size * cost.bytes;
    count_turns(algorithm, call, &cost);
    return cost;
}

int vbn_coll_predict(enum vbn_coll coll, unsigned i, uint32_t size, size_t count, size_t elem_size,
                     size_t param, struct vbn_coll_cost *cost)
{
    const struct vbn_algorithm *algorithm = vbn_algorithm_at(coll, i);
    struct vbn_call call = {.coll = coll,
                            .size = size,
                            .elem = elem_size,
                            .count = count,
                            .commutative = true,
                            .alpha_ns = VBN_ALPHA_NS,
                            .beta_ns = VBN_BETA_PS / 1e3};

    if (!algorithm || !cost || !size || size > VBN_TEAM_MAX ||
        !vbn_algorithm_fits(algorithm, &call))
        return VBN_ERR_INVALID;
    call.param = vbn_algorithm_param(algorithm, size, param);
    *cost = vbn_algorithm_cost(algorithm, &call);
    return VBN_OK;
}
