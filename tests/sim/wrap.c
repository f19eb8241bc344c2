/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-ins for calls of the C library, chosen at link time by -Wl,--wrap=NAME (SIM_WRAP in
 * sim.mk): allocations that can be made to fail, the clock of virtual time, and waits that pass
 * it. Inside poll() the fabric works on, other ranks do not: the program under test is the
 * single thread.
 */
#include "sim.h"

#include <poll.h>
#include <sys/mman.h>
#include <time.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__real_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_clock_gettime(clockid_t clock, struct timespec *out);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_nanosleep(const struct timespec *duration, struct timespec *left);

/* ---- allocations ---- */

static bool alloc_fails(const char *call)
{
    if (sim_pool_is_inside() || !sim_fails(FABRIC_FAIL_ALLOC, call))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return alloc_fails("malloc") ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return alloc_fails("calloc") ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return alloc_fails("realloc") ? NULL : __real_realloc(old, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    return alloc_fails("posix_memalign") ? ENOMEM : __real_posix_memalign(out, align, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return alloc_fails("aligned_alloc") ? NULL : __real_aligned_alloc(align, bytes);
}

void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return alloc_fails("mmap") ? MAP_FAILED : __real_mmap(addr, bytes, prot, flags, fd, offset);
}

/* ---- time ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!sim.exists)
        return __real_clock_gettime(clock, out);
    out->tv_sec = (time_t)(sim.now_ns / 1000000000);
    out->tv_nsec = (long)(sim.now_ns % 1000000000);
    return 0;
}

int __wrap_nanosleep(const struct timespec *duration, struct timespec *left)
{
    (void)left;
    fabric_advance((uint64_t)duration->tv_sec * 1000000000 + (uint64_t)duration->tv_nsec);
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    uint64_t until_ns = timeout_ms < 0 ? UINT64_MAX : sim.now_ns + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        int ready = __real_poll(fds, count, 0);
        uint64_t next_ns = fabric_next_ns();
        if (ready != 0 || !sim.exists || sim.now_ns >= until_ns)
            return ready;
        if (next_ns == UINT64_MAX && timeout_ms < 0) {
            sim_violation("poll() without a timeout, and nothing will ever happen");
            return sim_err(EINTR);
        }
        if (next_ns > until_ns)
            fabric_advance(until_ns - sim.now_ns);
        else
            fabric_step();
    }
}
