/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that the last rank calls otherwise than the others, or late, or whose request it
 * frees: what each rank is returned, and that the communicator can be used afterwards. See
 * run-wrong-calls.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_S = 4 };

struct wrong {
    const char *name;
    int (*call)(bool odd);
    enum { ALL_FAIL, ODD_FAILS, NONE_FAILS } outcome;
};

static int call_root(bool odd)
{
    int data[2] = {1, 2};
    return MPI_Bcast(data, 2, MPI_INT, odd ? 1 : 0, MPI_COMM_WORLD);
}

static int call_operation(bool odd)
{
    int in = 1, out = 0;
    return MPI_Allreduce(&in, &out, 1, MPI_INT, odd ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static int call_count(bool odd)
{
    int in[2] = {1, 2}, out[2];
    return MPI_Allreduce(in, out, odd ? 2 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int call_type(bool odd)
{
    int in = 0, out = 0;
    return MPI_Allreduce(&in, &out, 1, odd ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int call_fortran(bool odd)
{
    double in = 0, out = 0;
    return MPI_Allreduce(&in, &out, 1, odd ? MPI_DOUBLE_PRECISION : MPI_INTEGER, MPI_SUM,
                         MPI_COMM_WORLD);
}

static int call_order(bool odd)
{
    int first = odd ? call_operation(false) : MPI_Barrier(MPI_COMM_WORLD);
    int second = odd ? MPI_Barrier(MPI_COMM_WORLD) : call_operation(false);
    return second == MPI_SUCCESS ? second : first;
}

static int waited(int started, MPI_Request *request)
{
    return started == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : started;
}

static int call_nonblocking(bool odd)
{
    int in = 1, out = 0;
    MPI_Request request;
    return waited(odd ? MPI_Ibarrier(MPI_COMM_WORLD, &request)
                      : MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request),
                  &request);
}

/* The root gives more than the last rank takes. */
static int call_length(bool odd)
{
    int data[2] = {1, 2};
    return MPI_Bcast(data, odd ? 1 : 2, MPI_INT, 0, MPI_COMM_WORLD);
}

static int call_late(bool odd)
{
    if (odd)
        sleep(LATE_S);
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int call_late_nonblocking(bool odd)
{
    MPI_Request request;
    if (odd)
        sleep(LATE_S);
    return waited(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}

/* The last rank frees a request whose barrier is under way, which MPI forbids, and still has it. */
static int call_free(bool odd)
{
    MPI_Request request;
    int started, freed, class = MPI_ERR_REQUEST;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (!odd)
        sleep(1);
    started = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    if (odd && started == MPI_SUCCESS) {
        freed = MPI_Request_free(&request);
        MPI_Error_class(freed, &class);
    }
    return class == MPI_ERR_REQUEST ? waited(started, &request) : MPI_ERR_OTHER;
}

static const struct wrong wrongs[] = {
    {"root", call_root, ALL_FAIL},
    {"operation", call_operation, ALL_FAIL},
    {"count", call_count, ALL_FAIL},
    {"type", call_type, ALL_FAIL},
    {"fortran", call_fortran, ALL_FAIL},
    {"order", call_order, ALL_FAIL},
    {"nonblocking", call_nonblocking, ALL_FAIL},
    {"length", call_length, ODD_FAILS},
    {"late", call_late, NONE_FAILS},
    {"late_nonblocking", call_late_nonblocking, NONE_FAILS},
    {"free", call_free, NONE_FAILS},
};
enum { WRONG_COUNT = sizeof wrongs / sizeof wrongs[0] };

static const struct wrong *find(int argc, char **argv)
{
    for (int i = 0; argc == 2 && i < WRONG_COUNT; i++)
        if (strcmp(wrongs[i].name, argv[1]) == 0)
            return &wrongs[i];
    return NULL;
}

/* Whether this rank was returned what it should be. */
static bool makes(const struct wrong *wrong, int rank, int size)
{
    bool odd = rank == size - 1;
    bool fails = wrong->outcome == ALL_FAIL || (wrong->outcome == ODD_FAILS && odd);
    int class;
    MPI_Error_class(wrong->call(odd), &class);
    if (class == (fails ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
        return true;
    printf("rank %d: %s returned an error of class %d\n", rank, wrong->name, class);
    return false;
}

static bool goes_on(int rank, int size)
{
    int mine = rank + 1, all = 0, status;
    status = MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (status == MPI_SUCCESS && all == size * (size + 1) / 2)
        return true;
    printf("rank %d: the allreduce behind it returned %d, sum %d\n", rank, status, all);
    return false;
}

int main(int argc, char **argv)
{
    const struct wrong *wrong;
    int rank, size;
    bool right;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    wrong = find(argc, argv);
    if (wrong == NULL) {
        fprintf(stderr, "usage: mpi_wrong_calls CASE, see tests/mpi/wrong_calls.c\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    right = makes(wrong, rank, size);
    right = goes_on(rank, size) && right;
    if (rank == 0 && right)
        printf("ended\n");
    MPI_Finalize();
    return right ? 0 : 1;
}
