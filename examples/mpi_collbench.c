/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of MPI's collectives: for each operation and size the time of one call. Calls follow one
 * another, and the root goes from rank to rank, as in the Intel MPI Benchmarks: a barrier before
 * each would hide the time of those who find their message there when they leave it.
 *
 *     mpirun -np 4 mpi_collbench [--turns PIPE] [SECONDS [SIZE…]]
 *
 * SECONDS (default: 0.3) is about what each figure may take. SIZE is in bytes: of the vector for
 * bcast and allreduce, of a rank's block for allgather and alltoall. Prints lines
 * `OPERATION BYTES MICROSECONDS`.
 *
 * With --turns several such jobs can be compared figure by figure: each rank reads a byte from PIPE
 * before each figure, and sleeps until there is one. The figures begin anew after the last one; the
 * byte `q` ends the job. A line `ready` comes before the first.
 */
#include <ctype.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERATIONS = 5, SIZES = 16, SIZE_MOST = 1 << 30 };

struct buffers {
    char *in, *out;
};

struct figure {
    int op; /* of `operations` */
    int bytes;
    double us; /* what a call took lately; 0: none yet */
};

static void run_barrier(const struct buffers *b, int bytes, int root)
{
    (void)b;
    (void)bytes;
    (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_bcast(const struct buffers *b, int bytes, int root)
{
    MPI_Bcast(b->out, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void run_allreduce(const struct buffers *b, int bytes, int root)
{
    (void)root;
    MPI_Allreduce(b->in, b->out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_allgather(const struct buffers *b, int bytes, int root)
{
    (void)root;
    MPI_Allgather(b->in, bytes, MPI_BYTE, b->out, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void run_alltoall(const struct buffers *b, int bytes, int root)
{
    (void)root;
    MPI_Alltoall(b->in, bytes, MPI_BYTE, b->out, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*run)(const struct buffers *b, int bytes, int root);
} operations[OPERATIONS] = {
    {"barrier", run_barrier},     {"bcast", run_bcast},       {"allreduce", run_allreduce},
    {"allgather", run_allgather}, {"alltoall", run_alltoall},
};

/* Average time of one call in µs, of the slowest rank. */
static double time_of(void (*run)(const struct buffers *, int, int), const struct buffers *b,
                      int bytes, int calls)
{
    double us, slowest;
    int ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    us = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        run(b, bytes, i % ranks);
    us = (MPI_Wtime() - us) * 1e6 / calls;
    MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* As many calls as fill SECONDS, by what one took lately, but at least LEAST. */
static double time_for(const struct figure *f, const struct buffers *b, double seconds, int least)
{
    double n = seconds * 1e6 / (f->us + 1);
    int calls = n < least ? least : n > 2000 ? 2000 : (int)n;

    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return time_of(operations[f->op].run, b, f->bytes, calls);
}

/* Every root once before the first time: a first message has to connect. The first calls are slower
 * than later ones also where all are connected. */
static void warm_up(struct figure *f, const struct buffers *b, double seconds)
{
    int ranks;

    if (f->us == 0) {
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        time_of(operations[f->op].run, b, f->bytes, ranks);
        f->us = time_of(operations[f->op].run, b, f->bytes, 5);
    }
    f->us = time_for(f, b, seconds / 3, 2);
}

static void measure(struct figure *f, const struct buffers *b, double seconds)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    warm_up(f, b, seconds);
    f->us = time_for(f, b, seconds, 5);
    if (rank == 0) {
        printf("%s %d %.2f\n", operations[f->op].name, f->bytes, f->us);
        fflush(stdout);
    }
}

/* Barriers for as long as a figure takes: ranks that share a processor have not used the same of it
 * while they started, and those that are behind wait for nothing until they have. */
static void settle(double seconds)
{
    struct figure barrier = {.op = 0};

    warm_up(&barrier, NULL, 3 * seconds);
}

/* Whether another figure is wanted. Without turns (PIPE is -1): always. */
static bool await_turn(int pipe)
{
    char turn = 'q';

    return pipe < 0 || (read(pipe, &turn, 1) == 1 && turn != 'q');
}

/* Every figure once. False where no more are wanted. */
static bool measure_all(struct figure *figures, int count, const struct buffers *b, double seconds,
                        int pipe)
{
    for (int i = 0; i < count; i++) {
        if (!await_turn(pipe))
            return false;
        measure(&figures[i], b, seconds);
    }
    return pipe >= 0;
}

static void say_ready(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        puts("ready");
        fflush(stdout);
    }
}

/* The pipe that `--turns PIPE` names, which is taken out of the arguments; -1 without. */
static int open_turns(int *argc, char **argv)
{
    int pipe;

    if (*argc < 3 || strcmp(argv[1], "--turns") != 0)
        return -1;
    pipe = open(argv[2], O_RDONLY);
    if (pipe < 0) {
        perror(argv[2]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memmove(argv + 1, argv + 3, (size_t)(*argc - 3 + 1) * sizeof(*argv));
    *argc -= 2;
    return pipe;
}

static void refuse(const char *argument, const char *expected)
{
    fprintf(stderr, "mpi_collbench: %s: expected %s\n", argument, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double read_seconds(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds > 0 && seconds <= 3600))
        refuse(text, "seconds, more than 0, up to 3600");
    return seconds;
}

static int read_size(const char *text)
{
    char *end;
    long size = strtol(text, &end, 10);

    if (!isdigit((unsigned char)*text) || *end || size > SIZE_MOST)
        refuse(text, "bytes, up to 1 GiB");
    return (int)size;
}

/* Those that the arguments name, or the usual ones. Returns their number. */
static int read_sizes(char **arguments, int sizes[SIZES])
{
    static const int usual[] = {8, 4096, 65536, 1048576};
    int count = 0;

    for (; arguments[count]; count++) {
        if (count == SIZES)
            refuse(arguments[count], "16 sizes at most");
        sizes[count] = read_size(arguments[count]);
    }
    if (count)
        return count;
    memcpy(sizes, usual, sizeof(usual));
    return sizeof(usual) / sizeof(usual[0]);
}

/* All figures of these sizes. Returns their number. */
static int list_figures(const int *sizes, int count, struct figure *figures)
{
    int n = 0;

    figures[n++] = (struct figure){.op = 0};
    for (int i = 0; i < count; i++)
        for (int op = 1; op < OPERATIONS; op++)
            figures[n++] = (struct figure){.op = op, .bytes = sizes[i]};
    return n;
}

int main(int argc, char **argv)
{
    int sizes[SIZES], count, largest = 0, ranks, pipe;
    struct figure figures[1 + (OPERATIONS - 1) * SIZES];
    struct buffers b;
    double seconds;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pipe = open_turns(&argc, argv);
    seconds = argc > 1 ? read_seconds(argv[1]) : 0.3;
    count = read_sizes(argv + (argc > 2 ? 2 : argc), sizes);
    for (int i = 0; i < count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    b.in = calloc((size_t)ranks, (size_t)largest + 8);
    b.out = calloc((size_t)ranks, (size_t)largest + 8);
    if (!b.in || !b.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    count = list_figures(sizes, count, figures);
    settle(seconds);
    if (pipe >= 0)
        say_ready();
    while (measure_all(figures, count, &b, seconds, pipe))
        ;
    free(b.in);
    free(b.out);
    MPI_Finalize();
    return 0;
}
