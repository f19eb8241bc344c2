/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that reduce: reduce, allreduce, reduce_scatter, reduce_scatter_block, scan and
 * exscan, blocking and nonblocking, in place and not, over several types and operations. One of the
 * operations is the user's own and does not commute, so the order of ranks must be kept. What must
 * come out is worked out on every rank from what each rank puts in; all values are exact.
 */
#include "common.h"
#include "programs.h"

#include <complex.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An affine map x -> a x + b modulo 2^32: composing two of them depends on which comes first. */
struct affine {
    uint32_t a, b;
};

struct double_int {
    double value;
    int index;
};

/* put writes what a rank contributes at an index; fold makes left := left op right. An element may
 * end in padding, which MPI need not move: only value_bytes are compared. */
struct operation {
    const char *name;
    size_t bytes;
    size_t value_bytes;
    MPI_Datatype type;
    MPI_Op op;
    void (*put)(void *element, int rank, int index);
    void (*fold)(void *left, const void *right);
};

static uint64_t random_at(int rank, int index)
{
    return hash_of((uint64_t)rank, (uint64_t)index, 77);
}

static void put_int(void *element, int rank, int index)
{
    *(int *)element = (int)(random_at(rank, index) % 1000000) - 500000;
}

static void fold_int_sum(void *left, const void *right)
{
    *(int *)left += *(const int *)right;
}

static void put_uint64(void *element, int rank, int index)
{
    *(uint64_t *)element = random_at(rank, index);
}

static void fold_uint64_xor(void *left, const void *right)
{
    *(uint64_t *)left ^= *(const uint64_t *)right;
}

static void fold_uint64_product(void *left, const void *right)
{
    *(uint64_t *)left *= *(const uint64_t *)right;
}

static void put_double(void *element, int rank, int index)
{
    *(double *)element = (double)(random_at(rank, index) >> 12) / 4;
}

static void fold_double_max(void *left, const void *right)
{
    if (*(const double *)right > *(double *)left)
        *(double *)left = *(const double *)right;
}

/* Small whole numbers, so that sums are exact in any order. */
static void put_float(void *element, int rank, int index)
{
    *(float *)element = (float)(random_at(rank, index) % 1000);
}

static void fold_float_sum(void *left, const void *right)
{
    *(float *)left += *(const float *)right;
}

/* Products of whole numbers of length sqrt(5) that are turned alike never lie on an axis, so no
 * zero has a sign; exact for 16 ranks. */
static double complex complex_at(int rank, int index)
{
    static const double complex units[] = {1, I, -1, -I};

    return rank < 16 ? (2 + I) * units[random_at(rank, index) % 4] : 1;
}

static void put_float_complex(void *element, int rank, int index)
{
    *(float complex *)element = (float complex)complex_at(rank, index);
}

static void put_double_complex(void *element, int rank, int index)
{
    *(double complex *)element = complex_at(rank, index);
}

static void fold_float_complex_sum(void *left, const void *right)
{
    *(float complex *)left += *(const float complex *)right;
}

static void fold_float_complex_product(void *left, const void *right)
{
    *(float complex *)left *= *(const float complex *)right;
}

static void fold_double_complex_sum(void *left, const void *right)
{
    *(double complex *)left += *(const double complex *)right;
}

static void fold_double_complex_product(void *left, const void *right)
{
    *(double complex *)left *= *(const double complex *)right;
}

static void put_byte(void *element, int rank, int index)
{
    *(unsigned char *)element = (unsigned char)(random_at(rank, index));
}

static void fold_byte_min(void *left, const void *right)
{
    if (*(const unsigned char *)right < *(unsigned char *)left)
        *(unsigned char *)left = *(const unsigned char *)right;
}

/* Few different values, so that ties happen and the lowest index must win. */
static void put_double_int(void *element, int rank, int index)
{
    ((struct double_int *)element)->value = (double)(random_at(rank, index) % 3);
    ((struct double_int *)element)->index = rank;
}

static void fold_maxloc(void *left, const void *right)
{
    struct double_int *l = left;
    const struct double_int *r = right;
    if (r->value > l->value || (r->value == l->value && r->index < l->index)) {
        l->value = r->value;
        l->index = r->index;
    }
}

static void put_affine(void *element, int rank, int index)
{
    uint64_t random = random_at(rank, index);
    *(struct affine *)element = (struct affine){(uint32_t)random | 1, (uint32_t)(random >> 32)};
}

static void fold_affine(void *left, const void *right)
{
    struct affine *l = left;
    const struct affine *r = right;
    *l = (struct affine){r->a * l->a, r->a * l->b + r->b};
}

/* MPI's form of fold_affine: inout := in op inout. */
static void affine_op(void *in, void *inout, int *len, MPI_Datatype *type)
{
    struct affine *left = in, *right = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        struct affine result = left[i];
        fold_affine(&result, &right[i]);
        right[i] = result;
    }
}

/* One reduction of one count, with all that is needed to judge it. Elements lie one after the
 * other; upto holds the fold of ranks 0 to r for this rank, before that of 0 to r - 1. */
struct reduction {
    const struct job *job;
    const struct operation *operation;
    int count;
    bool nonblocking;
    bool in_place;
    unsigned char *own, *all, *upto, *before;
};

static void reduction_init(struct reduction *reduction)
{
    const struct operation *operation = reduction->operation;
    size_t len_bytes = (size_t)reduction->count * operation->bytes;
    unsigned char **memories[] = {&reduction->own, &reduction->all, &reduction->upto,
                                  &reduction->before};
    uint64_t element[2];
    for (int i = 0; i < 4; i++)
        *memories[i] = guarded_alloc(len_bytes);
    for (int i = 0; i < reduction->count; i++) {
        size_t at = (size_t)i * operation->bytes;
        for (int rank = 0; rank < reduction->job->size; rank++) {
            if (rank == reduction->job->rank)
                memcpy(reduction->before + at, reduction->all + at, operation->bytes);
            operation->put(element, rank, i);
            if (rank == 0)
                memcpy(reduction->all + at, element, operation->bytes);
            else
                operation->fold(reduction->all + at, element);
            if (rank == reduction->job->rank) {
                memcpy(reduction->own + at, element, operation->bytes);
                memcpy(reduction->upto + at, reduction->all + at, operation->bytes);
            }
        }
    }
}

static void reduction_fini(struct reduction *reduction)
{
    guarded_free(reduction->own);
    guarded_free(reduction->all);
    guarded_free(reduction->upto);
    guarded_free(reduction->before);
}

static void check(const struct reduction *reduction, const char *name, const unsigned char *got,
                  const unsigned char *expected, int count)
{
    size_t bytes = reduction->operation->bytes;
    size_t value_bytes = reduction->operation->value_bytes;
    for (int i = 0; i < count; i++)
        expect(memcmp(got + (size_t)i * bytes, expected + (size_t)i * bytes, value_bytes) == 0,
               "%s%s%s of %d elements by %s: element %d is wrong",
               reduction->nonblocking ? "i" : "", name, reduction->in_place ? " in place" : "",
               reduction->count, reduction->operation->name, i);
}

/* Where the result goes; in place it starts as the contribution, otherwise as rubbish. */
static unsigned char *result_alloc(const struct reduction *reduction)
{
    size_t len_bytes = (size_t)reduction->count * reduction->operation->bytes;
    unsigned char *result = guarded_alloc(len_bytes);
    if (reduction->in_place)
        memcpy(result, reduction->own, len_bytes);
    else
        memset(result, 0xee, len_bytes);
    return result;
}

static void call_reduce(const struct reduction *r, int root)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    bool at_root = r->job->rank == root;
    const void *own = r->in_place && at_root ? MPI_IN_PLACE : (const void *)r->own;
    void *in = at_root ? result : r->own; /* elsewhere no one looks at it */
    if (r->nonblocking)
        MPI_Ireduce(own, in, r->count, type, op, root, MPI_COMM_WORLD, &request);
    else
        MPI_Reduce(own, in, r->count, type, op, root, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (at_root)
        check(r, "reduce", result, r->all, r->count);
    guarded_free(result);
}

static void call_allreduce(const struct reduction *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    const void *own = r->in_place ? MPI_IN_PLACE : (const void *)r->own;
    if (r->nonblocking)
        MPI_Iallreduce(own, result, r->count, type, op, MPI_COMM_WORLD, &request);
    else
        MPI_Allreduce(own, result, r->count, type, op, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(r, "allreduce", result, r->all, r->count);
    guarded_free(result);
}

static void call_scan(const struct reduction *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    const void *own = r->in_place ? MPI_IN_PLACE : (const void *)r->own;
    if (r->nonblocking)
        MPI_Iscan(own, result, r->count, type, op, MPI_COMM_WORLD, &request);
    else
        MPI_Scan(own, result, r->count, type, op, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(r, "scan", result, r->upto, r->count);
    guarded_free(result);
}

/* What rank 0 gets from exscan is undefined. */
static void call_exscan(const struct reduction *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    const void *own = r->in_place ? MPI_IN_PLACE : (const void *)r->own;
    if (r->nonblocking)
        MPI_Iexscan(own, result, r->count, type, op, MPI_COMM_WORLD, &request);
    else
        MPI_Exscan(own, result, r->count, type, op, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (r->job->rank > 0)
        check(r, "exscan", result, r->before, r->count);
    guarded_free(result);
}

/* The whole is dealt out in shares that differ: two for an odd rank, none for every fourth. */
static void call_reduce_scatter(const struct reduction *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    const void *own = r->in_place ? MPI_IN_PLACE : (const void *)r->own;
    int size = r->job->size, start = 0, left = r->count;
    int *counts = calloc((size_t)size, sizeof(int));
    for (int rank = 0; rank < size; rank++) {
        int share = rank % 4 == 2 ? 0 : r->count / size / 2 * (1 + rank % 2);
        counts[rank] = rank == size - 1 ? left : share;
        left -= counts[rank];
        start += rank < r->job->rank ? counts[rank] : 0;
    }
    if (r->nonblocking)
        MPI_Ireduce_scatter(own, result, counts, type, op, MPI_COMM_WORLD, &request);
    else
        MPI_Reduce_scatter(own, result, counts, type, op, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(r, "reduce_scatter", result, r->all + (size_t)start * r->operation->bytes,
          counts[r->job->rank]);
    free(counts);
    guarded_free(result);
}

static void call_reduce_scatter_block(const struct reduction *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = r->operation->type;
    MPI_Op op = r->operation->op;
    unsigned char *result = result_alloc(r);
    const void *own = r->in_place ? MPI_IN_PLACE : (const void *)r->own;
    int share = r->count / r->job->size;
    if (r->nonblocking)
        MPI_Ireduce_scatter_block(own, result, share, type, op, MPI_COMM_WORLD, &request);
    else
        MPI_Reduce_scatter_block(own, result, share, type, op, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(r, "reduce_scatter_block", result,
          r->all + (size_t)share * (size_t)r->job->rank * r->operation->bytes, share);
    guarded_free(result);
}

/* In every variant, or (where another operation has been through all) in the two extreme ones. */
static void call_all(const struct job *job, const struct operation *operation, int count,
                     bool thorough)
{
    struct reduction reduction = {.job = job, .operation = operation, .count = count};
    reduction_init(&reduction);
    for (int variant = 0; variant < 4; variant += thorough ? 1 : 3) {
        reduction.nonblocking = (variant & 1) != 0;
        reduction.in_place = (variant & 2) != 0;
        step("%d elements by %s%s%s", count, operation->name,
             reduction.nonblocking ? ", nonblocking" : "", reduction.in_place ? ", in place" : "");
        call_reduce(&reduction, variant % job->size);
        call_reduce(&reduction, job->size - 1);
        call_allreduce(&reduction);
        call_scan(&reduction);
        call_exscan(&reduction);
        call_reduce_scatter(&reduction);
        call_reduce_scatter_block(&reduction);
    }
    reduction_fini(&reduction);
}

void run_reductions(const struct job *job)
{
    MPI_Datatype affine_type;
    MPI_Op affine;
    MPI_Type_contiguous(2, MPI_UINT32_T, &affine_type);
    MPI_Type_commit(&affine_type);
    MPI_Op_create(affine_op, 0, &affine);
    const struct operation operations[] = {
        {"int sum", 4, 4, MPI_INT32_T, MPI_SUM, put_int, fold_int_sum},
        {"uint64 xor", 8, 8, MPI_UINT64_T, MPI_BXOR, put_uint64, fold_uint64_xor},
        {"uint64 product", 8, 8, MPI_UINT64_T, MPI_PROD, put_uint64, fold_uint64_product},
        {"double max", 8, 8, MPI_DOUBLE, MPI_MAX, put_double, fold_double_max},
        {"Fortran double max", 8, 8, MPI_DOUBLE_PRECISION, MPI_MAX, put_double, fold_double_max},
        {"float sum", 4, 4, MPI_FLOAT, MPI_SUM, put_float, fold_float_sum},
        {"float complex sum", 8, 8, MPI_C_FLOAT_COMPLEX, MPI_SUM, put_float_complex,
         fold_float_complex_sum},
        {"float complex product", 8, 8, MPI_C_FLOAT_COMPLEX, MPI_PROD, put_float_complex,
         fold_float_complex_product},
        {"double complex sum", 16, 16, MPI_C_DOUBLE_COMPLEX, MPI_SUM, put_double_complex,
         fold_double_complex_sum},
        {"double complex product", 16, 16, MPI_C_DOUBLE_COMPLEX, MPI_PROD, put_double_complex,
         fold_double_complex_product},
        {"byte min", 1, 1, MPI_UNSIGNED_CHAR, MPI_MIN, put_byte, fold_byte_min},
        {"maxloc", sizeof(struct double_int), 12, MPI_DOUBLE_INT, MPI_MAXLOC, put_double_int,
         fold_maxloc},
        {"affine maps", 8, 8, affine_type, affine, put_affine, fold_affine},
    };
    const size_t operation_count = sizeof operations / sizeof operations[0];
    for (size_t i = 0; i < operation_count; i++) {
        bool thorough = i == 0 || i == operation_count - 1;
        call_all(job, &operations[i], 17, thorough);
        call_all(job, &operations[i], 2000, thorough);
    }
    for (size_t i = 0; i < operation_count; i += operation_count - 1) {
        call_all(job, &operations[i], 0, true);
        call_all(job, &operations[i], 1, true);
        call_all(job, &operations[i], 30000, true);
    }
    MPI_Op_free(&affine);
    MPI_Type_free(&affine_type);
}
