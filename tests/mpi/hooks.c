/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, patches the C library for what is unmapped, and does not tell Open MPI:
 *
 *     HOOKS=ucx      UCX does, as when it is linked with Open MPI or brought by a program
 *     HOOKS=foreign  a library does that nobody knows, as libfabric patches it
 *     HOOKS_AFTER=N  in the Nth call of MPI_Sendrecv(); else before the program starts
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void refuse(const char *why)
{
    fprintf(stderr, "hooks: %s\n", why);
    exit(EXIT_FAILURE);
}

/* --- UCX ------------------------------------------------------------------------------------ */

#define UNMAPPED (1 << 17) /* ucm/api/ucm.h */

typedef void (*callback_t)(int event, void *memory, void *arg);

static void ignore(int event, void *memory, void *arg)
{
    (void)event;
    (void)memory;
    (void)arg;
}

static void patch_by_ucx(void)
{
    void *library = dlopen("libucs.so.0", RTLD_NOW); /* brings libucm */
    signed char (*set)(int, int, callback_t, void *) = NULL;

    if (library)
        *(void **)&set = dlsym(library, "ucm_set_event_handler");
    if (!set || set(UNMAPPED, 0, ignore, NULL) != 0)
        refuse("UCX did not patch anything");
}

/* --- a library that nobody knows ------------------------------------------------------------ */

static void *its_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

static int its_munmap(void *at, size_t len)
{
    return (int)syscall(SYS_munmap, at, len);
}

static int its_madvise(void *at, size_t len, int advice)
{
    return (int)syscall(SYS_madvise, at, len, advice);
}

static void *its_mremap(void *at, size_t len, size_t new_len, int flags, void *new_at)
{
    return (void *)syscall(SYS_mremap, at, len, new_len, flags, new_at);
}

/* A jump to the function AT. */
#if defined(__x86_64__)
struct jump {
    uint8_t movabs_r11[2];
    uint8_t at[8];
    uint8_t jmp_r11[3];
};
static const struct jump jump = {{0x49, 0xbb}, {0}, {0x41, 0xff, 0xe3}};
#elif defined(__aarch64__)
struct jump {
    uint32_t ldr_x16, br_x16;
    uint8_t at[8];
};
static const struct jump jump = {0x58000050, 0xd61f0200, {0}};
#else
struct jump {
    uint8_t at[8];
};
static const struct jump jump;
#define NO_JUMP
#endif

static void overwrite(const char *name, uintptr_t with)
{
    struct jump code = jump;
    uint8_t *function = dlsym(RTLD_DEFAULT, name);
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t pages = (uintptr_t)function & ~(page_bytes - 1);

#ifdef NO_JUMP
    refuse("no jump is known for this processor");
#endif
    memcpy(code.at, &with, sizeof(with));
    if (!function ||
        mprotect((void *)pages, 2 * page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        refuse("the C library cannot be patched");
    memcpy(function, &code, sizeof(code));
    __builtin___clear_cache((char *)function, (char *)function + sizeof(code));
}

static void patch_as_a_stranger(void)
{
    overwrite("mmap", (uintptr_t)its_mmap);
    overwrite("munmap", (uintptr_t)its_munmap);
    overwrite("madvise", (uintptr_t)its_madvise);
    overwrite("mremap", (uintptr_t)its_mremap);
}

/* --- when ----------------------------------------------------------------------------------- */

static void patch(void)
{
    const char *by = getenv("HOOKS");

    if (by && !strcmp(by, "ucx"))
        patch_by_ucx();
    else if (by && !strcmp(by, "foreign"))
        patch_as_a_stranger();
    else
        refuse("HOOKS: ucx or foreign");
}

static int calls_before(void)
{
    const char *after = getenv("HOOKS_AFTER");
    return after ? atoi(after) : 0;
}

__attribute__((constructor)) static void at_the_start(void)
{
    if (calls_before() == 0)
        patch();
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    static int calls;

    if (++calls == calls_before())
        patch();
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                         comm, status);
}
