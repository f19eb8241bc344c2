/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many nonblocking collectives under way at once, on one communicator and on several, with
 * messages between them, all completed together or in any order that they end.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMMS = 3, ROUNDS = 4, KINDS = 4, TAG_RING = 1 };

/* What one communicator has under way in one round. */
struct work {
    int count;
    int serial;
    int *bcast, *sum_own, *sum, *gather_own, *gathered, *to_all, *from_all;
    struct transfer in, out;
};

/* Requests of one work, in this order. */
enum {
    REQUEST_BCAST,
    REQUEST_SUM,
    REQUEST_GATHER,
    REQUEST_ALLTOALL,
    REQUEST_BARRIER,
    REQUEST_RECV,
    REQUEST_SEND,
    REQUESTS
};

/* Small, so that sums do not overflow. */
static int value_at(int kind, int serial, int source, int dest, int index)
{
    uint64_t what = (uint64_t)kind << 56 | (uint64_t)serial << 48;
    return int_at(what | (uint64_t)source << 40 | (uint64_t)dest << 32, index) & 0xffffff;
}

static int *ints_alloc(int count)
{
    return guarded_alloc((size_t)count * sizeof(int));
}

static void work_init(struct work *work, const struct job *job, int serial, int count)
{
    int rank = job->rank, size = job->size;
    *work = (struct work){.count = count, .serial = serial};
    work->bcast = ints_alloc(count);
    work->sum_own = ints_alloc(count);
    work->sum = ints_alloc(count);
    work->gather_own = ints_alloc(count);
    work->gathered = ints_alloc(count * size);
    work->to_all = ints_alloc(count * size);
    work->from_all = ints_alloc(count * size);
    for (int i = 0; i < count; i++) {
        work->bcast[i] = rank == serial % size ? value_at(0, serial, rank, 0, i) : -1;
        work->sum_own[i] = value_at(1, serial, rank, 0, i);
        work->gather_own[i] = value_at(2, serial, rank, 0, i);
    }
    for (int dest = 0; dest < size; dest++)
        for (int i = 0; i < count; i++)
            work->to_all[dest * count + i] = value_at(3, serial, rank, dest, i);
    struct message in = {(rank + size - 1) % size, rank, TAG_RING, (size_t)count * 5,
                         (uint64_t)serial};
    struct message out = {rank, (rank + 1) % size, TAG_RING, (size_t)count * 5, (uint64_t)serial};
    transfer_begin_recv(&work->in, &in);
    transfer_begin_send(&work->out, &out);
}

static void work_start(struct work *work, const struct job *job, MPI_Comm comm,
                       MPI_Request *requests)
{
    int count = work->count;
    transfer_irecv(&work->in, comm, &requests[REQUEST_RECV]);
    MPI_Ibcast(work->bcast, count, MPI_INT, work->serial % job->size, comm,
               &requests[REQUEST_BCAST]);
    MPI_Iallreduce(work->sum_own, work->sum, count, MPI_INT, MPI_SUM, comm, &requests[REQUEST_SUM]);
    transfer_isend(&work->out, comm, &requests[REQUEST_SEND]);
    MPI_Iallgather(work->gather_own, count, MPI_INT, work->gathered, count, MPI_INT, comm,
                   &requests[REQUEST_GATHER]);
    MPI_Ialltoall(work->to_all, count, MPI_INT, work->from_all, count, MPI_INT, comm,
                  &requests[REQUEST_ALLTOALL]);
    MPI_Ibarrier(comm, &requests[REQUEST_BARRIER]);
}

static void work_check(const struct work *work, const struct job *job)
{
    int count = work->count, serial = work->serial;
    for (int i = 0; i < count; i++) {
        int sum = 0, root = serial % job->size;
        for (int source = 0; source < job->size; source++) {
            int at = source * count + i;
            sum += value_at(1, serial, source, 0, i);
            expect(work->gathered[at] == value_at(2, serial, source, 0, i),
                   "iallgather %d: element %d of rank %d is wrong", serial, i, source);
            expect(work->from_all[at] == value_at(3, serial, source, job->rank, i),
                   "ialltoall %d: element %d of rank %d is wrong", serial, i, source);
        }
        expect(work->sum[i] == sum, "iallreduce %d: element %d is %d, expected %d", serial, i,
               work->sum[i], sum);
        expect(work->bcast[i] == value_at(0, serial, root, 0, i),
               "ibcast %d from rank %d: element %d is wrong", serial, root, i);
    }
    message_check(&work->in.message, work->in.bytes);
}

static void work_fini(struct work *work)
{
    guarded_free(work->bcast);
    guarded_free(work->sum_own);
    guarded_free(work->sum);
    guarded_free(work->gather_own);
    guarded_free(work->gathered);
    guarded_free(work->to_all);
    guarded_free(work->from_all);
    transfer_end(&work->in);
    transfer_end(&work->out);
}

static void overlap(const struct job *job, const MPI_Comm *comms, int count, bool one_by_one)
{
    struct work works[COMMS * ROUNDS];
    MPI_Request requests[COMMS * ROUNDS * REQUESTS];
    const int work_count = COMMS * ROUNDS, request_count = COMMS * ROUNDS * REQUESTS;
    step("%d collectives of %d ints at once", work_count * (REQUESTS - 2), count);
    for (int i = 0; i < work_count; i++) {
        work_init(&works[i], job, i, count);
        work_start(&works[i], job, comms[i % COMMS], &requests[i * REQUESTS]);
    }
    if (!one_by_one)
        MPI_Waitall(request_count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; one_by_one && i < request_count; i++) {
        int index = -1;
        MPI_Waitany(request_count, requests, &index, MPI_STATUS_IGNORE);
        expect(index >= 0, "waitany found nothing to wait for after %d requests", i);
    }
    for (int i = 0; i < work_count; i++) {
        work_check(&works[i], job);
        work_fini(&works[i]);
    }
}

void run_overlap(const struct job *job)
{
    static const int counts[] = {1, 300, 6000};
    MPI_Comm comms[COMMS] = {MPI_COMM_WORLD};
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        overlap(job, comms, counts[i], false);
        overlap(job, comms, counts[i], true);
    }
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
}
