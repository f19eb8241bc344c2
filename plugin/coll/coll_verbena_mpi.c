/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives as Open MPI calls them: each fills a call, which is run to its end (REQUEST NULL)
 * or started as a request. What a reduction cannot do goes to the component below.
 */
#include "coll_verbena.h"

#include <mpi.h>

typedef mca_coll_base_module_t module_t;
typedef struct ompi_communicator_t comm_t;
typedef struct ompi_datatype_t type_t;
typedef struct ompi_op_t op_t;

static coll_verbena_module_t *own(module_t *module)
{
    return (coll_verbena_module_t *)module;
}

static void *data_of(const coll_verbena_view_t *view, bool in_place)
{
    return in_place ? VBN_IN_PLACE : view->bytes;
}

/* A call without buffers yet. What is read only together with one is left as it is: it is three
 * hundred bytes that mostly nobody reads. */
static void call_init(coll_verbena_call_t *call, enum vbn_coll coll, int root)
{
    call->args = (struct vbn_coll_args){
        .size = sizeof(struct vbn_coll_args), .coll = coll, .root = (uint32_t)root};
    coll_verbena_view_none(&call->in);
    coll_verbena_view_none(&call->out);
}

static int go(module_t *module, comm_t *comm, coll_verbena_call_t *call, ompi_request_t **request)
{
    return request ? coll_verbena_start(own(module), comm, call, request)
                   : coll_verbena_run(own(module), comm, call);
}

static int no_room(coll_verbena_call_t *call)
{
    coll_verbena_view_end(&call->in, false);
    coll_verbena_view_end(&call->out, false);
    return OMPI_ERR_OUT_OF_RESOURCE;
}

static size_t bytes_of(int count, type_t *type)
{
    size_t size;

    ompi_datatype_type_size(type, &size);
    return (size_t)count * size;
}

/* Room for a call's four arrays, which are read before it begins: one after the other. */
static size_t *array(module_t *module, comm_t *comm, int which)
{
    if (!coll_verbena_teams(own(module), comm))
        return NULL;
    return own(module)->counts + which * ompi_comm_size(comm);
}

/* --- without reduction
 * ---------------------------------------------------------------------------- */

static int barrier(comm_t *comm, ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;

    call_init(&call, VBN_COLL_BARRIER, 0);
    return go(module, comm, &call, request);
}

static int bcast(void *buf, int count, type_t *type, int root, comm_t *comm,
                 ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;
    bool is_root = ompi_comm_rank(comm) == root;

    call_init(&call, VBN_COLL_BCAST, root);
    if (!coll_verbena_view(&call.out, buf, 1, count, NULL, NULL, type, is_root, !is_root, NULL,
                           NULL))
        return no_room(&call);
    call.args.recvbuf = call.out.bytes;
    call.args.count = bytes_of(count, type);
    return go(module, comm, &call, request);
}

/* Blocks of one size; SEND_BLOCKS and RECV_BLOCKS, 0 where this rank has no such buffer. */
static int blocks(enum vbn_coll coll, int root, const void *sbuf, int send_blocks, int scount,
                  type_t *stype, void *rbuf, int recv_blocks, int rcount, type_t *rtype,
                  comm_t *comm, ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;
    bool sends_in_place = sbuf == MPI_IN_PLACE, recvs_in_place = rbuf == MPI_IN_PLACE;

    call_init(&call, coll, root);
    if (send_blocks && !sends_in_place &&
        !coll_verbena_view(&call.in, sbuf, send_blocks, scount, NULL, NULL, stype, true, false,
                           NULL, NULL))
        return no_room(&call);
    if (recv_blocks && !recvs_in_place &&
        !coll_verbena_view(&call.out, rbuf, recv_blocks, rcount, NULL, NULL, rtype, sends_in_place,
                           true, NULL, NULL))
        return no_room(&call);
    call.args.sendbuf = data_of(&call.in, sends_in_place);
    call.args.recvbuf = data_of(&call.out, recvs_in_place);
    call.args.count =
        recv_blocks && !recvs_in_place ? bytes_of(rcount, rtype) : bytes_of(scount, stype);
    return go(module, comm, &call, request);
}

static int allgather(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                     type_t *rtype, comm_t *comm, ompi_request_t **request, module_t *module)
{
    return blocks(VBN_COLL_ALLGATHER, 0, sbuf, 1, scount, stype, rbuf, ompi_comm_size(comm), rcount,
                  rtype, comm, request, module);
}

static int alltoall(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                    type_t *rtype, comm_t *comm, ompi_request_t **request, module_t *module)
{
    int size = ompi_comm_size(comm);

    return blocks(VBN_COLL_ALLTOALL, 0, sbuf, size, scount, stype, rbuf, size, rcount, rtype, comm,
                  request, module);
}

static int gather(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                  type_t *rtype, int root, comm_t *comm, ompi_request_t **request, module_t *module)
{
    bool is_root = ompi_comm_rank(comm) == root;

    return blocks(VBN_COLL_GATHER, root, sbuf, 1, scount, stype, rbuf,
                  is_root ? ompi_comm_size(comm) : 0, rcount, rtype, comm, request, module);
}

static int scatter(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                   type_t *rtype, int root, comm_t *comm, ompi_request_t **request,
                   module_t *module)
{
    bool is_root = ompi_comm_rank(comm) == root;

    return blocks(VBN_COLL_SCATTER, root, sbuf, is_root ? ompi_comm_size(comm) : 0, scount, stype,
                  rbuf, 1, rcount, rtype, comm, request, module);
}

/* --- blocks of many sizes
 * ------------------------------------------------------------------------- */

static int allgatherv(const void *sbuf, int scount, type_t *stype, void *rbuf, const int *rcounts,
                      const int *displs, type_t *rtype, comm_t *comm, ompi_request_t **request,
                      module_t *module)
{
    coll_verbena_call_t call;
    size_t *sizes = array(module, comm, 0), *offsets = array(module, comm, 1);
    bool in_place = sbuf == MPI_IN_PLACE;

    call_init(&call, VBN_COLL_ALLGATHERV, 0);
    if (!sizes ||
        (!in_place && !coll_verbena_view(&call.in, sbuf, 1, scount, NULL, NULL, stype, true, false,
                                         NULL, NULL)) ||
        !coll_verbena_view(&call.out, rbuf, ompi_comm_size(comm), 0, rcounts, displs, rtype,
                           in_place, true, sizes, offsets))
        return no_room(&call);
    call.args.sendbuf = data_of(&call.in, in_place);
    call.args.recvbuf = call.out.bytes;
    call.args.count = in_place ? sizes[ompi_comm_rank(comm)] : bytes_of(scount, stype);
    call.args.recvcounts = sizes;
    call.args.rdispls = offsets;
    return go(module, comm, &call, request);
}

static int gatherv(const void *sbuf, int scount, type_t *stype, void *rbuf, const int *rcounts,
                   const int *displs, type_t *rtype, int root, comm_t *comm,
                   ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;
    size_t *sizes = array(module, comm, 0), *offsets = array(module, comm, 1);
    bool is_root = ompi_comm_rank(comm) == root, in_place = sbuf == MPI_IN_PLACE;

    call_init(&call, VBN_COLL_GATHERV, root);
    if (!sizes ||
        (!in_place && !coll_verbena_view(&call.in, sbuf, 1, scount, NULL, NULL, stype, true, false,
                                         NULL, NULL)) ||
        (is_root && !coll_verbena_view(&call.out, rbuf, ompi_comm_size(comm), 0, rcounts, displs,
                                       rtype, in_place, true, sizes, offsets)))
        return no_room(&call);
    call.args.sendbuf = data_of(&call.in, in_place);
    call.args.recvbuf = call.out.bytes;
    call.args.count = in_place ? sizes[root] : bytes_of(scount, stype);
    call.args.recvcounts = is_root ? sizes : NULL;
    call.args.rdispls = is_root ? offsets : NULL;
    return go(module, comm, &call, request);
}

static int scatterv(const void *sbuf, const int *scounts, const int *displs, type_t *stype,
                    void *rbuf, int rcount, type_t *rtype, int root, comm_t *comm,
                    ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;
    size_t *sizes = array(module, comm, 0), *offsets = array(module, comm, 1);
    bool is_root = ompi_comm_rank(comm) == root, in_place = rbuf == MPI_IN_PLACE;

    call_init(&call, VBN_COLL_SCATTERV, root);
    if (!sizes ||
        (is_root && !coll_verbena_view(&call.in, sbuf, ompi_comm_size(comm), 0, scounts, displs,
                                       stype, true, false, sizes, offsets)) ||
        (!in_place && !coll_verbena_view(&call.out, rbuf, 1, rcount, NULL, NULL, rtype, false, true,
                                         NULL, NULL)))
        return no_room(&call);
    call.args.sendbuf = call.in.bytes;
    call.args.sendcounts = is_root ? sizes : NULL;
    call.args.sdispls = is_root ? offsets : NULL;
    call.args.recvbuf = data_of(&call.out, in_place);
    call.args.count = in_place ? sizes[root] : bytes_of(rcount, rtype);
    return go(module, comm, &call, request);
}

static int alltoallv(const void *sbuf, const int *scounts, const int *sdispls, type_t *stype,
                     void *rbuf, const int *rcounts, const int *rdispls, type_t *rtype,
                     comm_t *comm, ompi_request_t **request, module_t *module)
{
    coll_verbena_call_t call;
    int size = ompi_comm_size(comm);
    bool in_place = sbuf == MPI_IN_PLACE;
    size_t *a[4];

    call_init(&call, VBN_COLL_ALLTOALLV, 0);
    for (int i = 0; i < 4; i++)
        a[i] = array(module, comm, i);
    if (!a[0] ||
        (!in_place && !coll_verbena_view(&call.in, sbuf, size, 0, scounts, sdispls, stype, true,
                                         false, a[0], a[1])) ||
        !coll_verbena_view(&call.out, rbuf, size, 0, rcounts, rdispls, rtype, in_place, true, a[2],
                           a[3]))
        return no_room(&call);
    call.args.sendbuf = data_of(&call.in, in_place);
    call.args.sendcounts = a[0];
    call.args.sdispls = a[1];
    call.args.recvbuf = call.out.bytes;
    call.args.recvcounts = a[2];
    call.args.rdispls = a[3];
    return go(module, comm, &call, request);
}

/* --- reductions
 * ----------------------------------------------------------------------------------- */

/* Elements of the vector that a rank adds, and *OWN of its result. */
static size_t vector_elements(const struct vbn_coll_args *args, comm_t *comm, size_t *own)
{
    size_t ranks = (size_t)ompi_comm_size(comm), sum = 0;

    *own = args->count;
    if (args->coll == VBN_COLL_REDUCE_SCATTER_BLOCK)
        return args->count * ranks;
    if (args->coll != VBN_COLL_REDUCE_SCATTER)
        return args->count;
    *own = args->recvcounts[ompi_comm_rank(comm)];
    for (size_t i = 0; i < ranks; i++)
        sum += args->recvcounts[i];
    return sum;
}

/* Whether messages are sent from the vector itself. An allreduce or a scan copies it first, by all
 * that are for long vectors, and so does the root of a reduce. */
static bool sends_vector(const struct vbn_coll_args *args)
{
    return args->coll == VBN_COLL_REDUCE_SCATTER || args->coll == VBN_COLL_REDUCE_SCATTER_BLOCK ||
           (args->coll == VBN_COLL_REDUCE && !args->recvbuf);
}

/* What messages may use without registering it each for itself. */
static void view_vectors(coll_verbena_call_t *call, type_t *type, comm_t *comm)
{
    const struct vbn_coll_args *args = &call->args;
    bool in_place = args->sendbuf == VBN_IN_PLACE;
    size_t size = bytes_of(1, type), own, vector = vector_elements(args, comm, &own);

    if (!in_place && sends_vector(args)) {
        call->in.bytes = (void *)(uintptr_t)args->sendbuf;
        call->in.span = vector * size;
    }
    if (args->recvbuf) {
        call->out.bytes = args->recvbuf;
        call->out.span = (in_place ? vector : own) * size;
    }
}

/* Open MPI's own code gives one buffer twice where it means in place. */
static int run_reduction(coll_verbena_call_t *call, const void *sbuf, void *rbuf, int count,
                         type_t *type, comm_t *comm, ompi_request_t **request, module_t *module)
{
    call->args.sendbuf = sbuf == MPI_IN_PLACE || sbuf == rbuf ? VBN_IN_PLACE : sbuf;
    call->args.recvbuf = rbuf;
    call->args.count = (size_t)count;
    view_vectors(call, type, comm);
    return go(module, comm, call, request);
}

#define REDUCTION(name, coll)                                                                      \
    static int name(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op, comm_t *comm, \
                    module_t *module)                                                              \
    {                                                                                              \
        const mca_coll_base_comm_coll_t *below = &own(module)->below;                              \
        coll_verbena_call_t call;                                                                  \
                                                                                                   \
        call_init(&call, coll, 0);                                                                 \
        if (coll_verbena_reduction(&call, type, op))                                               \
            return run_reduction(&call, sbuf, rbuf, count, type, comm, NULL, module);              \
        return below->coll_##name(sbuf, rbuf, count, type, op, comm, below->coll_##name##_module); \
    }                                                                                              \
    static int i##name(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op,            \
                       comm_t *comm, ompi_request_t **request, module_t *module)                   \
    {                                                                                              \
        const mca_coll_base_comm_coll_t *below = &own(module)->below;                              \
        coll_verbena_call_t call;                                                                  \
                                                                                                   \
        call_init(&call, coll, 0);                                                                 \
        if (coll_verbena_reduction(&call, type, op))                                               \
            return run_reduction(&call, sbuf, rbuf, count, type, comm, request, module);           \
        return below->coll_i##name(sbuf, rbuf, count, type, op, comm, request,                     \
                                   below->coll_i##name##_module);                                  \
    }

REDUCTION(allreduce, VBN_COLL_ALLREDUCE)
REDUCTION(reduce_scatter_block, VBN_COLL_REDUCE_SCATTER_BLOCK)
REDUCTION(scan, VBN_COLL_SCAN)
REDUCTION(exscan, VBN_COLL_EXSCAN)

/* Elsewhere a caller may give its contribution twice, as what is not looked at. */
static void *result_at(void *rbuf, int root, comm_t *comm)
{
    return ompi_comm_rank(comm) == root ? rbuf : NULL;
}

static int reduce(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op, int root,
                  comm_t *comm, module_t *module)
{
    const mca_coll_base_comm_coll_t *below = &own(module)->below;
    coll_verbena_call_t call;

    call_init(&call, VBN_COLL_REDUCE, root);
    if (coll_verbena_reduction(&call, type, op))
        return run_reduction(&call, sbuf, result_at(rbuf, root, comm), count, type, comm, NULL,
                             module);
    return below->coll_reduce(sbuf, rbuf, count, type, op, root, comm, below->coll_reduce_module);
}

static int ireduce(const void *sbuf, void *rbuf, int count, type_t *type, op_t *op, int root,
                   comm_t *comm, ompi_request_t **request, module_t *module)
{
    const mca_coll_base_comm_coll_t *below = &own(module)->below;
    coll_verbena_call_t call;

    call_init(&call, VBN_COLL_REDUCE, root);
    if (coll_verbena_reduction(&call, type, op))
        return run_reduction(&call, sbuf, result_at(rbuf, root, comm), count, type, comm, request,
                             module);
    return below->coll_ireduce(sbuf, rbuf, count, type, op, root, comm, request,
                               below->coll_ireduce_module);
}

/* The counts of a reduce_scatter; false: no memory. */
static bool reduce_counts(coll_verbena_call_t *call, const int *rcounts, comm_t *comm,
                          module_t *module)
{
    size_t *counts = array(module, comm, 0);

    for (int i = 0; counts && i < ompi_comm_size(comm); i++)
        counts[i] = (size_t)rcounts[i];
    call->args.recvcounts = counts;
    return counts != NULL;
}

static int reduce_scatter(const void *sbuf, void *rbuf, const int *rcounts, type_t *type, op_t *op,
                          comm_t *comm, module_t *module)
{
    const mca_coll_base_comm_coll_t *below = &own(module)->below;
    coll_verbena_call_t call;

    call_init(&call, VBN_COLL_REDUCE_SCATTER, 0);
    if (!coll_verbena_reduction(&call, type, op))
        return below->coll_reduce_scatter(sbuf, rbuf, rcounts, type, op, comm,
                                          below->coll_reduce_scatter_module);
    if (!reduce_counts(&call, rcounts, comm, module))
        return OMPI_ERR_OUT_OF_RESOURCE;
    return run_reduction(&call, sbuf, rbuf, 0, type, comm, NULL, module);
}

static int ireduce_scatter(const void *sbuf, void *rbuf, const int *rcounts, type_t *type, op_t *op,
                           comm_t *comm, ompi_request_t **request, module_t *module)
{
    const mca_coll_base_comm_coll_t *below = &own(module)->below;
    coll_verbena_call_t call;

    call_init(&call, VBN_COLL_REDUCE_SCATTER, 0);
    if (!coll_verbena_reduction(&call, type, op))
        return below->coll_ireduce_scatter(sbuf, rbuf, rcounts, type, op, comm, request,
                                           below->coll_ireduce_scatter_module);
    if (!reduce_counts(&call, rcounts, comm, module))
        return OMPI_ERR_OUT_OF_RESOURCE;
    return run_reduction(&call, sbuf, rbuf, 0, type, comm, request, module);
}

/* --- the blocking forms
 * ---------------------------------------------------------------------------- */

static int b_barrier(comm_t *comm, module_t *module)
{
    return barrier(comm, NULL, module);
}

static int b_bcast(void *buf, int count, type_t *type, int root, comm_t *comm, module_t *module)
{
    return bcast(buf, count, type, root, comm, NULL, module);
}

static int b_allgather(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                       type_t *rtype, comm_t *comm, module_t *module)
{
    return allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, NULL, module);
}

static int b_alltoall(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                      type_t *rtype, comm_t *comm, module_t *module)
{
    return alltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm, NULL, module);
}

static int b_gather(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                    type_t *rtype, int root, comm_t *comm, module_t *module)
{
    return gather(sbuf, scount, stype, rbuf, rcount, rtype, root, comm, NULL, module);
}

static int b_scatter(const void *sbuf, int scount, type_t *stype, void *rbuf, int rcount,
                     type_t *rtype, int root, comm_t *comm, module_t *module)
{
    return scatter(sbuf, scount, stype, rbuf, rcount, rtype, root, comm, NULL, module);
}

static int b_allgatherv(const void *sbuf, int scount, type_t *stype, void *rbuf, const int *rcounts,
                        const int *displs, type_t *rtype, comm_t *comm, module_t *module)
{
    return allgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm, NULL, module);
}

static int b_gatherv(const void *sbuf, int scount, type_t *stype, void *rbuf, const int *rcounts,
                     const int *displs, type_t *rtype, int root, comm_t *comm, module_t *module)
{
    return gatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, root, comm, NULL, module);
}

static int b_scatterv(const void *sbuf, const int *scounts, const int *displs, type_t *stype,
                      void *rbuf, int rcount, type_t *rtype, int root, comm_t *comm,
                      module_t *module)
{
    return scatterv(sbuf, scounts, displs, stype, rbuf, rcount, rtype, root, comm, NULL, module);
}

static int b_alltoallv(const void *sbuf, const int *scounts, const int *sdispls, type_t *stype,
                       void *rbuf, const int *rcounts, const int *rdispls, type_t *rtype,
                       comm_t *comm, module_t *module)
{
    return alltoallv(sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype, comm, NULL,
                     module);
}

void coll_verbena_functions(mca_coll_base_module_t *m)
{
    m->coll_barrier = b_barrier;
    m->coll_bcast = b_bcast;
    m->coll_allgather = b_allgather;
    m->coll_alltoall = b_alltoall;
    m->coll_gather = b_gather;
    m->coll_scatter = b_scatter;
    m->coll_allgatherv = b_allgatherv;
    m->coll_gatherv = b_gatherv;
    m->coll_scatterv = b_scatterv;
    m->coll_alltoallv = b_alltoallv;
    m->coll_allreduce = allreduce;
    m->coll_reduce = reduce;
    m->coll_reduce_scatter = reduce_scatter;
    m->coll_reduce_scatter_block = reduce_scatter_block;
    m->coll_scan = scan;
    m->coll_exscan = exscan;
    m->coll_ibarrier = barrier;
    m->coll_ibcast = bcast;
    m->coll_iallgather = allgather;
    m->coll_ialltoall = alltoall;
    m->coll_igather = gather;
    m->coll_iscatter = scatter;
    m->coll_iallgatherv = allgatherv;
    m->coll_igatherv = gatherv;
    m->coll_iscatterv = scatterv;
    m->coll_ialltoallv = alltoallv;
    m->coll_iallreduce = iallreduce;
    m->coll_ireduce = ireduce;
    m->coll_ireduce_scatter = ireduce_scatter;
    m->coll_ireduce_scatter_block = ireduce_scatter_block;
    m->coll_iscan = iscan;
    m->coll_iexscan = iexscan;
}
