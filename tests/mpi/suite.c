/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_suite: all the MPI test programs in one binary, because starting a job is the slow part.
 * Rank 0 prints "RUN name" and "PASS name (seconds)"; a failure or a hang ends the job with a line
 * that names the program, the rank and what it was at.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program {
    const char *name;
    void (*run)(const struct job *job);
    const char *what;
};

/* connects comes first: it wants to find no connection open. */
static const struct program programs[] = {
    {"connects", run_connects, "first traffic to every rank, in random order"},
    {"ring", run_ring, "laps of growing messages round a ring"},
    {"all_pairs", run_all_pairs, "every pair, both directions at once"},
    {"sizes", run_sizes, "every size around each protocol switch, to 4 MiB"},
    {"unexpected", run_unexpected, "thousands of unexpected messages, received in other orders"},
    {"outstanding", run_outstanding, "thousands of open requests, completed in all manners"},
    {"flood", run_flood, "bursts, incast and one-way streams to a busy receiver"},
    {"bursts", run_bursts, "many short messages at once, which may go together"},
    {"p2p_modes", run_p2p_modes, "send modes, persistent requests, self, PROC_NULL, truncation"},
    {"probe", run_probe, "probe, matched probe, cancelled receives"},
    {"datatypes", run_datatypes, "derived datatypes on both sides, gaps checked"},
    {"records", run_records, "structures, packing, absolute addresses, a matrix transposed"},
    {"collectives", run_collectives, "collectives that move data, blocking and nonblocking"},
    {"reductions", run_reductions, "collectives that reduce, several types and operations"},
    {"again", run_again, "collectives over the same memory again and again"},
    {"orders", run_orders, "blocking collectives over ranks in several orders, derived types"},
    {"overlap", run_overlap, "many nonblocking collectives and messages at once"},
    {"communicators", run_communicators, "split, dup, free, intercommunicators under traffic"},
    {"freed", run_freed, "communicators freed while collectives are under way"},
    {"rma", run_rma, "one-sided put, get, accumulate and atomics"},
    {"rma_ops", run_rma_ops, "one-sided operations of all kinds"},
    {"passive", run_passive, "one-sided operations at a rank that takes no part in them"},
    {"attached", run_attached, "one-sided access to memory that is attached to a window later"},
    {"threads", run_threads, "threads at once, with --threads"},
    {"buffers", run_buffers, "memory of all kinds, mapped again between messages"},
    {"large", run_large, "a message larger than a device takes at once"},
    {"packed", run_packed, "a collective of more than 2 GiB that have to be packed"},
    {"sparse", run_sparse, "collectives of blocks that lie far apart"},
    {"spawn", run_spawn, "processes that join later"},
    {"waits", run_waits, "ranks that wait for one that is late, and the processor time of that"},
    {"unwaited", run_unwaited, "sends that nobody waits for"},
};
enum { PROGRAM_COUNT = sizeof programs / sizeof programs[0] };

static const struct program *program_find(const char *name)
{
    for (int i = 0; i < PROGRAM_COUNT; i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    return NULL;
}

static void program_run(const struct program *program, const struct job *job)
{
    if (job->rank == 0) {
        printf("RUN %s\n", program->name);
        fflush(stdout);
    }
    program_begin(program->name);
    double start_s = MPI_Wtime();
    program->run(job);
    program_end();
    if (job->rank == 0) {
        printf("PASS %s (%.1f s)\n", program->name, MPI_Wtime() - start_s);
        fflush(stdout);
    }
}

static int usage(void)
{
    fprintf(stderr,
            "usage: mpi_suite [--list] [--threads] [--timeout SECONDS] [--while FILE] [PROGRAM…]\n"
            "Runs the named programs (all without a name) in the order given.\n"
            "--threads: with MPI_THREAD_MULTIPLE.\n"
            "--timeout: how long one step of a program may take (default 120 s).\n"
            "--while: goes round the named programs until rank 0 finds no FILE any more.\n");
    return 2;
}

static void list(void)
{
    for (int i = 0; i < PROGRAM_COUNT; i++)
        printf("%-14s %s\n", programs[i].name, programs[i].what);
}

/* Rank 0 looks for all. */
static bool is_there(const char *file)
{
    int there = access(file, F_OK) == 0;
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return there;
}

static void run_named(int count, char **names, const struct job *job)
{
    for (int i = 0; i < count; i++)
        program_run(program_find(names[i]), job);
    for (int i = 0; count == 0 && i < PROGRAM_COUNT; i++)
        program_run(&programs[i], job);
}

/* KiB of memory that this process has, without what it shares with files. */
static long memory_kib(void)
{
    long pages = 0, resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%ld %ld %ld", &pages, &resident, &shared) != 3)
        resident = shared = 0;
    if (file != NULL)
        fclose(file);
    return (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}

static void tell_memory(const struct job *job)
{
    long own = memory_kib(), most = 0;
    MPI_Reduce(&own, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (job->rank == 0) {
        printf("MEMORY %ld KiB\n", most);
        fflush(stdout);
    }
}

/* Each round in an order of its own. */
static void repeat_named(int count, char **names, const struct job *job, const char *while_file)
{
    int order[PROGRAM_COUNT];
    uint64_t state = job->seed;
    for (int i = 0; i < count; i++)
        order[i] = i;
    while (is_there(while_file)) {
        shuffle(order, count, &state);
        for (int i = 0; i < count && is_there(while_file); i++)
            program_run(program_find(names[order[i]]), job);
        tell_memory(job);
    }
}

static void run_all(int count, char **names, unsigned timeout_s, const char *while_file)
{
    struct job job = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    const char *seed = getenv("VERBENA_TEST_SEED");
    job.seed = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    common_init(&job, timeout_s);
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL)
        run_as_child(parents);
    else if (while_file != NULL)
        repeat_named(count, names, &job, while_file);
    else
        run_named(count, names, &job);
    program_begin("finalize");
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    unsigned timeout_s = 120;
    const char *while_file = NULL;
    int arg = 1, level = MPI_THREAD_SINGLE, provided;
    for (; arg < argc && argv[arg][0] == '-'; arg++) {
        if (strcmp(argv[arg], "--list") == 0) {
            list();
            return 0;
        }
        if (strcmp(argv[arg], "--threads") == 0) {
            level = MPI_THREAD_MULTIPLE;
            continue;
        }
        if (arg + 1 == argc)
            return usage();
        if (strcmp(argv[arg], "--timeout") == 0)
            timeout_s = (unsigned)strtoul(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "--while") == 0)
            while_file = argv[++arg];
        else
            return usage();
    }
    if (while_file != NULL && (arg == argc || argc - arg > PROGRAM_COUNT))
        return usage();
    for (int i = arg; i < argc; i++) {
        if (program_find(argv[i]) == NULL) {
            fprintf(stderr, "mpi_suite: no program \"%s\"; --list shows them\n", argv[i]);
            return 2;
        }
    }
    MPI_Init_thread(&argc, &argv, level, &provided);
    if (provided < level) {
        fprintf(stderr, "mpi_suite: this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run_all(argc - arg, argv + arg, timeout_s, while_file);
    return 0;
}
