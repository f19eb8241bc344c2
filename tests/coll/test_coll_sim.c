/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite over rc on the simulated fabric, all ranks in this process. Without arguments: parts of
 * the matrix, by cmocka. Otherwise
 *
 *     test_coll_sim [--full | --ranks N | --deaths [--cold]] [--manner calm|timing|faults|crowd]
 *                   [--sizes A..B] [--seeds A..B] [--coll NAME]
 *
 * runs what is asked for, a line for each seed and number of ranks. --ranks N: barrier, bcast,
 * allreduce and allgather of few elements, as they are chosen, on so many ranks. VBN_COLL_VERBOSE=1
 * in the environment shows what the ranks log. --deaths: a rank dies among others that are all
 * connected. --cold: before they are. A receive makes no connection, so who only waits for a rank
 * that was never connected is not told of its death: some seeds hang, and are reported as failed.
 */
#include "coll_unit.h"
#include "sim_death.h"
#include "sim_job.h"
#include "suite.h"

#include <getopt.h>
#include <time.h>

#include "../sim/fabric.h"

#define FEW 13u /* elements */

static const char *const manners[] = {"calm", "timing", "faults", "crowd"};

struct request {
    bool full, deaths, cold;
    uint32_t crowd, first_size, last_size;
    uint64_t first_seed, last_seed;
    enum sim_manner manner;
    const char *coll;
};

/* What a run cost. */
struct bill {
    struct fabric_counters counters;
    double virtual_ms, cpu_s;
    uint64_t bytes; /* held by the ranks in the end */
};

static int team_create(void *arg, uint32_t rank, uint32_t size, uint32_t id,
                       const struct vbn_team_options *opts, vbn_team_t **team)
{
    struct sim_job *job = arg;
    struct vbn_error err;

    return vbn_team_create(vbn_rc_transport(), job->ranks[rank].port, job->ranks[rank].peers, size,
                           rank, id, opts, team, &err);
}

static void progress(void *arg)
{
    sim_job_turn(arg);
}

static void enter(void *arg, uint32_t rank)
{
    sim_job_enter(arg, rank);
}

static double cpu_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void add(struct coll_outcome *to, const struct coll_outcome *more)
{
    if (!to->failed)
        memcpy(to->first, more->first, sizeof(to->first));
    to->cases += more->cases;
    to->failed += more->failed;
}

static void run_colls(const struct coll_world *world, const struct coll_filter *filter,
                      const char *const *colls, struct coll_outcome *outcome)
{
    struct coll_filter one = *filter;
    struct coll_outcome more;

    for (; *colls && !outcome->failed; colls++) {
        one.coll = *colls;
        coll_suite(world, &one, &more);
        add(outcome, &more);
    }
}

/* What went wrong beside the suite. */
static void note(struct coll_outcome *outcome, const char *what)
{
    if (!outcome->failed++)
        snprintf(outcome->first, sizeof(outcome->first), "%s", what);
}

/* All of it on SIZE ranks of a new fabric. */
static void run_size(const struct request *request, uint32_t size, uint64_t seed,
                     struct coll_outcome *outcome, struct bill *bill)
{
    static const char *const crowd[] = {"barrier", "bcast", "allreduce", "allgather", NULL};
    const uint32_t sizes[] = {size, 0};
    struct coll_filter filter = {.full = request->full, .coll = request->coll, .sizes = sizes};
    uint64_t held = fabric_alloc_bytes();
    double start = cpu_s();
    struct sim_job *job = sim_job_open(size, seed, request->manner);
    struct coll_world world = {.size = size,
                               .count = size,
                               .arg = job,
                               .team_create = team_create,
                               .progress = progress,
                               .enter = enter};

    memset(outcome, 0, sizeof(*outcome));
    filter.chosen = request->crowd;
    filter.most = request->crowd ? FEW : 0;
    if (job && request->crowd && !request->coll)
        run_colls(&world, &filter, crowd, outcome);
    else if (job)
        coll_suite(&world, &filter, outcome);
    fabric_counters(&bill->counters);
    bill->virtual_ms = (double)fabric_now_ns() / 1e6;
    bill->bytes = fabric_alloc_bytes() - held;
    if (!job)
        note(outcome, "no job");
    else if (job->lost)
        note(outcome, "a port gave up a peer");
    if (job && sim_job_close(job))
        note(outcome, "the fabric found something");
    bill->cpu_s = cpu_s() - start;
}

/* --- by cmocka -------------------------------------------------------------------------------- */

static void run_sizes(enum sim_manner manner, const uint32_t *sizes, uint64_t seed)
{
    struct request request = {.manner = manner};
    struct coll_outcome outcome;
    struct bill bill;

    for (; *sizes; sizes++) {
        run_size(&request, *sizes, seed + *sizes, &outcome, &bill);
        if (outcome.failed)
            fail_msg("--manner %s --sizes %u --seeds %llu: %s", manners[manner], *sizes,
                     (unsigned long long)(seed + *sizes), outcome.first);
        assert_true(outcome.cases > 0);
    }
}

static void in_calm(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 0};

    (void)state;
    run_sizes(SIM_CALM, sizes, 1);
}

static void with_other_timing(void **state)
{
    static const uint32_t sizes[] = {2, 4, 7, 0};

    (void)state;
    run_sizes(SIM_TIMING, sizes, 100);
}

static void with_faults_that_connections_survive(void **state)
{
    static const uint32_t sizes[] = {2, 3, 6, 0};

    (void)state;
    run_sizes(SIM_FAULTS, sizes, 200);
}

static void when_a_rank_dies(void **state)
{
    struct death_outcome outcome;
    uint64_t failed = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        death_run(seed, false, &outcome);
        if (outcome.wrong[0])
            fail_msg("seed %llu: %s", (unsigned long long)seed, outcome.wrong);
        failed += outcome.failed;
    }
    assert_true(failed > 0); /* some died in time */
}

/* --- by arguments ----------------------------------------------------------------------------- */

static bool tell(const struct request *request, uint32_t size, uint64_t seed)
{
    struct coll_outcome outcome;
    struct bill bill;

    run_size(request, size, seed, &outcome, &bill);
    printf("%s %s, %u ranks, seed %llu: %llu cases, %.1f ms virtual, %.1f s CPU, %llu messages, "
           "%llu bytes, %llu faults, %u QPs, %.1f MB of ranks, %.1f MB of fabric\n",
           outcome.failed ? "FAIL" : "PASS", manners[request->manner], size,
           (unsigned long long)seed, (unsigned long long)outcome.cases, bill.virtual_ms, bill.cpu_s,
           (unsigned long long)bill.counters.messages, (unsigned long long)bill.counters.bytes,
           (unsigned long long)(bill.counters.faults + bill.counters.retries),
           bill.counters.qps_peak, (double)bill.bytes / 1e6,
           (double)bill.counters.memory_bytes / 1e6);
    if (outcome.failed)
        printf("    %s\n", outcome.first);
    fflush(stdout);
    return !outcome.failed;
}

static bool tell_death(const struct request *request, uint64_t seed)
{
    struct death_outcome outcome;

    death_run(seed, request->cold, &outcome);
    if (outcome.wrong[0] || request->first_seed == request->last_seed)
        printf("%s death, seed %llu: %llu operations ended, %llu with an error, in %llu ms %s\n",
               outcome.wrong[0] ? "FAIL" : "PASS", (unsigned long long)seed,
               (unsigned long long)outcome.ended, (unsigned long long)outcome.failed,
               (unsigned long long)outcome.took_ms, outcome.wrong);
    fflush(stdout);
    return !outcome.wrong[0];
}

static int run_request(const struct request *request)
{
    uint64_t passed = 0, failed = 0;

    for (uint64_t seed = request->first_seed; seed <= request->last_seed; seed++) {
        if (request->deaths) {
            *(tell_death(request, seed) ? &passed : &failed) += 1;
            continue;
        }
        for (uint32_t size = request->first_size; size <= request->last_size; size++)
            *(tell(request, size, seed) ? &passed : &failed) += 1;
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed || !passed;
}

/* A..B, or A alone. */
static void parse_range(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;

    *first = *last = strtoull(text, &end, 0);
    if (strncmp(end, "..", 2) == 0)
        *last = strtoull(end + 2, NULL, 0);
}

static bool parse_manner(const char *name, enum sim_manner *manner)
{
    for (unsigned i = 0; i < sizeof(manners) / sizeof(manners[0]); i++)
        if (strcmp(name, manners[i]) == 0) {
            *manner = (enum sim_manner)i;
            return true;
        }
    return false;
}

static void parse_sizes(const char *text, struct request *request)
{
    uint64_t first, last;

    parse_range(text, &first, &last);
    request->first_size = (uint32_t)first;
    request->last_size = (uint32_t)last;
}

static bool parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {{"full", no_argument, NULL, 'f'},
                                            {"deaths", no_argument, NULL, 'd'},
                                            {"cold", no_argument, NULL, 'k'},
                                            {"ranks", required_argument, NULL, 'r'},
                                            {"sizes", required_argument, NULL, 's'},
                                            {"seeds", required_argument, NULL, 'n'},
                                            {"manner", required_argument, NULL, 'm'},
                                            {"coll", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};

    *request = (struct request){.first_size = 1, .last_size = 9, .first_seed = 1, .last_seed = 1};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        request->full |= option == 'f';
        request->deaths |= option == 'd';
        request->cold |= option == 'k';
        if (option == 's') {
            parse_sizes(optarg, request);
        } else if (option == 'n') {
            parse_range(optarg, &request->first_seed, &request->last_seed);
        } else if (option == 'c') {
            request->coll = optarg;
        } else if (option == 'r') {
            parse_sizes(optarg, request);
            request->crowd = request->last_size;
            request->manner = SIM_CROWD;
        } else if (option == '?' || (option == 'm' && !parse_manner(optarg, &request->manner))) {
            return false;
        }
    }
    return optind == argc && request->first_size > 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_calm),
        cmocka_unit_test(with_other_timing),
        cmocka_unit_test(with_faults_that_connections_survive),
        cmocka_unit_test(when_a_rank_dies),
    };
    struct request request;

    if (argc == 1)
        return cmocka_run_group_tests_name("coll_sim", tests, NULL, NULL);
    if (parse(argc, argv, &request))
        return run_request(&request);
    fprintf(stderr, "usage: test_coll_sim [--full | --ranks N | --deaths [--cold]] [--manner "
                    "NAME] [--sizes A..B] [--seeds A..B] [--coll NAME]\n");
    return 2;
}
