/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that goes without Open MPI's noticing.
 *
 * Its registration cache drops what is unmapped, which it learns by patching munmap(), brk() and
 * their like in the C library. UCX patches them for itself, and whose patch is the later one has
 * the word: then a registration survives its pages, and messages go to pages that nobody has any
 * more. In Debian 13 UCX is linked with Open MPI 5, and its is the only patch of sbrk(), by which
 * free() gives memory back. So UCX, where it is in the process, is asked to tell this component,
 * too.
 *
 * Operation. Its events come before the memory goes, in the thread that gives it back, from within
 * free() and the like: nothing here, nor in the cache, allocates or frees. Interface: UCX's
 * ucm/api/ucm.h, which has not changed since 1.2; it is found in the process, for a build need not
 * know of UCX.
 */
#include "btl_verbena.h"

#include <dlfcn.h>

#define UCM_LIBRARY  "libucm.so.0"
#define UCM_UNMAPPED (1 << 17)
/* Its own patches are put in place where somebody else asks for them. */
#define UCM_NO_INSTALL (1 << 24)

struct ucm_unmapped {
    void *address;
    size_t size;
};

typedef void (*ucm_callback_t)(int event, struct ucm_unmapped *unmapped, void *arg);
typedef signed char (*ucm_set_t)(int events, int priority, ucm_callback_t callback, void *arg);
typedef void (*ucm_unset_t)(int events, ucm_callback_t callback, void *arg);

static void unmapped(int event, struct ucm_unmapped *memory, void *arg)
{
    mca_rcache_base_module_t *rcache = ((btl_verbena_module_t *)arg)->rcache;

    (void)event;
    if (memory->size > 0)
        rcache->rcache_invalidate_range(rcache, memory->address, memory->size);
}

/* A function of UCX's; NULL: it is not in this process. */
static void *ucm_function(const char *name)
{
    void *library = dlopen(UCM_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;

    if (library)
        dlclose(library);
    return function;
}

void btl_verbena_unmap_listen(btl_verbena_module_t *module)
{
    ucm_set_t set = (ucm_set_t)ucm_function("ucm_set_event_handler");

    if (set)
        set(UCM_UNMAPPED | UCM_NO_INSTALL, 0, unmapped, module);
}

void btl_verbena_unmap_ignore(btl_verbena_module_t *module)
{
    ucm_unset_t unset = (ucm_unset_t)ucm_function("ucm_unset_event_handler");

    if (unset)
        unset(UCM_UNMAPPED, unmapped, module);
}
