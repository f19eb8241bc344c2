/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that goes without Open MPI's noticing.
 *
 * Its registration cache drops what is unmapped, which it learns by writing a jump over munmap(),
 * brk() and their like in the C library. Others do so for themselves, and whose jump is the later
 * one has the word: then a registration survives its pages, and messages go to pages that nobody
 * has any more. In Debian 13 UCX is linked with Open MPI 5, and its is the only patch of sbrk(), by
 * which free() gives memory back; a program may bring UCX, or libfabric, at any time.
 *
 * Operation. UCX, where it is in the process, is asked to tell this component, too. Before each use
 * of the cache the first bytes of these functions are compared with what they were: where they have
 * changed, whatever is in the cache may be stale, and is dropped. If that was UCX, it is asked
 * then. Anyone else is not known here, and nothing is kept in the cache from then on.
 *
 * UCX's events come before the memory goes, in the thread that gives it back, from within free()
 * and the like: nothing here, nor in the cache, allocates or frees then. Interface: UCX's
 * ucm/api/ucm.h, which has not changed since 1.2; it is found in the process, for a build need not
 * know of UCX.
 */
#include "btl_verbena.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define C_LIBRARY "libc.so.6"

static const char *const unmappers[BTL_VERBENA_UNMAPPERS] = {"mmap",  "munmap", "mremap", "madvise",
                                                             "shmat", "shmdt",  "brk",    "sbrk"};

/* --- UCX ------------------------------------------------------------------------------------ */

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
    btl_verbena_module_t *module = arg;
    uintptr_t probe = (uintptr_t)memory->address;

    (void)event;
    atomic_compare_exchange_strong(&module->unmap.probe, &probe, 0);
    if (memory->size > 0)
        btl_verbena_rcaches_drop(module, memory->address, memory->size);
}

/* A function of the library NAME; NULL: it is not in this process. */
static void *function_of(const char *name, const char *function)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    void *address = library ? dlsym(library, function) : NULL;

    if (library)
        dlclose(library);
    return address;
}

void btl_verbena_unmap_ignore(btl_verbena_module_t *module)
{
    ucm_unset_t unset = (ucm_unset_t)function_of(UCM_LIBRARY, "ucm_unset_event_handler");

    if (unset)
        unset(UCM_UNMAPPED, unmapped, module);
}

static void ucx_listen(btl_verbena_module_t *module)
{
    ucm_set_t set = (ucm_set_t)function_of(UCM_LIBRARY, "ucm_set_event_handler");

    btl_verbena_unmap_ignore(module); /* or its events would come twice */
    if (set)
        set(UCM_UNMAPPED | UCM_NO_INSTALL, 0, unmapped, module);
}

/* Whether UCX tells of a page that is unmapped. */
static bool ucx_hears(btl_verbena_module_t *module)
{
    size_t len = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return false;
    atomic_store(&module->unmap.probe, (uintptr_t)page);
    munmap(page, len);
    return atomic_exchange(&module->unmap.probe, 0) == 0;
}

/* --- patches -------------------------------------------------------------------------------- */

typedef btl_verbena_unmapper_t unmapper_t;

static uint64_t head_of(const unmapper_t *unmapper, int word)
{
    uint64_t head;

    memcpy(&head, unmapper->code + (size_t)word * sizeof(head), sizeof(head));
    return head;
}

static bool is_as_seen(const unmapper_t *unmapper)
{
    return !unmapper->code ||
           (head_of(unmapper, 0) == unmapper->seen[0] && head_of(unmapper, 1) == unmapper->seen[1]);
}

static void see_all(btl_verbena_unmap_t *unmap)
{
    for (unmapper_t *u = unmap->unmappers; u < unmap->unmappers + BTL_VERBENA_UNMAPPERS; u++)
        for (int word = 0; u->code && word < 2; word++)
            u->seen[word] = head_of(u, word);
}

/* The first function that is not as it was seen, or NULL. */
static const char *patched(const btl_verbena_module_t *module)
{
    for (int i = 0; i < BTL_VERBENA_UNMAPPERS; i++)
        if (OPAL_UNLIKELY(!is_as_seen(&module->unmap.unmappers[i])))
            return unmappers[i];
    return NULL;
}

/* NAME has been patched. What goes from here on is heard of, or the cache is not used; what went
 * before may be in the cache, if no operation uses it. The heads are looked at last: until then the
 * others come here, too, and wait. */
static void patched_anew(btl_verbena_module_t *module, const char *name)
{
    ucx_listen(module);
    if (!ucx_hears(module)) {
        module->unmap.deaf = true;
        btl_verbena_say("memory unheard", opal_process_info.nodename, (unsigned)getpid(), name);
    }
    while (btl_verbena_rcaches_evict(module))
        ;
    see_all(&module->unmap);
}

bool btl_verbena_unmap_heard(btl_verbena_module_t *module)
{
    const char *name;

    if (OPAL_UNLIKELY(!module->unmap.deaf && patched(module))) {
        OPAL_THREAD_LOCK(&module->unmap.lock);
        name = patched(module);
        if (name && !module->unmap.deaf)
            patched_anew(module, name);
        OPAL_THREAD_UNLOCK(&module->unmap.lock);
    }
    return !module->unmap.deaf;
}

void btl_verbena_unmap_listen(btl_verbena_module_t *module)
{
    for (int i = 0; i < BTL_VERBENA_UNMAPPERS; i++)
        module->unmap.unmappers[i].code = function_of(C_LIBRARY, unmappers[i]);
    see_all(&module->unmap);
    ucx_listen(module);
}
