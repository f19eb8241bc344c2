/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that wait for one that is late, in a receive and in a barrier. Rank 0 is late, and sleeps
 * meanwhile. The processor time that the waiting took is told. VERBENA_TEST_WAITS says what it must
 * have been: `asleep` or `polling`.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_LATE = 1, LATE_S = 2, ASLEEP_MOST_PERCENT = 25, POLLING_LEAST_PERCENT = 50 };

static double processor_s(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static int late_s(void)
{
    const char *text = getenv("VERBENA_TEST_LATE_S");

    return text ? atoi(text) : LATE_S;
}

static bool as_it_must(double percent)
{
    const char *text = getenv("VERBENA_TEST_WAITS");

    if (text && strcmp(text, "asleep") == 0)
        return percent < ASLEEP_MOST_PERCENT;
    return !text || strcmp(text, "polling") != 0 || percent > POLLING_LEAST_PERCENT;
}

static void wait_in_recv(const struct job *job, int from)
{
    struct transfer in;
    MPI_Request request;
    MPI_Status status;

    transfer_begin_recv(&in, &(struct message){from, job->rank, TAG_LATE, 1000, 0});
    transfer_irecv(&in, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}

static void be_late(const struct job *job, bool in_barrier)
{
    nanosleep(&(struct timespec){.tv_sec = late_s()}, NULL);
    if (in_barrier)
        return;
    for (int rank = 1; rank < job->size; rank++) {
        struct transfer out;
        MPI_Request request;

        transfer_begin_send(&out, &(struct message){0, rank, TAG_LATE, 1000, 0});
        transfer_isend(&out, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        transfer_end(&out);
    }
}

static void wait_once(const struct job *job, bool in_barrier, const char *where)
{
    double share, most, start_s, used_s;

    MPI_Barrier(MPI_COMM_WORLD);
    start_s = MPI_Wtime();
    used_s = processor_s();
    if (job->rank == 0)
        be_late(job, in_barrier);
    else if (!in_barrier)
        wait_in_recv(job, 0);
    if (in_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    share = 100 * (processor_s() - used_s) / (MPI_Wtime() - start_s);
    if (job->rank == 0)
        share = 0;
    MPI_Reduce(&share, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (job->rank == 0) {
        printf("waiting in %s took %.1f %% of a processor\n", where, most);
        fflush(stdout);
        expect(as_it_must(most), "waiting in %s took %.1f %% of a processor", where, most);
    }
}

void run_waits(const struct job *job)
{
    step("a receive");
    wait_once(job, false, "a receive");
    step("a barrier");
    wait_once(job, true, "a barrier");
}
