/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over the same memory again and again: long vectors, whose sums are known. Where
 * memory that was used before is registered once more, run-registrations tells.
 */
#include "common.h"
#include "programs.h"

enum { ROUNDS = 30, BLOCK = 1 << 15, STRIDE = 1021 };

struct vectors {
    int ranks, all; /* elements of all ranks' blocks */
    double *own, *result;
};

/* Element I of RANK's vector in ROUND. */
static double value(int rank, int i, int round)
{
    return rank + i % 1000 + round;
}

static double sum(int ranks, int i, int round)
{
    return ranks * (ranks - 1) / 2.0 + ranks * (double)(i % 1000 + round);
}

static void fill(const struct job *job, const struct vectors *v, int round)
{
    for (int i = 0; i < v->all; i++) {
        v->own[i] = value(job->rank, i, round);
        v->result[i] = -1;
    }
}

/* COUNT elements of a sum from its FIRST on. */
static void check_sum(const struct vectors *v, const char *what, int first, int count, int round)
{
    for (int i = 0; i < count; i += i + STRIDE < count ? STRIDE : 1)
        expect(v->result[i] == sum(v->ranks, first + i, round), "%s of round %d: element %d is %g",
               what, round, i, v->result[i]);
}

static void reduce(const struct job *job, const struct vectors *v, int round)
{
    int root = round % v->ranks;

    fill(job, v, round);
    MPI_Reduce(v->own, v->result, v->all, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    if (job->rank == root)
        check_sum(v, "reduce", 0, v->all, round);
}

static void allreduce(const struct job *job, const struct vectors *v, int round)
{
    fill(job, v, round);
    MPI_Allreduce(v->own, v->result, v->all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check_sum(v, "allreduce", 0, v->all, round);
}

static void reduce_scatter(const struct job *job, const struct vectors *v, int round)
{
    fill(job, v, round);
    MPI_Reduce_scatter_block(v->own, v->result, BLOCK, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check_sum(v, "reduce_scatter_block", job->rank * BLOCK, BLOCK, round);
}

static void scan(const struct job *job, const struct vectors *v, int round)
{
    fill(job, v, round);
    MPI_Scan(v->own, v->result, v->all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < v->all; i += STRIDE)
        expect(v->result[i] == sum(job->rank + 1, i, round), "scan of round %d: element %d is %g",
               round, i, v->result[i]);
}

static void alltoall(const struct job *job, const struct vectors *v, int round)
{
    fill(job, v, round);
    MPI_Alltoall(v->own, BLOCK, MPI_DOUBLE, v->result, BLOCK, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < v->all; i += STRIDE)
        expect(v->result[i] == value(i / BLOCK, job->rank * BLOCK + i % BLOCK, round),
               "alltoall of round %d: element %d is %g", round, i, v->result[i]);
}

void run_again(const struct job *job)
{
    size_t bytes = (size_t)job->size * BLOCK * sizeof(double);
    struct vectors v = {.ranks = job->size, .all = job->size * BLOCK};

    v.own = guarded_alloc(bytes);
    v.result = guarded_alloc(bytes);
    for (int round = 0; round < ROUNDS; round++) {
        step("round %d", round);
        reduce(job, &v, round);
        allreduce(job, &v, round);
        reduce_scatter(job, &v, round);
        scan(job, &v, round);
        alltoall(job, &v, round);
    }
    guarded_free(v.own);
    guarded_free(v.result);
}
