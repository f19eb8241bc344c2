/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of MPI's collectives: for each operation and size the time of one call. Calls follow one
 * another, and the root goes from rank to rank, as in the Intel MPI Benchmarks: a barrier before
 * each would hide the time of those who find their message there when they leave it.
 *
 *     mpirun -np 4 mpi_collbench [SECONDS [SIZE…]]
 *
 * SECONDS (default: 0.3) is about what each figure may take. SIZE is in bytes: of the vector for
 * bcast and allreduce, of a rank's block for allgather and alltoall. Prints lines
 * `OPERATION BYTES MICROSECONDS`.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffers {
    char *in, *out;
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
} operations[] = {
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

static int calls_within(double seconds, double call_us)
{
    double n = seconds * 1e6 / (call_us + 1);

    return n < 5 ? 5 : n > 2000 ? 2000 : (int)n;
}

/* As many calls as fill SECONDS, by what LATELY_US they took. */
static double time_for(int op, const struct buffers *b, int bytes, double seconds, double lately_us)
{
    int calls = calls_within(seconds, lately_us);

    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return time_of(operations[op].run, b, bytes, calls);
}

static void measure(int op, const struct buffers *b, int bytes, double seconds, int rank)
{
    int ranks;
    double us;

    /* Every root once before: a first message has to connect. The first calls are slower than later
     * ones also where all are connected. */
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    time_of(operations[op].run, b, bytes, ranks);
    us = time_of(operations[op].run, b, bytes, 5);
    us = time_for(op, b, bytes, seconds / 3, us);
    us = time_for(op, b, bytes, seconds, us);
    if (rank == 0) {
        printf("%s %d %.2f\n", operations[op].name, bytes, us);
        fflush(stdout);
    }
}

/* Barriers for as long as a figure takes: ranks that share a processor have not used the same of it
 * while they started, and those that are behind wait for nothing until they have. */
static void settle(double seconds)
{
    time_for(0, NULL, 0, seconds, time_of(run_barrier, NULL, 0, 5));
}

int main(int argc, char **argv)
{
    static const int usual[] = {8, 4096, 65536, 1048576};
    int sizes[16], count = 0, largest = 0, rank, ranks;
    struct buffers b;
    double seconds;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    seconds = argc > 1 ? atof(argv[1]) : 0.3;
    for (int i = 2; i < argc && count < 16; i++)
        sizes[count++] = atoi(argv[i]);
    for (int i = 0; argc <= 2 && i < 4; i++)
        sizes[count++] = usual[i];
    for (int i = 0; i < count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    b.in = calloc((size_t)ranks, (size_t)largest + 8);
    b.out = calloc((size_t)ranks, (size_t)largest + 8);
    if (!b.in || !b.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    settle(seconds);
    measure(0, &b, 0, seconds, rank);
    for (int i = 0; i < count; i++)
        for (int op = 1; op < 5; op++)
            measure(op, &b, sizes[i], seconds, rank);
    free(b.in);
    free(b.out);
    MPI_Finalize();
    return 0;
}
