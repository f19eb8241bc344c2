/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of the first messages between all pairs of ranks: where connections are made when they are
 * first needed, that is what it takes to make them.
 *
 *     mpirun -np 8 mpi_connect [at-once]
 *
 * In the n-th step each rank exchanges a byte with those N after and before it; with `at-once` all
 * exchange with all without waiting for one another, so both ends of a pair ask for its connection.
 * Prints a line `PAIRS MILLISECONDS` of the slowest rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void in_steps(int rank, int ranks)
{
    char in, out = 1;

    for (int n = 1; n < ranks; n++)
        MPI_Sendrecv(&out, 1, MPI_BYTE, (rank + n) % ranks, 0, &in, 1, MPI_BYTE,
                     (rank + ranks - n) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void at_once(int rank, int ranks)
{
    MPI_Request *requests = calloc(2 * (size_t)ranks, sizeof(MPI_Request));
    char *in = calloc((size_t)ranks, 1), out = 1;

    if (!requests || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int n = 0; n < ranks; n++)
        MPI_Irecv(&in[n], 1, MPI_BYTE, n, 0, MPI_COMM_WORLD, &requests[n]);
    for (int n = 0; n < ranks; n++)
        MPI_Isend(&out, 1, MPI_BYTE, (rank + n) % ranks, 0, MPI_COMM_WORLD, &requests[ranks + n]);
    MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(in);
}

int main(int argc, char **argv)
{
    double ms, slowest;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ms = MPI_Wtime();
    if (argc > 1 && strcmp(argv[1], "at-once") == 0)
        at_once(rank, ranks);
    else
        in_steps(rank, ranks);
    ms = (MPI_Wtime() - ms) * 1e3;
    MPI_Reduce(&ms, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %.2f\n", ranks * (ranks - 1) / 2, slowest);
    MPI_Finalize();
    return 0;
}
