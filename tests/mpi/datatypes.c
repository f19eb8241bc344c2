/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Derived datatypes. Each layout here puts the same twelve ints into one element in its own way,
 * so any of them can be sent and any other received. A layout is described twice: by MPI's
 * constructors, and by a plain list of offsets, which says what must have moved and what must have
 * stayed as it was. Mixed types, packing and absolute addresses are in records.c.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum { INTS = 12, GAP = -1, TAG_LAYOUT = 5 };

struct layout {
    const char *name;
    int extent; /* in ints */
    int offsets[INTS];
    MPI_Datatype (*make)(void);
};

static MPI_Datatype resized(MPI_Datatype old, int extent)
{
    MPI_Datatype type;
    MPI_Type_create_resized(old, 0, (MPI_Aint)extent * (MPI_Aint)sizeof(int), &type);
    MPI_Type_free(&old);
    return type;
}

static MPI_Datatype make_contiguous(void)
{
    MPI_Datatype type;
    MPI_Type_contiguous(INTS, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_vector(void)
{
    MPI_Datatype type;
    MPI_Type_vector(4, 3, 5, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_indexed(void)
{
    MPI_Datatype type;
    MPI_Type_indexed(4, (int[]){5, 1, 4, 2}, (int[]){9, 0, 2, 15}, MPI_INT, &type);
    return resized(type, 18);
}

static MPI_Datatype make_indexed_block(void)
{
    MPI_Datatype type;
    MPI_Type_create_indexed_block(6, 2, (int[]){0, 4, 8, 12, 16, 20}, MPI_INT, &type);
    return type;
}

static MPI_Datatype make_hindexed(void)
{
    const MPI_Aint unit = sizeof(int);
    MPI_Datatype type;
    MPI_Type_create_hindexed(3, (int[]){4, 4, 4}, (MPI_Aint[]){10 * unit, 5 * unit, 0}, MPI_INT,
                             &type);
    return resized(type, 15);
}

static MPI_Datatype make_subarray(void)
{
    MPI_Datatype type;
    MPI_Type_create_subarray(2, (int[]){5, 6}, (int[]){3, 4}, (int[]){1, 1}, MPI_ORDER_C, MPI_INT,
                             &type);
    return type;
}

static MPI_Datatype make_resized(void)
{
    return resized(make_contiguous(), 17);
}

/* Vectors of vectors: two planes of three rows of two. */
static MPI_Datatype make_nested(void)
{
    MPI_Datatype row, type;
    MPI_Type_vector(3, 2, 3, MPI_INT, &row);
    MPI_Type_create_hvector(2, 1, 11 * (MPI_Aint)sizeof(int), row, &type);
    MPI_Type_free(&row);
    return type;
}

static MPI_Datatype make_struct(void)
{
    const MPI_Aint unit = sizeof(int);
    MPI_Datatype pair, type;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_create_struct(3, (int[]){2, 6, 1}, (MPI_Aint[]){0, 8 * unit, 15 * unit},
                           (MPI_Datatype[]){pair, MPI_INT, pair}, &type);
    MPI_Type_free(&pair);
    return type;
}

static const struct layout layouts[] = {
    {"contiguous", 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, make_contiguous},
    {"vector", 18, {0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17}, make_vector},
    {"indexed", 18, {9, 10, 11, 12, 13, 0, 2, 3, 4, 5, 15, 16}, make_indexed},
    {"indexed_block", 22, {0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21}, make_indexed_block},
    {"hindexed", 15, {10, 11, 12, 13, 5, 6, 7, 8, 0, 1, 2, 3}, make_hindexed},
    {"subarray", 30, {7, 8, 9, 10, 13, 14, 15, 16, 19, 20, 21, 22}, make_subarray},
    {"resized", 17, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, make_resized},
    {"nested", 19, {0, 1, 3, 4, 6, 7, 11, 12, 14, 15, 17, 18}, make_nested},
    {"struct", 18, {0, 2, 3, 5, 8, 9, 10, 11, 12, 13, 15, 17}, make_struct},
};
enum { LAYOUT_COUNT = sizeof layouts / sizeof layouts[0] };

/* The memory of count elements as it must be once they are there; before, all of it is GAP. */
static int *memory_of(const struct layout *layout, int source, int count, bool present)
{
    size_t ints = (size_t)layout->extent * (size_t)count;
    uint64_t seed = hash_of((uint64_t)source, (uint64_t)count, 0);
    int *memory = guarded_alloc(ints * sizeof(int));
    for (size_t i = 0; i < ints; i++)
        memory[i] = GAP;
    for (int element = 0; present && element < count; element++)
        for (int i = 0; i < INTS; i++)
            memory[element * layout->extent + layout->offsets[i]] =
                int_at(seed, element * INTS + i);
    return memory;
}

static void exchange(const struct job *job, const struct layout *send, const struct layout *receive,
                     int count)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    MPI_Datatype send_type = send->make(), receive_type = receive->make();
    int *out = memory_of(send, job->rank, count, true);
    int *in = memory_of(receive, left, count, false);
    int *expected = memory_of(receive, left, count, true);
    MPI_Status status;
    int got_count = 0;
    step("%d elements sent as %s and received as %s", count, send->name, receive->name);
    MPI_Type_commit(&send_type);
    MPI_Type_commit(&receive_type);
    MPI_Sendrecv(out, count, send_type, right, TAG_LAYOUT, in, count, receive_type, left,
                 TAG_LAYOUT, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, receive_type, &got_count);
    expect(got_count == count, "received %d elements from rank %d, expected %d", got_count, left,
           count);
    ints_check(in, expected, receive->extent * count, "memory of the receiver");
    MPI_Type_free(&send_type);
    MPI_Type_free(&receive_type);
    guarded_free(expected);
    guarded_free(in);
    guarded_free(out);
}

/* Every layout to every layout while that is cheap; the large ones to themselves and the next. */
void run_datatypes(const struct job *job)
{
    static const int counts[] = {0, 1, 40, 300, 4000, 10000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int send = 0; send < LAYOUT_COUNT; send++) {
            int targets = counts[c] <= 300 ? LAYOUT_COUNT : counts[c] <= 4000 ? 2 : 1;
            for (int i = 0; i < targets; i++)
                exchange(job, &layouts[send], &layouts[(send + i) % LAYOUT_COUNT], counts[c]);
        }
    }
}
