/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives whose blocks lie at both ends of a large mapping: what is between them, which nobody
 * has ever touched, stays without memory, and is not pinned.
 */
#include "common.h"
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TAG = 6, BLOCK = 32 * 1024, PLACES = 16384, GROWTH_KIB = 32 * 1024 };

/* A block a rank, in a mapping with room for some more. */
struct sparse {
    const struct job *job;
    MPI_Datatype block;
    int places, *counts, *displs;
    char *in, *out;
};

static char *map(int places)
{
    void *memory = mmap(NULL, (size_t)places * BLOCK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    expect(memory != MAP_FAILED, "no %d blocks of address space", places);
    return memory;
}

static void *block_at(const struct sparse *s, char *memory, int rank)
{
    return memory + (size_t)s->displs[rank] * BLOCK;
}

static struct message message_of(int source, int dest)
{
    return (struct message){source, dest, TAG, BLOCK, 0};
}

/* What this rank sends: a block to each, or the same to all. */
static void fill(const struct sparse *s, char *memory, bool same)
{
    for (int i = 0; i < s->job->size; i++) {
        struct message message = message_of(s->job->rank, same ? s->job->rank : i);
        message_fill(&message, block_at(s, memory, i));
    }
}

/* What has come to DEST of all, or to all of each. */
static void check(const struct sparse *s, int dest)
{
    for (int i = 0; i < s->job->size; i++) {
        struct message message = message_of(i, dest < 0 ? i : dest);
        message_check(&message, block_at(s, s->in, i));
        message_poison(&message, block_at(s, s->in, i));
    }
}

static void call_gatherv(const struct sparse *s)
{
    step("gatherv, %d places", s->places);
    fill(s, s->out, true);
    MPI_Gatherv(s->out, 1, s->block, s->in, s->counts, s->displs, s->block, 0, MPI_COMM_WORLD);
    if (s->job->rank == 0)
        check(s, -1);
}

static void call_scatterv(const struct sparse *s)
{
    struct message message = message_of(0, s->job->rank);
    step("scatterv, %d places", s->places);
    fill(s, s->out, false);
    MPI_Scatterv(s->out, s->counts, s->displs, s->block, s->in, 1, s->block, 0, MPI_COMM_WORLD);
    message_check(&message, s->in);
}

static void call_allgatherv(const struct sparse *s)
{
    step("allgatherv, %d places", s->places);
    fill(s, s->out, true);
    MPI_Allgatherv(s->out, 1, s->block, s->in, s->counts, s->displs, s->block, MPI_COMM_WORLD);
    check(s, -1);
}

static void call_alltoallv(const struct sparse *s)
{
    step("alltoallv, %d places", s->places);
    fill(s, s->out, false);
    MPI_Alltoallv(s->out, s->counts, s->displs, s->block, s->in, s->counts, s->displs, s->block,
                  MPI_COMM_WORLD);
    check(s, s->job->rank);
}

static void call_alltoallv_in_place(const struct sparse *s)
{
    step("alltoallv in place, %d places", s->places);
    fill(s, s->in, false);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, s->block, s->in, s->counts, s->displs, s->block,
                  MPI_COMM_WORLD);
    check(s, s->job->rank);
}

/* KiB that this process has in memory, and has pinned. */
static long memory_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    long sum = 0, kib;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1 || sscanf(line, "VmPin: %ld", &kib) == 1)
            sum += kib;
    if (file != NULL)
        fclose(file);
    return sum;
}

/* Half of the ranks' blocks at the beginning of PLACES, the others at the end. Returns what memory
 * that has taken. */
static long call_all(const struct job *job, MPI_Datatype block, int places)
{
    struct sparse s = {job, block, places, NULL, NULL, NULL, NULL};
    long kib;
    s.counts = calloc(2 * (size_t)job->size, sizeof(int));
    s.displs = s.counts + job->size;
    for (int i = 0; i < job->size; i++) {
        s.counts[i] = 1;
        s.displs[i] = i < (job->size + 1) / 2 ? i : places - job->size + i;
    }
    s.in = map(places);
    s.out = map(places);
    call_gatherv(&s);
    call_scatterv(&s);
    call_allgatherv(&s);
    call_alltoallv(&s);
    call_alltoallv_in_place(&s);
    kib = memory_kib();
    munmap(s.in, (size_t)places * BLOCK);
    munmap(s.out, (size_t)places * BLOCK);
    free(s.counts);
    return kib;
}

/* First side by side, for what else the first calls need. */
void run_sparse(const struct job *job)
{
    MPI_Datatype block;
    long before, growth;
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_commit(&block);
    before = call_all(job, block, job->size);
    growth = call_all(job, block, PLACES) - before;
    expect(growth <= GROWTH_KIB, "%ld KiB more are in memory, or pinned, for blocks of %d KiB",
           growth, job->size * BLOCK / 1024);
    MPI_Type_free(&block);
}
