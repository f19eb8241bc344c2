/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs workloads over the transport on the simulated fabric, a run a seed.
 *
 *     simulate [--seeds A..B] [--ranks N] [--jobs N] [--load NAME] [--calm] [--iwarp]
 *              [--verbose] [--twice] [--first] [--defaults [--no-srq]]
 *
 * --seeds A runs one, A.. does not stop. --calm: no faults, timing alone varies. --twice: each
 * seed two times, whose traces must agree. --first: stops at the first failing seed.
 * --defaults: the transport's own options rather than drawn ones, on ordinary devices. A failing
 * run prints its seed, the reason and the trace; the exit status is then 1, as where nothing was
 * run. Jobs are processes that share the seeds; one whose run crashes, or takes more than a minute
 * of processor time, says so and dies.
 */
#include "loads.h"

#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct load loads[] = {
    {"random", load_random, load_random_end, false, 0},
    {"storm", load_storm, load_storm_end, false, 0},
    {"tagged", load_tagged, load_tagged_end, false, 0},
    {"groups", load_groups, load_groups_end, false, 6},
    {"crowd", load_crowd, load_crowd_end, true, 0},
};

enum { LOADS = sizeof(loads) / sizeof(loads[0]), JOBS_MAX = 256 };

struct totals {
    uint64_t runs, failures, ranks, messages, bytes, faults, ghosts, traces;
    uint64_t lost, recoveries, replayed, ringed, bare, ridden;
    uint64_t kinds[FABRIC_FAULTS];
    double virtual_s;
};

struct request {
    uint64_t first, last;
    int ranks, jobs;
    const char *load;
    bool calm, verbose, iwarp, twice, defaults, no_srq, first_failure;
};

static void plan_make(const struct request *request, uint64_t seed, struct world_plan *plan)
{
    *plan = (struct world_plan){.seed = seed,
                                .ranks = request->ranks,
                                .faults = !request->calm && seed % 4 != 0,
                                .kills = !request->calm && seed % 4 == 3,
                                .hostile = !request->calm && seed % 9 == 4,
                                .verbose = request->verbose,
                                .defaults = request->defaults,
                                .no_srq = request->no_srq,
                                .transport = request->iwarp ? FABRIC_IWARP : FABRIC_ROCE};
    if (!request->iwarp && seed % 7 >= 5)
        plan->transport = seed % 7 == 5 ? FABRIC_INFINIBAND : FABRIC_IWARP;
}

/* ---- runs that crash, or do not end, say which they are ---- */

enum { MOST_S = 60 }; /* of processor time for a run, which takes a second */

static uint64_t running_seed;
static const char *running_load;

/* Offered by the sanitizers' run times, where there is one. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static void report(const char *what)
{
    printf("FAILED: seed %llu, load %s: %s\n", (unsigned long long)running_seed, running_load,
           what);
    fflush(stdout);
    fabric_trace_print(stderr);
}

static void report_crash(void)
{
    report("crashed");
}

static void on_signal(int number)
{
    signal(number, SIG_DFL);
    report(number == SIGPROF ? "it does not end" : "crashed");
    raise(number);
}

static void crashes_watch(void)
{
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(report_crash);
    else
        signal(SIGSEGV, on_signal);
    signal(SIGABRT, on_signal);
    signal(SIGPROF, on_signal);
}

/* A run of LOAD begins; those that are as long as one asks for may take their time. */
static void time_watch(const struct load *load)
{
    struct itimerval left = {.it_value.tv_sec = load->by_name ? 0 : MOST_S};

    setitimer(ITIMER_PROF, &left, NULL);
}

/* Returns whether the run was good; *hash gets its trace's hash. */
static bool run_one(const struct request *request, const struct load *load, uint64_t seed,
                    struct totals *totals, uint64_t *hash)
{
    struct world_plan plan;
    struct world world;
    struct fabric_counters counters;
    plan_make(request, seed, &plan);
    if (load->most && !plan.ranks)
        plan.ranks = 2 + (int)(seed % (uint64_t)(load->most - 1));
    running_seed = seed;
    running_load = load->name;
    time_watch(load);
    bool opened = world_open(&world, &plan);
    if (opened)
        load->run(&world);
    fabric_counters(&counters);
    totals->ranks += (uint64_t)world.count;
    totals->virtual_s += (double)fabric_now_ns() / 1e9;
    int violations = world_close(&world);
    if (opened)
        load->end(&world);
    *hash = fabric_trace_hash();
    totals->traces ^= *hash * (2 * seed + 1);
    totals->runs++;
    totals->messages += counters.messages;
    totals->bytes += counters.bytes;
    totals->faults += counters.faults;
    for (int kind = 0; kind < FABRIC_FAULTS; kind++)
        totals->kinds[kind] += counters.kinds[kind];
    totals->ghosts += counters.ghosts;
    totals->lost += world.lost;
    totals->recoveries += world.recoveries;
    totals->replayed += world.replayed;
    totals->ringed += world.ringed;
    totals->bare += world.bare;
    totals->ridden += world.ridden;
    if (!violations && !world.failed)
        return true;
    totals->failures++;
    printf("FAILED: seed %llu, load %s, %d ranks: %s\n", (unsigned long long)seed, load->name,
           world.count, world.failed ? world.reason : "violations, see above");
    return false;
}

/* Moves what the second run of a seed allocates: nothing may depend on addresses. */
enum { SHIFT_BYTES = 9001 };

static bool run_seed(const struct request *request, const struct load *load, uint64_t seed,
                     struct totals *totals)
{
    uint64_t hash, again;
    bool good = run_one(request, load, seed, totals, &hash);
    if (!request->twice)
        return good;
    void *shift = malloc(SHIFT_BYTES);
    run_one(request, load, seed, totals, &again);
    free(shift);
    if (hash == again)
        return good;
    totals->failures++;
    printf("FAILED: seed %llu, load %s: two runs differ\n", (unsigned long long)seed, load->name);
    return false;
}

/* A number alone; false where it is none, or something follows. */
static bool parse_number(const char *text, int *number)
{
    char *end;
    long value = strtol(text, &end, 0);
    *number = (int)value;
    return end != text && *end == '\0' && value == *number;
}

/* Where the number ends, or NULL where there is none. */
static const char *parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    *seed = strtoull(text, &end, 0);
    return isdigit((unsigned char)*text) && *seed < UINT64_MAX ? end : NULL;
}

/* `A`, `A..B` or `A..`. */
static bool parse_seeds(const char *text, struct request *request)
{
    const char *end = parse_seed(text, &request->first);
    request->last = request->first;
    if (end && strcmp(end, "..") == 0) {
        request->last = UINT64_MAX;
        return true;
    }
    if (end && strncmp(end, "..", 2) == 0)
        end = parse_seed(end + 2, &request->last);
    return end && *end == '\0' && request->first <= request->last;
}

static bool parse_load(const char *name, struct request *request)
{
    request->load = name;
    for (int i = 0; i < LOADS; i++)
        if (strcmp(name, loads[i].name) == 0)
            return true;
    return false;
}

static bool parse_option(int option, struct request *request)
{
    switch (option) {
    case 's':
        return parse_seeds(optarg, request);
    case 'r':
        return parse_number(optarg, &request->ranks) && request->ranks >= 0 &&
               request->ranks <= WORLD_RANKS_MAX && request->ranks != 1;
    case 'j':
        return parse_number(optarg, &request->jobs) && request->jobs >= 1 &&
               request->jobs <= JOBS_MAX;
    case 'l':
        return parse_load(optarg, request);
    default:
        return option != '?'; /* a flag */
    }
}

static bool parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"ranks", required_argument, NULL, 'r'},
        {"jobs", required_argument, NULL, 'j'},  {"load", required_argument, NULL, 'l'},
        {"calm", no_argument, NULL, 'c'},        {"verbose", no_argument, NULL, 'v'},
        {"iwarp", no_argument, NULL, 'i'},       {"twice", no_argument, NULL, 't'},
        {"first", no_argument, NULL, 'f'},       {"defaults", no_argument, NULL, 'd'},
        {"no-srq", no_argument, NULL, 'n'},      {NULL, 0, NULL, 0}};
    *request = (struct request){.first = 1, .last = 100, .jobs = 1};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (!parse_option(option, request))
            return false;
        request->calm |= option == 'c';
        request->verbose |= option == 'v';
        request->iwarp |= option == 'i';
        request->defaults |= option == 'd';
        request->no_srq |= option == 'n';
        request->first_failure |= option == 'f';
        request->twice |= option == 't';
    }
    return optind == argc;
}

/* What the jobs share. */
struct shared {
    atomic_ullong taken; /* seeds, from the first on */
    atomic_bool stop;
};

/* Takes the next seed that no job has taken, until there is none, or one has failed. */
static void run_share(const struct request *request, struct shared *shared, struct totals *totals)
{
    for (uint64_t seed;
         (seed = request->first + atomic_fetch_add(&shared->taken, 1)) <= request->last;)
        for (int i = 0; i < LOADS; i++) {
            if (request->load ? strcmp(request->load, loads[i].name) != 0 : loads[i].by_name)
                continue;
            if (shared->stop)
                return;
            if (!run_seed(request, &loads[i], seed, totals) && request->first_failure)
                shared->stop = true;
        }
}

static void totals_add(struct totals *to, const struct totals *more)
{
    to->runs += more->runs;
    to->failures += more->failures;
    to->ranks += more->ranks;
    to->messages += more->messages;
    to->bytes += more->bytes;
    to->faults += more->faults;
    for (int kind = 0; kind < FABRIC_FAULTS; kind++)
        to->kinds[kind] += more->kinds[kind];
    to->ghosts += more->ghosts;
    to->lost += more->lost;
    to->recoveries += more->recoveries;
    to->replayed += more->replayed;
    to->ringed += more->ringed;
    to->bare += more->bare;
    to->ridden += more->ridden;
    to->traces ^= more->traces;
    to->virtual_s += more->virtual_s;
}

/* Each job tells its totals through a pipe; one that dies without a word counts as a failure. */
static void run_jobs(const struct request *request, struct shared *shared, struct totals *totals)
{
    int results[JOBS_MAX];
    for (int job = 0; job < request->jobs; job++) {
        int ends[2];
        fflush(stdout);
        pid_t pid = pipe(ends) == 0 ? fork() : -1;
        if (pid < 0) {
            perror("simulate: cannot start a job");
            exit(2);
        }
        if (pid == 0) {
            struct totals mine = {0};
            close(ends[0]);
            run_share(request, shared, &mine);
            if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
                mine.failures++; /* nothing looks for leaks at _exit() */
            fflush(stdout);
            _exit(write(ends[1], &mine, sizeof(mine)) == (ssize_t)sizeof(mine) ? 0 : 2);
        }
        close(ends[1]);
        results[job] = ends[0];
    }
    for (int job = 0; job < request->jobs; job++) {
        struct totals share = {0};
        if (read(results[job], &share, sizeof(share)) != (ssize_t)sizeof(share)) {
            share = (struct totals){.failures = 1};
            printf("FAILED: job %d of %d died\n", job, request->jobs);
        }
        totals_add(totals, &share);
        close(results[job]);
    }
    while (wait(NULL) > 0)
        ;
}

int main(int argc, char **argv)
{
    struct request request;
    struct totals totals = {0};
    if (!parse(argc, argv, &request)) {
        fprintf(stderr, "usage: simulate [--seeds A..B] [--ranks N] [--jobs N] [--load NAME] "
                        "[--calm] [--iwarp] [--verbose] [--twice] [--first] "
                        "[--defaults [--no-srq]]\n");
        return 2;
    }
    crashes_watch();
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("simulate: no memory for the jobs");
        return 2;
    }
    if (request.jobs == 1)
        run_share(&request, shared, &totals);
    else
        run_jobs(&request, shared, &totals);
    printf("%llu runs from seed %llu on, %llu failed: %llu ranks, %.3f s of virtual time, %llu "
           "messages, %llu bytes, %llu faults, %llu late arrivals, traces %016llx\n",
           (unsigned long long)totals.runs, (unsigned long long)request.first,
           (unsigned long long)totals.failures, (unsigned long long)totals.ranks, totals.virtual_s,
           (unsigned long long)totals.messages, (unsigned long long)totals.bytes,
           (unsigned long long)totals.faults, (unsigned long long)totals.ghosts,
           (unsigned long long)totals.traces);
    printf(
        "connections: %llu lost, %llu made again, %llu requests sent again, %llu messages by rings, %llu "
        "bare, %llu on puts\n",
        (unsigned long long)totals.lost, (unsigned long long)totals.recoveries,
        (unsigned long long)totals.replayed, (unsigned long long)totals.ringed,
        (unsigned long long)totals.bare, (unsigned long long)totals.ridden);
    printf("faults:");
    for (int kind = 0; kind < FABRIC_FAULTS; kind++)
        printf("%s %s %llu", kind ? "," : "", fabric_fault_names[kind],
               (unsigned long long)totals.kinds[kind]);
    printf("\n");
    return totals.failures || !totals.runs;
}
