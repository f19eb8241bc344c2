/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication, which Open MPI carries over the same BTL: put, get and accumulate
 * between fences, under post/start/complete/wait, and atomics under locks, those too that no BTL
 * does by itself. Small and large, on windows over memory of ours and of MPI's.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

enum { LOCKED_ADDS = 10, ONE_BY_ONE = 1500, AGAIN = 60 };

/* The window of a rank has one block of count ints for each rank. */
struct window {
    const struct job *job;
    MPI_Win win;
    int *memory;
    int count;
};

/* What source writes to dest; small, so that a number can be added to it. */
static int value_at(int source, int dest, int index)
{
    return int_at((uint64_t)source << 48 | (uint64_t)dest << 32, index) & 0xffffff;
}

static void memory_set(struct window *window, int value)
{
    for (int i = 0; i < window->count * window->job->size; i++)
        window->memory[i] = value;
}

/* In the memory of each rank, block i was written by rank i, on top of what was there. */
static void memory_check(const struct window *window, int base, const char *what)
{
    const struct job *job = window->job;
    for (int source = 0; source < job->size; source++) {
        for (int i = 0; i < window->count; i++) {
            int got = window->memory[source * window->count + i];
            int expected = base + value_at(source, job->rank, i);
            expect(got == expected, "%s: int %d of %d from rank %d is %d, expected %d", what, i,
                   window->count, source, got, expected);
        }
    }
}

static int *block_alloc(const struct window *window, int dest)
{
    int *block = guarded_alloc((size_t)window->count * sizeof(int));
    for (int i = 0; i < window->count; i++)
        block[i] = value_at(window->job->rank, dest, i);
    return block;
}

/* Everybody writes, or adds, one block into everybody's window. */
static void write_all(struct window *window, bool add)
{
    const struct job *job = window->job;
    int **blocks = calloc((size_t)job->size, sizeof *blocks);
    MPI_Aint at = (MPI_Aint)job->rank * window->count;
    int count = window->count;
    memory_set(window, add ? 1000 : -1);
    step("%s of %d ints between fences", add ? "accumulate" : "put", count);
    MPI_Win_fence(0, window->win);
    for (int i = 0; i < job->size; i++) {
        int dest = (job->rank + i) % job->size;
        blocks[dest] = block_alloc(window, dest);
        if (add)
            MPI_Accumulate(blocks[dest], count, MPI_INT, dest, at, count, MPI_INT, MPI_SUM,
                           window->win);
        else
            MPI_Put(blocks[dest], count, MPI_INT, dest, at, count, MPI_INT, window->win);
    }
    MPI_Win_fence(0, window->win);
    memory_check(window, add ? 1000 : 0, add ? "accumulate" : "put");
    for (int i = 0; i < job->size; i++)
        guarded_free(blocks[i]);
    free(blocks);
}

/* Reads back what write_all put into the others' windows. */
static void read_all(struct window *window)
{
    const struct job *job = window->job;
    size_t count = (size_t)window->count;
    int *in = guarded_alloc((size_t)job->size * count * sizeof(int));
    step("get of %d ints between fences", window->count);
    MPI_Win_fence(0, window->win);
    for (int source = 0; source < job->size; source++)
        MPI_Get(in + (size_t)source * count, window->count, MPI_INT, source,
                (MPI_Aint)job->rank * window->count, window->count, MPI_INT, window->win);
    MPI_Win_fence(0, window->win);
    for (int source = 0; source < job->size; source++)
        for (int i = 0; i < window->count; i++)
            expect(in[source * window->count + i] == value_at(job->rank, source, i),
                   "get: int %d of %d from rank %d is wrong", i, window->count, source);
    guarded_free(in);
}

/* The right neighbour's ints one by one, and its numbers handed out one by one, all between two
 * fences: more requests than a peer's messages hold. In order they come from osc/rdma only. */
static void one_by_one(struct window *window)
{
    const struct job *job = window->job;
    int right = (job->rank + 1) % job->size, *got, *tickets;
    int64_t sum = 0;
    const int one = 1;
    if (window->count < ONE_BY_ONE)
        return;
    got = guarded_alloc(ONE_BY_ONE * sizeof(int));
    tickets = guarded_alloc(ONE_BY_ONE * sizeof(int));
    memory_set(window, 0);
    for (int i = 0; i < ONE_BY_ONE; i++)
        window->memory[i + 1] = value_at(job->rank, 0, i);
    step("%d gets of an int, and as many fetch and add", ONE_BY_ONE);
    MPI_Win_fence(0, window->win);
    for (int i = 0; i < ONE_BY_ONE; i++)
        MPI_Get(got + i, 1, MPI_INT, right, i + 1, 1, MPI_INT, window->win);
    for (int i = 0; i < ONE_BY_ONE; i++)
        MPI_Fetch_and_op(&one, tickets + i, MPI_INT, right, 0, MPI_SUM, window->win);
    MPI_Win_fence(0, window->win);
    for (int i = 0; i < ONE_BY_ONE; i++) {
        expect(got[i] == value_at(right, 0, i), "int %d of rank %d is %d", i, right, got[i]);
        expect(tickets[i] >= 0 && tickets[i] < ONE_BY_ONE, "number %d is %d", i, tickets[i]);
        sum += tickets[i];
    }
    expect(sum == (int64_t)ONE_BY_ONE * (ONE_BY_ONE - 1) / 2, "the sum of the numbers is %lld",
           (long long)sum);
    expect(window->memory[0] == ONE_BY_ONE, "%d numbers were given, expected %d", window->memory[0],
           ONE_BY_ONE);
    guarded_free(tickets);
    guarded_free(got);
}

/* As much as the window has of each rank, and all of it, again and again. */
static void again(struct window *window)
{
    const struct job *job = window->job;
    int right = (job->rank + 1) % job->size, all = window->count * job->size;
    int *in = guarded_alloc((size_t)all * sizeof(int));
    for (int i = 0; i < all; i++)
        window->memory[i] = value_at(job->rank, 1, i);
    step("%d gets of %d ints", AGAIN, all);
    MPI_Win_fence(0, window->win);
    for (int turn = 0; turn < AGAIN; turn++) {
        int from = turn % job->size * window->count, count = turn % 2 ? all - from : window->count;
        memset(in, 0, (size_t)all * sizeof(int));
        MPI_Get(in, count, MPI_INT, right, from, count, MPI_INT, window->win);
        MPI_Win_fence(0, window->win);
        for (int i = 0; i < count; i++)
            expect(in[i] == value_at(right, 1, from + i), "turn %d: int %d of rank %d is %d", turn,
                   from + i, right, in[i]);
    }
    guarded_free(in);
}

/* Only neighbours know of each other: exposure to the left, access to the right. */
static void post_start(struct window *window)
{
    const struct job *job = window->job;
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    MPI_Group world, origins, targets;
    int *block = block_alloc(window, right);
    step("put of %d ints between start and complete", window->count);
    memory_set(window, -1);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &left, &origins);
    MPI_Group_incl(world, 1, &right, &targets);
    MPI_Win_post(origins, 0, window->win);
    MPI_Win_start(targets, 0, window->win);
    MPI_Put(block, window->count, MPI_INT, right, 0, window->count, MPI_INT, window->win);
    MPI_Win_complete(window->win);
    MPI_Win_wait(window->win);
    for (int i = 0; i < window->count; i++)
        expect(window->memory[i] == value_at(left, job->rank, i),
               "put: int %d of %d from rank %d is wrong", i, window->count, left);
    guarded_free(block);
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
    MPI_Group_free(&world);
}

/* Every rank adds one to a counter at rank 0 many times; each number is handed out once. */
static void counter(struct window *window)
{
    const struct job *job = window->job;
    const int one = 1, total = LOCKED_ADDS * job->size;
    int ticket = -1, sum = 0, last = -1, final_value = 0;
    step("fetch and add under a lock");
    memory_set(window, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < LOCKED_ADDS; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window->win);
        MPI_Fetch_and_op(&one, &ticket, MPI_INT, 0, 0, MPI_SUM, window->win);
        MPI_Win_unlock(0, window->win);
        expect(ticket > last && ticket < total, "fetch and add gave %d after %d", ticket, last);
        last = ticket;
        sum += ticket;
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == total * (total - 1) / 2, "the sum of all tickets is %d, expected %d", sum,
           total * (total - 1) / 2);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window->win);
    MPI_Get(&final_value, 1, MPI_INT, 0, 0, 1, MPI_INT, window->win);
    MPI_Win_unlock(0, window->win);
    expect(final_value == total, "the counter is %d, expected %d", final_value, total);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank only finds the value it expects and replaces it by its own number. */
static void compare_and_swap(struct window *window)
{
    const struct job *job = window->job;
    const int free_value = -1;
    int found = -2, winners = 0;
    step("compare and swap under a lock");
    memory_set(window, free_value);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, job->size - 1, 0, window->win);
    MPI_Compare_and_swap(&job->rank, &free_value, &found, MPI_INT, job->size - 1, 0, window->win);
    MPI_Win_unlock(job->size - 1, window->win);
    winners = found == free_value;
    MPI_Allreduce(MPI_IN_PLACE, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(winners == 1, "%d ranks won one compare and swap", winners);
}

/* An element has as many ints as its type is long, all alike. */
struct combination {
    const char *name;
    MPI_Op op;
    MPI_Datatype type;
    unsigned before, operand, after;
};

/* Each rank combines OPERAND with what its neighbour has, once as a fetch, once as an accumulate of
 * one and more elements. */
static void combine(struct window *window, const struct combination *c)
{
    const struct job *job = window->job;
    unsigned operands[] = {c->operand, c->operand, c->operand, c->operand}, found[2] = {0, 0};
    int right = (job->rank + 1) % job->size, width;
    MPI_Type_size(c->type, &width);
    int more = window->count * job->size / (width / (int)sizeof(int)) - 1;
    more = more > 2 ? 2 : more;
    step("%s under a lock", c->name);
    memory_set(window, (int)c->before);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window->win);
    MPI_Fetch_and_op(operands, found, c->type, right, 0, c->op, window->win);
    MPI_Accumulate(operands, more, c->type, right, width / (MPI_Aint)sizeof(int), more, c->type,
                   c->op, window->win);
    MPI_Win_unlock(right, window->win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < width / (int)sizeof(int); i++)
        expect(found[i] == c->before, "%s found %#x, expected %#x", c->name, found[i], c->before);
    MPI_Win_lock(MPI_LOCK_SHARED, job->rank, 0, window->win);
    for (int i = 0; i < (more + 1) * width / (int)sizeof(int); i++)
        expect((unsigned)window->memory[i] == c->after, "%s of %#x and %#x: int %d is %#x", c->name,
               c->before, c->operand, i, (unsigned)window->memory[i]);
    MPI_Win_unlock(job->rank, window->win);
}

/* Logical ones, and the greater and less of what is negative only to who takes it for signed. */
static void combinations(struct window *window)
{
    const unsigned large = 0xf0000000u;
    const struct combination all[] = {
        {"logical and", MPI_LAND, MPI_INT, 6, 1, 1},
        {"logical or", MPI_LOR, MPI_INT, 0, 5, 1},
        {"logical exclusive or", MPI_LXOR, MPI_INT, 3, 5, 0},
        {"maximum of unsigned", MPI_MAX, MPI_UNSIGNED, 1, large, large},
        {"minimum of unsigned", MPI_MIN, MPI_UNSIGNED, 1, large, 1},
        {"maximum of signed", MPI_MAX, MPI_INT, 1, large, 1},
        {"minimum of signed", MPI_MIN, MPI_INT, 1, large, large},
        {"maximum of unsigned long", MPI_MAX, MPI_UINT64_T, 1, large, large},
        {"minimum of unsigned long", MPI_MIN, MPI_UINT64_T, large, 1, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        combine(window, &all[i]);
}

static void transfers(struct window *window)
{
    write_all(window, false);
    read_all(window);
    one_by_one(window);
    again(window);
    write_all(window, true);
    post_start(window);
    counter(window);
    compare_and_swap(window);
}

/* Messages from and into memory that has been a window's, on every other rank. The last come into
 * one half of what was sent as a whole before, while its other half is read. */
static void halves(const struct job *job, size_t len)
{
    char *block = guarded_alloc(2 * len), *other = guarded_alloc(2 * len);
    MPI_Win win;
    step("messages of %zu bytes where windows were", len);
    MPI_Win_create(job->rank % 2 ? block : other, (MPI_Aint)(2 * len), 1, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_free(&win);
    ring_fill(job, block, 2 * len, 1);
    ring_shift(job, other, block, 2 * len, 1);
    ring_fill(job, block + len, len, 2);
    ring_shift(job, block, block + len, len, 2);
    guarded_free(block);
    guarded_free(other);
}

/* Windows of few and of many ints for each rank, over our memory and over MPI's, which USE gets. */
static void with_windows(const struct job *job, void (*use)(struct window *window))
{
    const int counts[] = {3, share_of(100000, job->size, 40000)};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        MPI_Aint len_bytes = (MPI_Aint)counts[i] * job->size * (MPI_Aint)sizeof(int);
        struct window window = {.job = job, .count = counts[i]};
        step("window of %ld bytes over our memory", (long)len_bytes);
        window.memory = guarded_alloc((size_t)len_bytes);
        MPI_Win_create(window.memory, len_bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window.win);
        use(&window);
        MPI_Win_free(&window.win);
        guarded_free(window.memory);

        step("window of %ld bytes over MPI's memory", (long)len_bytes);
        MPI_Win_allocate(len_bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory,
                         &window.win);
        use(&window);
        MPI_Win_free(&window.win);
    }
}

void run_rma(const struct job *job)
{
    with_windows(job, transfers);
    halves(job, 400000);
}

void run_rma_ops(const struct job *job)
{
    with_windows(job, combinations);
}
