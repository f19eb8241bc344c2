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

struct moment {
    double elapsed_s, processor_s, sleeps; /* since some time; sleeps: of the calling thread */
};

static struct moment now(void)
{
    struct timespec used;
    struct rusage thread;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    getrusage(RUSAGE_THREAD, &thread);
    return (struct moment){.elapsed_s = MPI_Wtime(),
                           .processor_s = (double)used.tv_sec + (double)used.tv_nsec / 1e9,
                           .sleeps = (double)thread.ru_nvcsw};
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
    enum { PERCENT, SLEEPS_S, FIGURES };
    double mine[FIGURES] = {0}, most[FIGURES];
    struct moment begin, end;
    char text[100];

    MPI_Barrier(MPI_COMM_WORLD);
    begin = now();
    if (job->rank == 0)
        be_late(job, in_barrier);
    else if (!in_barrier)
        wait_in_recv(job, 0);
    if (in_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    end = now();
    if (job->rank != 0) {
        double elapsed_s = end.elapsed_s - begin.elapsed_s;

        mine[PERCENT] = 100 * (end.processor_s - begin.processor_s) / elapsed_s;
        mine[SLEEPS_S] = (end.sleeps - begin.sleeps) / elapsed_s;
    }
    MPI_Reduce(mine, most, FIGURES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (job->rank != 0)
        return;
    snprintf(text, sizeof(text), "waiting in %s took %.1f %% of a processor, %.0f sleeps a second",
             where, most[PERCENT], most[SLEEPS_S]);
    puts(text);
    fflush(stdout);
    expect(as_it_must(most[PERCENT], most[SLEEPS_S]), "%s", text);
}

void run_waits(const struct job *job)
{
    step("a receive");
    wait_once(job, false, "a receive");
    step("a barrier");
    wait_once(job, true, "a barrier");
}
