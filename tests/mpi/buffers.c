/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from and into memory of all kinds: on the stack, mapped, not writable, in huge pages,
 * shared with a child; and memory that is given back and mapped again between two messages, at the
 * same address with other bytes, which a registration kept from before would not show.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN_STACK = 100000, ROUNDS = 6, HUGE_BYTES = 4 << 20 };

static const size_t lens[] = {1000, 70000, 1200000};
enum { LENS = sizeof lens / sizeof lens[0] };

/* Both ends in the LEN bytes at OUT, which are filled here, and IN. */
static void shift_filled(const struct job *job, void *in, void *out, size_t len, uint64_t serial)
{
    ring_fill(job, out, len, serial);
    ring_shift(job, in, out, len, serial);
}

static void on_the_stack(const struct job *job)
{
    char in[LEN_STACK], out[LEN_STACK];
    step("the stack");
    for (int round = 0; round < ROUNDS; round++)
        shift_filled(job, in, out, LEN_STACK, (uint64_t)round);
}

static void *map(void *at, size_t len)
{
    void *bytes = mmap(at, len, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    expect(bytes != MAP_FAILED, "no mapping of %zu bytes", len);
    return bytes;
}

/* Unmapped and mapped anew at the same place: other pages, which a stale registration misses. */
static void mapped_again(const struct job *job, size_t len)
{
    char *in = map(NULL, len), *out = map(NULL, len);
    step("%zu bytes mapped again at the same address", len);
    for (int round = 0; round < ROUNDS; round++) {
        shift_filled(job, in, out, len, (uint64_t)round);
        munmap(in, len);
        munmap(out, len);
        map(in, len);
        map(out, len);
    }
    munmap(in, len);
    munmap(out, len);
}

/* The same by malloc(), which maps what is large, and keeps what is not. */
static void allocated_again(const struct job *job, size_t len)
{
    step("%zu bytes allocated again", len);
    for (int round = 0; round < ROUNDS; round++) {
        char *in = malloc(len), *out = malloc(len);
        expect(in && out, "out of memory");
        shift_filled(job, in, out, len, (uint64_t)round);
        free(out);
        free(in);
    }
}

/* Above the heap, by the break, as malloc() takes memory and free() gives it back. If the heap has
 * grown beyond it meanwhile, it stays. */
static void above_the_heap(const struct job *job, size_t len)
{
    step("%zu bytes above the heap", len);
    for (int round = 0; round < ROUNDS; round++) {
        char *in = sbrk((intptr_t)(2 * len)), *out = in + len;
        expect(in != (char *)-1, "out of memory");
        shift_filled(job, in, out, len, (uint64_t)round);
        if (sbrk(0) == out + len)
            sbrk(-(intptr_t)(2 * len));
    }
}

/* The pages are given back under a mapping that stays. */
static void dropped(const struct job *job, size_t len)
{
    char *in = map(NULL, len), *out = map(NULL, len);
    step("%zu bytes whose pages are given back", len);
    for (int round = 0; round < ROUNDS; round++) {
        shift_filled(job, in, out, len, (uint64_t)round);
        madvise(in, len, MADV_DONTNEED);
        madvise(out, len, MADV_DONTNEED);
    }
    munmap(in, len);
    munmap(out, len);
}

/* A buffer that moves, and another one that takes its place. Where hooks.c has brought UCX after
 * Open MPI, UCX's mremap() (1.13) does not hand on to where. */
static void moved(const struct job *job, size_t len)
{
    char *in = map(NULL, len), *out = map(NULL, len);
    step("%zu bytes that move", len);
    for (int round = 0; round < ROUNDS; round++) {
        shift_filled(job, in, out, len, (uint64_t)round);
        char *to = map(NULL, len);
        char *away = mremap(out, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (away != to && getenv("HOOKS"))
            break;
        expect(away == to, "mremap");
        map(out, len);
        shift_filled(job, in, out, len, 1000 + (uint64_t)round);
        shift_filled(job, in, away, len, 2000 + (uint64_t)round);
        munmap(away, len);
    }
    munmap(in, len);
    munmap(out, len);
}

/* Filled, and then no longer writable: as constants of a program are, or a file's mapping. */
static void not_writable(const struct job *job, size_t len)
{
    char *in = map(NULL, len), *out = map(NULL, len);
    step("%zu bytes that cannot be written", len);
    ring_fill(job, out, len, 1);
    expect(mprotect(out, len, PROT_READ) == 0, "mprotect");
    for (int round = 0; round < ROUNDS; round++)
        ring_shift(job, in, out, len, 1);
    munmap(in, len);
    munmap(out, len);
}

/* Where the machine has none, ordinary pages that may become huge. */
static void in_huge_pages(const struct job *job)
{
    char *bytes = mmap(NULL, 2 * HUGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    step("huge pages");
    if (bytes == MAP_FAILED) {
        bytes = map(NULL, 2 * HUGE_BYTES);
        madvise(bytes, 2 * HUGE_BYTES, MADV_HUGEPAGE);
    }
    for (int i = 0; i < LENS; i++)
        shift_filled(job, bytes, bytes + HUGE_BYTES, lens[i], (uint64_t)i);
    munmap(bytes, 2 * HUGE_BYTES);
}

/* A child of a fork has the pages too, and a write of either side gives it others. */
static void with_children(const struct job *job, size_t len)
{
    char *in = guarded_alloc(len), *out = guarded_alloc(len);
    step("%zu bytes, with children", len);
    for (int round = 0; round < ROUNDS; round++) {
        int hold[2], status = -1;
        expect(pipe(hold) == 0, "pipe");
        pid_t child = fork();
        if (child == 0) { /* writes, and lives until its parent has sent */
            char byte;
            close(hold[1]);
            memset(out, 0x55, len);
            _exit(read(hold[0], &byte, 1) != 0);
        }
        expect(child > 0, "fork");
        close(hold[0]);
        shift_filled(job, in, out, len, (uint64_t)round);
        close(hold[1]);
        expect(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d",
               status);
        expect(system("true") == 0, "system()");
    }
    guarded_free(in);
    guarded_free(out);
}

void run_buffers(const struct job *job)
{
    on_the_stack(job);
    for (int i = 0; i < LENS; i++) {
        mapped_again(job, lens[i]);
        allocated_again(job, lens[i]);
        above_the_heap(job, lens[i]);
        dropped(job, lens[i]);
        moved(job, lens[i]);
        not_writable(job, lens[i]);
        with_children(job, lens[i]);
    }
    in_huge_pages(job);
}
