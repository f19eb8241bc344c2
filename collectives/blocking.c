/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocking operations: a call's arguments in one structure, started and waited for. */
#include "error.h"
#include "team.h"

/* Whether the ranks use a group from this call on. A call that cannot be is none: the others do not
 * vote before it. */
static int vote(vbn_team_t *team, const struct vbn_coll_args *args)
{
    vbn_coll_req_t *req;
    int status;

    if (!vbn_group_undecided(team))
        return VBN_OK;
    status = vbn_req_check(team, args, &team->error);
    if (status != VBN_OK)
        return status;
    status = vbn_team_vote(team, &req, &team->error);
    return status == VBN_OK && req ? vbn_coll_wait(req) : status;
}

int vbn_coll(vbn_team_t *team, const struct vbn_coll_args *args)
{
    vbn_coll_req_t *req;
    int status;

    if (!team)
        return VBN_ERR_INVALID;
    team->error.text[0] = '\0';
    status = vote(team, args);
    if (status == VBN_OK)
        status = vbn_coll_istart(team, args, &req, &team->error);
    return status == VBN_OK ? vbn_coll_wait(req) : status;
}

static struct vbn_coll_args args_of(enum vbn_coll coll, const void *sendbuf, void *recvbuf,
                                    size_t count, enum vbn_dtype dtype)
{
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = coll,
                                 .sendbuf = sendbuf,
                                 .recvbuf = recvbuf,
                                 .count = count,
                                 .dtype = dtype};

    return args;
}

int vbn_barrier(vbn_team_t *team)
{
    struct vbn_coll_args args = args_of(VBN_COLL_BARRIER, NULL, NULL, 0, VBN_BYTES);

    return vbn_coll(team, &args);
}

int vbn_bcast(vbn_team_t *team, void *buf, size_t count, enum vbn_dtype dtype, uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_BCAST, NULL, buf, count, dtype);

    args.root = root;
    return vbn_coll(team, &args);
}

int vbn_reduce(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, enum vbn_op_kind op, uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_REDUCE, sendbuf, recvbuf, count, dtype);

    args.op = op;
    args.root = root;
    return vbn_coll(team, &args);
}

static int reduction(vbn_team_t *team, enum vbn_coll coll, const void *sendbuf, void *recvbuf,
                     size_t count, enum vbn_dtype dtype, enum vbn_op_kind op)
{
    struct vbn_coll_args args = args_of(coll, sendbuf, recvbuf, count, dtype);

    args.op = op;
    return vbn_coll(team, &args);
}

int vbn_allreduce(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                  enum vbn_dtype dtype, enum vbn_op_kind op)
{
    return reduction(team, VBN_COLL_ALLREDUCE, sendbuf, recvbuf, count, dtype, op);
}

int vbn_reduce_scatter(vbn_team_t *team, const void *sendbuf, void *recvbuf,
                       const size_t *recvcounts, enum vbn_dtype dtype, enum vbn_op_kind op)
{
    struct vbn_coll_args args = args_of(VBN_COLL_REDUCE_SCATTER, sendbuf, recvbuf, 0, dtype);

    args.recvcounts = recvcounts;
    args.op = op;
    return vbn_coll(team, &args);
}

int vbn_reduce_scatter_block(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                             enum vbn_dtype dtype, enum vbn_op_kind op)
{
    return reduction(team, VBN_COLL_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, dtype, op);
}

int vbn_scan(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
             enum vbn_dtype dtype, enum vbn_op_kind op)
{
    return reduction(team, VBN_COLL_SCAN, sendbuf, recvbuf, count, dtype, op);
}

int vbn_exscan(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, enum vbn_op_kind op)
{
    return reduction(team, VBN_COLL_EXSCAN, sendbuf, recvbuf, count, dtype, op);
}

int vbn_allgather(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                  enum vbn_dtype dtype)
{
    struct vbn_coll_args args = args_of(VBN_COLL_ALLGATHER, sendbuf, recvbuf, count, dtype);

    return vbn_coll(team, &args);
}

int vbn_allgatherv(vbn_team_t *team, const void *sendbuf, size_t count, void *recvbuf,
                   const size_t *recvcounts, const size_t *rdispls, enum vbn_dtype dtype)
{
    struct vbn_coll_args args = args_of(VBN_COLL_ALLGATHERV, sendbuf, recvbuf, count, dtype);

    args.recvcounts = recvcounts;
    args.rdispls = rdispls;
    return vbn_coll(team, &args);
}

int vbn_gather(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_GATHER, sendbuf, recvbuf, count, dtype);

    args.root = root;
    return vbn_coll(team, &args);
}

int vbn_gatherv(vbn_team_t *team, const void *sendbuf, size_t count, void *recvbuf,
                const size_t *recvcounts, const size_t *rdispls, enum vbn_dtype dtype,
                uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_GATHERV, sendbuf, recvbuf, count, dtype);

    args.recvcounts = recvcounts;
    args.rdispls = rdispls;
    args.root = root;
    return vbn_coll(team, &args);
}

int vbn_scatter(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                enum vbn_dtype dtype, uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_SCATTER, sendbuf, recvbuf, count, dtype);

    args.root = root;
    return vbn_coll(team, &args);
}

int vbn_scatterv(vbn_team_t *team, const void *sendbuf, const size_t *sendcounts,
                 const size_t *sdispls, void *recvbuf, size_t count, enum vbn_dtype dtype,
                 uint32_t root)
{
    struct vbn_coll_args args = args_of(VBN_COLL_SCATTERV, sendbuf, recvbuf, count, dtype);

    args.sendcounts = sendcounts;
    args.sdispls = sdispls;
    args.root = root;
    return vbn_coll(team, &args);
}

int vbn_alltoall(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                 enum vbn_dtype dtype)
{
    struct vbn_coll_args args = args_of(VBN_COLL_ALLTOALL, sendbuf, recvbuf, count, dtype);

    return vbn_coll(team, &args);
}

int vbn_alltoallv(vbn_team_t *team, const void *sendbuf, const size_t *sendcounts,
                  const size_t *sdispls, void *recvbuf, const size_t *recvcounts,
                  const size_t *rdispls, enum vbn_dtype dtype)
{
    struct vbn_coll_args args = args_of(VBN_COLL_ALLTOALLV, sendbuf, recvbuf, 0, dtype);

    args.sendcounts = sendcounts;
    args.sdispls = sdispls;
    args.recvcounts = recvcounts;
    args.rdispls = rdispls;
    return vbn_coll(team, &args);
}
