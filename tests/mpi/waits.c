/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that wait for one that is late, in a receive and in a barrier. Rank 0 is late, and sleeps
 * meanwhile. The processor time that the waiting took is told, and how often it slept.
 * VERBENA_TEST_WAITS says what it must have been: `polling`, `asleep`, or `deeply` asleep, in long
 * sleeps.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { TAG_LATE = 1, LATE_S = 2 };
enum { ASLEEP_MOST_PERCENT = 25, POLLING_LEAST_PERCENT = 50, DEEPLY_MOST_SLEEPS_S = 100 };

/* Since some time, then in a wait: seconds, the processor's of them, and how often it was left. */
enum { ELAPSED_S, PROCESSOR_S, SLEEPS, MEASURES };

static void measure(double *m)
{
    struct timespec used;
    struct rusage thread;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    getrusage(RUSAGE_THREAD, &thread);
    m[ELAPSED_S] = MPI_Wtime();
    m[PROCESSOR_S] = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    m[SLEEPS] = (double)thread.ru_nvcsw;
}

static int late_s(void)
{
    const char *text = getenv("VERBENA_TEST_LATE_S");

    return text ? atoi(text) : LATE_S;
}

static bool as_it_must(double percent, double sleeps_s)
{
    const char *text = getenv("VERBENA_TEST_WAITS");

    if (!text)
        return true;
    if (strcmp(text, "polling") == 0)
        return percent > POLLING_LEAST_PERCENT;
    return percent < ASLEEP_MOST_PERCENT &&
           (strcmp(text, "deeply") != 0 || sleeps_s < DEEPLY_MOST_SLEEPS_S);
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
    double begin[MEASURES], end[MEASURES], mine[2] = {0}, most[2];

    MPI_Barrier(MPI_COMM_WORLD);
    measure(begin);
    if (job->rank == 0)
        be_late(job, in_barrier);
    else if (!in_barrier)
        wait_in_recv(job, 0);
    if (in_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    measure(end);
    if (job->rank != 0) {
        double elapsed_s = end[ELAPSED_S] - begin[ELAPSED_S];

        mine[0] = 100 * (end[PROCESSOR_S] - begin[PROCESSOR_S]) / elapsed_s;
        mine[1] = (end[SLEEPS] - begin[SLEEPS]) / elapsed_s;
    }
    MPI_Reduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (job->rank != 0)
        return;
    printf("waiting in %s took %.1f %% of a processor, %.0f sleeps a second\n", where, most[0],
           most[1]);
    fflush(stdout);
    expect(as_it_must(most[0], most[1]),
           "waiting in %s took %.1f %% of a processor, %.0f sleeps a second", where, most[0],
           most[1]);
}

void run_waits(const struct job *job)
{
    step("a receive");
    wait_once(job, false, "a receive");
    step("a barrier");
    wait_once(job, true, "a barrier");
}
