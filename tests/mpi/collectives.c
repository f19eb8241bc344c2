/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that move data, blocking and nonblocking, in place and not, with equal blocks and
 * with blocks that differ in length, lie in reverse order, on both sides of the address that MPI is
 * given, and have gaps between them. Some are empty and said to lie far away, where nothing is.
 * Every int of the receiving memory is compared, gaps included.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GAP = -1, GAP_INTS = 2, FAR_AWAY = 100000000, TAG_TOKEN = 1, EVERYBODY = 1000 };

/* How one collective is called. count is that of an unvaried block. */
struct call {
    const struct job *job;
    int count;
    int root;
    bool varied;
    bool in_place;
    bool nonblocking;
};

/* Where the blocks lie, one a rank, in ints from `origin`, which is the int whose address MPI is
 * given. */
struct blocks {
    int *counts;
    int *displs;
    int origin;
    int total;
};

/* Symmetric in the two ranks, as an alltoallv in place demands. Nothing is empty where that would
 * be nonblocking: Open MPI 4.1's ialltoallv in place then sends and receives one block at once. */
static int block_count(const struct call *call, int a, int b)
{
    if (!call->varied)
        return call->count;
    if ((a + b) % 4 == 3 && !(call->in_place && call->nonblocking))
        return 0;
    return call->count + (a + b) % 3 * (call->count / 2);
}

/* other is the rank at the far end of all blocks, or EVERYBODY. */
static void blocks_init(struct blocks *blocks, const struct call *call, int other)
{
    int size = call->job->size;
    blocks->counts = calloc((size_t)size, sizeof(int));
    blocks->displs = calloc((size_t)size, sizeof(int));
    blocks->total = 0;
    for (int i = 0; i < size; i++) {
        int rank = call->varied ? size - 1 - i : i;
        blocks->counts[rank] = block_count(call, rank, other);
        blocks->displs[rank] = blocks->total;
        blocks->total += blocks->counts[rank] + (call->varied ? GAP_INTS : 0);
    }
    blocks->origin = call->varied ? blocks->total / 2 : 0;
    for (int rank = 0; call->varied && rank < size; rank++) {
        blocks->displs[rank] -= blocks->origin;
        if (blocks->counts[rank] == 0)
            blocks->displs[rank] = (rank + call->root) % 2 ? FAR_AWAY : -FAR_AWAY;
    }
}

/* Where RANK's block is in MEMORY, if it is anywhere. */
static int *block_at(int *memory, const struct blocks *blocks, int rank)
{
    return blocks->counts[rank] ? memory + blocks->origin + blocks->displs[rank] : memory;
}

static void blocks_fini(struct blocks *blocks)
{
    free(blocks->counts);
    free(blocks->displs);
}

static void block_fill(int *memory, int count, int source, int dest)
{
    uint64_t seed = hash_of((uint64_t)source, (uint64_t)dest, 0);
    for (int i = 0; i < count; i++)
        memory[i] = int_at(seed, i);
}

static int *memory_alloc(int count)
{
    int *memory = guarded_alloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        memory[i] = GAP;
    return memory;
}

/* Memory with one block a rank: those sent to each by source, or those each sent to dest. */
static int *memory_to_each(const struct blocks *blocks, int size, int source)
{
    int *memory = memory_alloc(blocks->total);
    for (int i = 0; i < size; i++)
        block_fill(block_at(memory, blocks, i), blocks->counts[i], source, i);
    return memory;
}

static int *memory_from_each(const struct blocks *blocks, int size, int dest)
{
    int *memory = memory_alloc(blocks->total);
    for (int i = 0; i < size; i++)
        block_fill(block_at(memory, blocks, i), blocks->counts[i], i, dest);
    return memory;
}

/* With nothing started there is nothing to wait for: the blocking forms leave a null request. */
static void finish(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void check(const struct call *call, const int *got, const int *expected, int count,
                  const char *name)
{
    char what[120];
    snprintf(what, sizeof what, "%s%s%s%s of %d ints, root %d", call->nonblocking ? "i" : "", name,
             call->varied ? "v" : "", call->in_place ? " in place" : "", call->count, call->root);
    ints_check(got, expected, count, what);
}

static void call_bcast(const struct call *call)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int count = call->count, root = call->root;
    int *data = memory_alloc(count), *expected = memory_alloc(count);
    block_fill(expected, count, root, EVERYBODY);
    if (call->job->rank == root)
        block_fill(data, count, root, EVERYBODY);
    if (call->nonblocking)
        MPI_Ibcast(data, count, MPI_INT, root, MPI_COMM_WORLD, &request);
    else
        MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD);
    finish(&request);
    check(call, data, expected, count, "bcast");
    guarded_free(expected);
    guarded_free(data);
}

static void start_gather(const struct call *call, const void *out, int out_count, int *in,
                         const struct blocks *b, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int root = call->root;
    if (call->varied && call->nonblocking)
        MPI_Igatherv(out, out_count, MPI_INT, in, b->counts, b->displs, MPI_INT, root, comm,
                     request);
    else if (call->varied)
        MPI_Gatherv(out, out_count, MPI_INT, in, b->counts, b->displs, MPI_INT, root, comm);
    else if (call->nonblocking)
        MPI_Igather(out, out_count, MPI_INT, in, call->count, MPI_INT, root, comm, request);
    else
        MPI_Gather(out, out_count, MPI_INT, in, call->count, MPI_INT, root, comm);
}

static void call_gather(const struct call *call)
{
    const struct job *job = call->job;
    MPI_Request request = MPI_REQUEST_NULL;
    struct blocks blocks;
    blocks_init(&blocks, call, call->root);
    int own = blocks.counts[job->rank];
    int *expected = memory_from_each(&blocks, job->size, call->root);
    int *out = memory_alloc(own), *in = memory_alloc(blocks.total);
    bool in_place = call->in_place && job->rank == call->root;
    block_fill(out, own, job->rank, call->root);
    if (in_place)
        block_fill(block_at(in, &blocks, job->rank), own, job->rank, call->root);
    start_gather(call, in_place ? MPI_IN_PLACE : out, own, in + blocks.origin, &blocks, &request);
    finish(&request);
    if (job->rank == call->root)
        check(call, in, expected, blocks.total, "gather");
    guarded_free(in);
    guarded_free(out);
    guarded_free(expected);
    blocks_fini(&blocks);
}

static void start_scatter(const struct call *call, const int *out, const struct blocks *b, void *in,
                          int in_count, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int root = call->root;
    if (call->varied && call->nonblocking)
        MPI_Iscatterv(out, b->counts, b->displs, MPI_INT, in, in_count, MPI_INT, root, comm,
                      request);
    else if (call->varied)
        MPI_Scatterv(out, b->counts, b->displs, MPI_INT, in, in_count, MPI_INT, root, comm);
    else if (call->nonblocking)
        MPI_Iscatter(out, call->count, MPI_INT, in, in_count, MPI_INT, root, comm, request);
    else
        MPI_Scatter(out, call->count, MPI_INT, in, in_count, MPI_INT, root, comm);
}

static void call_scatter(const struct call *call)
{
    const struct job *job = call->job;
    MPI_Request request = MPI_REQUEST_NULL;
    struct blocks blocks;
    blocks_init(&blocks, call, call->root);
    int own = blocks.counts[job->rank];
    int *out = memory_to_each(&blocks, job->size, call->root);
    int *in = memory_alloc(own), *expected = memory_alloc(own);
    bool in_place = call->in_place && job->rank == call->root;
    block_fill(expected, own, call->root, job->rank);
    start_scatter(call, out + blocks.origin, &blocks, in_place ? MPI_IN_PLACE : in, own, &request);
    finish(&request);
    if (!in_place)
        check(call, in, expected, own, "scatter");
    guarded_free(expected);
    guarded_free(in);
    guarded_free(out);
    blocks_fini(&blocks);
}

static void start_allgather(const struct call *call, const void *out, int out_count, int *in,
                            const struct blocks *b, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    if (call->varied && call->nonblocking)
        MPI_Iallgatherv(out, out_count, MPI_INT, in, b->counts, b->displs, MPI_INT, comm, request);
    else if (call->varied)
        MPI_Allgatherv(out, out_count, MPI_INT, in, b->counts, b->displs, MPI_INT, comm);
    else if (call->nonblocking)
        MPI_Iallgather(out, out_count, MPI_INT, in, call->count, MPI_INT, comm, request);
    else
        MPI_Allgather(out, out_count, MPI_INT, in, call->count, MPI_INT, comm);
}

static void call_allgather(const struct call *call)
{
    const struct job *job = call->job;
    MPI_Request request = MPI_REQUEST_NULL;
    struct blocks blocks;
    blocks_init(&blocks, call, EVERYBODY);
    int own = blocks.counts[job->rank];
    int *expected = memory_from_each(&blocks, job->size, EVERYBODY);
    int *out = memory_alloc(own), *in = memory_alloc(blocks.total);
    block_fill(out, own, job->rank, EVERYBODY);
    if (call->in_place)
        block_fill(block_at(in, &blocks, job->rank), own, job->rank, EVERYBODY);
    start_allgather(call, call->in_place ? MPI_IN_PLACE : out, own, in + blocks.origin, &blocks,
                    &request);
    finish(&request);
    check(call, in, expected, blocks.total, "allgather");
    guarded_free(in);
    guarded_free(out);
    guarded_free(expected);
    blocks_fini(&blocks);
}

static void start_alltoall(const struct call *call, const void *out, int *in,
                           const struct blocks *b, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    if (call->varied && call->nonblocking)
        MPI_Ialltoallv(out, b->counts, b->displs, MPI_INT, in, b->counts, b->displs, MPI_INT, comm,
                       request);
    else if (call->varied)
        MPI_Alltoallv(out, b->counts, b->displs, MPI_INT, in, b->counts, b->displs, MPI_INT, comm);
    else if (call->nonblocking)
        MPI_Ialltoall(out, call->count, MPI_INT, in, call->count, MPI_INT, comm, request);
    else
        MPI_Alltoall(out, call->count, MPI_INT, in, call->count, MPI_INT, comm);
}

static void call_alltoall(const struct call *call)
{
    const struct job *job = call->job;
    MPI_Request request = MPI_REQUEST_NULL;
    struct blocks blocks;
    blocks_init(&blocks, call, job->rank);
    int *expected = memory_from_each(&blocks, job->size, job->rank);
    int *out = memory_to_each(&blocks, job->size, job->rank);
    int *in = memory_alloc(blocks.total);
    if (call->in_place)
        memcpy(in, out, (size_t)blocks.total * sizeof(int));
    start_alltoall(call, call->in_place ? MPI_IN_PLACE : out + blocks.origin, in + blocks.origin,
                   &blocks, &request);
    finish(&request);
    check(call, in, expected, blocks.total, "alltoall");
    guarded_free(in);
    guarded_free(out);
    guarded_free(expected);
    blocks_fini(&blocks);
}

/* To odd ranks as ints, to even ranks as bytes; both ends of a pair need not use the same. */
static void call_alltoallw(const struct call *call)
{
    const struct job *job = call->job;
    MPI_Request request = MPI_REQUEST_NULL;
    struct blocks blocks;
    blocks_init(&blocks, call, job->rank);
    MPI_Datatype *types = calloc((size_t)job->size, sizeof(MPI_Datatype));
    int *counts = calloc((size_t)job->size, sizeof(int));
    int *displs = calloc((size_t)job->size, sizeof(int));
    int *expected = memory_from_each(&blocks, job->size, job->rank);
    int *out = memory_to_each(&blocks, job->size, job->rank);
    int *in = memory_alloc(blocks.total);
    for (int i = 0; i < job->size; i++) {
        bool as_ints = (i + job->rank) % 2 == 1;
        types[i] = as_ints ? MPI_INT : MPI_BYTE;
        counts[i] = blocks.counts[i] * (as_ints ? 1 : (int)sizeof(int));
        displs[i] = blocks.displs[i] * (int)sizeof(int);
    }
    if (call->in_place)
        memcpy(in, out, (size_t)blocks.total * sizeof(int));
    const void *from = call->in_place ? MPI_IN_PLACE : (const void *)(out + blocks.origin);
    int *to = in + blocks.origin;
    if (call->nonblocking)
        MPI_Ialltoallw(from, counts, displs, types, to, counts, displs, types, MPI_COMM_WORLD,
                       &request);
    else
        MPI_Alltoallw(from, counts, displs, types, to, counts, displs, types, MPI_COMM_WORLD);
    finish(&request);
    check(call, in, expected, blocks.total, "alltoallw");
    guarded_free(in);
    guarded_free(out);
    guarded_free(expected);
    free(displs);
    free(counts);
    free(types);
    blocks_fini(&blocks);
}

/* Nobody leaves before the last has come: that one waits for a token, which its neighbour sends
 * only after having found its own barrier incomplete. */
static void barrier_holds(const struct job *job, int late)
{
    int herald = (late + 1) % job->size;
    MPI_Request request;
    step("barrier that waits for rank %d", late);
    if (job->rank == late)
        MPI_Recv(NULL, 0, MPI_BYTE, herald, TAG_TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int i = 0; job->rank == herald && i < 20; i++) {
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "ibarrier completed before rank %d entered it", late);
    }
    if (job->rank == herald)
        MPI_Send(NULL, 0, MPI_BYTE, late, TAG_TOKEN, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void call_rooted(struct call call, int root)
{
    call.root = root;
    step("bcast, gather and scatter of %d ints%s, root %d%s%s", call.count,
         call.varied ? " and more" : "", root, call.in_place ? ", in place" : "",
         call.nonblocking ? ", nonblocking" : "");
    if (!call.varied && !call.in_place)
        call_bcast(&call);
    call_gather(&call);
    call_scatter(&call);
}

static void call_unrooted(const struct call *call)
{
    step("allgather and alltoall of %d ints%s%s%s", call->count, call->varied ? " and more" : "",
         call->in_place ? ", in place" : "", call->nonblocking ? ", nonblocking" : "");
    call_allgather(call);
    call_alltoall(call);
    if (call->varied)
        call_alltoallw(call);
}

static void call_all(const struct job *job, int count)
{
    for (int variant = 0; variant < 8; variant++) {
        struct call call = {.job = job,
                            .count = count,
                            .varied = (variant & 1) != 0,
                            .in_place = (variant & 2) != 0,
                            .nonblocking = (variant & 4) != 0};
        call_rooted(call, variant % job->size);
        call_rooted(call, job->size - 1);
        call_unrooted(&call);
    }
}

/* At PLACE, where there was memory before, if nothing else has come there. */
static int *map_again(void *place, size_t bytes)
{
    int how = MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory =
        mmap(place, bytes, PROT_READ | PROT_WRITE, how | (place ? MAP_FIXED_NOREPLACE : 0), -1, 0);

    if (memory == MAP_FAILED)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    expect(memory != MAP_FAILED, "no memory");
    return memory;
}

/* Other pages at the same address each time: a registration of the old ones would move what is no
 * longer there. */
static void bcast_of_new_memory(const struct job *job)
{
    enum { INTS = 50000, TIMES = 8 };
    int *ints = NULL;

    for (int time = 0; time < TIMES; time++) {
        int root = time % job->size;

        step("bcast of %d ints in memory that is mapped for the %d. time", (int)INTS, time + 1);
        ints = map_again(ints, INTS * sizeof(int));
        for (int i = 0; i < INTS; i++)
            ints[i] = job->rank == root ? time * INTS + i : -1;
        MPI_Bcast(ints, INTS, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < INTS; i++)
            expect(ints[i] == time * INTS + i, "int %d is %d, not %d", i, ints[i], time * INTS + i);
        munmap(ints, INTS * sizeof(int));
    }
}

void run_collectives(const struct job *job)
{
    const int counts[] = {0, 1, 600, 4001, share_of(100000, job->size, 24000)};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        call_all(job, counts[i]);
    for (int root = 0; root < job->size; root++) {
        struct call call = {
            .job = job, .count = 200000, .root = root, .nonblocking = root % 2 == 1};
        step("bcast of %d ints, root %d", call.count, root);
        call_bcast(&call);
        if (job->size > 1)
            barrier_holds(job, root);
    }
    bcast_of_new_memory(job);
}
