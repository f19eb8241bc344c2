/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs workloads over the transport on the simulated fabric, a run a seed.
 *
 *     simulate [--seeds A..B] [--ranks N] [--load NAME] [--calm] [--iwarp] [--verbose] [--twice]
 *
 * A failing run prints its seed, the reason and the trace; the exit status is then 1.
 */
#include "loads.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct load loads[] = {
    {"random", load_random, load_random_end},
};

enum { LOADS = sizeof(loads) / sizeof(loads[0]) };

struct totals {
    uint64_t runs, failures, ranks, messages, bytes, faults, ghosts;
    double virtual_s;
};

struct request {
    uint64_t first, last;
    int ranks;
    const char *load;
    bool calm, verbose, iwarp, twice;
};

static void plan_make(const struct request *request, uint64_t seed, struct world_plan *plan)
{
    *plan = (struct world_plan){.seed = seed,
                                .ranks = request->ranks,
                                .faults = !request->calm && seed % 4 != 0,
                                .kills = !request->calm && seed % 4 == 3,
                                .verbose = request->verbose,
                                .transport = request->iwarp ? FABRIC_IWARP : FABRIC_ROCE};
    if (seed % 7 == 5)
        plan->transport = FABRIC_INFINIBAND;
}

/* Returns whether the run was good; *hash gets its trace's hash. */
static bool run_one(const struct request *request, const struct load *load, uint64_t seed,
                    struct totals *totals, uint64_t *hash)
{
    struct world_plan plan;
    struct world world;
    struct fabric_counters counters;
    plan_make(request, seed, &plan);
    if (world_open(&world, &plan))
        load->run(&world);
    fabric_counters(&counters);
    totals->ranks += (uint64_t)world.count;
    totals->virtual_s += (double)fabric_now_ns() / 1e9;
    int violations = world_close(&world);
    load->end(&world);
    *hash = fabric_trace_hash();
    totals->runs++;
    totals->messages += counters.messages;
    totals->bytes += counters.bytes;
    totals->faults += counters.faults;
    totals->ghosts += counters.ghosts;
    if (!violations && !world.failed)
        return true;
    totals->failures++;
    printf("FAILED: seed %llu, load %s, %d ranks: %s\n", (unsigned long long)seed, load->name,
           world.count, world.failed ? world.reason : "violations, see above");
    return false;
}

static bool run_seed(const struct request *request, const struct load *load, uint64_t seed,
                     struct totals *totals)
{
    uint64_t hash, again;
    bool good = run_one(request, load, seed, totals, &hash);
    if (!request->twice)
        return good;
    run_one(request, load, seed, totals, &again);
    if (hash == again)
        return good;
    totals->failures++;
    printf("FAILED: seed %llu, load %s: two runs differ\n", (unsigned long long)seed, load->name);
    return false;
}

static bool parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'}, {"ranks", required_argument, NULL, 'r'},
        {"load", required_argument, NULL, 'l'},  {"calm", no_argument, NULL, 'c'},
        {"verbose", no_argument, NULL, 'v'},     {"iwarp", no_argument, NULL, 'i'},
        {"twice", no_argument, NULL, 't'},       {NULL, 0, NULL, 0}};
    *request = (struct request){.first = 1, .last = 100};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        if (option == 's') {
            request->first = request->last = strtoull(optarg, &end, 0);
            if (strncmp(end, "..", 2) == 0)
                request->last = strtoull(end + 2, NULL, 0);
        } else if (option == 'r') {
            request->ranks = atoi(optarg);
        } else if (option == 'l') {
            request->load = optarg;
        } else if (option == 'c') {
            request->calm = true;
        } else if (option == 'v') {
            request->verbose = true;
        } else if (option == 'i') {
            request->iwarp = true;
        } else if (option == 't') {
            request->twice = true;
        } else {
            return false;
        }
    }
    return optind == argc && request->ranks >= 0 && request->ranks <= WORLD_RANKS_MAX &&
           request->ranks != 1;
}

int main(int argc, char **argv)
{
    struct request request;
    struct totals totals = {0};
    if (!parse(argc, argv, &request)) {
        fprintf(stderr, "usage: simulate [--seeds A..B] [--ranks N] [--load NAME] [--calm] "
                        "[--iwarp] [--verbose] [--twice]\n");
        return 2;
    }
    for (uint64_t seed = request.first; seed <= request.last; seed++)
        for (int i = 0; i < LOADS; i++)
            if (!request.load || strcmp(request.load, loads[i].name) == 0)
                run_seed(&request, &loads[i], seed, &totals);
    printf("%llu runs (seeds %llu to %llu), %llu failed: %llu ranks, %.3f s of virtual time, %llu "
           "messages, %llu bytes, %llu faults, %llu late arrivals\n",
           (unsigned long long)totals.runs, (unsigned long long)request.first,
           (unsigned long long)request.last, (unsigned long long)totals.failures,
           (unsigned long long)totals.ranks, totals.virtual_s, (unsigned long long)totals.messages,
           (unsigned long long)totals.bytes, (unsigned long long)totals.faults,
           (unsigned long long)totals.ghosts);
    return totals.failures ? 1 : 0;
}
