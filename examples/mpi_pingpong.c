/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half round trip and bandwidth between two ranks, by size: `mpirun -np 2 … mpi_pingpong SIZE…`.
 * Prints a line a size: bytes, median half round trip in µs, MB/s with a window of sends.
 */
#include <mpi.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW     16
#define TAG        1
#define ROUNDS_MAX 400
#define SIZE_MOST  (1l << 30)

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Fewer rounds for longer messages: each size takes about as long as the others. */
static int rounds_for(int size)
{
    int rounds = (1 << 23) / (size + 1024);

    return rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds < 20 ? 20 : rounds;
}

static double half_round_trip_us(char *buf, int size, int rank)
{
    double us[ROUNDS_MAX];
    int rounds = rounds_for(size);

    for (int i = -rounds / 4; i < rounds; i++) {
        double start = MPI_Wtime();

        if (rank == 0) {
            MPI_Send(buf, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(buf, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buf, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buf, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        }
        if (i >= 0)
            us[i] = (MPI_Wtime() - start) * 1e6 / 2;
    }
    qsort(us, (size_t)rounds, sizeof(us[0]), by_value);
    return us[rounds / 2];
}

static double bandwidth_mbps(char *buf, int size, int rank)
{
    int windows = rounds_for(size) / WINDOW + 2;
    MPI_Request req[WINDOW];
    double start = 0;
    char ack;

    for (int i = -1; i < windows; i++) {
        if (i == 0)
            start = MPI_Wtime();
        for (int k = 0; k < WINDOW; k++) {
            char *at = buf + (size_t)k * (size_t)size;

            if (rank == 0)
                MPI_Isend(at, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &req[k]);
            else
                MPI_Irecv(at, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &req[k]);
        }
        MPI_Waitall(WINDOW, req, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&ack, 1, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&ack, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    }
    return (double)size * WINDOW * windows / (MPI_Wtime() - start) / 1e6;
}

/* False where TEXT is not a whole number, or too large a one. */
static bool read_size(const char *text, int *size)
{
    char *end;
    long value = strtol(text, &end, 10);

    *size = (int)value;
    return isdigit((unsigned char)*text) && !*end && value <= SIZE_MOST;
}

static _Noreturn void fail(const char *size, const char *what)
{
    fprintf(stderr, "mpi_pingpong: %s: %s\n", size, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void measure(const char *argument, int rank)
{
    double us, mbps;
    char *buf;
    int size;

    if (!read_size(argument, &size))
        fail(argument, "expected bytes, up to 1 GiB");
    buf = malloc((size_t)(size ? size : 1) * WINDOW);
    if (!buf)
        fail(argument, "no memory for that");
    memset(buf, rank, (size_t)size * WINDOW);
    us = half_round_trip_us(buf, size, rank);
    mbps = bandwidth_mbps(buf, size, rank);
    if (rank == 0)
        printf("%d %.2f %.2f\n", size, us, mbps);
    free(buf);
}

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "mpi_pingpong: give it two ranks, not %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 1; i < argc; i++)
        measure(argv[i], rank);
    MPI_Finalize();
    return 0;
}
