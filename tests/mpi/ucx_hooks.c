/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, makes UCX patch the C library for what is unmapped, before Open MPI
 * does, as a UCX that is linked with it has done.
 */
#include <dlfcn.h>
#include <stdio.h>

#define UNMAPPED (1 << 17) /* ucm/api/ucm.h */

typedef void (*callback_t)(int event, void *memory, void *arg);

static void ignore(int event, void *memory, void *arg)
{
    (void)event;
    (void)memory;
    (void)arg;
}

__attribute__((constructor)) static void patch(void)
{
    void *library = dlopen("libucs.so.0", RTLD_NOW); /* brings libucm */
    signed char (*set)(int, int, callback_t, void *) = NULL;

    if (library)
        *(void **)&set = dlsym(library, "ucm_set_event_handler");
    if (!set || set(UNMAPPED, 0, ignore, NULL) != 0)
        fputs("ucx_hooks: UCX did not patch anything\n", stderr);
}
