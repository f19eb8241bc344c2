/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication at a rank that takes no part in it: every operation that the network may
 * do by itself, of four and of eight bytes, at one rank by all at once. And windows to which memory
 * is attached later, a program of its own: Open MPI 4.1.4 hangs there between nodes (osc/rdma).
 */
#include "common.h"
#include "programs.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROUNDS = 8, ATTACHED_BYTES = 70001 };

/* Where at the target each operation works; the first counts what ROUNDS of all ranks add. */
enum slot { SUM, LARGEST, SMALLEST, SET, FLIPPED, CLEARED, GUARDED, SLOTS };

struct counters {
    const struct job *job;
    MPI_Win win;
    int target;
    MPI_Datatype type; /* of eight or four bytes */
    size_t width;
};

static const int64_t starts[SLOTS] = {0, -1000000, 1000000, 0, 0, -1, 0};

static int64_t get_number(const void *at, size_t width)
{
    return width == 8 ? *(const int64_t *)at : *(const int32_t *)at;
}

static void set_number(void *at, size_t width, int64_t value)
{
    if (width == 8)
        *(int64_t *)at = value;
    else
        *(int32_t *)at = (int32_t)value;
}

/* OP with VALUE at SLOT, by one of three calls; gives what was there before where that one tells.
 */
static int64_t change(const struct counters *c, enum slot slot, MPI_Op op, int64_t value, int call)
{
    int64_t operand, before = 0;
    set_number(&operand, c->width, value);
    if (call == 0)
        MPI_Accumulate(&operand, 1, c->type, c->target, slot, 1, c->type, op, c->win);
    else if (call == 1)
        MPI_Fetch_and_op(&operand, &before, c->type, c->target, slot, op, c->win);
    else
        MPI_Get_accumulate(&operand, 1, c->type, &before, 1, c->type, c->target, slot, 1, c->type,
                           op, c->win);
    MPI_Win_flush(c->target, c->win);
    return get_number(&before, c->width);
}

/* Adds one where nobody else has added since it was looked at. */
static void add_guarded(const struct counters *c)
{
    int64_t zero = 0, seen = 0, found = 0, next = 0;
    MPI_Fetch_and_op(&zero, &seen, c->type, c->target, GUARDED, MPI_NO_OP, c->win);
    MPI_Win_flush(c->target, c->win);
    while (true) {
        set_number(&next, c->width, get_number(&seen, c->width) + 1);
        MPI_Compare_and_swap(&next, &seen, &found, c->type, c->target, GUARDED, c->win);
        MPI_Win_flush(c->target, c->win);
        if (get_number(&found, c->width) == get_number(&seen, c->width))
            return;
        seen = found;
    }
}

/* What is compared is never there, so nothing must change. */
static void swap_nothing(const struct counters *c)
{
    int64_t never = 0, next = 0, found = 0;
    set_number(&never, c->width, -5);
    set_number(&next, c->width, -7);
    MPI_Compare_and_swap(&next, &never, &found, c->type, c->target, GUARDED, c->win);
    MPI_Win_flush(c->target, c->win);
    expect(get_number(&found, c->width) >= 0, "a number that never was there was found");
}

static void change_all(const struct counters *c)
{
    int rank = c->job->rank;
    int64_t last = -1;
    for (int round = 0; round < ROUNDS; round++) {
        int call = (round + rank) % 3;
        int64_t before = change(c, SUM, MPI_SUM, 1, call);
        expect(call == 0 || before > last, "the sum went from %" PRId64 " to %" PRId64, last,
               before);
        last = call == 0 ? last : before;
        change(c, LARGEST, MPI_MAX, 7 * rank - 1000, call);
        change(c, SMALLEST, MPI_MIN, -7 * rank + 1000, call);
        change(c, SET, MPI_BOR, INT64_C(1) << rank % 31, call);
        change(c, FLIPPED, MPI_BXOR, 1 + rank * ROUNDS + round, call);
        change(c, CLEARED, MPI_BAND, ~(INT64_C(1) << rank % 31), call);
        add_guarded(c);
        swap_nothing(c);
    }
}

static void check_all(const struct counters *c, const void *memory)
{
    int size = c->job->size;
    int64_t expected[SLOTS] = {0};
    expected[SUM] = expected[GUARDED] = (int64_t)ROUNDS * size;
    expected[LARGEST] = 7 * (size - 1) - 1000;
    expected[SMALLEST] = -7 * (size - 1) + 1000;
    expected[CLEARED] = -1;
    for (int rank = 0; rank < size; rank++) {
        expected[SET] |= INT64_C(1) << rank % 31;
        expected[CLEARED] &= ~(INT64_C(1) << rank % 31);
        for (int round = 0; round < ROUNDS; round++)
            expected[FLIPPED] ^= 1 + rank * ROUNDS + round;
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        int64_t got = get_number((const char *)memory + (size_t)slot * c->width, c->width);
        expect(got == expected[slot], "slot %d is %" PRId64 ", expected %" PRId64, slot, got,
               expected[slot]);
    }
}

static void count(const struct job *job, int target, MPI_Datatype type, size_t width, bool of_mpi)
{
    struct counters c = {.job = job, .target = target, .type = type, .width = width};
    void *memory = of_mpi ? NULL : guarded_alloc(SLOTS * width);
    step("operations of %zu bytes at rank %d, in memory of %s", width, target,
         of_mpi ? "MPI" : "ours");
    if (of_mpi)
        MPI_Win_allocate((MPI_Aint)(SLOTS * width), (int)width, MPI_INFO_NULL, MPI_COMM_WORLD,
                         &memory, &c.win);
    else
        MPI_Win_create(memory, (MPI_Aint)(SLOTS * width), (int)width, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &c.win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job->rank, 0, c.win);
    for (int slot = 0; slot < SLOTS; slot++)
        set_number((char *)memory + (size_t)slot * width, width, starts[slot]);
    MPI_Win_unlock(job->rank, c.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, c.win);
    change_all(&c);
    MPI_Win_unlock_all(c.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, job->rank, 0, c.win);
    if (job->rank == target)
        check_all(&c, memory);
    MPI_Win_unlock(job->rank, c.win);
    MPI_Win_free(&c.win);
    if (!of_mpi)
        guarded_free(memory);
}

/* Every rank attaches memory, writes into the next one's and reads it back. */
void run_attached(const struct job *job)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    unsigned char *memory = guarded_alloc(ATTACHED_BYTES), *out = guarded_alloc(ATTACHED_BYTES);
    unsigned char *back = guarded_alloc(ATTACHED_BYTES);
    MPI_Aint at, there;
    MPI_Win win;
    step("a window with memory attached later");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, ATTACHED_BYTES);
    MPI_Get_address(memory, &at);
    MPI_Sendrecv(&at, 1, MPI_AINT, left, 1, &there, 1, MPI_AINT, right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < ATTACHED_BYTES; i++)
        out[i] = (unsigned char)int_at((uint64_t)job->rank, i);
    MPI_Win_lock_all(0, win);
    MPI_Put(out, ATTACHED_BYTES, MPI_BYTE, right, there, ATTACHED_BYTES, MPI_BYTE, win);
    MPI_Win_flush(right, win);
    MPI_Get(back, ATTACHED_BYTES, MPI_BYTE, right, there, ATTACHED_BYTES, MPI_BYTE, win);
    MPI_Win_flush(right, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ATTACHED_BYTES; i++) {
        expect(back[i] == out[i], "byte %d read back from rank %d is wrong", i, right);
        expect(memory[i] == (unsigned char)int_at((uint64_t)left, i),
               "byte %d from rank %d is wrong", i, left);
    }
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    guarded_free(back);
    guarded_free(out);
    guarded_free(memory);
}

void run_passive(const struct job *job)
{
    count(job, 0, MPI_INT64_T, 8, false);
    count(job, job->size - 1, MPI_INT64_T, 8, true);
    count(job, job->size - 1, MPI_INT32_T, 4, false);
    count(job, 0, MPI_INT32_T, 4, true);
}
