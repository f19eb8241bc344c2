/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives of communicators whose members share nodes: in each node by the components
 * for shared memory, and between the nodes' leaders by this component. All other functions are
 * those of the components below, and so are these where they cannot be put together.
 *
 * That must be decided alike on all ranks, so it depends only on what all know: where the members
 * are, whether the operation commutes, and the bytes of all blocks together.
 *
 * Room. A leader that is not the root of a reduction needs memory for its node's result; and blocks
 * that do not follow one another node by node in the user's memory are moved in memory of ours. It
 * is kept for the next call.
 */
#include "coll_verbena.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"

#include <limits.h>
#include <mpi.h>

typedef mca_coll_base_module_t module_t;
typedef struct ompi_communicator_t comm_t;
typedef struct ompi_datatype_t type_t;
typedef struct ompi_op_t op_t;

static const mca_coll_base_comm_coll_t *below(module_t *module)
{
    return &((coll_verbena_module_t *)module)->below;
}

/* NULL: the components below have to do it. */
static coll_verbena_split_t *split_of(comm_t *comm, module_t *module)
{
    coll_verbena_module_t *own = (coll_verbena_module_t *)module;

    return coll_verbena_split_ready(own, comm) ? own->split : NULL;
}

static bool leads(const coll_verbena_split_t *split)
{
    return split->up != MPI_COMM_NULL;
}

/* --- parts of a collective ------------------------------------------------------------------- */

static int bcast_in(comm_t *comm, void *buf, int count, type_t *type, int root)
{
    return comm->c_coll->coll_bcast(buf, count, type, root, comm, comm->c_coll->coll_bcast_module);
}

/* SBUF: as MPI has it, at the root. Elsewhere RBUF means nothing. */
static int reduce_in(comm_t *comm, const void *sbuf, void *rbuf, int count, type_t *type, op_t *op,
                     int root)
{
    return comm->c_coll->coll_reduce(sbuf, rbuf, count, type, op, root, comm,
                                     comm->c_coll->coll_reduce_module);
}

/* --- barrier and bcast ----------------------------------------------------------------------- */

/* In a node a reduction and a broadcast of a byte: half the messages of two barriers. */
static int barrier(comm_t *comm, module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    char in = 0, out = 0;
    int rc;

    if (!split)
        return below(module)->coll_barrier(comm, below(module)->coll_barrier_module);
    rc = reduce_in(split->low, &in, &out, 1, MPI_BYTE, MPI_BOR, 0);
    if (rc == OMPI_SUCCESS && leads(split))
        rc = split->up->c_coll->coll_barrier(split->up, split->up->c_coll->coll_barrier_module);
    return rc == OMPI_SUCCESS ? bcast_in(split->low, &out, 1, MPI_BYTE, 0) : rc;
}

/* The root's node goes first where the root is not its leader: the leader has nothing before. */
static int bcast(void *buf, int count, type_t *type, int root, comm_t *comm, module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    int rc = OMPI_SUCCESS, home, place;
    bool first;

    if (!split)
        return below(module)->coll_bcast(buf, count, type, root, comm,
                                         below(module)->coll_bcast_module);
    home = split->node[root];
    place = split->place[root];
    first = split->node[ompi_comm_rank(comm)] == home && place != 0;
    if (first)
        rc = bcast_in(split->low, buf, count, type, place);
    if (rc == OMPI_SUCCESS && leads(split))
        rc = bcast_in(split->up, buf, count, type, home);
    if (rc == OMPI_SUCCESS && !first)
        rc = bcast_in(split->low, buf, count, type, 0);
    return rc;
}

/* --- reductions ------------------------------------------------------------------------------ */

/* Whether a reduction by OP may combine the members of each node first. */
static bool may_group(const coll_verbena_split_t *split, op_t *op)
{
    int commutes = 0;

    PMPI_Op_commutative(op, &commutes);
    return commutes || split->in_order;
}

/* From the leader of the root's node to the root. */
static int result_pass(coll_verbena_split_t *split, void *buf, int count, type_t *type, int place)
{
    if (leads(split))
        return MCA_PML_CALL(send(buf, (size_t)count, type, place, MCA_COLL_BASE_TAG_REDUCE,
                                 MCA_PML_BASE_SEND_STANDARD, split->low));
    return MCA_PML_CALL(
        recv(buf, (size_t)count, type, 0, MCA_COLL_BASE_TAG_REDUCE, split->low, MPI_STATUS_IGNORE));
}

/* Of all members, to the leader of node HOME. RESULT: of the node's, in all leaders. */
static int reduce_to_leader(coll_verbena_split_t *split, const void *sbuf, void *result, int count,
                            type_t *type, op_t *op, int home)
{
    int rc = reduce_in(split->low, sbuf, result, count, type, op, 0);

    if (rc != OMPI_SUCCESS || !leads(split))
        return rc;
    if (ompi_comm_rank(split->up) == home)
        return reduce_in(split->up, MPI_IN_PLACE, result, count, type, op, home);
    return reduce_in(split->up, result, NULL, count, type, op, home);
}

static int reduce(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op, int root,
                  comm_t *comm, module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    bool at_root = ompi_comm_rank(comm) == root;
    void *result = rbuf;
    int rc;

    if (!split || !may_group(split, op))
        return below(module)->coll_reduce(sbuf, rbuf, count, type, op, root, comm,
                                          below(module)->coll_reduce_module);
    if (leads(split) && !at_root)
        result = coll_verbena_split_room(split, (size_t)count, type);
    if (leads(split) && !result)
        return OMPI_ERR_OUT_OF_RESOURCE;
    if (!leads(split) && sbuf == MPI_IN_PLACE)
        sbuf = rbuf;
    rc = reduce_to_leader(split, sbuf, result, count, type, op, split->node[root]);
    if (rc == OMPI_SUCCESS && split->place[root] != 0 &&
        (at_root || (leads(split) && ompi_comm_rank(split->up) == split->node[root])))
        rc = result_pass(split, result, count, type, split->place[root]);
    coll_verbena_split_leave_room(split);
    return rc;
}

/* Open MPI's own code gives one buffer twice where it means in place. */
static int allreduce(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op, comm_t *comm,
                     module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    bool in_place = sbuf == MPI_IN_PLACE || sbuf == rbuf;
    int rc;

    if (!split || !may_group(split, op))
        return below(module)->coll_allreduce(sbuf, rbuf, count, type, op, comm,
                                             below(module)->coll_allreduce_module);
    if (in_place)
        sbuf = leads(split) ? MPI_IN_PLACE : rbuf;
    rc = reduce_in(split->low, sbuf, rbuf, count, type, op, 0);
    if (rc == OMPI_SUCCESS && leads(split))
        rc = split->up->c_coll->coll_allreduce(MPI_IN_PLACE, rbuf, count, type, op, split->up,
                                               split->up->c_coll->coll_allreduce_module);
    return rc == OMPI_SUCCESS ? bcast_in(split->low, rbuf, count, type, 0) : rc;
}

/* --- allgather and allgatherv ---------------------------------------------------------------- */

/* The blocks of all members as they lie in the user's memory. */
typedef struct blocks {
    char *buf;
    int size;          /* members */
    int count;         /* of each, where `counts` is NULL */
    const int *counts; /* with `displs` */
    const int *displs; /* in extents */
    type_t *type;
    ptrdiff_t extent;
    size_t elem; /* bytes of an element */
} blocks_t;

static int count_of(const blocks_t *blocks, int i)
{
    return blocks->counts ? blocks->counts[i] : blocks->count;
}

static char *block_at(const blocks_t *blocks, int i)
{
    ptrdiff_t at = blocks->counts ? blocks->displs[i] : (ptrdiff_t)i * blocks->count;

    return blocks->buf + at * blocks->extent;
}

static size_t bytes_of(const blocks_t *blocks, int i)
{
    return (size_t)count_of(blocks, i) * blocks->elem;
}

static size_t bytes_of_all(const blocks_t *blocks)
{
    size_t bytes = 0;

    for (int i = 0; i < blocks->size; i++)
        bytes += bytes_of(blocks, i);
    return bytes;
}

/* The bytes of each node, and where they begin when node follows node. */
static void nodes_lay(coll_verbena_split_t *split, const blocks_t *blocks)
{
    int at = 0;

    for (int i = 0; i < split->nodes; i++)
        split->counts[i] = 0;
    for (int i = 0; i < blocks->size; i++)
        split->counts[split->node[i]] += (int)bytes_of(blocks, i);
    for (int i = 0; i < split->nodes; i++) {
        split->displs[i] = at;
        at += split->counts[i];
    }
}

/* Where member I's block begins, who is the next of its node. Moves `displs` on. */
static int next_at(coll_verbena_split_t *split, const blocks_t *blocks, int i)
{
    int *next = &split->displs[split->node[i]], at = *next;

    *next += (int)bytes_of(blocks, i);
    return at;
}

/* Whether they lie there as they are moved: packed, and node after node. */
static bool are_there(coll_verbena_split_t *split, const blocks_t *blocks)
{
    bool there = coll_verbena_is_dense(blocks->type);

    nodes_lay(split, blocks);
    for (int i = 0; i < blocks->size && there; i++)
        there =
            block_at(blocks, i) == blocks->buf + next_at(split, blocks, i) || !count_of(blocks, i);
    return there;
}

/* From WORK, where they lie so, to where the user wants them. */
static void blocks_spread(coll_verbena_split_t *split, const blocks_t *blocks, char *work)
{
    nodes_lay(split, blocks);
    for (int i = 0; i < blocks->size; i++)
        coll_verbena_unpack(block_at(blocks, i), (size_t)count_of(blocks, i), blocks->type,
                            work + next_at(split, blocks, i));
}

/* Where member RANK's block begins then. */
static int place_of(coll_verbena_split_t *split, const blocks_t *blocks, int rank)
{
    nodes_lay(split, blocks);
    for (int i = 0; i < rank; i++)
        next_at(split, blocks, i);
    return next_at(split, blocks, rank);
}

/* The blocks of a node's members to their leader: member RANK's is at MINE, and those of the others
 * on its node will be behind it if it is the leader. */
static int gather_in_node(coll_verbena_split_t *split, const blocks_t *blocks, char *mine, int rank)
{
    const mca_coll_base_comm_coll_t *low = split->low->c_coll;
    const void *from = leads(split) ? MPI_IN_PLACE : mine;
    int own = (int)bytes_of(blocks, rank), all = 0;

    if (!blocks->counts)
        return low->coll_gather(from, own, MPI_BYTE, mine, own, MPI_BYTE, 0, split->low,
                                low->coll_gather_module);
    for (int i = 0; i < blocks->size && leads(split); i++) {
        if (split->node[i] != split->node[rank])
            continue;
        split->counts[split->place[i]] = (int)bytes_of(blocks, i);
        split->displs[split->place[i]] = all;
        all += (int)bytes_of(blocks, i);
    }
    return low->coll_gatherv(from, own, MPI_BYTE, mine, split->counts, split->displs, MPI_BYTE, 0,
                             split->low, low->coll_gatherv_module);
}

/* Whether COUNT elements of TYPE have the bytes of member I's block. */
static bool is_length(const blocks_t *blocks, int i, int count, type_t *type)
{
    size_t size;

    ompi_datatype_type_size(type, &size);
    return (size_t)count * size == bytes_of(blocks, i);
}

/*
 * All ranks move bytes, which do not depend on how each of them describes its memory: by another
 * type, and another count, Open MPI's components would cut the same bytes into other parts.
 */
static int allgather_by_nodes(coll_verbena_split_t *split, const blocks_t *blocks, const void *sbuf,
                              int scount, type_t *stype, int rank)
{
    int all = (int)bytes_of_all(blocks), rc;
    bool there = are_there(split, blocks);
    char *work, *mine;

    if (sbuf != MPI_IN_PLACE && !is_length(blocks, rank, scount, stype))
        return MPI_ERR_TRUNCATE;
    work = there ? blocks->buf : coll_verbena_split_room(split, (size_t)all, MPI_BYTE);
    if (!work)
        return OMPI_ERR_OUT_OF_RESOURCE;
    mine = work + place_of(split, blocks, rank);
    if (sbuf != MPI_IN_PLACE)
        coll_verbena_pack(sbuf, (size_t)scount, stype, mine);
    else if (!there)
        coll_verbena_pack(block_at(blocks, rank), (size_t)count_of(blocks, rank), blocks->type,
                          mine);
    rc = gather_in_node(split, blocks, mine, rank);
    nodes_lay(split, blocks);
    if (rc == OMPI_SUCCESS && leads(split))
        rc = split->up->c_coll->coll_allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, work, split->counts,
                                                split->displs, MPI_BYTE, split->up,
                                                split->up->c_coll->coll_allgatherv_module);
    if (rc == OMPI_SUCCESS)
        rc = bcast_in(split->low, work, all, MPI_BYTE, 0);
    if (rc == OMPI_SUCCESS && !there)
        blocks_spread(split, blocks, work);
    coll_verbena_split_leave_room(split);
    return rc;
}

static blocks_t blocks_of(comm_t *comm, void *buf, int count, const int *counts, const int *displs,
                          type_t *type)
{
    blocks_t blocks = {buf, ompi_comm_size(comm), count, counts, displs, type, 0, 0};
    ptrdiff_t lb;

    ompi_datatype_get_extent(type, &lb, &blocks.extent);
    ompi_datatype_type_size(type, &blocks.elem);
    return blocks;
}

static int allgather(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                     type_t *rtype, comm_t *comm, module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    blocks_t blocks = blocks_of(comm, rbuf, rcount, NULL, NULL, rtype);
    size_t bytes = bytes_of_all(&blocks);

    if (!split || bytes > INT_MAX)
        return below(module)->coll_allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm,
                                             below(module)->coll_allgather_module);
    if (bytes == 0)
        return OMPI_SUCCESS;
    return allgather_by_nodes(split, &blocks, sbuf, scount, stype, ompi_comm_rank(comm));
}

static int allgatherv(const void *sbuf, int scount, type_t *stype, void *rbuf, const int *rcounts,
                      const int *displs, type_t *rtype, comm_t *comm, module_t *module)
{
    coll_verbena_split_t *split = split_of(comm, module);
    blocks_t blocks = blocks_of(comm, rbuf, 0, rcounts, displs, rtype);
    size_t bytes = bytes_of_all(&blocks);

    if (!split || bytes > INT_MAX)
        return below(module)->coll_allgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype,
                                              comm, below(module)->coll_allgatherv_module);
    if (bytes == 0)
        return OMPI_SUCCESS;
    return allgather_by_nodes(split, &blocks, sbuf, scount, stype, ompi_comm_rank(comm));
}

void coll_verbena_node_functions(mca_coll_base_module_t *m)
{
    m->coll_barrier = barrier;
    m->coll_bcast = bcast;
    m->coll_reduce = reduce;
    m->coll_allreduce = allreduce;
    m->coll_allgather = allgather;
    m->coll_allgatherv = allgatherv;
}
