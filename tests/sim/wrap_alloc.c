/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-ins for the allocating calls of the C library, chosen at link time by -Wl,--wrap=NAME
 * (SIM_WRAP in sim.mk), so that the program's allocations can be made to fail.
 */
#include "sim.h"

#include <sys/mman.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__real_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);

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
