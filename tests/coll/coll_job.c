/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite with a rank in each process, over a job:
 *
 *     mpirun -n 4 tests/coll/coll_job [--full | --brief] [--all] [--coll NAME] [--timeout S]
 *                                     [--mca NAME VALUE]…
 *
 * Each operation by blocking calls, then by nonblocking ones; rank 0 prints a line PASS or FAIL for
 * each. A rank that takes longer than S seconds (120) for one of them says so and ends the program.
 * --all: teams of all ranks only, not of the first few. --brief: few sizes, one root.
 */
#include "suite.h"
#include "verbena_bootstrap.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct request {
    struct coll_filter filter;
    bool all;
    unsigned timeout_s;
};

static int team_create(void *arg, uint32_t rank, uint32_t size, uint32_t id,
                       const struct vbn_team_options *opts, vbn_team_t **team)
{
    const struct vbn_job *job = arg;
    struct vbn_team_options sleeping = *opts;
    struct vbn_error err;

    sleeping.sleep = true; /* there may be more ranks than processors */
    sleeping.processors = job->processors;
    return vbn_team_create(job->tr, job->port, job->peers, size, rank, id, &sleeping, team, &err);
}

static void progress(void *arg)
{
    const struct vbn_job *job = arg;

    if (job->tr->progress(job->port) == 0)
        sched_yield();
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void out_of_time(int number)
{
    static const char text[] = "HANG: a rank took longer than --timeout\n";

    (void)number;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
        _exit(3);
    _exit(4);
}

/* What all ranks found. False if one of them found something wrong, or cannot be asked. */
static bool agree(struct vbn_job *job, struct coll_outcome *mine, uint64_t *cases)
{
    struct coll_outcome *all = calloc(job->ranks, sizeof(*all));
    bool good = all && vbn_job_barrier(job) == VBN_OK; /* others may still wait for our messages */

    good = good && vbn_job_allgather(job, mine, sizeof(*mine), all) == VBN_OK;

    *cases = 0;
    for (uint32_t i = 0; good && i < job->ranks; i++)
        *cases += all[i].cases;
    for (uint32_t i = 0; good && i < job->ranks; i++) {
        if (!all[i].failed)
            continue;
        if (job->rank == 0)
            printf("    rank %u: %s\n", i, all[i].first);
        good = false;
    }
    free(all);
    return good && *cases > 0;
}

static bool run_coll(struct vbn_job *job, const struct request *request, const char *coll,
                     bool blocking)
{
    struct coll_world world = {.size = job->ranks,
                               .first = job->rank,
                               .count = 1,
                               .blocking = blocking,
                               .watched = true,
                               .groups = VBN_TRANSPORT_HAS(job->tr, group_open),
                               .arg = job,
                               .team_create = team_create,
                               .progress = progress};
    const uint32_t sizes[] = {job->ranks, 0};
    struct coll_filter filter = request->filter;
    struct coll_outcome outcome;
    double start = now_s();
    uint64_t cases;
    bool good;

    filter.coll = coll;
    filter.sizes = request->all ? sizes : NULL;
    alarm(request->timeout_s);
    coll_suite(&world, &filter, &outcome);
    good = agree(job, &outcome, &cases);
    alarm(0);
    if (job->rank == 0) {
        printf("%s coll/%s%s np=%u (%llu cases, %.1f s)\n", good ? "PASS" : "FAIL",
               blocking ? "" : "i", coll, job->ranks, (unsigned long long)cases, now_s() - start);
        fflush(stdout);
    }
    return good;
}

/* All ranks stop at the first failure: what is left of it would disturb what follows. */
static bool run(struct vbn_job *job, const struct request *request)
{
    for (int coll = 0; coll < VBN_COLL_COUNT; coll++) {
        const char *name = vbn_coll_name((enum vbn_coll)coll);

        if (request->filter.coll && strcmp(request->filter.coll, name) != 0)
            continue;
        if (!run_coll(job, request, name, true) || !run_coll(job, request, name, false))
            return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct request *request)
{
    *request = (struct request){.timeout_s = 120};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            request->filter.full = true;
        else if (strcmp(argv[i], "--brief") == 0)
            request->filter.brief = true;
        else if (strcmp(argv[i], "--all") == 0)
            request->all = true;
        else if (strcmp(argv[i], "--coll") == 0 && i + 1 < argc)
            request->filter.coll = argv[++i];
        else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
            request->timeout_s = (unsigned)strtoul(argv[++i], NULL, 10);
        else
            return false;
    }
    return !(request->filter.full && request->filter.brief);
}

int main(int argc, char **argv)
{
    struct request request;
    struct vbn_job *job;
    struct vbn_error err;
    int status = vbn_job_start(&argc, argv, &job, &err);
    bool good;

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "coll_job: %s\n", err.text);
        return 1;
    }
    good = parse(argc, argv, &request);
    if (!good)
        fprintf(stderr, "usage: coll_job [--full | --brief] [--all] [--coll NAME] [--timeout S]\n");
    signal(SIGALRM, out_of_time);
    if (good && job->rank == 0)
        printf("over %s\n", job->tr->name);
    good = good && run(job, &request);
    if (vbn_job_destroy(job) != VBN_OK && good) {
        fprintf(stderr, "coll_job: the job did not end in good order\n");
        good = false;
    }
    return !good;
}
