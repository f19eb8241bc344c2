/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators that are freed while nonblocking collectives are under way on them, which then
 * complete as any (MPI 3.1, 6.4.3). Not a part of communicators.c, for Open MPI's own component,
 * libnbc of 4.1.4, crashes: it serves a rank alone, and those who share a node's memory.
 */
#include "common.h"
#include "programs.h"

#include <unistd.h>

enum { COMMS = 8, REPEATS = 3, LATE_US = 20000 };

static void duplicate(MPI_Comm *comms)
{
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
}

static void sum_all(const struct job *job, MPI_Comm comm, int *sum, MPI_Request *request)
{
    *sum = -1;
    MPI_Iallreduce(&job->rank, sum, 1, MPI_INT, MPI_SUM, comm, request);
}

static void sums_check(const struct job *job, const int *sums)
{
    int expected = job->size * (job->size - 1) / 2;
    for (int i = 0; i < COMMS; i++)
        expect(sums[i] == expected, "sum %d is %d, expected %d", i, sums[i], expected);
}

/* One rank is late, so the others' sums are under way when their communicators are freed. New ones
 * may lie where those were. */
static void free_under_way(const struct job *job, int late)
{
    int sums[COMMS];
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    step("communicators freed while rank %d is waited for", late);
    duplicate(comms);
    if (job->rank == late)
        usleep(LATE_US);
    for (int i = 0; i < COMMS; i++) {
        sum_all(job, comms[i], &sums[i], &requests[i]);
        MPI_Comm_free(&comms[i]);
    }
    duplicate(comms);
    MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
    sums_check(job, sums);
    for (int i = 0; i < COMMS; i++)
        sum_all(job, comms[i], &sums[i], &requests[i]);
    MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
    sums_check(job, sums);
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
}

void run_freed(const struct job *job)
{
    for (int i = 0; job->size > 1 && i < REPEATS; i++)
        free_under_way(job, i % job->size);
}
