/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration, through Open MPI's own registration cache (`grdma`): it keeps registrations
 * for reuse and drops them when the application frees the memory, by Open MPI's memory hooks. What
 * free() keeps in the heap is not given back, so no hook tells; and each registration takes a
 * little of the heap that may have been a buffer, so that the next buffer lies elsewhere and is
 * registered anew. The cache knows no bound, and both would grow for ever: so there is one here.
 *
 * There are two caches: what osc/rdma registers for everything, as ob1 never does, has its own.
 * From a single one ob1 would be given a window's registration for a message that lies in the same
 * memory, and nobody could tell whose the operation is.
 *
 * A cache that has a region with less access than is wanted of a part of it marks it invalid, and
 * registers the part with both; what is under way there goes on with the old one. So does what a
 * peer asks to be read by its key.
 *
 * Threads. A cache takes an idle registration to give it up while another thread may be given it
 * (grdma of 4.1 and 5.0): so only one does either at a time. Memory hooks come from anywhere, and
 * take no lock of ours.
 *
 * When a registration fails (as a rule the limit on locked memory) ob1 has two ways to go on. A
 * sender that asks whether its buffer can be read remotely takes NULL for an answer and sends by
 * messages. Everywhere else ob1 would try again when another of its operations completes, and there
 * may be none: it would wait for ever. There a handle is given that stands for the failure. A put
 * or get with it, on either side, ends with an error from progress, upon which ob1 sends these
 * bytes by messages; osc/rdma's own goes another way (btl_verbena_bounce.c). Slower, and correct.
 */
#include "btl_verbena.h"

#include "opal/util/output.h"

#include <arpa/inet.h>

/* Stands for a failed registration. `usable` is 0. */
static mca_btl_base_registration_handle_t failed_handle;

/* Atomics are done by this process itself, and gets on some devices by the peer's puts: see
 * btl_verbena_served.c. */
static unsigned vbn_access_of(const btl_verbena_module_t *module, int32_t flags)
{
    unsigned access = VBN_ACCESS_LOCAL;

    if (flags & MCA_RCACHE_ACCESS_LOCAL_WRITE)
        access |= VBN_ACCESS_LOCAL_WRITE;
    if ((flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) && !module->attr.good_reads)
        access |= VBN_ACCESS_REMOTE_WRITE;
    if (flags & MCA_RCACHE_ACCESS_REMOTE_READ)
        access |= VBN_ACCESS_REMOTE_READ;
    if (flags & MCA_RCACHE_ACCESS_REMOTE_WRITE)
        access |= VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE;
    return access;
}

/* --- what peers may ask for ----------------------------------------------------------------- */

static bool region_offer(btl_verbena_module_t *module, btl_verbena_registration_t *registration)
{
    OPAL_THREAD_LOCK(&module->lock);
    HASH_ADD(hh, module->regions, handle.key, sizeof(registration->handle.key), registration);
    OPAL_THREAD_UNLOCK(&module->lock);
    return registration->hh.tbl != NULL;
}

static void region_withdraw(btl_verbena_module_t *module, btl_verbena_registration_t *registration)
{
    OPAL_THREAD_LOCK(&module->lock);
    if (OPAL_LIKELY(!module->closing))
        HASH_DELETE(hh, module->regions, registration);
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* Of osc/rdma's cache. */
static bool is_window(const btl_verbena_registration_t *registration)
{
    return registration->base.access_flags == MCA_RCACHE_ACCESS_ANY;
}

bool btl_verbena_is_osc(const mca_btl_base_registration_handle_t *local_handle, const void *cbdata)
{
    if (!cbdata)
        return true;
    if (!local_handle || !local_handle->usable)
        return false;
    return is_window(BTL_VERBENA_OWNER(const btl_verbena_registration_t, handle, local_handle));
}

static bool covers(const btl_verbena_registration_t *registration, uint64_t address, uint64_t len)
{
    uint64_t first = (uintptr_t)registration->base.base;
    uint64_t last = (uintptr_t)registration->base.bound;

    return len > 0 && address >= first && address <= last && len - 1 <= last - address;
}

/* With MODULE's lock held, as what follows. NULL: there is none. */
static btl_verbena_registration_t *window_of(const btl_verbena_module_t *module, uint64_t address,
                                             uint64_t len)
{
    btl_verbena_registration_t *registration, *next;

    HASH_ITER(hh, module->regions, registration, next)
    {
        if (is_window(registration) && covers(registration, address, len) &&
            !(registration->base.flags & MCA_RCACHE_FLAGS_INVALID))
            return registration;
    }
    return NULL;
}

/* What KEY names, if it has ACCESS to LEN bytes at ADDRESS, though it may be invalid. */
static btl_verbena_registration_t *region_of(const btl_verbena_module_t *module, uint32_t key,
                                             uint64_t address, uint64_t len, int32_t access)
{
    btl_verbena_registration_t *registration;

    key = htonl(key);
    HASH_FIND(hh, module->regions, &key, sizeof(key), registration);
    if (registration && (registration->base.access_flags & access) == access &&
        covers(registration, address, len))
        return registration;
    return NULL;
}

bool btl_verbena_window_has(const btl_verbena_module_t *module, uint64_t address, uint64_t len,
                            uint32_t *key)
{
    const btl_verbena_registration_t *window = window_of(module, address, len);

    if (window)
        *key = ntohl(window->handle.key);
    return window != NULL;
}

bool btl_verbena_atomic_may(const btl_verbena_module_t *module, uint32_t key, uint64_t address,
                            uint64_t len)
{
    const btl_verbena_registration_t *region =
        region_of(module, key, address, len, MCA_RCACHE_ACCESS_REMOTE_ATOMIC);

    if (region && !(region->base.flags & MCA_RCACHE_FLAGS_INVALID))
        return true;
    return window_of(module, address, len) != NULL;
}

/* --- the caches ----------------------------------------------------------------------------- */

int btl_verbena_region_make(btl_verbena_module_t *module, void *base, size_t size,
                            btl_verbena_registration_t *registration)
{
    unsigned access = vbn_access_of(module, registration->base.access_flags);
    int status = vbn_mem_register(module->context, base, size, access, &registration->mem);

    if (status != VBN_OK) {
        opal_output_verbose(10, opal_btl_base_framework.framework_output,
                            "btl/verbena: registering %zu bytes at %p: %s", size, base,
                            vbn_status_str(status));
        return status == VBN_ERR_INVALID ? OPAL_ERROR : OPAL_ERR_OUT_OF_RESOURCE;
    }
    registration->handle.key = htonl(vbn_mem_rkey(registration->mem));
    registration->handle.usable = htonl(1);
    return OPAL_SUCCESS;
}

/* A cache's callback. OPAL_ERR_OUT_OF_RESOURCE makes it drop an idle registration and retry. */
static int region_register(void *arg, void *base, size_t size, mca_rcache_base_registration_t *reg)
{
    btl_verbena_module_t *module = arg;
    btl_verbena_registration_t *registration = (btl_verbena_registration_t *)reg;
    int rc = btl_verbena_region_make(module, base, size, registration);

    if (rc != OPAL_SUCCESS)
        return rc;
    if (!region_offer(module, registration)) {
        vbn_mem_deregister(registration->mem);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    atomic_fetch_add(&module->registrations, 1);
    return OPAL_SUCCESS;
}

static int region_deregister(void *arg, mca_rcache_base_registration_t *reg)
{
    btl_verbena_module_t *module = arg;

    atomic_fetch_sub(&module->registrations, 1);
    region_withdraw(module, (btl_verbena_registration_t *)reg);
    vbn_mem_deregister(((btl_verbena_registration_t *)reg)->mem);
    return OPAL_SUCCESS;
}

static mca_rcache_base_module_t *cache_create(btl_verbena_module_t *module, char *name)
{
    mca_rcache_base_resources_t resources = {
        .cache_name = name,
        .reg_data = module,
        .sizeof_reg = sizeof(btl_verbena_registration_t),
        .register_mem = region_register,
        .deregister_mem = region_deregister,
    };

    return mca_rcache_base_module_create("grdma", module, &resources);
}

int btl_verbena_rcaches_create(btl_verbena_module_t *module)
{
    static char messages[] = "verbena", windows[] = "verbena windows";

    module->messages = cache_create(module, messages);
    module->windows = cache_create(module, windows);
    if (!module->messages || !module->windows)
        return OPAL_ERR_NOT_AVAILABLE;
    btl_verbena_unmap_listen(module);
    return OPAL_SUCCESS;
}

void btl_verbena_rcaches_destroy(btl_verbena_module_t *module)
{
    btl_verbena_unmap_ignore(module);
    /* A cache's memory goes with it, that of registrations still in use, too. */
    HASH_CLEAR(hh, module->regions);
    if (module->messages)
        mca_rcache_base_module_destroy(module->messages);
    if (module->windows)
        mca_rcache_base_module_destroy(module->windows);
}

bool btl_verbena_rcaches_evict(btl_verbena_module_t *module)
{
    bool evicted;

    OPAL_THREAD_LOCK(&module->caching);
    evicted = module->messages->rcache_evict(module->messages) ||
              module->windows->rcache_evict(module->windows);
    OPAL_THREAD_UNLOCK(&module->caching);
    return evicted;
}

void btl_verbena_rcaches_drop(btl_verbena_module_t *module, void *base, size_t size)
{
    module->messages->rcache_invalidate_range(module->messages, base, size);
    module->windows->rcache_invalidate_range(module->windows, base, size);
}

/* NULL where that failed. Where there is no room CACHE has given up all of its own that are idle,
 * and the other's go, too. */
static btl_verbena_registration_t *registered(btl_verbena_module_t *module,
                                              mca_rcache_base_module_t *cache, void *base,
                                              size_t size, int32_t access)
{
    uint32_t kept = btl_verbena_unmap_heard(module) ? 0 : MCA_RCACHE_FLAGS_CACHE_BYPASS;
    mca_rcache_base_registration_t *reg;
    int rc;

    do {
        OPAL_THREAD_LOCK(&module->caching);
        rc = cache->rcache_register(cache, base, size, kept, access, &reg);
        OPAL_THREAD_UNLOCK(&module->caching);
    } while (OPAL_UNLIKELY(rc == OPAL_ERR_OUT_OF_RESOURCE) && btl_verbena_rcaches_evict(module));
    if (OPAL_UNLIKELY((size_t)module->registrations > mca_btl_verbena_component.registrations_max))
        btl_verbena_rcaches_evict(module);
    return OPAL_LIKELY(rc == OPAL_SUCCESS) ? (btl_verbena_registration_t *)reg : NULL;
}

/* Whether REGION is in use, and is so now until another btl_verbena_deregister_mem(). */
static bool region_share(btl_verbena_registration_t *region)
{
    int32_t users = region->base.ref_count;

    while (users > 0)
        if (opal_atomic_compare_exchange_strong_32(&region->base.ref_count, &users, users + 1))
            return true;
    return false;
}

mca_btl_base_registration_handle_t *
btl_verbena_region_hold(btl_verbena_module_t *module, uint32_t key, uint64_t address, uint64_t len)
{
    mca_rcache_base_module_t *cache = NULL;
    btl_verbena_registration_t *region;
    int32_t access = 0;
    bool shared;

    OPAL_THREAD_LOCK(&module->lock);
    region = region_of(module, key, address, len, MCA_RCACHE_ACCESS_REMOTE_READ);
    if (!region)
        region = window_of(module, address, len);
    shared = region && !(region->base.flags & MCA_RCACHE_FLAGS_INVALID) && region_share(region);
    if (region && !shared) {
        cache = region->base.rcache;
        access = region->base.access_flags;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    if (cache)
        region = registered(module, cache, btl_verbena_at(address), len, access);
    return region ? &region->handle : NULL;
}

/*
 * Whether ob1 goes on by itself after NULL: when it asks for remote reads, and when SIZE, of what
 * it gets into, is more than one get moves, as it then registers the pieces one by one.
 */
static bool null_is_understood(const btl_verbena_module_t *module, size_t size, uint32_t flags)
{
    const uint32_t asked = MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_ATOMIC;

    return (flags & asked) ||
           ((flags & MCA_BTL_REG_FLAG_LOCAL_WRITE) && size > module->super.btl_get_limit);
}

/* The error that osc/rdma gives the program does not say why; some memory it asks for again and
 * again. */
static void say_no_window(btl_verbena_module_t *module, size_t size)
{
    if (!atomic_exchange(&module->said_no_window, true))
        btl_verbena_say("no window", opal_process_info.nodename, OPAL_PROC_MY_NAME.vpid, size);
}

mca_btl_base_registration_handle_t *btl_verbena_register_mem(mca_btl_base_module_t *btl,
                                                             btl_verbena_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    int32_t access = (int32_t)(flags & MCA_BTL_REG_FLAG_ACCESS_ANY);
    bool window = access == MCA_RCACHE_ACCESS_ANY;
    btl_verbena_registration_t *region = NULL;

    (void)endpoint;
    if (!window || btl_verbena_bounce_ready(module))
        region =
            registered(module, window ? module->windows : module->messages, base, size, access);
    if (OPAL_LIKELY(region != NULL))
        return &region->handle;
    if (window)
        say_no_window(module, size);
    return null_is_understood(module, size, flags) ? NULL : &failed_handle;
}

int btl_verbena_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle)
{
    mca_rcache_base_registration_t *reg;

    (void)btl;
    if (handle == &failed_handle)
        return OPAL_SUCCESS;
    reg = &BTL_VERBENA_OWNER(btl_verbena_registration_t, handle, handle)->base;
    return reg->rcache->rcache_deregister(reg->rcache, reg);
}
