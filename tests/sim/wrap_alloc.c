/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-ins for the allocating calls of the C library, chosen at link time by -Wl,--wrap=NAME
 * (SIM_WRAP in sim.mk), so that the program's allocations can be made to fail, and are counted.
 */
#include "sim.h"

#include <malloc.h>
#include <sys/mman.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void __real_free(void *ptr);
void *__real_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __wrap_free(void *ptr);
void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *addr, size_t bytes);

static uint64_t live_bytes;

static bool alloc_fails(const char *call)
{
    if (sim_pool_is_inside() || !sim_fails(FABRIC_FAIL_ALLOC, call))
        return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *ptr)
{
    if (!sim_pool_is_inside())
        live_bytes += malloc_usable_size(ptr);
    return ptr;
}

static void uncount(void *ptr)
{
    if (!sim_pool_is_inside())
        live_bytes -= malloc_usable_size(ptr);
}

uint64_t fabric_alloc_bytes(void)
{
    return live_bytes;
}

void *__wrap_malloc(size_t bytes)
{
    return alloc_fails("malloc") ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return alloc_fails("calloc") ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
    if (alloc_fails("realloc"))
        return NULL;
    uncount(old);
    return counted(__real_realloc(old, bytes));
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    int error = alloc_fails("posix_memalign") ? ENOMEM : __real_posix_memalign(out, align, bytes);
    if (!error)
        counted(*out);
    return error;
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return alloc_fails("aligned_alloc") ? NULL : counted(__real_aligned_alloc(align, bytes));
}

void __wrap_free(void *ptr)
{
    uncount(ptr);
    __real_free(ptr);
}

void *__wrap_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    void *at = alloc_fails("mmap") ? MAP_FAILED : __real_mmap(addr, bytes, prot, flags, fd, offset);
    if (at != MAP_FAILED)
        live_bytes += bytes;
    return at;
}

int __wrap_munmap(void *addr, size_t bytes)
{
    live_bytes -= bytes;
    return __real_munmap(addr, bytes);
}
