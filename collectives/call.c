/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes a caller's arguments: refuses what cannot be meant, and makes a struct vbn_call of the
 * rest. */
#include "check.h"
#include "dtype.h"
#include "error.h"
#include "team.h"

#include <stdlib.h>

/* What each operation has. */
enum {
    HAS_ROOT = 1,
    HAS_OP = 2,     /* reduces */
    HAS_COUNT = 4,  /* `count` */
    HAS_BLOCKS = 8, /* `count` is a block's, of which somebody has one a rank */
    HAS_RECVCOUNTS = 16,
    HAS_SENDCOUNTS = 32,
    HAS_NO_SENDBUF = 64,
};

static const unsigned has[VBN_COLL_COUNT] = {
    [VBN_COLL_BARRIER] = HAS_NO_SENDBUF,
    [VBN_COLL_BCAST] = HAS_ROOT | HAS_COUNT | HAS_NO_SENDBUF,
    [VBN_COLL_REDUCE] = HAS_ROOT | HAS_OP | HAS_COUNT,
    [VBN_COLL_ALLREDUCE] = HAS_OP | HAS_COUNT,
    [VBN_COLL_REDUCE_SCATTER] = HAS_OP | HAS_RECVCOUNTS,
    [VBN_COLL_REDUCE_SCATTER_BLOCK] = HAS_OP | HAS_COUNT | HAS_BLOCKS,
    [VBN_COLL_ALLGATHER] = HAS_COUNT | HAS_BLOCKS,
    [VBN_COLL_ALLGATHERV] = HAS_COUNT | HAS_RECVCOUNTS,
    [VBN_COLL_GATHER] = HAS_ROOT | HAS_COUNT | HAS_BLOCKS,
    [VBN_COLL_GATHERV] = HAS_ROOT | HAS_COUNT | HAS_RECVCOUNTS,
    [VBN_COLL_SCATTER] = HAS_ROOT | HAS_COUNT | HAS_BLOCKS,
    [VBN_COLL_SCATTERV] = HAS_ROOT | HAS_COUNT | HAS_SENDCOUNTS,
    [VBN_COLL_ALLTOALL] = HAS_COUNT | HAS_BLOCKS,
    [VBN_COLL_ALLTOALLV] = HAS_SENDCOUNTS | HAS_RECVCOUNTS,
    [VBN_COLL_SCAN] = HAS_OP | HAS_COUNT,
    [VBN_COLL_EXSCAN] = HAS_OP | HAS_COUNT,
};

static bool is_gather(enum vbn_coll coll)
{
    return coll == VBN_COLL_GATHER || coll == VBN_COLL_GATHERV;
}

static bool is_scatter(enum vbn_coll coll)
{
    return coll == VBN_COLL_SCATTER || coll == VBN_COLL_SCATTERV;
}

static bool is_root(const struct vbn_call *call)
{
    return call->rank == call->root;
}

static int refuse(const vbn_coll_req_t *req, struct vbn_error *err, const char *what)
{
    return vbn_error_set(err, VBN_ERR_INVALID, "%s on team %u: %s", vbn_coll_name(req->call.coll),
                         req->team->id, what);
}

static int take_type(vbn_coll_req_t *req, const struct vbn_coll_args *args, struct vbn_error *err)
{
    struct vbn_call *call = &req->call;

    call->elem = vbn_dtype_size(args->dtype);
    if (!call->elem)
        return refuse(req, err, "there is no such type of element");
    if (args->dtype == VBN_BYTES && args->elem_size)
        call->elem = args->elem_size;
    call->commutative = true;
    req->reduce = NULL;
    req->op_kind = 0;
    if (!(has[args->coll] & HAS_OP))
        return VBN_OK;
    if (args->user_op) {
        if (!args->user_op->fn)
            return refuse(req, err, "the user-defined operation has no function");
        call->commutative = args->user_op->commutative;
        req->reduce = args->user_op->fn;
        req->reduce_arg = args->user_op->arg;
        req->op_kind = VBN_OP_USER;
        return VBN_OK;
    }
    req->reduce = vbn_op_function(args->op, args->dtype);
    req->op_kind = args->op;
    if (req->reduce)
        return VBN_OK;
    return vbn_error_set(err, VBN_ERR_INVALID, "%s on team %u: no operation %s for elements of %s",
                         vbn_coll_name(call->coll), req->team->id, vbn_op_name(args->op),
                         vbn_dtype_name(args->dtype));
}

/* Whether COUNT elements lie in memory that an address can reach. */
static bool fits(const struct vbn_call *call, size_t count)
{
    return count <= (size_t)PTRDIFF_MAX / call->elem;
}

/* A block of no elements is nowhere: its displacement says nothing. */
static bool block_fits(const struct vbn_call *call, size_t count, size_t displ)
{
    return !count || (fits(call, displ) && fits(call, displ + count));
}

/*
 * The counts and displacements of SIZE blocks; NULL displacements become sums, in *SUMS if they are
 * to be had (p + 1 of them).
 */
static int take_blocks(vbn_coll_req_t *req, const size_t *counts, const size_t *displs,
                       size_t *sums, struct vbn_error *err)
{
    struct vbn_call *call = &req->call;
    size_t sum = 0;

    if (!counts)
        return refuse(req, err, "the array of counts is NULL");
    for (uint32_t i = 0; i < call->size; i++) {
        sums[i] = sum;
        if (!fits(call, counts[i]) || !fits(call, sum + counts[i]) ||
            (displs && !block_fits(call, counts[i], displs[i])))
            return refuse(req, err, "a count or displacement is larger than memory (negative?)");
        sum += counts[i];
    }
    sums[call->size] = sum;
    return VBN_OK;
}

static int sums_room(vbn_coll_req_t *req, struct vbn_error *err)
{
    size_t need = 2 * ((size_t)req->team->size + 1);
    size_t *sums;

    if (req->packed_room >= need)
        return VBN_OK;
    sums = realloc(req->packed, need * sizeof(*sums));
    if (!sums)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for %u counts", req->team->size);
    req->packed = sums;
    req->packed_room = need;
    return VBN_OK;
}

/* The arrays that this rank has to give. */
static int take_arrays(vbn_coll_req_t *req, const struct vbn_coll_args *args, struct vbn_error *err)
{
    struct vbn_call *call = &req->call;
    bool recv = (has[call->coll] & HAS_RECVCOUNTS) && (!is_gather(call->coll) || is_root(call));
    bool send = (has[call->coll] & HAS_SENDCOUNTS) && !call->in_place;
    size_t *sums, *more;
    int status;

    if (is_scatter(call->coll))
        send = (has[call->coll] & HAS_SENDCOUNTS) && is_root(call);
    if (!recv && !send)
        return VBN_OK;
    status = sums_room(req, err);
    sums = req->packed;
    if (status == VBN_OK && recv) {
        const size_t *displs = call->coll == VBN_COLL_REDUCE_SCATTER ? NULL : args->rdispls;

        status = take_blocks(req, args->recvcounts, displs, sums, err);
        call->recv_counts = args->recvcounts;
        call->recv_displs = displs ? displs : sums;
        call->packed = sums;
    }
    if (status == VBN_OK && send) {
        more = req->packed + call->size + 1;
        status = take_blocks(req, args->sendcounts, args->sdispls, more, err);
        call->send_counts = args->sendcounts;
        call->send_displs = args->sdispls ? args->sdispls : more;
    }
    return status;
}

/* In place, who has counts has his own among them, and `count` says nothing. */
static size_t own_count(const struct vbn_call *call, const struct vbn_coll_args *args)
{
    const size_t *counts = call->recv_counts ? call->recv_counts : call->send_counts;

    return call->in_place && counts ? counts[call->rank] : args->count;
}

/* `count`, and what this rank gives itself. */
static int take_count(vbn_coll_req_t *req, const struct vbn_coll_args *args, struct vbn_error *err)
{
    struct vbn_call *call = &req->call;
    unsigned what = has[call->coll];
    uint32_t me = call->rank;

    if (what & HAS_COUNT)
        call->count = own_count(call, args);
    if ((what & HAS_BLOCKS) &&
        !fits(call, call->count > SIZE_MAX / call->size ? SIZE_MAX : call->count * call->size))
        return refuse(req, err, "the count is larger than memory (negative?)");
    if (!fits(call, call->count))
        return refuse(req, err, "the count is larger than memory (negative?)");
    if (call->in_place)
        return VBN_OK;
    if ((what & HAS_COUNT) && call->recv_counts && call->recv_counts[me] != call->count)
        return refuse(req, err, "count is not this rank's own entry of recvcounts");
    if ((what & HAS_COUNT) && call->send_counts && call->send_counts[me] != call->count)
        return refuse(req, err, "count is not this rank's own entry of sendcounts");
    if (!(what & HAS_COUNT) && call->recv_counts && call->send_counts &&
        call->recv_counts[me] != call->send_counts[me])
        return refuse(req, err, "what this rank sends itself is not what it receives from itself");
    return VBN_OK;
}

/* Whether there are any elements in blocks of COUNTS; NULL: in those of `count`. */
static bool any(const struct vbn_call *call, const size_t *counts)
{
    if (!counts)
        return call->count > 0;
    for (uint32_t i = 0; i < call->size; i++)
        if (counts[i])
            return true;
    return false;
}

/* Whether there are any in this rank's `sendbuf`. */
static bool any_sent(const struct vbn_call *call)
{
    return any(call, call->coll == VBN_COLL_REDUCE_SCATTER ? call->recv_counts : call->send_counts);
}

/* Whether there are any in its `recvbuf`: of reduce_scatter it has its own block there. */
static bool any_received(const struct vbn_call *call)
{
    const size_t *counts = call->recv_counts;

    if (counts && call->coll == VBN_COLL_REDUCE_SCATTER && !call->in_place)
        return counts[call->rank] > 0;
    return any(call, counts);
}

static int check_buffers(vbn_coll_req_t *req, const struct vbn_coll_args *args,
                         struct vbn_error *err)
{
    const struct vbn_call *call = &req->call;
    bool rooted = is_gather(call->coll) || call->coll == VBN_COLL_REDUCE;
    bool sends = !(has[call->coll] & HAS_NO_SENDBUF) && !(rooted && call->in_place);
    bool receives = call->coll != VBN_COLL_BARRIER && !(rooted && !is_root(call));

    if (is_scatter(call->coll))
        sends = is_root(call);
    else
        sends = sends && !call->in_place;
    if (is_scatter(call->coll) && call->in_place)
        receives = false;
    if (call->coll == VBN_COLL_EXSCAN && !call->rank && !call->in_place)
        receives = false;
    if (sends && args->sendbuf == VBN_IN_PLACE)
        return refuse(req, err, "in place is not for this rank's sendbuf");
    if (receives && args->recvbuf == VBN_IN_PLACE)
        return refuse(req, err, "in place is for sendbuf; for recvbuf at scatter's root only");
    if (sends && !args->sendbuf && any_sent(call))
        return refuse(req, err, "sendbuf is NULL");
    if (receives && !args->recvbuf && any_received(call))
        return refuse(req, err, "recvbuf is NULL");
    if (sends && receives && args->sendbuf && args->sendbuf == args->recvbuf && any_sent(call) &&
        any_received(call))
        return refuse(req, err, "sendbuf and recvbuf are the same: VBN_IN_PLACE says so");
    return VBN_OK;
}

static bool in_place(const struct vbn_call *call, const struct vbn_coll_args *args)
{
    if (is_scatter(call->coll))
        return is_root(call) && args->recvbuf == VBN_IN_PLACE;
    if ((is_gather(call->coll) || call->coll == VBN_COLL_REDUCE) && !is_root(call))
        return false;
    return !(has[call->coll] & HAS_NO_SENDBUF) && args->sendbuf == VBN_IN_PLACE;
}

bool vbn_call_has_root(enum vbn_coll coll)
{
    return (unsigned)coll < VBN_COLL_COUNT && (has[coll] & HAS_ROOT);
}

int vbn_call_take(vbn_coll_req_t *req, const struct vbn_coll_args *args, uint32_t root,
                  struct vbn_error *err)
{
    const vbn_team_t *team = req->team;
    struct vbn_call *call = &req->call;
    int status;

    if ((unsigned)args->coll >= VBN_COLL_COUNT)
        return vbn_error_set(err, VBN_ERR_INVALID, "team %u: there is no collective number %d",
                             team->id, (int)args->coll);
    *call = (struct vbn_call){.coll = args->coll,
                              .rank = team->rank,
                              .size = team->size,
                              .root = root,
                              .group = vbn_group_is_on(team),
                              .alpha_ns = (double)team->opts.alpha_ns,
                              .beta_ns = (double)team->opts.beta_ps / 1e3};
    if (root >= team->size)
        return vbn_error_set(err, VBN_ERR_INVALID, "%s on team %u: root %u of %u ranks",
                             vbn_coll_name(args->coll), team->id, root, team->size);
    call->in_place = in_place(call, args);
    status = take_type(req, args, err);
    if (status == VBN_OK)
        status = take_arrays(req, args, err);
    if (status == VBN_OK)
        status = take_count(req, args, err);
    if (status == VBN_OK)
        status = check_buffers(req, args, err);
    if (status != VBN_OK)
        return status;
    req->uniform = !call->recv_counts && !call->send_counts;
    req->signed_count = team->opts.check ? vbn_check_count(call) : 0;
    req->base[VBN_AT_SEND] = (uint8_t *)(uintptr_t)args->sendbuf;
    req->base[VBN_AT_RECV] = args->recvbuf;
    return VBN_OK;
}

uint64_t vbn_call_bytes(const struct vbn_call *call)
{
    switch (call->coll) {
    case VBN_COLL_GATHERV:
    case VBN_COLL_SCATTERV:
    case VBN_COLL_ALLTOALLV:
        return 0; /* the ranks know different things */
    case VBN_COLL_REDUCE_SCATTER:
    case VBN_COLL_ALLGATHERV:
        return (uint64_t)call->packed[call->size] * call->elem;
    default:
        return (uint64_t)call->count * call->elem *
               (has[call->coll] & HAS_BLOCKS ? call->size : 1u);
    }
}
