/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocking collectives that go through shared memory and the network in turns, over the same
 * ranks in several orders: as they are, reversed, shuffled, and without one. Odd ranks have other
 * types than even ranks, with gaps, also before the first byte; reductions are the user's own and
 * do not commute. All of the memory is compared, gaps included.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = -1, ORDERS = 4, TAG = 5 };

/* A type that is not significant, as bindings for other languages may give it. */
static const MPI_Datatype ignored = NULL;

/* How an element, a pair of ints, lies in memory. */
struct layout {
    MPI_Datatype type;
    int ints; /* from an element to the next */
    int at[2];
};

struct orders {
    MPI_Comm comm;
    int rank, size;
    struct layout dense, spaced;
    MPI_Op op;
};

static struct layout layout_new(int ints, int first, int second)
{
    struct layout layout = {.ints = ints, .at = {first, second}};
    MPI_Datatype pair;
    MPI_Type_create_indexed_block(2, 1, layout.at, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, (MPI_Aint)(ints * (int)sizeof(int)), &layout.type);
    MPI_Type_commit(&layout.type);
    MPI_Type_free(&pair);
    return layout;
}

static const struct layout *layout_of(const struct orders *o, int rank)
{
    return rank % 2 ? &o->spaced : &o->dense;
}

static int *memory_new(const struct layout *layout, int elements)
{
    int ints = layout->ints * elements;
    int *memory = guarded_alloc((size_t)ints * sizeof(int));
    for (int i = 0; i < ints; i++)
        memory[i] = GAP;
    return memory;
}

/* What source contributes, from the given element of memory on. */
static void put(int *memory, const struct layout *layout, int element, int count, int source)
{
    uint64_t seed = hash_of((uint64_t)source, (uint64_t)count, 9);
    for (int i = 0; i < 2 * count; i++)
        memory[(element + i / 2) * layout->ints + layout->at[i % 2]] = int_at(seed, i);
}

static void compare(const struct layout *layout, int *got, int *expected, int elements,
                    const char *what)
{
    ints_check(got, expected, layout->ints * elements, what);
    guarded_free(got);
    guarded_free(expected);
}

static void call_bcast(const struct orders *o, int count, int root)
{
    const struct layout *layout = layout_of(o, o->rank);
    int *memory = memory_new(layout, count), *expected = memory_new(layout, count);
    put(expected, layout, 0, count, root);
    if (o->rank == root)
        put(memory, layout, 0, count, root);
    MPI_Bcast(memory, count, layout->type, root, o->comm);
    compare(layout, memory, expected, count, "bcast of pairs");
}

/* Blocks of count elements, in the order of ranks. */
static void call_allgather(const struct orders *o, int count, bool in_place)
{
    const struct layout *in = layout_of(o, o->rank), *out = layout_of(o, o->rank + 1);
    int all = count * o->size;
    int *memory = memory_new(in, all), *expected = memory_new(in, all),
        *own = memory_new(out, count);
    for (int i = 0; i < o->size; i++)
        put(expected, in, i * count, count, i);
    put(own, out, 0, count, o->rank);
    if (in_place)
        put(memory, in, o->rank * count, count, o->rank);
    MPI_Allgather(in_place ? MPI_IN_PLACE : (void *)own, count, in_place ? ignored : out->type,
                  memory, count, in->type, o->comm);
    compare(in, memory, expected, all, in_place ? "allgather in place" : "allgather");
    guarded_free(own);
}

/* Blocks of different lengths, some empty; in another order than the ranks', with a gap after each,
 * on every third rank: what lies where is each rank's own affair. */
static void call_allgatherv(const struct orders *o, int count, bool in_place)
{
    const struct layout *in = layout_of(o, o->rank), *out = layout_of(o, o->rank + 1);
    int *counts = calloc(2 * (size_t)o->size, sizeof(int)), *displs = counts + o->size, all = 0;
    bool apart = o->rank % 3 == 0;
    for (int i = 0; i < o->size; i++) {
        int source = apart ? o->size - 1 - i : i;
        counts[source] = source % 3 == 1 ? 0 : count + source;
        displs[source] = all;
        all += counts[source] + apart;
    }
    int own_count = counts[o->rank];
    int *memory = memory_new(in, all), *expected = memory_new(in, all);
    int *own = memory_new(out, own_count);
    for (int i = 0; i < o->size; i++)
        put(expected, in, displs[i], counts[i], i);
    put(own, out, 0, own_count, o->rank);
    if (in_place)
        put(memory, in, displs[o->rank], own_count, o->rank);
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : (void *)own, own_count, in_place ? ignored : out->type,
                   memory, counts, displs, in->type, o->comm);
    compare(in, memory, expected, all, in_place ? "allgatherv in place" : "allgatherv");
    guarded_free(own);
    free(counts);
}

/* What rank i has of a matrix, or of a row: its own numbers. */
static int number_of(int rank, int i)
{
    return 1000 * (rank + 1) + i;
}

/* A matrix of tiles, two of them side by side: an element begins an int behind the last one, and
 * ends far behind it. */
static void call_allgatherv_of_tiles(const struct orders *o)
{
    enum { EDGE = 4, TILE = EDGE * EDGE, WIDTH = 2 * EDGE };
    int ints = WIDTH * EDGE * ((o->size + 1) / 2), own[TILE];
    int *counts = calloc(2 * (size_t)o->size, sizeof(int)), *displs = counts + o->size;
    int *memory = guarded_alloc((size_t)ints * sizeof(int)),
        *expected = calloc((size_t)ints, sizeof(int));
    MPI_Datatype rows, tile;
    MPI_Type_vector(EDGE, EDGE, WIDTH, MPI_INT, &rows);
    MPI_Type_create_resized(rows, 0, sizeof(int), &tile);
    MPI_Type_commit(&tile);
    memset(memory, 0, (size_t)ints * sizeof(int));
    for (int rank = 0; rank < o->size; rank++) {
        counts[rank] = 1;
        displs[rank] = rank / 2 * WIDTH * EDGE + rank % 2 * EDGE;
        for (int i = 0; i < TILE; i++)
            expected[displs[rank] + i / EDGE * WIDTH + i % EDGE] = number_of(rank, i);
    }
    for (int i = 0; i < TILE; i++)
        own[i] = number_of(o->rank, i);
    MPI_Allgatherv(own, TILE, MPI_INT, memory, counts, displs, tile, o->comm);
    ints_check(memory, expected, ints, "a matrix of tiles");
    MPI_Type_free(&tile);
    MPI_Type_free(&rows);
    guarded_free(memory);
    free(expected);
    free(counts);
}

/* Triples of ints, which one rank receives as ints: what is cut by elements is cut elsewhere. */
static void call_allgather_of_triples(const struct orders *o, int count)
{
    int ints = 3 * count, all = ints * o->size, by_ints = o->rank == o->size - 1;
    int *memory = guarded_alloc((size_t)all * sizeof(int));
    int *expected = guarded_alloc((size_t)all * sizeof(int));
    MPI_Datatype triple;
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_commit(&triple);
    memset(memory, 0, (size_t)all * sizeof(int));
    for (int i = 0; i < all; i++)
        expected[i] = number_of(i / ints, i % ints);
    MPI_Allgather(expected + ints * o->rank, ints, MPI_INT, memory, by_ints ? ints : count,
                  by_ints ? MPI_INT : triple, o->comm);
    ints_check(memory, expected, all, "triples");
    MPI_Type_free(&triple);
    guarded_free(memory);
    guarded_free(expected);
}

/* Composes affine maps, x -> a x + b: first left, then right. */
static void compose(const int *left, int *right)
{
    uint32_t a = (uint32_t)left[0], b = (uint32_t)left[1];
    uint32_t c = (uint32_t)right[0], d = (uint32_t)right[1];
    right[0] = (int)(a * c);
    right[1] = (int)(c * b + d);
}

/* MPI's form of it, for the spaced layout. */
static const int spaced_at[] = {1, 3};
enum { SPACED_INTS = 5 };

static void compose_op(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++) {
        int *left = (int *)in + (ptrdiff_t)i * SPACED_INTS;
        int *right = (int *)inout + (ptrdiff_t)i * SPACED_INTS;
        int map[2] = {right[spaced_at[0]], right[spaced_at[1]]};
        compose((int[]){left[spaced_at[0]], left[spaced_at[1]]}, map);
        right[spaced_at[0]] = map[0];
        right[spaced_at[1]] = map[1];
    }
}

/* What comes of all contributions in the order of ranks. */
static int *composed(const struct orders *o, int count)
{
    int *all = memory_new(&o->spaced, count);
    put(all, &o->spaced, 0, count, 0);
    for (int i = 1; i < o->size; i++) {
        int *next = memory_new(&o->spaced, count);
        put(next, &o->spaced, 0, count, i);
        compose_op(all, next, &count, NULL);
        guarded_free(all);
        all = next;
    }
    return all;
}

/* root < 0: to all. */
static void call_reduce(const struct orders *o, int count, int root, bool in_place)
{
    const struct layout *layout = &o->spaced;
    bool receives = root < 0 || root == o->rank;
    int *own = memory_new(layout, count), *memory = memory_new(layout, count);
    const void *from = in_place && receives ? MPI_IN_PLACE : (const void *)own;
    put(own, layout, 0, count, o->rank);
    if (in_place)
        put(memory, layout, 0, count, o->rank);
    if (root < 0)
        MPI_Allreduce(from, memory, count, layout->type, o->op, o->comm);
    else
        MPI_Reduce(from, receives ? memory : NULL, count, layout->type, o->op, root, o->comm);
    if (receives)
        compare(layout, memory, composed(o, count), count, root < 0 ? "allreduce" : "reduce");
    else
        guarded_free(memory);
    guarded_free(own);
}

/* Nobody leaves before the last has come: until then it sends, and a send has ended when it was
 * received. */
static void call_barrier(const struct orders *o, int late)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int came = 0;
    if (o->rank != late)
        MPI_Irecv(NULL, 0, MPI_BYTE, late, TAG, o->comm, &request);
    for (int i = 0; i < o->size && o->rank == late; i++)
        if (i != late)
            MPI_Ssend(NULL, 0, MPI_BYTE, i, TAG, o->comm);
    MPI_Barrier(o->comm);
    MPI_Test(&request, &came, MPI_STATUS_IGNORE);
    expect(came, "rank %d left the barrier before rank %d entered it", o->rank, late);
}

static void call_all(const struct orders *o, int count)
{
    for (int root = 0; root < o->size; root++) {
        step("%d pairs, root %d of %d", count, root, o->size);
        call_bcast(o, count, root);
        call_reduce(o, count, root, root % 2 == 0);
        call_barrier(o, root);
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        step("%d pairs to all of %d%s", count, o->size, in_place ? ", in place" : "");
        call_reduce(o, count, -1, in_place);
        call_allgather(o, count, in_place);
        call_allgatherv(o, count, in_place);
    }
    step("tiles and %d triples to all of %d", count, o->size);
    call_allgatherv_of_tiles(o);
    if (count > 0)
        call_allgather_of_triples(o, count);
}

/* Where the rank comes in the given order; negative: not at all. */
static int key_in(const struct job *job, int order)
{
    uint64_t state = job->seed;
    int *ranks = calloc((size_t)job->size, sizeof(int)), key;
    for (int i = 0; i < job->size; i++)
        ranks[i] = i;
    shuffle(ranks, job->size, &state);
    const int keys[ORDERS] = {job->rank, job->size - job->rank, ranks[job->rank],
                              job->rank == job->size / 2 ? -1 : job->size - job->rank};
    key = keys[order];
    free(ranks);
    return key;
}

void run_orders(const struct job *job)
{
    const int counts[] = {0, 1, 300, share_of(36000, job->size, 9000)};
    struct orders o = {.dense = layout_new(2, 0, 1),
                       .spaced = layout_new(SPACED_INTS, spaced_at[0], spaced_at[1])};
    MPI_Op_create(compose_op, 0, &o.op);
    for (int order = 0; order < ORDERS; order++) {
        int key = key_in(job, order);
        step("order %d", order);
        MPI_Comm_split(MPI_COMM_WORLD, key < 0 ? MPI_UNDEFINED : 0, key, &o.comm);
        if (o.comm == MPI_COMM_NULL)
            continue;
        MPI_Comm_rank(o.comm, &o.rank);
        MPI_Comm_size(o.comm, &o.size);
        for (int i = 0; i < (order % 2 ? 3 : 4); i++)
            call_all(&o, counts[i]);
        MPI_Comm_free(&o.comm);
    }
    MPI_Op_free(&o.op);
    MPI_Type_free(&o.dense.type);
    MPI_Type_free(&o.spaced.type);
}
